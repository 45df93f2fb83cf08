package snapshot

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// migrate brings VM 300 and its disk to another node, as HA or an administrator does.
func migrate(w *state.World) {
	g := w.Guests[ours]
	g.Node = "pve2"
	for key, v := range w.Volumes {
		if v.VMID == ours {
			delete(w.Volumes, key)
			v.Node = "pve2"
			w.Put(v)
		}
	}
}

// TestSnapshotOfAMigratedVM: after whichever answer the VM moves to another node, its snapshot goes all the same. On
// the old node neither the VM nor its snapshot is there (pve-guest-common AbstractConfig.pm load_config), which must
// not count as a snapshot that is gone.
func TestSnapshotOfAMigratedVM(t *testing.T) {
	for _, verb := range []string{"remove", "undo"} {
		for at := 1; ; at++ {
			r := newRig(t, true)
			ref := Ref{VM: guest.Ref{VMID: ours, Node: "pve1", Identity: guest.Identity{UUID: uuidOf(ours)}}, Name: "before"}
			if verb == "remove" {
				taken, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before"})
				if err != nil {
					t.Fatal(err)
				}
				ref.Taken = taken.Taken
			}
			var asked, paths []string
			moved := false
			r.answered = func(method, path string) {
				asked, paths = append(asked, method), append(paths, path)
				r.change(func(w *state.World) {
					if g := w.Guests[ours]; len(asked) >= at && !moved && g.Config["lock"] == "" && (verb == "remove" || len(g.Snaps) > 0) {
						migrate(w)
						moved = true
					}
				})
			}
			var err error
			if verb == "remove" {
				_, err = r.s.Delete(t.Context(), ref)
			} else {
				r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT"}, Phase: fault.Before, Status: 400, Reason: "no"}})
				_, err = r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before", Description: "ours"})
			}
			if !moved {
				if at < 3 {
					t.Errorf("%s: the VM has moved %d times", verb, at-1)
				}
				break
			}
			r.change(func(w *state.World) {
				stays := len(w.Guests[ours].Snaps) > 0
				named := err != nil && (verb == "remove" || strings.Contains(err.Error(), "left"))
				if stays && !named || !stays && verb == "remove" && err != nil {
					t.Errorf("%s, moved after answer %d of %d (%s): the snapshot is there: %t; %v", verb, at, len(asked), paths[at-1],
						stays, err)
				}
			})
		}
	}
}
