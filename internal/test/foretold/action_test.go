package foretold_test

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
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

// action is an action on VM 101. Its kind of switch needs no words: it takes the power.
type action struct {
	name, config string
	isSwitch     bool
}

func theActions() []action {
	power := func(name, more string) action {
		return action{name: name, isSwitch: true, config: "action \"proxmox_vm_power\" \"a\" {\n  config {\n    vmid   = 101\n    action = \"" +
			name + "\"\n" + more + "  }\n}\n"}
	}
	back := func(name, more string) action {
		return action{name: name, config: "action \"proxmox_vm_snapshot_rollback\" \"a\" {\n  config {\n    vmid = 101\n    name = \"by-hand\"\n" +
			more + "  }\n}\n"}
	}
	return []action{
		power("start", ""), power("shutdown", ""), power("stop", ""), power("reboot", ""), power("suspend", ""), power("resume", ""),
		back("roll back", ""), back("roll back and start", "    start = true\n"),
	}
}

// TestLawActionsName invokes each action on a VM to which other users have given something since its snapshot. Each fact that goes is named
// by a message of the action. A switch of the guest takes its power, and puts in force what waits for that.
func TestLawActionsName(t *testing.T) {
	t.Parallel()
	n := 0
	var done, went atomic.Int64
	t.Run("actions", func(t *testing.T) {
		for _, a := range theActions() {
			for _, f := range append(furnishings(), furnishing{name: "all of it", give: all}) {
				name := a.name + ", " + f.name
				if n++; !share.Plays(n, 4, name) {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					lost, err := invoke(t, a, f)
					if went.Add(int64(lost)); err == nil {
						done.Add(1)
					}
				})
			}
		}
	})
	t.Logf("of %d actions %d were done, and %d facts went", n, done.Load(), went.Load())
	if !share.IsPicked() && (done.Load() == 0 || went.Load() == 0) {
		t.Error("want actions that are done, and facts that go")
	}
}

// invoke invokes one action, and returns how much went.
func invoke(t *testing.T, a action, f furnishing) (went int, err error) {
	t.Helper()
	w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
	w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop, state.PowerReboot, state.PowerRollback)
	w.Change(func(world *state.World) {
		kinds.World(world)
		engine.AddThirdParties(world)
	})
	s := w.Session(t, rig.RootTicket, engine.PopulatedVM)
	rig.Must(t, s.Converge(t.Context()))
	w.Change(func(world *state.World) {
		engine.Label(world)
		snapshot(world, world.Guests[engine.ChangedVMID])
	})
	w.Sim.Advance(30 * time.Second)
	var before, after foretold.Facts
	w.Change(func(world *state.World) {
		f.give(world, world.Guests[engine.ChangedVMID])
		before = foretold.Of(world)
	})
	kind := "proxmox_vm_snapshot_rollback"
	if a.isSwitch {
		kind = "proxmox_vm_power"
		maps.DeleteFunc(before, func(name string, _ foretold.Fact) bool {
			return strings.Contains(name, "which waits,") || strings.HasPrefix(name, "the power")
		})
	}
	progress, err := s.Invoke(t.Context(), "action."+kind+".a", nil, a.config)
	said := slices.Concat(progress, strings.Split(s.Diagnostics().String(), "\n"))
	w.Change(func(world *state.World) { after = foretold.Of(world) })
	lost := before.Lost(after, w.Sim.PowerOffs(), &terraformtest.Plan{})
	for _, fact := range lost {
		if !fact.IsNamed(said) {
			t.Errorf("no message names the loss of %s\n%s\n%v", fact.Name, strings.Join(said, "\n"), err)
		}
	}
	return len(lost), err
}
