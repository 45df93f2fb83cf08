package destroy_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// twoDisks is a VM with a disk on local2, beside that on local-zfs.
var twoDisks = rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\npower_state = \"stopped\"\n" +
	"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, scsi1 = { storage = \"local2\", size = \"1G\" } }\n")

// removeStorage removes local2 with its volumes, as an administrator does who takes its disk out.
func removeStorage(w *state.World) {
	maps.DeleteFunc(w.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.Storage == "local2" })
	delete(w.Storages, "local2")
}

// TestStorageThatWasRemoved: a VM has a disk on a storage that is no more, or that other nodes alone have. Its destroy
// and its replacement are refused before anything is done, and the error names the way out. With
// that the VM goes.
func TestStorageThatWasRemoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act, out func(*state.World)
		says     string
	}{
		"removed": {act: removeStorage, says: "qm set 300 --delete scsi1", out: func(w *state.World) {
			delete(w.Guests[300].Config, "scsi1")
		}},
		"restricted": {says: "`nodes`", act: func(w *state.World) { w.Storages["local2"].Nodes = []string{"pve2"} },
			out: func(w *state.World) { w.Storages["local2"].Nodes = nil }},
	} {
		for _, replaced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, replaced %t", name, replaced), func(t *testing.T) {
				t.Parallel()
				w, s := rig.Applied(t, rig.TokenNoSSH, twoDisks)
				w.Change(c.act)
				before := w.Sim.World().Guests[300].Config["scsi0"]
				if replaced {
					w.Reconfigure(t, s, rig.TokenNoSSH, strings.Replace(twoDisks, "scsi1 = { storage = \"local2\", size = \"1G\" }", "", 1))
					for _, address := range s.Addresses() {
						s.Taint(address, true)
					}
				} else {
					w.Reconfigure(t, s, rig.TokenNoSSH, "")
				}
				for range 2 {
					err := s.Run(t.Context())
					there := false
					w.Change(func(world *state.World) {
						there = world.Guests[300] != nil && world.Guests[300].Config["scsi0"] == before &&
							world.Volume("pve1", "local-zfs:vm-300-disk-0") != nil
					})
					if said := fmt.Sprint(err, s.Diagnostics()); err == nil || !there || !strings.Contains(said, c.says) {
						t.Fatalf("the VM is as it was %t: %s", there, said)
					}
				}
				w.Change(c.out)
				rig.Must(t, s.Run(t.Context()))
				if left := rig.TracesOf(w, 300); !replaced && len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}

// TestLeftoverOnAStorageThatWasRemoved: the state remembers a volume on it. A refresh warns, and the destroy tells how
// Terraform forgets it.
func TestLeftoverOnAStorageThatWasRemoved(t *testing.T) {
	t.Parallel()
	w, s := rig.Applied(t, rig.TokenNoSSH, twoDisks)
	w.Reconfigure(t, s, rig.TokenNoSSH, "")
	w.Change(func(world *state.World) { world.Storages["local2"].BusyFrees = -1 })
	if err := s.Run(t.Context()); err == nil {
		t.Fatal("nothing is left")
	}
	w.Change(removeStorage)
	if err := s.Refresh(t.Context()); err != nil || !strings.Contains(fmt.Sprint(s.Diagnostics()), "terraform state rm") {
		t.Errorf("the refresh: %v: %v", err, s.Diagnostics())
	}
	err := s.Run(t.Context())
	if said := fmt.Sprint(err, s.Diagnostics()); err == nil || !strings.Contains(said, "terraform state rm") ||
		strings.Contains(said, "pvesm free") || strings.Contains(said, "local-zfs:") {
		t.Errorf("the destroy: %s", said)
	}
}
