package plan_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
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
