package combination_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/foretold"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// disturbances is how often each change is made again with something that comes between; draws, how often another change is drawn where the
// plan refuses one.
const disturbances, draws = 12, 5

// TestCombinations draws changes of a VM that do several things at once: disks that leave, grow, move, change their slots, are copied or
// come back, a migration, a restart, and a few of what else a VM has (parts_test.go). It makes each undisturbed, and then with a request that
// fails, an interrupt, a kill of the provider, a device that QEMU refuses or an act of a third party at a moment that is drawn. No data is
// lost but what a plan has named, nothing of a third party's, and no guest goes down unless a plan says so. After a kill the next applies
// come to the end of the change.
//
// COMBINATION=17 plays the change of this seed, COMBINATION=17-40 those from one to the other.
func TestCombinations(t *testing.T) {
	t.Parallel()
	playSeeds(t, "changes", "COMBINATION", share.Count(10, 3000), play)
}

// bench is a VM on a cluster, and a change of it.
type bench struct {
	*change
	t       *testing.T
	as      rig.Identity
	w       *rig.World
	s       *terraformtest.Session
	base    []byte
	state   terraformtest.SavedState
	plan    *terraformtest.Plan
	volumes map[string]string
	times   map[state.VolumeKey]time.Time // of the volumes
	said    string                        // by the plans
	told    string                        // by the applies
	down    bool                          // a plan has said that the guest goes down
	ends    bool                          // the change can be made
}

// play makes one change, undisturbed and disturbed.
func play(t *testing.T, seed uint64, sum *tally) {
	var b *bench
	for n := uint64(0); b == nil && n < draws; n++ {
		b = planned(t, draw(rand.New(rand.NewPCG(seed, 1000+n))), sum)
	}
	if b == nil {
		return
	}
	ops := b.undisturbed(sum)
	if len(ops) == 0 {
		sum.add("change nothing")
		return
	}
	for n := range disturbances {
		r := rand.New(rand.NewPCG(seed, uint64(100+n)))
		d := drawDisturbance(r, ops)
		sum.add(d.kind)
		b.disturbed(d, sum)
	}
}

// planned is a bench with the plan of a change; nil if the plan refuses it.
func planned(t *testing.T, c *change, sum *tally) *bench {
	b := &bench{change: c, t: t, volumes: map[string]string{}, times: map[state.VolumeKey]time.Time{}, as: rig.TokenNoSSH}
	if c.isRoot() {
		b.as = rig.RootTicket
	}
	b.w = rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2", "pve3"}, Profile: c.profile()})
	b.w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop, state.PowerReboot)
	if c.twoNames {
		b.w.Change(nameTwice)
	}
	b.prepare()
	b.w.Reconfigure(t, b.s, b.as, b.after(b.volumes))
	pl, err := b.s.Plan(t.Context())
	if err != nil {
		sum.add("refused by the plan")
		if os.Getenv("COMBINATION") != "" {
			t.Logf("refused: %v\n%s", err, c)
		}
		return nil
	}
	b.plan, b.base, b.state = pl, b.w.Sim.Snapshot(), b.s.SaveState()
	b.w.Change(func(world *state.World) { // a snapshot of the world does not have the times
		for key, v := range world.Volumes {
			b.times[key] = v.Created
		}
	})
	return b
}

// prepare makes the VM, with the volumes' names in another order than the slots.
func (b *bench) prepare() {
	b.s = b.w.Session(b.t, b.as, b.before("power_state = \"stopped\"\n", "", true))
	b.s.TrustPlans = true
	rig.Must(b.t, b.s.Converge(b.t.Context()))
	b.w.Change(func(world *state.World) {
		config := world.Guests[vmid].Config
		for i, d := range b.disks {
			if e := b.disks[b.shuffle[i]]; e.storage == d.storage && e.size == d.size {
				one, rest, _ := strings.Cut(config[d.slot], ",")
				other, restOfOther, _ := strings.Cut(config[e.slot], ",")
				config[d.slot], config[e.slot] = other+","+rest, one+","+restOfOther
			}
		}
		for _, d := range b.disks {
			b.volumes[d.label], _, _ = strings.Cut(config[d.slot], ",")
			world.Volume("pve1", b.volumes[d.label]).Data = d.label
		}
		for _, slot := range b.firmwareSlots() {
			volume, _, _ := strings.Cut(config[slot], ",")
			world.Volume("pve1", volume).Data = slot
		}
	})
	power := "power_state = \"stopped\"\n"
	if b.running {
		power = "power_state = \"running\"\n"
	}
	b.converge(b.before(power, "", false))
	policy := b.policy
	b.policy = "never" // the removal of those that come back waits
	b.converge(b.before(power, returning, false))
	b.policy = policy
	b.w.Sim.Advance(30 * time.Second)
	b.w.Change(func(world *state.World) {
		for _, p := range b.parts {
			if p.prepare != nil {
				p.prepare(b, world)
			}
		}
	})
	for _, p := range b.parts {
		if p.theirs != "" {
			b.w.Sim.ThirdParty(thirdparty.Order{Act: p.theirs, VMID: vmid})
			b.w.Sim.Advance(30 * time.Second)
		}
	}
}

func (b *bench) converge(configuration string) {
	b.t.Helper()
	b.w.Reconfigure(b.t, b.s, b.as, configuration)
	if err := b.s.Apply(b.t.Context(), b.mustPlan()); err != nil {
		b.t.Fatalf("%s\n%v", b.change, err)
	}
}

func (b *bench) mustPlan() *terraformtest.Plan {
	b.t.Helper()
	pl, err := b.s.Plan(b.t.Context())
	if err != nil {
		b.t.Fatalf("%s\n%v", b.change, err)
	}
	return pl
}

// again goes back to the beginning, with the plan that was made.
func (b *bench) again() {
	b.w.Sim.SetFaults(nil)
	b.w.Sim.SetThirdParties(nil)
	rig.Must(b.t, b.w.Sim.Load(b.base))
	b.w.Change(func(world *state.World) {
		for key, v := range world.Volumes {
			v.Created = b.times[key]
		}
	})
	b.s.RestoreState(b.state)
	b.w.Sim.Advance(time.Minute)
	b.w.Sim.MarkThirdParties(vmid, otherVM, holder)
	b.w.ResetCalls()
	b.w.Sim.ResetPowerOffs()
	b.said, b.told, b.down = "", "", false
	b.heed(b.plan)
}

// heed notes what a plan says.
func (b *bench) heed(pl *terraformtest.Plan) {
	text := pl.Diagnostics.String() + pl.String()
	b.said += text
	b.down = b.down || strings.Contains(text, "will be restarted") || strings.Contains(text, "will be stopped by HA") || strings.Contains(text, `-> "stopped"`)
}

// undisturbed makes the change, holds it to the laws, and lists its requests.
func (b *bench) undisturbed(sum *tally) []pvesim.Op {
	b.again()
	var before, after foretold.Facts
	b.w.Change(func(w *state.World) { before = foretold.Of(w) })
	err := b.apply(b.t.Context(), b.plan)
	ops := b.w.Sim.Ops()
	b.w.Change(func(w *state.World) { after = foretold.Of(w) })
	lines := foretold.Lines(b.plan)
	for _, fact := range before.Lost(after, b.w.Sim.PowerOffs(), b.plan) {
		if !fact.IsNamed(lines) {
			b.wrong("undisturbed", "no line of the plan names the loss of "+fact.Name, err)
		}
	}
	b.lawsHold("undisturbed", err)
	if err != nil {
		sum.add("failed undisturbed")
		b.t.Logf("FAILED UNDISTURBED: %v\n%s%s", err, b.change, b.look())
		return ops
	}
	sum.add("made")
	b.ends = true
	b.isMade("undisturbed", err)
	if pl, err := b.s.Plan(b.t.Context()); err != nil || !pl.Empty() {
		b.wrong("undisturbed", fmt.Sprintf("the next plan is not empty: %v\n%v", err, pl), nil)
	}
	return ops
}

// apply applies a plan, and notes what it says.
func (b *bench) apply(ctx context.Context, pl *terraformtest.Plan) error {
	err := b.s.Apply(ctx, pl)
	b.told += b.s.Diagnostics().String()
	return err
}
