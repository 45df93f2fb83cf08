package create

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestRollBackSparesADiskThatHasTakenThePlace: a third party puts its disk, with the id of the new VM, in place of one
// that a task of the create has put there: it has detached that one, reassigned it to another guest, or it was the
// cloud-init drive of the template. The start fails. The roll-back leaves the VM with that disk; without it nothing.
func TestRollBackSparesADiskThatHasTakenThePlace(t *testing.T) {
	t.Parallel()
	moving := ofTemplate()
	moving.Spec.Disks = map[string]vm.Disk{"scsi0": {Storage: "local-lvm"}}
	put := func(w *state.World, g *state.Guest, slot string) {
		w.Put(&state.Volume{Storage: "local-lvm", Node: g.Node, Name: "vm-150-disk-77", VMID: 150, Content: "images",
			Format: "raw", Size: 1 << 30, Data: "theirs"})
		g.Config[slot] = theirs + ",size=1G"
	}
	acts := map[string]func(w *state.World, g *state.Guest){
		"nothing":    nil,
		"cloud-init": func(w *state.World, g *state.Guest) { put(w, g, "ide2") },
		"detached": func(w *state.World, g *state.Guest) {
			g.Config["unused0"] = guest.VolumeOf(g.Config["scsi0"])
			put(w, g, "scsi0")
		},
		"reassigned": func(w *state.World, g *state.Guest) {
			v := w.Volume(g.Node, guest.VolumeOf(g.Config["scsi0"]))
			if err := w.Rename(v, 8000); err != nil {
				t.Fatal(err)
			}
			w.Guests[8000].Config["scsi9"] = v.Volid() + ",size=1G"
			put(w, g, "scsi0")
		},
	}
	for how, r := range map[string]Request{"create": onZFS(), "clone": ofTemplate(), "clone and move": moving} {
		r.VMID, r.Start = 150, true
		for what, act := range acts {
			met := 0
			for _, n := range []int{2, 8} { // after the first look at the new VM, and while the start is waited for
				synctest.Test(t, func(t *testing.T) {
					acted := false
					b := meddled(t, n, func(w *state.World, g *state.Guest) {
						if acted = act != nil; acted {
							act(w, g)
						}
					})
					b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost,
						Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Task, Times: -1}})
					created, err := b.Create(t.Context(), r)
					if acted {
						met++
					}
					left := b.volumesOf(150)
					if err == nil || acted && b.kept() == "" || !acted && len(created.Left)+len(left) > 0 {
						t.Errorf("%s, %s, %d: theirs holds %q, left %+v %v: %v", how, what, n, b.kept(), created.Left, left, err)
					}
				})
			}
			if act != nil && met < 2 {
				t.Errorf("%s, %s: the third party came %d times", how, what, met)
			}
		}
	}
}

// TestRollBackWhereTheCloneIs: the migration of a clone to its node fails, and a guest beside the clone has got its disk
// meanwhile. The roll-back looks among the guests of the node that the clone is on, and destroys nothing.
func TestRollBackWhereTheCloneIs(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := meddled(t, 0, func(w *state.World, g *state.Guest) {
				if w.Guests[8000].Node = "pve1"; taken {
					w.Guests[8000].Config["scsi9"] = g.Config["scsi0"]
				}
			})
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost,
				Path: "/nodes/{node}/qemu/{vmid}/migrate"}, Phase: fault.Before, Times: -1}})
			r := ofTemplate()
			r.VMID, r.Node = 150, "pve2"
			created, err := b.Create(t.Context(), r)
			if err == nil || (len(created.Left) > 0) != taken || (len(b.volumesOf(150)) > 0) != taken {
				t.Errorf("taken %t: left %+v and %v: %v", taken, created.Left, b.volumesOf(150), err)
			}
		})
	}
}

// TestRollBackSparesADiskOfAFormerName: a user removes a disk of the new VM, whose name comes free, and adds a larger one,
// which gets it: in another slot or in the same, as an unused disk or in none, also where HA has just moved the VM and the
// storage is shared. The start fails. The roll-back leaves that disk.
func TestRollBackSparesADiskOfAFormerName(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"local-zfs", "rbd"} {
		for _, node := range []string{"pve1", "pve2"} {
			for _, slot := range []string{"scsi5", "scsi1", "unused0", ""} {
				if storage == "local-zfs" && node == "pve2" {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					b, done := failsToStart(t, "status/start", func(w *state.World, g *state.Guest) {
						v := w.Volume("pve1", guest.VolumeOf(g.Config["scsi1"]))
						v.Size, v.Data, g.Node = 5<<30, "theirs", node
						delete(g.Config, "scsi1")
						switch slot {
						case "":
						case "unused0":
							g.Config[slot] = v.Volid()
						default:
							g.Config[slot] = v.Volid() + ",size=5G"
						}
					})
					b.change(func(w *state.World) {
						w.Storages["rbd"] = &state.Storage{ID: "rbd", Type: "rbd", Path: "tank", Shared: true, Total: 100 << 30, Content: []string{"images"}}
					})
					r := twoDisks()
					for name, d := range r.Spec.Disks {
						d.Storage = storage
						r.Spec.Disks[name] = d
					}
					created, err := b.Create(t.Context(), r)
					isNamed := slot == "" || len(created.Left) == 1 && strings.Contains(created.Left[0].Reason, "vm-150-disk-1")
					if err == nil || !*done || !b.hasTheirs() || !isNamed {
						t.Errorf("%s, on %s, in %q: %v are there, left %+v: %v", storage, node, slot, b.volumesOf(150), created.Left, err)
					}
				})
			}
		}
	}
}

// TestRollBackOfAGrownDisk: the create itself has grown a disk, so its other size makes it no other's, also where PVE
// dies over that.
func TestRollBackOfAGrownDisk(t *testing.T) {
	t.Parallel()
	for _, phase := range []fault.Phase{fault.Task, fault.KillTask, fault.After} {
		synctest.Test(t, func(t *testing.T) {
			b, _ := failsToStart(t, "none", nil)
			of := func(method, path string) fault.Match {
				return fault.Match{Method: method, Path: "/nodes/{node}/qemu/{vmid}" + path}
			}
			b.sim.SetFaults([]fault.Rule{{Match: of(http.MethodPut, "/resize"), Phase: phase, Status: 500, Times: 1},
				{Match: of(http.MethodPost, "/status/start"), Phase: fault.Task, Times: -1}})
			r := ofTemplate()
			r.VMID, r.Start, r.Spec.Disks = 150, true, map[string]vm.Disk{"scsi0": {Storage: "local-zfs", Size: to(int64(40 << 30))}}
			created, err := b.Create(t.Context(), r)
			if left := b.volumesOf(150); err == nil || len(created.Left)+len(left) > 0 {
				t.Errorf("%v: %v are there, left %+v: %v", phase, left, created.Left, err)
			}
		})
	}
}

// TestRollBackWhoseLogCannotBeRead: a third party exchanges a disk before the first look at the new VM, the start fails,
// and the log that tells the disk of the create cannot be read for a while, or at all. The disk stays.
func TestRollBackWhoseLogCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, times := range []int{4, 6, 10, -1} {
		synctest.Test(t, func(t *testing.T) {
			b, done := failsToStart(t, "qmcreate", func(w *state.World, g *state.Guest) {
				v := w.Volume("pve1", guest.VolumeOf(g.Config["scsi0"]))
				delete(w.Volumes, state.VolumeKey{Storage: v.Storage, Node: v.Node, Name: v.Name})
				v.Name, v.Data = "vm-150-disk-77", "theirs"
				w.Put(v)
				g.Config["scsi0"] = v.Volid() + ",size=1G"
			})
			log := fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/tasks/{upid}/log"}
			start := fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}
			b.sim.SetFaults([]fault.Rule{{Match: start, Phase: fault.Task, Times: -1},
				{Match: log, Phase: fault.Before, Status: 500, Reason: "no", Times: times}})
			created, err := b.Create(t.Context(), startedVM())
			if err == nil || !*done || !b.hasTheirs() || len(created.Left) != 1 || created.Left[0].Command != "" {
				t.Errorf("%d times: %v are there, left %+v: %v", times, b.volumesOf(150), created.Left, err)
			}
		})
	}
}
