package destroy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestPlanNamesSnapshotsOfAVMThatHasMoved: all plans of a run share one listing, which is of the run's beginning. HA migrates a VM since.
// The plan of its destroy finds its snapshots, or says that it could not look, also where the state has the former node. It is silent about
// one that is gone.
func TestPlanNamesSnapshotsOfAVMThatHasMoved(t *testing.T) {
	moved := func(r *rig) { r.change(func(w *state.World) { w.Guests[300].Node = "pve2" }) }
	removed := func(r *rig) { r.change(func(w *state.World) { delete(w.Guests, 300) }) }
	for name, c := range map[string]struct {
		happens       func(*rig)
		node          string // that the state has
		named, unread bool
	}{
		"it stays":                         {happens: func(*rig) {}, node: "pve1", named: true},
		"moved before its refresh":         {happens: moved, node: "pve2", named: true},
		"moved since its refresh":          {happens: moved, node: "pve1", named: true},
		"gone":                             {happens: removed, node: "pve1"},
		"not found, and a node is offline": {happens: func(r *rig) { removed(r); r.sim.SetNode("pve2", false) }, node: "pve1", unread: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, asToken)
			ref := r.vm(300)
			r.change(func(w *state.World) {
				w.Guests[300].Snaps = map[string]map[string]string{"theirs": {"snaptime": "1700000000"}}
			})
			if _, _, err := r.s.api.Listing().Guest(t.Context(), 300); err != nil { // another VM's refresh
				t.Fatal(err)
			}
			c.happens(r)
			ref.Node = c.node
			along := r.s.TakesAlong(t.Context(), Request{Ref: ref})
			if named := along.Snapshots["theirs"] != 0; named != c.named || (along.Unread != nil) != c.unread {
				t.Errorf("named %t, unread: %v", named, along.Unread)
			}
		})
	}
}

// TestWhatComesDuringTheDestroyStays: at each answer in turn a third party takes a snapshot, or gives the VM a disk, which no plan has named.
// As long as another request follows, that stays: the reading right before the deletion is compared with the one that was judged.
func TestWhatComesDuringTheDestroyStays(t *testing.T) {
	put := func(w *state.World, name string) {
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: name, VMID: 300, Content: "images", Format: "raw", Size: 2 << 30,
			Data: "theirs"})
	}
	comes := map[string]func(*state.World, *state.Guest){
		"a snapshot": func(w *state.World, g *state.Guest) {
			g.Snaps = map[string]map[string]string{"theirs": {"snaptime": "1700000000", "scsi0": g.Config["scsi0"]}}
			g.Config["parent"] = "theirs"
		},
		"a waiting disk": func(w *state.World, g *state.Guest) {
			put(w, "vm-300-disk-5")
			g.Pending = map[string]string{"scsi5": "local-zfs:vm-300-disk-5,size=2G"}
		},
		"another disk of the name": func(w *state.World, g *state.Guest) {
			for key, v := range w.Volumes {
				if v.Volid() == contested {
					delete(w.Volumes, key)
				}
			}
			put(w, "vm-300-disk-0")
			g.Config["scsi0"] = contested + ",size=2G"
		},
	}
	for what, come := range comes {
		for _, kind := range []string{"off", "it holds a disk", "it has changed"} {
			for nth, done := 1, true; done; nth++ {
				r := newRig(t, asToken)
				ref := r.vm(300)
				q := Request{Ref: ref, Foretold: Along{Snapshots: map[string]int64{}}, Disks: Disks{Known: []string{contested},
					Slots: map[string]string{"scsi0": contested}, Sizes: map[string]int64{contested: 1 << 30}}}
				switch kind {
				case "it holds a disk":
					q.Holder, q.GracefulOnly = true, true
					r.option("protection", "1")
				case "it has changed":
					r.running()
				}
				answers, told, late := 0, false, true
				done = false
				r.answered = func(method, path string) {
					answers++
					told = told || method == http.MethodDelete && strings.HasSuffix(path, "/qemu/300")
					late = late && (!done || told)
					if kind == "it has changed" && strings.HasSuffix(path, "/status/shutdown") {
						r.option("tags", "x")
					}
					if answers == nth && !told {
						done = true
						r.change(func(w *state.World) { come(w, w.Guests[300]) })
					}
				}
				_, _, err := r.s.Delete(t.Context(), q)
				if is, _ := r.has(300, ""); done && !late && !is {
					t.Errorf("%s, %s, after answer %d: the VM is gone, and it says %v", what, kind, nth, err)
				}
			}
		}
	}
}

// TestSnapshotsAreNamedAlsoWhereAVolumeIsBusy: the VMID is taken again to free the volume, and the empty VM has no snapshots.
func TestSnapshotsAreNamedAlsoWhereAVolumeIsBusy(t *testing.T) {
	for _, busy := range []int{0, 3} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		r.change(func(w *state.World) {
			g := w.Guests[300]
			g.Snaps = map[string]map[string]string{"theirs": {"snaptime": "1700000000", "scsi0": g.Config["scsi0"]}}
			g.Config["parent"] = "theirs"
			w.Storages["local-zfs"].BusyFrees = busy
		})
		left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref, Disks: Disks{Known: []string{contested}}})
		if is, _ := r.has(300, ""); is || err != nil || len(left) > 0 {
			t.Errorf("busy %d: there %t, left %v: %v", busy, is, left, err)
		}
		if !strings.Contains(fmt.Sprint(warnings), "  snapshot theirs") {
			t.Errorf("busy %d: nothing is said of the snapshot: %v", busy, warnings)
		}
	}
}

// TestDestroyOfAVMThatOthersWriteAllTheTime: the destroy waits between its attempts, and says why it gives up.
func TestDestroyOfAVMThatOthersWriteAllTheTime(t *testing.T) {
	for _, often := range []int{5, 9, 15, 25, 40} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		requests := 0
		r.answered = func(string, string) {
			if requests++; requests%often == 0 {
				r.change(func(w *state.World) {
					if g := w.Guests[300]; g != nil {
						g.Config["tags"] = fmt.Sprint("x", requests)
					}
				})
			}
		}
		_, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
		is, _ := r.has(300, "")
		t.Logf("every %d: %d requests, there %t: %v", often, requests, is, err)
		if is != (err != nil) || is && !strings.Contains(err.Error(), "VM 300 changes while it is looked at") || requests > 120 {
			t.Errorf("every %d: %d requests, there %t: %v", often, requests, is, err)
		}
	}
}
