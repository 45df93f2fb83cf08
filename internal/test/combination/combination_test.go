package combination_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// disturbances is how often each change is made again with something that comes between.
const disturbances = 12

// TestCombinations draws changes of a VM that do several things at once: disks that leave, grow, move, change their slots, are copied or
// come back, a migration, a restart. It makes each undisturbed, and then with a request that fails, an interrupt, a device that QEMU
// refuses or an act of a third party at a moment that is drawn. No data is lost but what a plan has named, nothing of a third party's, and
// no guest goes down unless a plan says so.
//
// COMBINATION=17 plays the change of this seed.
func TestCombinations(t *testing.T) {
	t.Parallel()
	playSeeds(t, "changes", "COMBINATION", share.Count(24, 3000), play)
}

// bench is a VM on a cluster, and a change of it.
type bench struct {
	*change
	t       *testing.T
	w       *rig.World
	s       *terraformtest.Session
	base    []byte
	state   terraformtest.SavedState
	plan    *terraformtest.Plan
	volumes map[string]string
	said    string // by the plans
	down    bool   // a plan has said that the guest goes down
}

// play makes one change, undisturbed and disturbed.
func play(t *testing.T, seed uint64, sum *tally) {
	r := rand.New(rand.NewPCG(seed, 1))
	b := &bench{change: draw(r), t: t, volumes: map[string]string{}}
	b.w = rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2", "pve3"}})
	b.w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop, state.PowerReboot)
	b.prepare()
	b.w.Reconfigure(t, b.s, rig.TokenNoSSH, b.after(b.volumes))
	pl, err := b.s.Plan(t.Context())
	if err != nil {
		sum.add("refused by the plan")
		return
	}
	b.plan, b.base, b.state = pl, b.w.Sim.Snapshot(), b.s.SaveState()
	ops := b.undisturbed(sum)
	if len(ops) == 0 {
		return // it changes nothing
	}
	for n := range disturbances {
		r := rand.New(rand.NewPCG(seed, uint64(100+n)))
		d := drawDisturbance(r, ops)
		sum.add(d.kind)
		b.disturbed(d, sum)
	}
}

// prepare makes the VM, with the volumes' names in another order than the slots.
func (b *bench) prepare() {
	b.s = b.w.Session(b.t, rig.TokenNoSSH, b.before("power_state = \"stopped\"\n", ""))
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
	b.converge(b.before(power, ""))
	policy := b.policy
	b.policy = "never" // the removal of those that come back waits
	b.converge(b.before(power, returning))
	b.policy = policy
	b.w.Sim.Advance(30 * time.Second)
}

func (b *bench) converge(configuration string) {
	b.t.Helper()
	b.w.Reconfigure(b.t, b.s, rig.TokenNoSSH, configuration)
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
	b.s.RestoreState(b.state)
	b.w.Sim.Advance(time.Minute)
	b.w.Sim.MarkThirdParties(vmid)
	b.w.ResetCalls()
	b.w.Sim.ResetPowerOffs()
	b.said, b.down = "", false
	b.heed(b.plan)
}

// heed notes what a plan says.
func (b *bench) heed(pl *terraformtest.Plan) {
	text := pl.Diagnostics.String() + pl.String()
	b.said += text
	b.down = b.down || strings.Contains(text, "will be restarted") || strings.Contains(text, `-> "stopped"`)
}

// undisturbed makes the change, holds it to the laws, and lists its requests.
func (b *bench) undisturbed(sum *tally) []pvesim.Op {
	b.again()
	err := b.s.Apply(b.t.Context(), b.plan)
	ops := b.w.Sim.Ops()
	b.lawsHold("undisturbed", err)
	if err != nil {
		sum.add("failed undisturbed")
		b.t.Logf("undisturbed: %v\n%s", err, b.change)
		return ops
	}
	sum.add("made")
	b.isMade("undisturbed", err)
	if pl, err := b.s.Plan(b.t.Context()); err != nil || !pl.Empty() {
		b.wrong("undisturbed", fmt.Sprintf("the next plan is not empty: %v\n%v", err, pl), nil)
	}
	return ops
}

func drawDisturbance(r *rand.Rand, ops []pvesim.Op) disturbance {
	var writes []pvesim.Op
	for _, op := range ops {
		if op.Method != http.MethodGet {
			writes = append(writes, op)
		}
	}
	any := ops[r.IntN(len(ops))]
	if len(writes) == 0 {
		writes = ops
	}
	write := writes[r.IntN(len(writes))]
	acts := []thirdparty.Act{thirdparty.Migrate, thirdparty.GiveDisk, thirdparty.GiveDisk, thirdparty.Plant, thirdparty.Detach, thirdparty.Start, thirdparty.Stop, thirdparty.Snapshot,
		thirdparty.Attach, thirdparty.Configure, thirdparty.Lock, thirdparty.Rescan, thirdparty.Clone, thirdparty.Resize}
	phases := []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Partial}
	switch r.IntN(5) {
	case 0, 1:
		p := phases[r.IntN(len(phases))]
		return disturbance{kind: "fault " + string(p), at: write, match: fault.Match{Seq: write.Seq}, phase: p}
	case 2:
		if r.IntN(3) == 0 {
			return disturbance{kind: "devices refused", at: write, plug: true}
		}
		return disturbance{kind: "interrupt", at: any, match: fault.Match{Seq: any.Seq}, cancel: true}
	default:
		a := acts[r.IntN(len(acts))]
		return disturbance{kind: "third party " + string(a), at: any, match: fault.Match{Seq: any.Seq}, act: a}
	}
}

// disturbed makes the change with a disturbance, and then plans and applies again.
func (b *bench) disturbed(d disturbance, sum *tally) {
	b.again()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	if d.plug {
		b.refusing("plug")
	} else {
		d.arm(b.w, vmid, cancel)
	}
	err := b.s.Apply(ctx, b.plan)
	b.w.Change(func(world *state.World) { world.Served = nil })
	b.w.Sim.SetFaults(nil)
	b.refusing()
	b.lawsHold(d.String(), err)
	if err == nil && d.act == "" {
		b.isMade(d.String(), err)
	}
	for round := 0; round < 3; round++ {
		b.w.Sim.Advance(time.Minute)
		pl, planned := b.s.Plan(b.t.Context())
		if planned != nil {
			sum.add("refused afterwards")
			return
		}
		if pl.Empty() {
			sum.add("converged")
			if d.act == "" {
				b.isMade(d.String()+", then planned to the end", nil)
			}
			return
		}
		b.heed(pl)
		err := b.s.Apply(b.t.Context(), pl)
		b.lawsHold(fmt.Sprintf("%s, round %d", d, round), err)
	}
	sum.add("not at its end")
}

// refusing has QEMU refuse, for the guest, and obey in the rest.
func (b *bench) refusing(requests ...string) {
	b.w.Change(func(world *state.World) {
		if g := world.Guests[vmid]; g != nil {
			g.Ignores = requests
		}
	})
}
