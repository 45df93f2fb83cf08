package foretold_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/kinds"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// usual is how many pairs of a change and a furnishing `make test` plays: one in so many.
const usual = 25

// TestLawForetold makes each change where other users have given the VMs something: snapshots, jobs, rules, permissions, disks, devices,
// options, values that wait. All that is there before the apply and not after it has been named by the plan, which no apply has preceded.
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
func play(t *testing.T, c change, f furnishing, late bool) (became string, lost int) {
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
	said, gone := linesOf(pl), goneBy(pl)
	var before, after facts
	w.Change(func(world *state.World) {
		was := factsOf(world)
		if late {
			give(world, f)
		}
		before = factsOf(world)
		for name := range was {
			if late {
				delete(before, name)
			}
		}
		if late { // a restart that the plan names carries out what waits
			maps.DeleteFunc(before, func(name string, _ fact) bool { return strings.Contains(name, "which waits,") })
		}
	})
	w.Sim.ResetPowerOffs()
	err = s.Apply(t.Context(), pl)
	if late {
		said = append(said, strings.Split(s.Diagnostics().String(), "\n")...)
	}
	w.Change(func(world *state.World) { after = factsOf(world) })
	for _, off := range w.Sim.PowerOffs() {
		delete(after, fmt.Sprintf("the power of VM %d", off.VMID))
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, there := after[name]; there || before[name].goesWith(gone) {
			continue
		}
		lost++
		if !before[name].isNamed(said) {
			t.Errorf("no line of the plan names the loss of %s\n%s\napply: %v\n%s", name, strings.Join(said, "\n"), err, s.Diagnostics())
		}
	}
	if err != nil {
		return "failed", lost
	}
	return "made", lost
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

// goneBy are the VMs that a plan removes or replaces. Their own options, power and disks go with them; what other users have given them is
// named.
func goneBy(pl *terraformtest.Plan) map[string]terraformtest.Action {
	gone := map[string]terraformtest.Action{}
	for _, c := range pl.Changes {
		isGone := c.Action == terraformtest.Delete || c.Action == terraformtest.Replace
		if isGone && c.Prior.Type().HasAttribute("vmid") && c.Type != "proxmox_vm_snapshot" {
			gone["VM "+objchange.ShowValue(c.Prior.GetAttr("vmid"))] = c.Action
		}
	}
	return gone
}

// isNamed reports whether a line of a plan has all the words of one of the phrases.
func (f fact) isNamed(lines []string) bool {
	return slices.ContainsFunc(f.phrases, func(p phrase) bool {
		return slices.ContainsFunc(lines, func(line string) bool {
			return !slices.ContainsFunc(p, func(word string) bool { return !strings.Contains(line, word) })
		})
	})
}

// linesOf are a plan's lines: its changes, the values of what it removes, and its diagnostics.
func linesOf(pl *terraformtest.Plan) []string {
	lines := strings.Split(pl.String()+pl.Diagnostics.String(), "\n")
	for _, c := range pl.Changes {
		if c.Action != terraformtest.Delete && c.Action != terraformtest.Replace {
			continue
		}
		for _, line := range terraformtest.Differences(c.Prior, cty.NullVal(c.Prior.Type())) {
			lines = append(lines, c.Address+" "+line)
		}
	}
	return lines
}
