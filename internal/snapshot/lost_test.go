package snapshot

import (
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestTakeWhoseAnswerIsLost: the answer to the request is lost that describes, removes or rolls back to a snapshot in
// state. A request that took effect is a success. One that did not is an error that says so. Where that cannot be
// looked up the error says that.
func TestTakeWhoseAnswerIsLost(t *testing.T) {
	const tasks, notDone, notSeen = "/nodes/{node}/tasks", "so it was not done",
		"Whether it was done could not be looked up"
	verbs := map[string]struct {
		method, path string
		act          func(*rig, Ref) error
		isDone       func(*state.Guest) bool
	}{
		"describe": {"PUT", "/config", func(r *rig, ref Ref) error {
			_, err := r.s.Describe(t.Context(), ref, "one", "two")
			return err
		}, func(g *state.Guest) bool { return g.Snaps["before"]["description"] == "two" }},
		"remove": {"DELETE", "/nodes/{node}/qemu/{vmid}/snapshot/{snapname}",
			func(r *rig, ref Ref) error { _, err := r.s.Delete(t.Context(), ref); return err },
			func(g *state.Guest) bool { return len(g.Snaps) == 0 }},
		"roll back": {"POST", "/rollback", func(r *rig, _ Ref) error {
			_, err := r.s.Do(t.Context(), RollBack{Choice: guest.Choice{VMID: ours}, Name: "before"})
			return err
		}, func(g *state.Guest) bool { return g.Config["cores"] == "" }},
	}
	for verb, v := range verbs {
		if !strings.Contains(v.path, "{") {
			v.path = "/nodes/{node}/qemu/{vmid}/snapshot/{snapname}" + v.path
		}
		lost := fault.Rule{Match: fault.Match{Method: v.method, Path: v.path}, Phase: fault.After}
		never := fault.Rule{Match: lost.Match, Phase: fault.Before, Status: 596, Reason: "Connection timed out"}
		unseen := fault.Rule{Match: fault.Match{Method: "GET", Path: tasks}, Phase: fault.Before, Status: 500, Times: -1}
		for name, c := range map[string]struct {
			rules []fault.Rule
			done  bool
			says  map[string]string // by verb; "" is no error
		}{
			"done": {[]fault.Rule{lost}, true, nil},
			"not done": {[]fault.Rule{never}, false, map[string]string{"describe": "timed out", "remove": notDone,
				"roll back": notDone}},
			"not done, no task list": {[]fault.Rule{never, unseen}, false,
				map[string]string{"describe": "timed out", "remove": notSeen, "roll back": notSeen}},
			"done, no task list": {[]fault.Rule{lost, unseen}, true, map[string]string{"roll back": notSeen}},
		} {
			t.Run(verb+", "+name, func(t *testing.T) {
				r := newRig(t, false)
				taken, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before", Description: "one"})
				if err != nil {
					t.Fatal(err)
				}
				r.change(func(w *state.World) { w.Guests[ours].Config["cores"] = "2" })
				r.sim.SetFaults(c.rules)
				err = v.act(r, Ref{VM: guest.Ref{VMID: ours, Node: "pve1", Identity: taken.VM}, Name: "before", Taken: taken.Taken})
				if r.sim.FaultsFired() == 0 {
					t.Fatal("no fault has fired")
				}
				r.sim.SetFaults(nil)
				r.change(func(w *state.World) {
					if v.isDone(w.Guests[ours]) != c.done {
						t.Errorf("done: %t, and it says %v", !c.done, err)
					}
				})
				if says := c.says[verb]; (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("it says %v, not %q", err, says)
				}
			})
		}
	}
}

// TestTimeSkewOfARollBack: whatever the clock of the VM's node shows, a roll-back that was done and whose answer was
// lost is found, and one that was not done is not taken for an earlier one.
func TestTimeSkewOfARollBack(t *testing.T) {
	path := "/nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback"
	for _, ahead := range []time.Duration{0, 4 * time.Second, -4 * time.Second, 3 * time.Minute, -3 * time.Minute} {
		for _, done := range []bool{true, false} {
			r := newRig(t, false)
			r.change(func(w *state.World) {
				w.Guests[ours].Node, w.Nodes["pve2"].ClockAhead = "pve2", ahead
				for key, v := range w.Volumes {
					if v.VMID == ours {
						delete(w.Volumes, key)
						v.Node = "pve2"
						w.Put(v)
					}
				}
			})
			if _, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before", Description: "one"}); err != nil {
				t.Fatal(err)
			}
			back := func() error {
				_, err := r.s.Do(t.Context(), RollBack{Choice: guest.Choice{VMID: ours}, Name: "before"})
				return err
			}
			if err := back(); err != nil { // an earlier one
				t.Fatal(err)
			}
			r.connect(false) // of another process
			r.sim.Advance(time.Minute)
			rule := fault.Rule{Match: fault.Match{Method: "POST", Path: path}, Phase: fault.After}
			if !done {
				rule.Phase, rule.Status, rule.Reason = fault.Before, 596, "Connection timed out"
			}
			r.sim.SetFaults([]fault.Rule{rule})
			err := back()
			if r.sim.FaultsFired() != 1 || (err == nil) != done || err != nil && !strings.Contains(err.Error(), "so it was not done") {
				t.Errorf("clock %s ahead, done %t: %v", ahead, done, err)
			}
		}
	}
}
