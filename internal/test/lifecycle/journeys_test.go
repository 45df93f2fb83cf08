package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// journey is the life of one VM: configurations that are applied one after the other. After each the plan must be empty; at
// the end the VM is imported into another state, where the plan must ask nothing of the server, and destroyed.
type journey struct {
	name   string
	bodies []string
	as     rig.Identity // "": the token without SSH
	still  bool         // PVE does not do it while the VM runs
}

var journeys = []journey{
	{name: "nothing at all", bodies: []string{`node = "pve1"`}},
	{name: "empty texts", bodies: []string{"node = \"pve1\"\ndescription = \"\"\ntags = []\nboot_order = []", `node = "pve1"`}},
	{name: "empty groups", bodies: []string{"node = \"pve1\"\ncpu = {}\nmemory = {}\nagent = {}\ndisks = {}\ncdroms = {}\nnetworks = {}", `node = "pve1"`}},
	{name: "groups emptied", bodies: []string{
		"node = \"pve1\"\ncpu = { cores = 2, type = \"host\", flags = [\"+aes\"], limit = 1.5, units = 200, numa = true }\nmemory = { size = 1024, balloon = 512, shares = 100 }\nagent = { enabled = true, fstrim_cloned_disks = true }",
		"node = \"pve1\"\ncpu = {}\nmemory = {}\nagent = {}",
		"node = \"pve1\"\ncpu = { cores = 2 }\nmemory = { size = 1024 }\nagent = { enabled = false }",
		"node = \"pve1\"",
		"node = \"pve1\"\ncpu = { cores = 3 }",
	}},
	{name: "false and zero", as: rig.RootTicket, bodies: []string{
		"node = \"pve1\"\nonboot = false\nprotection = false\ntemplate = false\ncpu = { limit = 0, numa = false }\nmemory = { balloon = 0 }\nagent = { enabled = false }\nnetworks = { net0 = { firewall = false, link_down = false, rate = 0, queues = 0, trunks = [] } }\n" +
			`disks = { scsi0 = { storage = "local-zfs", size = "1G", discard = false, ssd = false, iothread = false, backup = true, replicate = true, ro = false } }`,
		"node = \"pve1\"\nnetworks = { net0 = { } }\n" + rig.OneDisk,
	}},
	{name: "unicode", bodies: []string{
		"node = \"pve1\"\ndescription = \"Zürich 北京 🙂\\n\\n# x: y\\n%41 & < > \\\"'\"\nname = \"a.b-c\"",
		"node = \"pve1\"\ndescription = \"line\\n\\n\\n\"",
		"node = \"pve1\"\ndescription = \" leading\"",
		"node = \"pve1\"\ndescription = \"tab\\tand\\r\\nCR\"",
	}},
	{name: "tags", bodies: []string{
		"node = \"pve1\"\ntags = [\"b\", \"A\", \"a1\"]", "node = \"pve1\"\ntags = [\"a\", \"B\"]", "node = \"pve1\"\ntags = []", "node = \"pve1\"", "node = \"pve1\"\ntags = [\"z\"]", "node = \"pve1\"",
	}},
	{name: "disks come and go", still: true, bodies: []string{
		"node = \"pve1\"\n" + rig.OneDisk,
		`node = "pve1"
  disks = { virtio5 = { storage = "local-lvm", size = "1G" }, scsi0 = { storage = "local-zfs", size = "1G" }, ide0 = { storage = "local", size = "1G", format = "qcow2" }, sata3 = { storage = "local", size = "1024M" } }`,
		`node = "pve1"
  disks = { virtio5 = { storage = "local-lvm", size = "2G" }, scsi0 = { storage = "local-lvm", size = "1G", discard = true } }`,
		`node = "pve1"
  disks = { scsi0 = { storage = "local-lvm", size = "1G" }, scsi10 = { storage = "local-zfs", size = "1G" }, scsi2 = { storage = "local-zfs", size = "1.5G" } }`,
		`node = "pve1"
  disks = {}`,
		`node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }`,
		`node = "pve1"`,
	}},
	{name: "disks move, grow and change at once", bodies: []string{
		`node = "pve1"
  scsihw = "virtio-scsi-single"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "1G", cache = "writeback" } }`,
		`node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "1G", discard = true }, scsi1 = { storage = "local-zfs", size = "1G", cache = "none" } }`,
		`node = "pve1"
  disks = { scsi0 = { storage = "local-lvm", size = "2G", discard = true, iothread = true }, scsi1 = { storage = "local", size = "1G", format = "qcow2" } }`,
		`node = "pve1"
  disks = { scsi0 = { storage = "local-lvm", size = "3G" }, scsi1 = { storage = "local", size = "2G", format = "raw", ssd = true } }`,
	}},
	{name: "disk options", bodies: []string{
		`node = "pve1"
  scsihw = "virtio-scsi-single"
  disks = { scsi0 = { storage = "local-zfs", size = "1G", cache = "writeback", aio = "threads", discard = true, ssd = true, iothread = true, backup = false, replicate = false, ro = true, serial = "A b/1" } }`,
		`node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "1G", serial = "ü" } }`,
		`node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }`,
	}},
	{name: "format changes", bodies: []string{
		`node = "pve1"
  disks = { scsi0 = { storage = "local", size = "1G", format = "raw" } }`,
		`node = "pve1"
  disks = { scsi0 = { storage = "local", size = "1G", format = "qcow2" } }`,
		`node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }`,
		`node = "pve1"
  disks = { scsi0 = { storage = "shared-nfs", size = "2G" } }`,
	}},
	{name: "NICs", as: rig.RootTicket, bodies: []string{
		`node = "pve1"
  networks = { net0 = { bridge = "vmbr0", macaddr = "bc:24:11:aa:bb:cc", tag = 10, mtu = 1, queues = 4, rate = 12.5, trunks = ["10-20", "5"], firewall = true, link_down = true }, net31 = { model = "e1000" } }`,
		`node = "pve1"
  networks = { net0 = { bridge = "vmbr1", macaddr = "BC:24:11:AA:BB:CC", model = "virtio", trunks = ["5"] }, net3 = { bridge = "vmbr0" } }`,
		`node = "pve1"
  networks = { net0 = { model = "rtl8139" }, net31 = { bridge = "vmbr0" } }`,
		`node = "pve1"
  networks = { }`,
		`node = "pve1"`,
		`node = "pve1"
  networks = { net0 = { bridge = "vmbr0" } }`,
	}},
	{name: "CD-ROM", still: true, bodies: []string{
		`node = "pve1"
  cdroms = { ide2 = { file = "local:iso/debian.iso" }, sata0 = { file = "none" } }`,
		`node = "pve1"
  cdroms = { ide2 = { file = "none" }, sata0 = { file = "local:iso/debian.iso" } }`,
		`node = "pve1"
  cdroms = { ide2 = { file = "none" } }
  disks = { sata0 = { storage = "local-zfs", size = "1G" } }`,
		`node = "pve1"
  cdroms = { sata0 = { file = "none" } }
  disks = { ide2 = { storage = "local-zfs", size = "1G" } }`,
		`node = "pve1"`,
	}},
	{name: "EFI and TPM", still: true, bodies: []string{
		`node = "pve1"
  bios = "ovmf"
  machine = "q35"
  efi_disk = { storage = "local-zfs", type = "4m", pre_enrolled_keys = true }
  tpm_state = { storage = "local-zfs", version = "v2.0" }`,
		`node = "pve1"
  bios = "ovmf"
  machine = "q35"
  efi_disk = { storage = "local-lvm", type = "4m", pre_enrolled_keys = true }
  tpm_state = { storage = "local-lvm", version = "v2.0" }`,
		`node = "pve1"
  bios = "ovmf"
  efi_disk = { storage = "local-lvm", type = "4m", pre_enrolled_keys = true }`,
		`node = "pve1"`,
		`node = "pve1"
  bios = "ovmf"
  efi_disk = { storage = "local", format = "qcow2" }
  tpm_state = { storage = "local" }`,
	}},
	{name: "Windows", bodies: []string{
		`node = "pve1"
  ostype = "win11"
  machine = "q35"`,
		`node = "pve1"
  ostype = "win10"`,
		`node = "pve1"
  ostype = "l26"`,
		`node = "pve1"`,
	}},
	{name: "cloud-init", still: true, bodies: []string{
		`node = "pve1"
  networks = { net0 = { bridge = "vmbr0" }, net1 = { bridge = "vmbr0" } }
  cloud_init = { storage = "local-zfs", user = "ops", ssh_keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@x y z\n"], nameservers = ["10.0.0.1", "2001:db8::1"], searchdomain = "lan", upgrade = false, type = "nocloud",
    addresses = { net0 = { ipv4 = "10.0.0.5/24", gateway4 = "10.0.0.1", ipv6 = "2001:DB8::0005/64" }, net1 = { ipv4 = "dhcp", ipv6 = "auto" } } }`,
		`node = "pve1"
  networks = { net0 = { bridge = "vmbr0" } }
  cloud_init = { storage = "local-zfs", ssh_keys = [], nameservers = [], addresses = { net0 = { ipv4 = "manual" } } }`,
		`node = "pve1"
  networks = { net0 = { bridge = "vmbr0" } }
  cloud_init = { storage = "local-lvm", slot = "scsi5", addresses = {} }`,
		`node = "pve1"
  networks = { net0 = { bridge = "vmbr0" } }
  cloud_init = { storage = "local-lvm", slot = "ide0", custom = { user = "local:snippets/user.yaml" } }`,
		`node = "pve1"
  networks = { net0 = { bridge = "vmbr0" } }
  cloud_init = { storage = "local-lvm", slot = "ide0", custom = {} }`,
		`node = "pve1"
  networks = { net0 = { bridge = "vmbr0" } }`,
		`node = "pve1"
  networks = { net0 = { bridge = "vmbr0" } }
  cloud_init = { storage = "local", format = "qcow2", user = "again" }`,
	}},
	{name: "pool", bodies: []string{
		"node = \"pve1\"\npool = \"web\"", "node = \"pve1\"", "node = \"pve1\"\npool = \"web\"",
	}},
	{name: "power", bodies: []string{
		"node = \"pve1\"\npower_state = \"stopped\"", "node = \"pve1\"\npower_state = \"running\"", "node = \"pve1\"", "node = \"pve1\"\npower_state = \"stopped\"", "node = \"pve1\"",
	}},
	{name: "import_from", bodies: []string{
		`node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", import_from = "local:import/disk.qcow2" } }`,
		`node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", import_from = "local:import/disk.qcow2", size = "3G" } }`,
		`node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "3G" } }`,
		`node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "3G" }, scsi1 = { storage = "local-lvm", import_from = "local:import/disk.qcow2", size = "5G" } }`,
	}},
	{name: "clone", still: true, bodies: []string{
		"clone = { vmid = 9000 }\nprotection = false",
		"clone = { vmid = 9000 }\nname = \"x\"\ntags = [\"t\"]\ndescription = \"d\"",
		"clone = { name = \"template\" }",
		"clone = { vmid = 9000 }\ndisks = { scsi0 = { size = \"4G\" } }",
		"clone = { vmid = 9000 }\nnetworks = { net0 = { tag = 5 } }\ncloud_init = { user = \"u\" }",
		"clone = { vmid = 9000 }",
		"",
	}},
	{name: "devices of the template, named later", bodies: []string{
		"clone = { vmid = 9000 }\nprotection = false",
		"clone = { vmid = 9000 }\nprotection = false\ndisks = { scsi0 = { size = \"4G\", discard = true } }\nnetworks = { net0 = { tag = 5 } }",
		"clone = { vmid = 9000 }\nprotection = false\ndisks = { scsi0 = { size = \"4G\", storage = \"local-zfs\" } }\nnetworks = { net0 = { model = \"virtio\", bridge = \"vmbr1\" } }\ncloud_init = { user = \"x\" }",
	}},
	{name: "full clone elsewhere", bodies: []string{
		"clone = { vmid = 9000, full = true, storage = \"local-lvm\" }\ncpu = { cores = 1 }\nonboot = false\nprotection = false\ndisks = { scsi0 = { storage = \"local-lvm\", size = \"3G\" }, scsi1 = { storage = \"local-zfs\", size = \"1G\" } }\nagent = {}\nmemory = {}",
		"clone = { vmid = 9000, full = true, storage = \"local-lvm\" }\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"3G\" } }",
	}},
	{name: "linked clone", as: rig.RootTicket, bodies: []string{
		"clone = { tags = [\"GOLDEN\"], full = false }\nprotection = false\ndescription = \"\"\ntags = []\nboot_order = [\"scsi0\", \"net0\"]\nnetworks = { net0 = {}, net1 = { bridge = \"vmbr1\" } }",
		"clone = { tags = [\"golden\"], full = false }\nprotection = false\ntemplate = true\npower_state = \"stopped\"",
	}},
	{name: "template", bodies: []string{
		"node = \"pve1\"\ntemplate = true\n" + rig.OneDisk, "node = \"pve1\"\ntemplate = true\nname = \"t\"\n" + rig.OneDisk,
	}},
	{name: "becomes a template", bodies: []string{
		"node = \"pve1\"\npower_state = \"stopped\"\n" + rig.OneDisk, "node = \"pve1\"\npower_state = \"stopped\"\ntemplate = true\n" + rig.OneDisk,
	}},
	{name: "boot order", as: rig.RootTicket, bodies: []string{
		"node = \"pve1\"\nboot_order = [\"net0\", \"scsi0\"]\nnetworks = { net0 = {} }\n" + rig.OneDisk,
		"node = \"pve1\"\nboot_order = [\"scsi0\"]\nnetworks = { net0 = {} }\n" + rig.OneDisk,
		"node = \"pve1\"\nboot_order = []\nnetworks = { net0 = {} }\n" + rig.OneDisk,
		"node = \"pve1\"\nnetworks = { net0 = {} }\n" + rig.OneDisk,
		"node = \"pve1\"\nboot_order = [\"scsi0\"]\n" + rig.OneDisk,
	}},
	{name: "root's options", as: rig.RootTicket, bodies: []string{
		"node = \"pve1\"\ncpu = { affinity = \"0,2-3\", numa = true }\nmemory = { hugepages = \"2\", keephugepages = true }",
		"node = \"pve1\"\ncpu = { affinity = \"1\", numa = true }\nmemory = { hugepages = \"any\" }",
		"node = \"pve1\"",
	}},
	{name: "on destroy and times", bodies: []string{
		"node = \"pve1\"\non_destroy = { power_off = \"force\", timeout = \"5s\" }\ntimeouts = { create = \"5m\", delete = \"1h\" }\non_failure = \"keep\"\non_orphaned_volumes = \"destroy\"\nvmid = 333",
		"node = \"pve1\"\non_destroy = {}\ntimeouts = {}\nvmid = 333",
		"node = \"pve1\"\nvmid = 333",
		"vmid = 334\nnode = \"pve1\"",
	}},
}

// TestJourneys applies every journey on a VM that is stopped and on one that runs, or in `make test` on one of the two.
func TestJourneys(t *testing.T) {
	t.Parallel()
	for p, power := range []string{"", "power_state = \"stopped\"\n"} {
		for n, j := range journeys {
			if !share.Plays(n+p, 2, j.name) {
				continue
			}
			if power != "" && strings.Contains(strings.Join(j.bodies, ""), "power_state") || power == "" && j.still {
				continue
			}
			t.Run(j.name+map[string]string{"": ", running"}[power], func(t *testing.T) {
				t.Parallel()
				travel(t, j, power)
			})
		}
	}
}

func travel(t *testing.T, j journey, power string) {
	if j.as == "" {
		j.as = rig.TokenNoSSH
	}
	w := rig.NewWorld(t)
	s := w.NewSession()
	for n, body := range j.bodies {
		w.Reconfigure(t, s, j.as, rig.VMBlock(power+body))
		if err := s.Validate(t.Context()); err != nil {
			t.Fatalf("step %d, validate:\n%v", n, err)
		}
		if err := s.Converge(t.Context()); err != nil {
			t.Fatalf("step %d:\n%s\n%v", n, body, err)
		}
	}
	id := s.Attr("proxmox_vm.x", "id").AsString()
	other := w.NewSession()
	w.Reconfigure(t, other, j.as, rig.VMBlock(power+j.bodies[len(j.bodies)-1]))
	if err := other.Import(t.Context(), "proxmox_vm.x", id); err != nil {
		t.Fatalf("import: %v", err)
	}
	before := string(w.Sim.Snapshot())
	pl, err := other.Plan(t.Context())
	if err != nil {
		t.Fatalf("plan of the import: %v", err)
	}
	if !pl.Empty() {
		if err := other.Converge(t.Context()); err != nil {
			t.Errorf("apply after the import: %v", err)
		}
		if got := string(w.Sim.Snapshot()); got != before {
			t.Errorf("an apply after the import changed the server:\n%s\n%s", pl, strings.Join(rig.SnapshotDiff([]byte(before), []byte(got)), "\n"))
		}
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	w.MustBeClean(t)
	if left := s.Addresses(); len(left) != 0 {
		t.Error(fmt.Sprint("in state: ", left))
	}
}

// TestHalfATemplateNamesItsDisks: PVE notes that a VM is a template before it converts the disks. Where that ends at one of
// them, no later plan shows it, so the error names the disks and the commands.
func TestHalfATemplateNamesItsDisks(t *testing.T) {
	t.Parallel()
	const disks = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, scsi1 = { storage = \"local-zfs\", size = \"2G\" } }\npower_state = \"stopped\"\n"
	halves := 0
	for _, phase := range []fault.Phase{fault.Task, fault.KillTask, fault.Partial} {
		l := rig.NewVM(t, disks)
		l.World.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/template"}, Phase: phase}})
		l.Configure(disks + "template = true\n")
		err := l.Session.Run(t.Context())
		config := l.Config()
		isHalf := config["template"] == "1" && strings.Contains(config["scsi1"], ":vm-400")
		if is := err != nil && strings.Contains(err.Error(), "qm template 400 --disk scsi1"); is != isHalf {
			t.Errorf("%s: the configuration is %v, and the apply says %v", phase, config, err)
		}
		if isHalf {
			halves++
		}
	}
	if halves == 0 {
		t.Error("no fault leaves half a template")
	}
}
