package storage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// claiming is VM 700 on local-zfs, which wants leftovers of its id destroyed.
const claiming = `
resource "proxmox_vm" "mine" {
  name  = "mine"
  vmid  = 700
  node  = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
  on_orphaned_volumes = "destroy"
  power_state = "stopped"
}
`

// theirs is a disk that another cluster's VM or a program has.
func theirs(w *rig.World, storage, name string, vmid int) {
	w.Change(func(world *state.World) {
		node := "pve1"
		if world.Storages[storage].Shared {
			node = ""
		}
		world.Put(&state.Volume{Storage: storage, Node: node, Name: name, Content: "images", VMID: vmid, Format: "qcow2",
			Size: 1 << 30, Data: "theirs"})
	})
}

// exclusively configures the session with shared-nfs as a storage that no other cluster uses.
func exclusively(t *testing.T, w *rig.World, s *terraformtest.Session, hcl string) {
	t.Helper()
	block := strings.Replace(w.ProviderBlock(rig.TokenNoSSH), "{\n", "{\n  exclusive_storages = [\"shared-nfs\"]\n", 1)
	rig.Must(t, s.Configure(block, hcl))
}

// TestVolumesSharedStorageOrphans: a volume on a shared storage may be another cluster's. on_orphaned_volumes destroys it
// only if exclusive_storages says that no other cluster uses the storage. The plan says so, and the apply if it came later.
func TestVolumesSharedStorageOrphans(t *testing.T) {
	t.Parallel()
	const name = "700/vm-700-disk-0.qcow2"
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, claiming)
	early, err := s.Plan(t.Context())
	rig.Must(t, err)
	theirs(w, "shared-nfs", name, 700)
	w.Mark()
	wants := []string{"shared-nfs:" + name, "another cluster", "exclusive_storages"}
	rig.MustRefuse(t, s.Apply(t.Context(), early), wants)
	_, err = s.Plan(t.Context())
	rig.MustRefuse(t, err, wants)
	if rig.DataOf(w, name) != "theirs" {
		t.Fatal("the other cluster's disk is gone")
	}
	w.MustBeClean(t)
	exclusively(t, w, s, claiming)
	rig.Must(t, s.Run(t.Context()))
	if rig.DataOf(w, name) == "theirs" {
		t.Error("the leftover on a storage of this cluster alone is there")
	}
}

// TestVolumesForeignNames: a volume with a name that PVE never gives is a program's. It is destroyed by nothing, and has
// no command.
func TestVolumesForeignNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ storage, name string }{
		{"local-lvm", "vm-700-pvc-369fa6e3"}, {"local2", "700/vm-700-data.qcow2"},
	} {
		w := rig.NewWorld(t)
		theirs(w, c.storage, c.name, 700)
		w.Sim.Advance(48 * time.Hour)
		w.Mark()
		id := c.storage + ":" + c.name
		s := w.Session(t, rig.TokenNoSSH, "")
		if o := orphanOf(t, s, id); terraformtest.Text(o, "certainty") != "unknown" || terraformtest.Text(o, "command") != "" {
			t.Errorf("the orphan is %s", terraformtest.ShowValue(o))
		}
		_, err := rig.Invoke(t, s, "proxmox_orphan_delete", "kind = \"volume\"\nnode = \"pve1\"\naccept = \"likely\"\nid = \""+id+"\"", nil)
		rig.MustRefuse(t, err, []string{id, "PVE gives no volume the name"})
		exclusively(t, w, s, claiming)
		rig.MustRefuse(t, s.Run(t.Context()), []string{id, "PVE gives no volume the name"})
		if rig.DataOf(w, c.name) != "theirs" {
			t.Errorf("%s is gone", id)
		}
		w.MustBeClean(t)
	}
}

// TestVolumesSharedStorageLeftover: a remembered leftover is freed only while it is the volume that was left. Another
// one of its name, of another size or time, stays. Of one that takes more than its size, by tables, the size is not told.
func TestVolumesSharedStorageLeftover(t *testing.T) {
	t.Parallel()
	const name = "400/vm-400-disk-0.qcow2"
	vm := strings.NewReplacer("700", "400", "local-zfs", "shared-nfs").Replace(claiming)
	for what, replace := range map[string]func(*state.Volume){
		"the same":                   nil,
		"another size":               func(v *state.Volume) { v.Size = 77 << 30 },
		"another time":               func(v *state.Volume) { v.Created = v.Created.Add(time.Hour) },
		"the same, inactive":         func(v *state.Volume) { v.Allocated = 1<<30 + 4<<20 },
		"another size, inactive":     func(v *state.Volume) { v.Allocated = 77 << 30 },
		"another time, and inactive": func(v *state.Volume) { v.Allocated, v.Created = 1<<30+4<<20, v.Created.Add(time.Hour) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Mark()
			s := w.Session(t, rig.TokenNoSSH, strings.Replace(vm, `size = "1G"`, `size = "1G", format = "qcow2"`, 1))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) { world.Storages["shared-nfs"].BusyFrees = -1 })
			if err := s.Destroy(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
				t.Fatalf("want the leftover named, got %v", err)
			}
			w.Change(func(world *state.World) {
				world.Storages["shared-nfs"].BusyFrees, world.Profile = 0, "9.2"
				for _, v := range world.Volumes {
					if v.Name == name && replace != nil {
						v.Data = "theirs"
						replace(v)
					}
				}
			})
			err := s.Destroy(t.Context())
			if strings.HasPrefix(what, "the same") {
				rig.Must(t, err)
				w.MustBeClean(t)
				return
			}
			rig.MustRefuse(t, err, []string{"another volume has its name", "not touched"})
			if rig.DataOf(w, name) != "theirs" {
				t.Error("the other volume is gone")
			}
		})
	}
}
