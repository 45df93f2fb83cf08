package faults_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// ruleStep is a change of an HA rule, and the options that it comes to; nil: none is left.
type ruleStep struct {
	name, before, after string
	want                map[string]string
}

func ruleSteps() []ruleStep {
	rule := func(more string) string {
		return "resource \"proxmox_ha_rule\" \"r\" {\n  rule = \"apart\"\n  type = \"resource-affinity\"\n  affinity = \"negative\"\n" +
			"  resources = [\"vm:8000\", \"vm:9000\"]\n  " + more + "\n}\n"
	}
	is := func(more ...string) map[string]string {
		all := map[string]string{"type": "resource-affinity", "affinity": "negative", "resources": "vm:8000,vm:9000"}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	return []ruleStep{{"made", "", rule(""), is()}, {"changed", rule(`comment = "a"`), rule("disable = true"), is("disable", "1")},
		{"removed", rule(""), "", nil}}
}

// ruleWorld is a cluster with two VMs under HA, of which one rule of a third party is.
func ruleWorld(t *testing.T, options ...pvesim.Options) *rig.World {
	t.Helper()
	options = append(options, pvesim.Options{})
	options[0].Profile = "9.2"
	w := rig.NewWorld(t, options[0])
	w.Change(func(world *state.World) {
		for _, sid := range []string{"vm:8000", "vm:9000"} {
			world.HA[sid] = &state.HAResource{SID: sid, State: "ignored"}
		}
		world.HARules = map[string]map[string]string{"theirs": {"type": "node-affinity", "resources": "vm:8000", "nodes": "pve1"}}
	})
	w.Mark()
	return w
}

// came wants a step's rule, at the latest after another apply, and the third party's rule as it was.
func (s ruleStep) came(t *testing.T, w *rig.World, run func() error, what string, first error) {
	t.Helper()
	err := run()
	if said := fmt.Sprint(err); err != nil && strings.Contains(said, "There is an HA rule apart already") && s.before == "" {
		err = nil // made, and its answer lost for good: the error of the next apply says how to import it
	}
	var rules map[string]map[string]string
	w.Change(func(world *state.World) { rules = maps.Clone(world.HARules) })
	if err != nil || !maps.Equal(rules["apart"], s.want) || rules["theirs"]["nodes"] != "pve1" {
		t.Errorf("%s, %s: the rules are %v; the next apply says %v\nat first: %v", s.name, what, rules, err, first)
	}
}

// TestHARuleSurvivesFaults fails each request with which a rule is made, changed and removed, refused and with its answer
// lost, as a token and as root. A lost answer is no error, and the next apply comes to the end.
func TestHARuleSurvivesFaults(t *testing.T) {
	t.Parallel()
	faults := 0
	for _, step := range ruleSteps() {
		w := ruleWorld(t)
		s := w.Session(t, rig.RootTicket, step.before)
		rig.Must(t, s.Converge(t.Context()))
		world, saved := w.Sim.Snapshot(), s.SaveState()
		reset := func() {
			w.Sim.SetFaults(nil)
			rig.Must(t, w.Sim.Load(world))
			s.RestoreState(saved)
			w.Reconfigure(t, s, rig.RootTicket, step.after)
			w.Sim.ResetOps()
		}
		reset()
		rig.Must(t, s.Run(t.Context()))
		played := w.Sim.Ops()
		for at, op := range played {
			for _, phase := range []fault.Phase{fault.Before, fault.After} {
				for _, times := range []int{1, 3} {
					reset()
					match := fault.Match{Method: op.Method, Path: op.Path}
					if w.Sim.SetFaults([]fault.Rule{{Match: match, Phase: phase, Times: times}}); op.Method == http.MethodGet && phase == fault.After {
						continue
					}
					err := s.Run(t.Context())
					if w.Sim.FaultsFired() == 0 {
						continue
					}
					faults++
					what := fmt.Sprintf("%s %d times at #%d %s", phase, times, at+1, engine.OpName(op))
					if isWrite := op.Method != http.MethodGet && op.Path != "/access/ticket"; isWrite && phase == fault.After && times == 1 && err != nil {
						t.Errorf("%s, %s: an answer was lost, and the apply says %v", step.name, what, err)
					}
					w.Sim.SetFaults(nil)
					step.came(t, w, func() error { return s.Run(t.Context()) }, what, err)
				}
			}
		}
	}
	t.Logf("%d faults with an effect", faults)
	if faults < 20 {
		t.Errorf("only %d faults had an effect", faults)
	}
}

// TestHARuleSurvivesInterrupts: Ctrl-C at each request, with its answer and without.
func TestHARuleSurvivesInterrupts(t *testing.T) {
	t.Parallel()
	for _, step := range ruleSteps() {
		w := ruleWorld(t, pvesim.Options{Clock: rig.NewFastClock()})
		st := &engine.InterruptStage{T: t, World: w, ID: rig.RootTicket, Keys: &engine.Interrupter{World: w}, Ended: map[string]int{}}
		w.LogTo(st.Keys)
		st.Session = w.Session(t, st.ID, step.before)
		rig.Must(t, st.Session.Converge(t.Context()))
		st.Saved, st.Snapshot = st.Session.SaveState(), w.Sim.Snapshot()
		cases := st.Each(step.name, func(ctx context.Context) error {
			w.Reconfigure(t, st.Session, st.ID, step.after)
			return st.Session.Run(ctx)
		}, func(name string, err error) {
			step.came(t, w, func() error { return st.Session.Run(t.Context()) }, name, err)
		})
		if cases < 2 {
			t.Errorf("%s: only %d interrupts", step.name, cases)
		}
	}
}
