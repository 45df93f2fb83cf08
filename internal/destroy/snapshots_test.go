package destroy

import (
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
