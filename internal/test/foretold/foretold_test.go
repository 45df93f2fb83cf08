package foretold_test

import (
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/foretold"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/kinds"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// usual is how many pairs of a change and a furnishing `make test` plays: one in so many.
const usual = 25

// TestLawForetold makes each change where other users have given the VMs something: snapshots, jobs, rules, permissions, disks, devices,
// options, values that wait. The plan, which no apply has preceded, has named each fact that the apply makes go.
func TestLawForetold(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	counts := map[string]int{}
	count := func(what string, n int) {
		mu.Lock()
		defer mu.Unlock()
		counts[what] += n
	}
	t.Run("changes", func(t *testing.T) {
		n := 0
		for _, c := range changes() {
			for _, f := range append(furnishings(), furnishing{name: "all of it", give: all}) {
				name := c.name + ", " + f.name
				if n++; !share.Plays(n, usual, name) {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					what, lost := play(t, c, f, false)
					count(what, 1)
					count("facts that went", lost)
				})
			}
		}
	})
	t.Logf("%v", counts)
	if !share.IsPicked() && (counts["made"] == 0 || counts["facts that went"] == 0) {
		t.Error("want changes that are made, and facts that go")
	}
}

// play makes one change, and returns what became of it, and how much went.
func play(t *testing.T, c change, f furnishing, late bool) (became string, went int) {
	t.Helper()
	w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
	w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop, state.PowerReboot)
	w.Change(func(world *state.World) {
		kinds.World(world)
		engine.AddThirdParties(world)
	})
	s := w.Session(t, rig.RootTicket, c.before)
	s.TrustPlans = true
	rig.Must(t, s.Converge(t.Context()))
	if late {
		w.Change(func(world *state.World) { furnish(world, c, furnishings()[0]) })
	} else {
		w.Change(func(world *state.World) { furnish(world, c, f) })
	}
	w.Sim.Advance(30 * time.Second)
	w.Reconfigure(t, s, rig.RootTicket, c.after)
	var options []terraformtest.PlanOption
	if c.all {
		options = append(options, terraformtest.ToDestroy())
	}
	pl, err := s.Plan(t.Context(), options...)
	if err != nil {
		return "refused", 0
	}
	said := foretold.Lines(pl)
	var before, after foretold.Facts
	w.Change(func(world *state.World) {
		was := foretold.Of(world)
		if late {
			give(world, f)
		}
		before = foretold.Of(world)
		for name := range was {
			if late {
				delete(before, name)
			}
		}
		if late { // a restart that the plan names carries out what waits
			maps.DeleteFunc(before, func(name string, _ foretold.Fact) bool { return strings.Contains(name, "which waits,") })
		}
	})
	w.Sim.ResetPowerOffs()
	err = s.Apply(t.Context(), pl)
	if late {
		said = append(said, strings.Split(s.Diagnostics().String(), "\n")...)
	}
	w.Change(func(world *state.World) { after = foretold.Of(world) })
	lost := before.Lost(after, w.Sim.PowerOffs(), pl)
	for _, fact := range lost {
		if !fact.IsNamed(said) {
			t.Errorf("no line of the plan names the loss of %s\n%s\napply: %v\n%s", fact.Name, strings.Join(said, "\n"), err, s.Diagnostics())
		}
	}
	if err != nil {
		return "failed", len(lost)
	}
	return "made", len(lost)
}

// TestLawNamedSince is the same with what other users give the VMs after the plan: it is there after the apply, or the apply has named it.
func TestLawNamedSince(t *testing.T) {
	t.Parallel()
	n := 0
	for _, c := range changes() {
		for _, f := range append(furnishings(), furnishing{name: "all of it", give: all}) {
			name := c.name + ", " + f.name
			if n++; !share.Plays(n, usual, name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				play(t, c, f, true)
			})
		}
	}
}

// furnish labels the volumes, and gives each VM of the change what f has.
func furnish(world *state.World, c change, f furnishing) {
	if world.Guests[engine.ChangedVMID] != nil {
		engine.Label(world)
	}
	if c.prepare != nil {
		c.prepare(world)
	}
	for _, v := range world.Volumes {
		if v.Data == "" && (v.VMID == 102 || v.VMID == 300) {
			v.Data = "the data of " + v.Volid()
		}
	}
	give(world, f)
}

// give gives each VM of the change what f has.
func give(world *state.World, f furnishing) {
	for _, id := range []int{engine.ChangedVMID, 102, 300} {
		if g := world.Guests[id]; g != nil {
			f.give(world, g)
		}
	}
}
