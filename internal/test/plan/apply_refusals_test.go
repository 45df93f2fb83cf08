package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// thingsThatAreMissing are a plan's messages about an object that does not exist or differs from its description.
func thingsThatAreMissing() map[string]struct{ hcl, at, says string } {
	image := func(more string) string {
		return `disks = { scsi0 = { storage = "local-zfs", ` + more + ` } }`
	}
	return map[string]struct{ hcl, at, says string }{
		"ISO image":               {`cdroms = { ide2 = { file = "local:iso/nope.iso" } }`, `cdroms["ide2"].file`, "local:iso/debian.iso"},
		"import image":            {image(`import_from = "local:import/nope.qcow2"`), `disks["scsi0"].import_from`, "local:import/disk.qcow2"},
		"image of the wrong kind": {image(`import_from = "local:snippets/user.yaml"`), `disks["scsi0"].import_from`, "of type snippets"},
		"another VM's disk":       {image(`import_from = "local-lvm:vm-8000-disk-7"`), `disks["scsi0"].import_from`, "local-lvm:vm-8000-disk-0"},
		"size below the image's":  {image(`import_from = "local:import/disk.qcow2", size = "1G"`), `disks["scsi0"].size`, "has 2G"},
		"format of a storage":     {image(`size = "1G", format = "qcow2"`), `disks["scsi0"].format`, "raw disks only"},
		"snippet":                 {`cloud_init = { storage = "local-zfs", custom = { user = "local:snippets/nope.yaml" } }`, "cloud_init.custom.user", "local:snippets/user.yaml"},
		"CPU type":                {`cpu = { type = "Pentium9" }`, "cpu.type", "x86-64-v2-AES"},
		"machine version":         {`machine = "pc-q35-99.9"`, "machine", "pc-q35-9.2"},
		"more CPUs than the node": {`cpu = { cores = 5, sockets = 2 }`, "cpu.cores", "has 8 CPUs"},
		"PCI mapping":             {`pci = { hostpci0 = { mapping = "nope" } }`, `pci["hostpci0"].mapping`, "gpu"},
		"USB mapping":             {`usb = { usb0 = { mapping = "nope" } }`, `usb["usb0"].mapping`, "stick"},
		"directory mapping":       {`virtiofs = { virtiofs0 = { dirid = "nope" } }`, `virtiofs["virtiofs0"].dirid`, "share"},
		"HA group":                {`ha = { group = "nope" }`, "ha.group", "none"},
	}
}

// TestCreateRefusalsAreFoundInThePlan: each reason to refuse a create is an error on its attribute in the plan, before a replacement
// destroys anything. There is no error about an object that exists, and none if the identity cannot look.
func TestCreateRefusalsAreFoundInThePlan(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	for name, c := range thingsThatAreMissing() {
		t.Run(name, func(t *testing.T) {
			_, err := w.Session(t, rig.RootTicket, rig.VMBlock("name = \"x\"\nnode = \"pve1\"\n"+c.hcl)).Plan(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.at) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want %s to say %q, got %v", c.at, c.says, err)
			}
		})
	}
	good := `name = "x"
node   = "pve1"
cpu    = { type = "x86-64-v2-AES", cores = 4, sockets = 2 }
machine = "pc-q35-9.2"
cdroms = { ide3 = { file = "local:iso/debian.iso" } }
disks  = {
  scsi0 = { storage = "local-zfs", import_from = "local:import/disk.qcow2", size = "2G" }
  scsi1 = { storage = "local", size = "1G", format = "qcow2" }
  scsi2 = { storage = "local-zfs", import_from = "local-lvm:vm-8000-disk-0" }
}
cloud_init = { storage = "local-zfs", custom = { user = "local:snippets/user.yaml" } }
pci = { hostpci0 = { mapping = "gpu" } }
`
	for _, id := range []rig.Identity{rig.RootTicket, rig.TokenNoSSH} {
		if id == rig.TokenNoSSH { // which may not use the mapping
			good = strings.Replace(good, "pci = ", "# pci = ", 1)
		}
		w.ResetCalls()
		s := w.Session(t, id, rig.VMBlock(good))
		if _, err := s.Plan(t.Context()); err != nil || len(s.Diagnostics().Warnings()) > 0 {
			t.Errorf("%s: %v %s", id, err, s.Diagnostics())
		}
		asked := map[string]int{}
		for _, op := range w.Sim.Ops() {
			asked[fmt.Sprint(op.Method, op.Path, op.Params)]++
		}
		for what, n := range asked {
			if n > 1 {
				t.Errorf("%s: asked %d times: %s", id, n, what)
			}
		}
	}
	// A token that may not list the content of a storage is told nothing about it.
	blind := rig.VMBlock("name = \"x\"\nnode = \"pve1\"\ncloud_init = { storage = \"local-zfs\", custom = { user = \"local:snippets/nope.yaml\" } }\n")
	if _, err := w.Session(t, rig.TokenNoAllocate, blind).Plan(t.Context()); err != nil {
		t.Errorf("what the token cannot see is refused: %v", err)
	}
	w.MustBeClean(t)
}

// TestPlanRefusesAnImpossibleReplacement: the plan refuses a source that the new VM cannot have while the old VM exists.
func TestPlanRefusesAnImpossibleReplacement(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, `disks = { scsi0 = { storage = "local-zfs", import_from = "local:import/disk.qcow2" } }`+"\n")
	l.Refuses(`disks = { scsi0 = { storage = "local-zfs", import_from = "local:import/gone.qcow2" } }`+"\n", `disks["scsi0"].import_from`, "local:import/gone.qcow2")

	w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("name = \"x\"\nnode = \"pve2\"\nprotection = false\nclone = { vmid = 9000, full = true, storage = \"shared-nfs\" }\n"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Mark()
	w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock("name = \"x\"\nnode = \"pve2\"\nprotection = false\nclone = { vmid = 9000, full = false }\n"))
	if _, err := s.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "clone") {
		t.Errorf("a linked clone on another node is planned: %v", err)
	}
	w.MustBeClean(t)
}

// TestOnlyCertainRefusalsAreErrors: a bridge that PVE does not list may be in the node's kernel: a warning, unless the identity may not use
// it. A volume that is left under a configured id is seen in the plan.
func TestOnlyCertainRefusalsAreErrors(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) {
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-3", Content: "images", VMID: 400, Format: "raw", Size: 1 << 30})
	})
	for _, id := range []rig.Identity{rig.RootTicket, rig.TokenNoSSH} {
		s := w.Session(t, id, rig.VMBlock("name = \"x\"\nnode = \"pve1\"\nnetworks = { net0 = { bridge = \"vmbr77\" } }\n"))
		pl, err := s.Plan(t.Context())
		if text := s.Diagnostics().String(); err != nil || !strings.Contains(text, `Unknown bridge "vmbr77"`) || !strings.Contains(text, "kernel only") {
			t.Fatalf("%s: a bridge that may be there: %v\n%s", id, err, text)
		}
		w.Mark()
		if err := s.Apply(t.Context(), pl); err == nil || !strings.Contains(err.Error(), "vmbr77") { // it is not
			t.Errorf("%s: started without the bridge: %v", id, err)
		}
		w.MustBeClean(t)
	}
	const orphaned = "name = \"x\"\nvmid = 400\nnode = \"pve1\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	if _, err := w.Session(t, rig.TokenNoSSH, rig.VMBlock(orphaned)).Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "vm-400-disk-3") {
		t.Errorf("a volume under the id is not seen: %v", err)
	}
	if _, err := w.Session(t, rig.TokenNoSSH, rig.VMBlock(orphaned+"on_orphaned_volumes = \"destroy\"\n")).Plan(t.Context()); err != nil {
		t.Errorf("volumes that are to be destroyed are refused: %v", err)
	}
}

// TestLimitsThatADiskHasAlready: a limit for both directions contradicts one that the disk has from its template or from another tool.
func TestLimitsThatADiskHasAlready(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	limited := func(more string) {
		w.Change(func(world *state.World) { world.Guests[9000].Config["scsi0"] += more })
	}
	clone := rig.VMBlock(`clone = { vmid = 9000 }
disks = { scsi0 = { throttle = { mbps = 5 } } }
protection = false
`)
	refused := func(s *terraformtest.Session) {
		t.Helper()
		if _, err := s.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), `disks["scsi0"].throttle.mbps`) ||
			!strings.Contains(err.Error(), "the disk has mbps_rd as well") {
			t.Errorf("mbps beside mbps_rd: %v", err)
		}
	}
	s := w.Session(t, rig.TokenNoSSH, clone)
	rig.Must(t, s.Converge(t.Context()))
	w.Change(func(world *state.World) {
		for vmid, guest := range world.Guests {
			if vmid != 9000 && strings.Contains(guest.Config["scsi0"], "mbps=5") {
				guest.Config["scsi0"] = strings.Replace(guest.Config["scsi0"], "mbps=5", "mbps_rd=7", 1)
			}
		}
	})
	refused(s)
	limited(",mbps_rd=0.5")
	refused(w.Session(t, rig.TokenNoSSH, clone))
}
