package faults_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// newLifeBench applies the previous configuration, once.
func newLifeBench(t *testing.T, id rig.Identity, l engine.Step) *engine.ChangeBench {
	t.Helper()
	b := &engine.ChangeBench{World: rig.NewWorld(t), ID: id, Turn: l}
	b.Root = engine.Operator(t, b.World.Sim)
	b.World.Change(engine.AddThirdParties)
	b.Session = b.World.Session(t, id, l.Before)
	if err := b.Session.Converge(t.Context()); err != nil {
		t.Fatalf("%s: apply the previous configuration: %v", l.Name, err)
	}
	b.World.Change(func(world *state.World) {
		engine.Label(world)
		if l.Prepare != nil {
			l.Prepare(world)
		}
	})
	b.World.Sim.Advance(30 * time.Second) // listings have caught up, HA has settled
	if err := b.Session.Refresh(t.Context()); err != nil {
		t.Fatalf("%s: refresh: %v", l.Name, err)
	}
	b.Base, b.State = b.World.Sim.Snapshot(), b.Session.SaveState()
	b.World.Reconfigure(t, b.Session, id, l.After)
	b.Session.TrustPlans = true
	pl, err := b.Session.Plan(t.Context())
	if err != nil {
		t.Fatalf("%s: plan: %v", l.Name, err)
	}
	b.Plan = pl
	return b
}

// TestSweepLife fails every operation of every change and of every destroy in every way: the next plan and apply bring
// about what the configuration says, nothing of the VM is lost, nothing is left over, and no other guest is touched. `make
// test` plays a share.
func TestSweepLife(t *testing.T) {
	t.Parallel()
	started := time.Now()
	type result struct {
		cell string
		o    engine.Outcome
	}
	results := make(chan result, 20000)
	t.Run("lives", func(t *testing.T) {
		for n, l := range engine.Steps() {
			identities := engine.ChangeIdentities()
			if l.SSH {
				identities = []rig.Identity{rig.TokenSSH}
			}
			for who, id := range identities {
				if l.Ticket && id != rig.RootTicket || !share.Picks(l.Name) || (n+who)%share.Of(6) != 0 {
					continue
				}
				t.Run(l.Name+", "+string(id), func(t *testing.T) {
					t.Parallel()
					b := newLifeBench(t, id, l)
					taskless := engine.Fault{} // the last operation that turned out to have no task
					for at, f := range b.Clean(t) {
						if !engine.IsDrawn(at, who) {
							continue
						}
						dead := f.Phase == fault.KillTask || f.Phase == fault.Partial
						if !share.PicksCase(f.String()) || dead && f.Op == taskless.Op && f.Nth == taskless.Nth {
							continue
						}
						o, effective := b.Run(t, f)
						if f.Phase == fault.Task && !effective {
							taskless = f
						}
						if effective {
							results <- result{fmt.Sprintf("%-34s %s", l.Name, f.Phase), o}
						}
					}
				})
			}
		}
	})
	close(results)
	counts, total := map[string]map[engine.Outcome]int{}, 0
	for r := range results {
		if counts[r.cell] == nil {
			counts[r.cell] = map[engine.Outcome]int{}
		}
		counts[r.cell][r.o]++
		total++
	}
	t.Logf("%-46s %18s %18s %18s", "", engine.OutcomeDone, engine.OutcomeConverged, engine.OutcomeAssisted)
	for _, cell := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%-46s %18d %18d %18d", cell, counts[cell][engine.OutcomeDone], counts[cell][engine.OutcomeConverged], counts[cell][engine.OutcomeAssisted])
	}
	t.Logf("changes and destroys: %d effective cases, %s", total, time.Since(started).Round(time.Second))
	if total < engine.Enough(1000) {
		t.Errorf("want at least %d effective cases", engine.Enough(1000))
	}
}
