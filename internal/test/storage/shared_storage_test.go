package storage_test

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
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

// removeNode takes pve2 out of the cluster, with all that it has.
func removeNode(world *state.World) {
	delete(world.Nodes, "pve2")
	for id, g := range world.Guests {
		if g.Node == "pve2" {
			delete(world.Guests, id)
		}
	}
	for at, v := range world.Volumes {
		if v.Node == "pve2" {
			delete(world.Volumes, at)
		}
	}
}

// TestFileByANodeThatIsAway: a file on a shared storage is read and removed by way of another node while its own is off, or once that has
// left the cluster. One on a storage of that node stays, and the plan refuses to replace it: what was made of it would go first.
func TestFileByANodeThatIsAway(t *testing.T) {
	t.Parallel()
	web := rig.ServeFiles(t, map[string][]byte{"/a.iso": pvesim.StandIn(), "/b.iso": pvesim.StandIn()})
	blocks := map[string]func(node, storage, name string) string{
		"image": func(node, storage, name string) string {
			return rig.ImageBlock("disk", fmt.Sprintf("node = %q\n storage = %q\n content = \"iso\"\n url = %q", node, storage, web+"/"+name+".iso"))
		},
		"disc": func(node, storage, name string) string {
			return fmt.Sprintf("resource \"proxmox_cloud_init_iso\" \"web\" {\n node = %q\n storage = %q\n name = %q\n user_data = \"#cloud-config\\n\"\n}\n",
				node, storage, name)
		},
		"snippet": func(node, storage, name string) string {
			return fmt.Sprintf("resource \"proxmox_snippet\" \"web\" {\n node = %q\n storage = %q\n name = %q\n content = \"#cloud-config\\n\"\n}\n",
				node, storage, name+".yaml")
		},
	}
	off := func(world *state.World) { world.Nodes["pve2"].Online = false }
	for kind, block := range blocks {
		for name, c := range map[string]struct {
			storage string
			away    func(*state.World)
			refused []string
		}{
			"shared, off":   {"shared-nfs", off, nil},
			"shared, gone":  {"shared-nfs", removeNode, nil},
			"its own, off":  {"local", off, []string{"Node pve2 is not online"}},
			"its own, gone": {"local", removeNode, []string{"Unknown node \"pve2\"", "and no node pve2, where the state has the file", "terraform state rm"}},
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t)
				w.Change(func(world *state.World) {
					world.Storages["shared-nfs"].Content = append(world.Storages["shared-nfs"].Content, "snippets")
					world.Nodes["pve3"] = &state.Node{Name: "pve3", Online: true}
					for id, g := range world.Guests {
						if g.Node == "pve2" { // which could use a file that is shared
							delete(world.Guests, id)
						}
					}
				})
				s := w.Session(t, rig.TokenSSH, block("pve2", c.storage, "a"))
				rig.Must(t, s.Converge(t.Context()))
				w.Change(c.away)
				w.Sim.Advance(time.Minute)
				_, err := s.Plan(t.Context())
				rig.Must(t, err)
				said := s.Diagnostics().String()
				w.Reconfigure(t, s, rig.TokenSSH, block("pve1", c.storage, "b"))
				plan, err := s.Plan(t.Context())
				if c.refused != nil {
					rig.MustSay(t, err, c.refused...)
					rig.MustSay(t, errors.New(said), c.refused[len(c.refused)-1])
					return
				}
				if rig.Must(t, err); said != "" {
					t.Errorf("the refresh says %s", said)
				}
				rig.Must(t, s.Apply(t.Context(), plan))
				rig.Must(t, s.Converge(t.Context()))
				if files := onSharedStorage(w); len(files) != 1 || !strings.HasPrefix(path.Base(files[0]), "b") {
					t.Errorf("the storage has %v", files)
				}
			})
		}
	}
}

// TestFileOfAnUnknownNodeIsNotGone: that a shared storage of this name has no such file proves nothing where the endpoint may be that of
// another cluster. And while a node is off, its guests may use a file that all nodes have.
func TestFileOfAnUnknownNodeIsNotGone(t *testing.T) {
	t.Parallel()
	disc := func(node, name string) string {
		return fmt.Sprintf("resource \"proxmox_cloud_init_iso\" \"web\" {\n node = %q\n storage = \"shared-nfs\"\n name = %q\n user_data = \"#cloud-config\\n\"\n}\n",
			node, name)
	}
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenSSH, disc("pve2", "a"))
	rig.Must(t, s.Converge(t.Context()))
	w.Sim.Advance(time.Minute)
	w.Change(func(world *state.World) {
		world.Nodes["pve2"].Online = false
		world.Nodes["pve3"] = &state.Node{Name: "pve3", Online: true}
		world.Guests[666] = &state.Guest{VMID: 666, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "crown", "memory": "512"}}
	})
	w.Reconfigure(t, s, rig.TokenSSH, disc("pve1", "b"))
	_, err := s.Plan(t.Context())
	rig.MustSay(t, err, "Node pve2 is not online", "so guests of that node")
	w.Change(func(world *state.World) {
		removeNode(world)
		for at, v := range world.Volumes {
			if v.Storage == "shared-nfs" && v.Content == "iso" {
				delete(world.Volumes, at)
			}
		}
	})
	w.Sim.Advance(time.Minute)
	w.Reconfigure(t, s, rig.TokenSSH, disc("pve2", "a"))
	_, err = s.Plan(t.Context())
	rig.Must(t, err)
	rig.MustSay(t, errors.New(s.Diagnostics().String()), "Either the endpoint is that of another cluster")
	rig.MustSay(t, s.Destroy(t.Context()), "Either the endpoint is that of another cluster")
	if len(s.Addresses()) != 1 {
		t.Error("the state has lost the file")
	}
}
