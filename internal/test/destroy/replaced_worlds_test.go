package destroy_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// replacedWorld is a change of the server after which a VM is replaced: by another id where its blocks differ, else for a taint.
type replacedWorld struct {
	body, beside string
	node         string // pve1 unless set
	to           string // the id that it is to have; "": it is tainted
	change       func(*state.World)
	says         string // by its plan; "": the replacement is to succeed
}

func leftUnder401(on, node, name string) func(*state.World) {
	return func(w *state.World) {
		w.Put(&state.Volume{Storage: on, Node: node, Name: name, Content: "images", VMID: 401, Format: "raw", Size: 1 << 30, Data: "theirs"})
	}
}

func replacedWorlds() map[string]replacedWorld {
	const linked, full, restored = `clone = { vmid = 9000 }`, `clone = { vmid = 9000, full = true }`, `restore = { archive = "` + rig.WebBackup + `" }`
	const destroys = "\non_orphaned_volumes = \"destroy\""
	const left = "Volumes of another VM 401 are still there"
	used := func(w *state.World) {
		leftUnder401("local-zfs", "pve1", "vm-401-disk-3")(w)
		w.Guests[8000].Config["scsi9"] = "local-zfs:vm-401-disk-3,size=1G"
	}
	return map[string]replacedWorld{
		"linked clone, left on the source's storage":     {body: linked, to: "401", change: leftUnder401("local-zfs", "pve1", "vm-401-disk-3"), says: left},
		"full clone, left on the source's storage":       {body: full, to: "401", change: leftUnder401("local-zfs", "pve1", "vm-401-disk-3"), says: left},
		"full clone, left on its own storage":            {body: `clone = { vmid = 9000, full = true, storage = "local-lvm" }`, to: "401", change: leftUnder401("local-lvm", "pve1", "vm-401-disk-3"), says: left},
		"full clone, left on another storage":            {body: full, to: "401", change: leftUnder401("local2", "pve1", "401/vm-401-disk-3.raw")},
		"full clone to another node, left at the source": {body: full, node: "pve2", to: "401", change: leftUnder401("local-zfs", "pve1", "vm-401-disk-3"), says: left},
		"full clone to another node, left there":         {body: full, node: "pve2", to: "401", change: leftUnder401("local-zfs", "pve2", "vm-401-disk-3"), says: left},
		"restore, left on the backup's storage":          {body: restored, to: "401", change: leftUnder401("local-zfs", "pve1", "vm-401-disk-3"), says: left},
		"restore, left on another storage":               {body: restored, to: "401", change: leftUnder401("local2", "pve1", "401/vm-401-disk-3.raw"), says: left},
		"left over, to be destroyed":                     {body: linked + destroys, to: "401", change: leftUnder401("local-zfs", "pve1", "vm-401-disk-3")},
		"left over, to be destroyed, of a program":       {body: linked + destroys, to: "401", change: leftUnder401("local-zfs", "pve1", "vm-401-pvc-abc"), says: "may have an owner elsewhere"},
		"left over, to be destroyed, and in use":         {body: linked + destroys, to: "401", change: used, says: "is also used by VM 8000"},
	}
}

// TestLawReplacementKeepsTheVMOrMakesOne: in each of these worlds a replacement is refused by its plan, which destroys nothing, or its apply ends with a VM.
// A create that is refused first is refused after the destroy, too: then none is left.
func TestLawReplacementKeepsTheVMOrMakesOne(t *testing.T) {
	t.Parallel()
	for name, c := range replacedWorlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
			w.Change(func(world *state.World) { world.AddBackup("pve1") })
			node := "pve1"
			if c.node != "" {
				node = c.node
			}
			hcl := func(id string) string {
				return c.beside + rig.VMBlock("vmid = "+id+"\nnode = \""+node+"\"\nprotection = false\n"+c.body)
			}
			s := w.Session(t, rig.RootTicket, hcl("400"))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(c.change)
			id := 400
			if c.to == "" {
				s.Taint("proxmox_vm.x", true)
			} else {
				id = 401
				w.Reconfigure(t, s, rig.RootTicket, hcl(c.to))
			}
			pl, err := s.Plan(t.Context())
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("the plan does not say %q: %v", c.says, err)
				}
				return
			}
			rig.Must(t, err)
			rig.Must(t, s.Apply(t.Context(), pl))
			if rig.GuestOf(w, id).Config == nil {
				t.Errorf("there is no VM %d", id)
			}
		})
	}
}
