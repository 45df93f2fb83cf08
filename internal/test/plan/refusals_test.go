package plan_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// refusal is bad input: the mistake, and the one diagnostic that it gets.
type refusal struct {
	name      string
	hcl       string
	provider  func(block string) string // changes the provider block
	attribute string
	says      []string
	atApply   bool // the server cannot tell at plan time
}

func refusals() []refusal {
	vm := func(lines string) string {
		return "resource \"proxmox_vm\" \"x\" {\n  name = \"x\"\n" + lines + "\n}\n"
	}
	plain := vm(`node = "pve1"`)
	return []refusal{
		{name: "unknown node", hcl: vm(`node = "pve9"`), attribute: "node", says: []string{`"pve9"`, "pve1, pve2"}},
		{name: "no node of several", hcl: vm(``), attribute: "node", says: []string{"2 nodes"}},
		{name: "unknown storage", hcl: vm(`node = "pve1"
  disks = { scsi0 = { storage = "nostore", size = "1G" } }`), attribute: `disks["scsi0"].storage`, says: []string{`"nostore"`, "local-zfs"}},
		{name: "unknown cloud-init storage", hcl: vm(`node = "pve1"
  cloud_init = { storage = "nostore" }`), attribute: "cloud_init.storage", says: []string{`"nostore"`}},
		{name: "unknown template id", hcl: vm(`clone = { vmid = 4711 }`), attribute: "clone.vmid", says: []string{"4711"}},
		{name: "unknown template name", hcl: vm(`clone = { name = "nope" }`), attribute: "clone.name", says: []string{`"nope"`}},
		{name: "a container as template", hcl: vm(`clone = { vmid = 8100 }`), attribute: "clone.vmid", says: []string{"8100"}},
		{name: "VMID taken by a VM", hcl: vm("node = \"pve1\"\n  vmid = 8000"), attribute: "vmid", says: []string{"8000", "existing", "import"}},
		{name: "VMID taken by a container", hcl: vm("node = \"pve2\"\n  vmid = 8100"), attribute: "vmid", says: []string{"Container", "8100"}},
		{name: "unknown pool", hcl: vm("node = \"pve1\"\n  pool = \"nopool\""), attribute: "pool", says: []string{`"nopool"`, "web"}},
		{name: "unknown security group", hcl: vm("node = \"pve1\"\n  firewall = { enabled = true, rules = [{ type = \"group\", action = \"nogroup\" }] }"), attribute: "firewall.rules", says: []string{"security group", `"nogroup"`}},
		{name: "unknown IP set", hcl: vm("node = \"pve1\"\n  firewall = { enabled = true, rules = [{ type = \"in\", action = \"ACCEPT\", source = \"+dc/noset\" }] }"), attribute: "firewall.rules", says: []string{"IP set", `"+noset"`}},
		{name: "a name that PVE refuses", hcl: strings.Replace(plain, `name = "x"`, `name = "bad_name!"`, 1), attribute: "name", says: []string{"bad_name!"}},
		{name: "size without unit or sense", hcl: vm(`node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "big" } }`), attribute: `disks["scsi0"].size`, says: []string{"big"}},
		{name: "no size and no source", hcl: vm(`node = "pve1"
  disks = { scsi0 = { storage = "local-zfs" } }`), attribute: `disks["scsi0"].size`, says: []string{"size"}},
		{name: "a slot that does not exist", hcl: vm(`node = "pve1"
  disks = { scsi99 = { storage = "local-zfs", size = "1G" } }`), attribute: `disks["scsi99"]`, says: []string{"scsi99", "scsi0-30"}},
		{name: "two ways to name the template", hcl: vm(`clone = { vmid = 9000, name = "template" }`), attribute: "clone.name", says: []string{"vmid", "name"}},
		{name: "an address for a NIC that is not there", hcl: vm(`node = "pve1"
  networks = { net0 = { bridge = "vmbr0" } }
  cloud_init = { storage = "local-zfs", addresses = { net1 = { ipv4 = "dhcp" } } }`), attribute: `cloud_init.addresses["net1"]`, says: []string{"net1", "net0"}},
		{name: "wrong endpoint", hcl: plain, provider: func(b string) string {
			return replaceLine(b, "endpoint", `endpoint = "https://nowhere.invalid:8006"`)
		}, says: []string{"nowhere.invalid"}},
		{name: "endpoint without scheme", hcl: plain, provider: func(b string) string {
			return replaceLine(b, "endpoint", `endpoint = "pve1:8006"`)
		}, attribute: "endpoint", says: []string{"https://"}},
		{name: "refused token", hcl: plain, provider: func(b string) string {
			return replaceLine(b, "api_token", `api_token = "terraform@pve!prov=00000000-0000-0000-0000-000000000000"`)
		}, says: []string{"401", "terraform@pve!prov"}},
		{name: "malformed token", hcl: plain, provider: func(b string) string {
			return replaceLine(b, "api_token", `api_token = "secret"`)
		}, attribute: "api_token", says: []string{"user@realm!tokenid=uuid"}},
	}
}

func replaceLine(block, key, line string) string {
	lines := strings.Split(block, "\n")
	for i, l := range lines {
		if strings.HasPrefix(strings.TrimSpace(l), key+" ") {
			lines[i] = "  " + line
		}
	}
	return strings.Join(lines, "\n")
}

// TestBadInput: each mistake gets one diagnostic that names it and its place, and nothing is left behind.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, c := range refusals() {
		t.Run(c.name, func(t *testing.T) {
			w := rig.NewWorld(t)
			w.TLS = true // a certificate that does not fit the address is one of the wrong things
			block := w.ProviderBlock(rig.TokenNoSSH)
			if c.provider != nil {
				block = c.provider(block)
			}
			s := w.NewSession()
			if err := s.Configure(block, c.hcl); err != nil {
				t.Fatal(err)
			}
			err := s.Validate(t.Context())
			if err == nil {
				var pl *terraformtest.Plan
				pl, err = s.Plan(t.Context())
				if err == nil && c.atApply {
					err = s.Apply(t.Context(), pl)
				}
			}
			if err == nil {
				t.Fatal("accepted")
			}
			wantOne(t, s.Diagnostics(), c)
			w.MustBeClean(t)
		})
	}
}

func wantOne(t *testing.T, diags terraformtest.Diagnostics, c refusal) {
	t.Helper()
	var errs []terraformtest.Diagnostic
	for _, d := range diags {
		if d.Error {
			errs = append(errs, d)
		}
	}
	if len(errs) != 1 {
		t.Fatalf("%d errors, want one: %v", len(errs), errs)
	}
	if errs[0].Attribute != c.attribute {
		t.Errorf("on attribute %q, want %q:\n%s", errs[0].Attribute, c.attribute, errs[0])
	}
	for _, want := range c.says {
		if !strings.Contains(errs[0].Summary+"\n"+errs[0].Detail, want) {
			t.Errorf("does not say %q:\n%s", want, errs[0])
		}
	}
}

// TestExpiredTicket: a ticket lives two hours. A long apply goes on with a new one; when no new one is to be had, that is
// what the error says.
func TestExpiredTicket(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, rig.GuardedVM)
	pl, err := s.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Sim.Advance(3 * 3600e9)
	if err := s.Apply(t.Context(), pl); err != nil {
		t.Errorf("a ticket that ran out was not renewed: %v", err)
	}
	w.Mark()
	w.Change(func(world *state.World) { world.Users["root@pam"].Password = "changed since" })
	w.Sim.Advance(3 * 3600e9)
	if _, err = s.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "authentication failure") || !strings.Contains(err.Error(), "root@pam") {
		t.Errorf("want a refused login of root@pam, got %v", err)
	}
	w.MustBeClean(t)
}

// TestIDTakenBetweenPlanAndApply: a third party takes the id between plan and apply.
func TestIDTakenBetweenPlanAndApply(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.GuardedVM)
	pl, err := s.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		world.Guests[400] = &state.Guest{VMID: 400, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "first"}}
	})
	w.Mark()
	if err := s.Apply(t.Context(), pl); err == nil {
		t.Fatal("took another guest's id")
	}
	wantOne(t, s.Diagnostics(), refusal{attribute: "vmid", says: []string{"400", "taken"}})
	w.MustBeClean(t)
	if len(s.Addresses()) != 0 {
		t.Errorf("in state: %v", s.Addresses())
	}
}

// together is a change of VM 500 with values that go together, or do not. Some of them may be the template's, or a third party's.
type together struct {
	before, after string            // configurations; only after: it is a clone of the template
	has           map[string]string // options that the VM, or the template, has beside
	refused       string            // the attribute on which the plan refuses it; "" if it takes place
}

func combinations() map[string]together {
	const s = "power_state = \"stopped\"\n"
	const disk, two = `disks = { scsi0 = { storage = "local-zfs", size = "1G" } }` + "\n",
		`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, ide1 = { storage = "local-zfs", size = "1G" } }` + "\n"
	const mapped = "machine = \"q35\"\npci = { hostpci0 = { mapping = \"gpu\" } }\n"
	balloon, vcpus := map[string]string{"memory": "4096", "balloon": "2048"}, map[string]string{"cores": "4", "vcpus": "3"}
	return map[string]together{
		"the balloon goes and the memory shrinks":     {before: "memory = { size = 4096, balloon = 2048 }", after: "memory = { size = 1024 }"},
		"the balloon goes from a guest that is off":   {before: s + "memory = { size = 4096, balloon = 2048 }", after: s + "memory = { size = 1024 }"},
		"the balloon goes and the memory grows":       {before: "memory = { size = 4096, balloon = 2048 }", after: "memory = { size = 8192 }"},
		"less memory than another tool's balloon":     {before: "memory = { size = 4096 }", has: balloon, after: "memory = { size = 1024 }", refused: "memory.balloon"},
		"less memory than the template's balloon":     {after: "memory = { size = 1024 }", has: balloon, refused: "memory.balloon"},
		"a balloon of its own":                        {after: "memory = { size = 1024, balloon = 0 }", has: balloon},
		"fewer cores than another tool's vCPUs":       {before: "cpu = { cores = 4 }", has: vcpus, after: "cpu = { cores = 2 }", refused: "cpu.vcpus"},
		"fewer cores, off":                            {before: s + "cpu = { cores = 4 }", has: vcpus, after: s + "cpu = { cores = 2 }"},
		"fewer cores at the next start":               {before: "cpu = { cores = 4 }", has: vcpus, after: "reboot_policy = \"never\"\ncpu = { cores = 2 }"},
		"fewer cores than the template's vCPUs":       {after: "cpu = { cores = 2 }", has: vcpus, refused: "cpu.vcpus"},
		"vCPUs of its own":                            {after: "cpu = { cores = 2, vcpus = 1 }", has: vcpus},
		"more vCPUs than the running guest has cores": {before: "hotplug = [\"cpu\"]\ncpu = { cores = 2, vcpus = 1 }", after: "hotplug = [\"cpu\"]\ncpu = { cores = 4, vcpus = 3 }", refused: "cpu.vcpus"},
		"more vCPUs":                                      {before: "hotplug = [\"cpu\"]\ncpu = { cores = 4, vcpus = 1 }", after: "hotplug = [\"cpu\"]\ncpu = { cores = 4, vcpus = 3 }"},
		"more vCPUs and cores without hotplug":            {before: "cpu = { cores = 2, vcpus = 1 }", after: "cpu = { cores = 4, vcpus = 3 }"},
		"hotplug of memory without NUMA":                  {before: "memory = { size = 2048 }", after: "memory = { size = 2048 }\nhotplug = [\"memory\"]", refused: "hotplug"},
		"hotplug of memory, off":                          {before: s, after: s + "hotplug = [\"memory\"]"},
		"hotplug of memory, switched on":                  {before: s + "memory = { size = 1024 }\nhotplug = [\"memory\"]", after: "power_state = \"running\"\nmemory = { size = 1024 }\nhotplug = [\"memory\"]", refused: "hotplug"},
		"hotplug of memory with NUMA":                     {before: "memory = { size = 2048 }", after: "memory = { size = 2048 }\ncpu = { numa = true }\nhotplug = [\"memory\"]"},
		"hotplug of less than a GiB":                      {before: "cpu = { numa = true }", after: "cpu = { numa = true }\nhotplug = [\"memory\"]", refused: "memory.size"},
		"hotplug of memory between two modules":           {before: "cpu = { numa = true }", after: "cpu = { numa = true }\nmemory = { size = 1100 }\nhotplug = [\"memory\"]", refused: "memory.size"},
		"NUMA nodes and the template's memory":            {after: "cpu = { numa = true }\nnuma_nodes = { numa0 = { cpus = \"0\", memory = 512 } }", has: map[string]string{"memory": "1024"}, refused: "numa_nodes"},
		"NUMA nodes with the template's memory":           {after: "cpu = { numa = true }\nnuma_nodes = { numa0 = { cpus = \"0\", memory = 1024 } }", has: map[string]string{"memory": "1024"}},
		"NUMA nodes without the template's NUMA":          {after: "numa_nodes = { numa0 = { cpus = \"0\", memory = 512 } }", has: map[string]string{"memory": "1024"}},
		"NUMA nodes with the template's NUMA":             {after: "numa_nodes = { numa0 = { cpus = \"0\", memory = 512 } }", has: map[string]string{"memory": "1024", "numa": "1"}, refused: "numa_nodes"},
		"NUMA nodes and another tool's memory":            {before: "cpu = { numa = true }", has: map[string]string{"memory": "2048"}, after: "cpu = { numa = true }\nnuma_nodes = { numa0 = { cpus = \"0\", memory = 512 } }", refused: "numa_nodes"},
		"PCI Express on the template's machine":           {after: "pci = { hostpci0 = { mapping = \"gpu\", pcie = true } }", has: map[string]string{"machine": "pc"}, refused: `pci["hostpci0"].pcie`},
		"PCI Express on the template's q35":               {after: "pci = { hostpci0 = { mapping = \"gpu\", pcie = true } }", has: map[string]string{"machine": "q35"}},
		"a boot order with PCI and USB":                   {before: mapped + "usb = { usb0 = { host = \"spice\" } }\nboot_order = [\"hostpci0\", \"usb0\"]", after: mapped + "usb = { usb0 = { host = \"spice\" } }\nboot_order = [\"usb0\", \"hostpci0\"]"},
		"a PCI device that it boots from goes":            {before: s + mapped, has: map[string]string{"boot": "order=hostpci0"}, after: s + "machine = \"q35\""},
		"a USB device that it boots from goes":            {before: s + "usb = { usb0 = { host = \"spice\" } }", has: map[string]string{"boot": "order=usb0"}, after: s},
		"the disk goes and the boot order stays":          {before: s + disk + "boot_order = [\"scsi0\"]", after: s + "boot_order = [\"scsi0\"]", refused: "boot_order"},
		"the disk goes from the boot order too":           {before: s + disk + "boot_order = [\"scsi0\"]", after: s + "boot_order = []"},
		"a disk in the place of a CD-ROM drive":           {before: "cdroms = { ide0 = { file = \"none\" } }", after: strings.ReplaceAll(disk, "scsi0", "ide0"), refused: `disks["ide0"]`},
		"a disk in the place of a CD-ROM drive, off":      {before: s + "cdroms = { ide0 = { file = \"none\" } }", after: s + strings.ReplaceAll(disk, "scsi0", "ide0")},
		"a CD-ROM drive in the place of a disk":           {before: two, after: disk + "cdroms = { ide1 = { file = \"none\" } }", refused: `cdroms["ide1"]`},
		"a cloud-init drive in the place of a disk":       {before: strings.ReplaceAll(two, "ide1", "ide2"), after: disk + "cloud_init = { storage = \"local-zfs\" }", refused: "cloud_init.slot"},
		"a cloud-init drive in the place of a CD-ROM":     {before: disk + "cdroms = { ide2 = { file = \"none\" } }", after: disk + "cloud_init = { storage = \"local-zfs\" }"},
		"a CD-ROM in the place of a cloud-init drive":     {before: disk + "cloud_init = { storage = \"local-zfs\" }", after: disk + "cdroms = { ide2 = { file = \"none\" } }"},
		"the cloud-init drive leaves a running guest":     {before: disk + "cloud_init = { storage = \"local-zfs\" }", after: disk + "cloud_init = { storage = \"local-zfs\", slot = \"ide0\" }", refused: "cloud_init.slot"},
		"the cloud-init drive leaves a slot with hotplug": {before: disk + "boot_order = [\"scsi0\"]\ncloud_init = { storage = \"local-zfs\", slot = \"scsi1\" }", after: disk + "boot_order = [\"scsi0\"]\ncloud_init = { storage = \"local-zfs\", slot = \"scsi2\" }"},
		"the cloud-init drive leaves the boot order":      {before: disk + "cloud_init = { storage = \"local-zfs\", slot = \"scsi1\" }", after: disk + "cloud_init = { storage = \"local-zfs\", slot = \"scsi2\" }", refused: "cloud_init.slot"},
		"the cloud-init drive that it boots from goes":    {before: disk + "cloud_init = { storage = \"local-zfs\", slot = \"scsi1\" }", after: disk, refused: "cloud_init"},
		"a CD-ROM drive that it boots from goes":          {before: disk + "cdroms = { scsi1 = { file = \"none\" } }", after: disk, refused: `cdroms["scsi1"]`},
		"a CD-ROM drive goes":                             {before: disk + "boot_order = [\"scsi0\"]\ncdroms = { scsi1 = { file = \"none\" } }", after: disk + "boot_order = [\"scsi0\"]"},
		"a CD-ROM drive goes, without hotplug":            {before: disk + "cdroms = { ide1 = { file = \"none\" } }", after: disk},
		"the cloud-init drive leaves a guest that is off": {before: s + disk + "cloud_init = { storage = \"local-zfs\" }", after: s + disk + "cloud_init = { storage = \"local-zfs\", slot = \"ide0\" }"},
	}
}

// TestValuesTogether: a plan refuses values that PVE does not take together or starts no guest with, wherever the VM has them from. Any
// other change takes place as planned, the guest runs on, and the next plan is empty.
func TestValuesTogether(t *testing.T) {
	t.Parallel()
	for name, c := range combinations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := c.try(t); err != "" {
				t.Error(err)
			}
		})
	}
}

func (c together) try(t *testing.T) string {
	w := rig.NewWorld(t)
	w.ExpectPowerOffs(state.PowerReboot)
	const frame = "vmid = 500\nprotection = false\n"
	s, vmid := w.Session(t, rig.RootTicket, ""), 9000
	if c.before != "" {
		vmid = 500
		w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(frame+"node = \"pve1\"\n"+c.before))
		rig.Must(t, s.Converge(t.Context()))
	}
	w.Change(func(world *state.World) {
		for option, value := range c.has {
			world.Guests[vmid].Config[option] = value
		}
	})
	if c.before == "" {
		w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(frame+"clone = { vmid = 9000 }\n"+c.after+"\n"))
	} else {
		w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(frame+"node = \"pve1\"\n"+c.after+"\n"))
	}
	last := w.Sim.LastOp()
	pl, err := s.Plan(t.Context())
	if c.refused != "" {
		errs := slices.DeleteFunc(slices.Clone(s.Diagnostics()), func(d terraformtest.Diagnostic) bool { return !d.Error })
		if err == nil || len(errs) != 1 || errs[0].Attribute != c.refused {
			return "want one error on " + c.refused + ", got " + s.Diagnostics().String()
		}
		return ""
	}
	rig.Must(t, err)
	announced := slices.ContainsFunc(pl.Diagnostics, func(d terraformtest.Diagnostic) bool { return strings.HasSuffix(d.Summary, "will be restarted") })
	rig.Must(t, s.Apply(t.Context(), pl))
	rebooted := slices.ContainsFunc(w.Sim.OpsAfter(last), func(op pvesim.Op) bool {
		return op.Method == http.MethodPost && strings.HasSuffix(op.Path, "/status/reboot")
	})
	if runs := rig.GuestOf(w, 500).Running != nil; runs == strings.Contains(c.after, "stopped") {
		return "the guest runs, or does not, against the configuration"
	}
	rig.Must(t, s.Refresh(t.Context()))
	i, err := s.Instance("proxmox_vm.x")
	rig.Must(t, err)
	mustKeepPromises(t, pl.Changes[0].Planned, i.Value)
	if pl, err := s.Plan(t.Context()); err != nil || !pl.Empty() {
		return "the next plan is not empty: " + pl.String()
	}
	if announced != rebooted {
		return "a restart was announced and did not come, or the reverse"
	}
	return ""
}

// unstartable are values that PVE takes one by one and starts no VM with together.
type unstartable struct {
	wrong, right string // configurations; the right one starts
	attribute    string // where the plan refuses the wrong one
	dies         string // PVE's words at the start
	never        bool   // PVE does not store it either
}

func unstartables() map[string]unstartable {
	const net, pages = "networks = { net0 = { bridge = \"vmbr0\", mtu = %d } }", "cpu = { numa = true, sockets = %d }\nmemory = { size = %d, hugepages = %q }"
	const node = "cpu = { numa = true, cores = 2 }\nmemory = { size = 1024, hugepages = \"2\" }\nnuma_nodes = { numa0 = { cpus = \"0-1\", memory = 1024%s } }"
	const igd, off, none = `"hostpci0" = { host = "00:02.0", legacy_igd = true%s }`, "vga = { type = \"none\" }\n", "\nvga = { type = \"none\"%s }"
	device := func(more, last string) string {
		return "pci = { " + fmt.Sprintf(igd, more) + last + " }"
	}
	return map[string]unstartable{
		"UEFI on 32 bits":          {"bios = \"ovmf\"\ncpu = { type = \"kvm32\" }", "bios = \"ovmf\"\ncpu = { type = \"kvm64\" }", "bios", "not supported on 32-bit", false},
		"SEV with a BIOS":          {"amd_sev = { type = \"std\" }", "bios = \"ovmf\"\namd_sev = { type = \"std\" }", "bios", "change the BIOS to OVMF", false},
		"TDX with a BIOS":          {"intel_tdx = { type = \"tdx\", attestation = false }", "bios = \"ovmf\"\nintel_tdx = { type = \"tdx\", attestation = false }", "bios", "change the BIOS to OVMF", false},
		"an emulated host":         {"kvm = false\ncpu = { type = \"host\" }", "kvm = false\ncpu = { type = \"max\" }", "cpu.type", "QEMU exited with code 1", false},
		"clipboard without a GPU":  {"serial = { serial0 = { device = \"socket\" } }\nvga = { type = \"serial0\", clipboard = \"vnc\" }", "vga = { type = \"std\", clipboard = \"vnc\" }", "vga.clipboard", "not compatible with VNC clipboard", true},
		"an odd address width":     {"machine = \"q35\"\nmachine_options = { viommu = \"intel\", aw_bits = 50 }", "machine = \"q35\"\nmachine_options = { viommu = \"intel\", aw_bits = 48 }", "machine_options.aw_bits", "only 39 or 48 bits", true},
		"USB 5 of another system":  {"usb = { usb5 = { host = \"spice\" } }", "ostype = \"l26\"\nusb = { usb5 = { host = \"spice\" } }", `usb["usb5"]`, "only possible with machine type >= 7.1", false},
		"USB 5 of an old machine":  {"ostype = \"l26\"\nmachine = \"pc-i440fx-6.2\"\nusb = { usb5 = { host = \"spice\" } }", "ostype = \"l26\"\nmachine = \"pc-i440fx-7.2\"\nusb = { usb5 = { host = \"spice\" } }", `usb["usb5"]`, "only possible with machine type >= 7.1", false},
		"ACLs for Windows":         {"ostype = \"win11\"\nvirtiofs = { virtiofs0 = { dirid = \"share\", expose_acl = true } }", "ostype = \"l26\"\nvirtiofs = { virtiofs0 = { dirid = \"share\", expose_acl = true } }", `virtiofs["virtiofs0"].expose_acl`, "disable ACLs for virtiofs", false},
		"an MTU below that of IP":  {fmt.Sprintf(net, 500), fmt.Sprintf(net, 576), `networks["net0"].mtu`, "smaller than the IP minimum MTU", false},
		"pages of the NUMA node":   {fmt.Sprintf(node, ""), fmt.Sprintf(node, ", hostnodes = \"0\", policy = \"bind\""), `numa_nodes["numa0"].hostnodes`, "hostnodes need to be defined", false},
		"pages of two NUMA nodes":  {fmt.Sprintf(node, ", hostnodes = \"0-1\", policy = \"bind\""), fmt.Sprintf(node, ", hostnodes = \"1\", policy = \"bind\""), `numa_nodes["numa0"].hostnodes`, "more than 1 hostnode", false},
		"pages of a GiB":           {fmt.Sprintf(pages, 1, 1536, "1024"), fmt.Sprintf(pages, 1, 2048, "1024"), "memory.size", "not a multiple of the requested hugepages size", false},
		"pages of a socket":        {fmt.Sprintf(pages, 2, 3072, "1024"), fmt.Sprintf(pages, 2, 4096, "1024"), "memory.size", "not a multiple of the requested hugepages size", false},
		"odd memory":               {fmt.Sprintf(pages, 1, 1025, "any"), fmt.Sprintf(pages, 1, 1026, "any"), "memory.size", "positive even integer", false},
		"memory for three sockets": {fmt.Sprintf(pages, 3, 1024, "2"), fmt.Sprintf(pages, 3, 1026, "2"), "memory.size", "positive even integer", false},
		"one PCI device twice":     {"pci = { hostpci0 = { host = \"01:00.0\" }, hostpci1 = { host = \"0000:01:00.0\" } }", "pci = { hostpci0 = { host = \"01:00.0\" }, hostpci1 = { host = \"01:00.1\" } }", `pci["hostpci1"].host`, "assigned more than once", false},
		"legacy GPU and display":   {device("", ""), off + device("", ""), `pci["hostpci0"].legacy_igd`, "VGA mode to be 'none'", false},
		"legacy GPU and more vga":  {device("", "") + fmt.Sprintf(none, ", memory = 16"), device("", "") + fmt.Sprintf(none, ""), `pci["hostpci0"].legacy_igd`, "VGA mode to be 'none'", false},
		"legacy GPU without ROM":   {off + device(", rombar = false", ""), off + device(", rombar = true", ""), `pci["hostpci0"].rombar`, "requires rombar", false},
		"legacy GPU, primary":      {off + device(", x_vga = true", ""), off + device("", ""), `pci["hostpci0"].x_vga`, "not compatible with x-vga", false},
		"legacy GPU, mediated":     {off + device(", mdev = \"i915-1\"", ""), off + device("", ""), `pci["hostpci0"].mdev`, "not compatible with mdev", false},
		"two legacy GPUs":          {off + device("", ", hostpci1 = { host = \"01:00.0\", legacy_igd = true }"), off + device("", ", hostpci1 = { host = \"01:00.0\" }"), `pci["hostpci1"].legacy_igd`, "only one device", false},
	}
}

// TestValuesThatStartNoVM: of a replacement the old VM is destroyed first, so the plan refuses values with which PVE starts no new one.
// It takes them where the VM stays off, and PVE does not start it by hand then.
func TestValuesThatStartNoVM(t *testing.T) {
	t.Parallel()
	for name, c := range unstartables() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: "9.2", Nodes: []string{"pve1"}})
			s := w.Session(t, rig.RootTicket, "")
			plan := func(lines string) error {
				w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock("vmid = 500\nnode = \"pve1\"\nprotection = false\n"+lines+"\n"))
				_, err := s.Plan(t.Context())
				return err
			}
			err := plan(c.wrong)
			errs := slices.DeleteFunc(slices.Clone(s.Diagnostics()), func(d terraformtest.Diagnostic) bool { return !d.Error })
			if err == nil || len(errs) != 1 || errs[0].Attribute != c.attribute {
				t.Fatalf("want one error on %s, got %s", c.attribute, s.Diagnostics())
			}
			if err = plan(c.wrong + "\npower_state = \"stopped\""); c.never != (err != nil) {
				t.Fatal(err)
			}
			if !c.never {
				rig.Must(t, s.Converge(t.Context()))
				if start := w.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Start, VMID: 500}); start.Done || !strings.Contains(start.Why, c.dies) {
					t.Errorf("PVE starts it, or says %q", start.Why)
				}
			}
			rig.Must(t, plan(c.right+"\npower_state = \"running\""))
			rig.Must(t, s.Converge(t.Context()))
			if rig.GuestOf(w, 500).Running == nil {
				t.Error("it does not run")
			}
		})
	}
}
