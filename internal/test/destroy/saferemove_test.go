package destroy_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// zeroing is a VM with a disk on an LVM storage with saferemove: PVE renames a volume that is freed, and a task imgdel
// zeroes it for hours (pve-storage LVMPlugin.pm free_lvm_volumes_locked).
func zeroing(t *testing.T, body string) (*rig.World, *rig.VM) {
	t.Helper()
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) {
		world.Storages["san"] = &state.Storage{ID: "san", Type: "lvm", Shared: true, Content: []string{"images"}, Total: 100 << 30,
			Options: map[string]string{"vgname": "sanvg", "saferemove": "1"}}
	})
	s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(body))
	rig.Must(t, s.Converge(t.Context()))
	w.ExpectPowerOffs()
	return w, &rig.VM{T: t, World: w, Session: s}
}

const zeroed = "name = \"x\"\nvmid = 400\nnode = \"pve1\"\ndisks = { scsi0 = { storage = \"san\", size = \"60G\" } }\n"

// TestDestroyNamesDisksThatAreStillZeroed: such a VM is gone, and its disk is not.
func TestDestroyNamesDisksThatAreStillZeroed(t *testing.T) {
	t.Parallel()
	w, l := zeroing(t, zeroed)
	rig.Must(t, l.Session.Destroy(t.Context()))
	task := ""
	w.Change(func(world *state.World) {
		for upid, found := range world.Tasks {
			if found.Type == "imgdel" && found.Running {
				task = upid
			}
		}
	})
	said := l.Session.Diagnostics().String()
	if task == "" || !strings.Contains(said, "Disks of VM 400 are still being zeroed") || !strings.Contains(said, "san:vm-400-disk-0 by task "+task) {
		t.Errorf("task %q, said: %s", task, said)
	}
}

// TestReplacementOnAStorageThatZeroes: the plan says that a destroy makes no room.
func TestReplacementOnAStorageThatZeroes(t *testing.T) {
	t.Parallel()
	w, l := zeroing(t, zeroed)
	w.Reconfigure(t, l.Session, rig.TokenNoSSH, rig.VMBlock(strings.Replace(zeroed, "vmid = 400", "vmid = 401", 1)))
	plan, err := l.Session.Plan(t.Context())
	rig.Must(t, err)
	if said := l.Session.Diagnostics().String(); plan.Empty() || !strings.Contains(said, "a replacement destroys the VM and cannot make the new one") {
		t.Errorf("said: %s", said)
	}
}
