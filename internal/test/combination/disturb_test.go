package combination_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// drawDisturbance draws what comes between; after a kill, an act of a third party may come before the next apply.
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
	act, whose := acts[r.IntN(len(acts))], []int{vmid, vmid, vmid, otherVM}[r.IntN(4)]
	phases := []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Partial}
	switch r.IntN(7) {
	case 0, 1:
		p := phases[r.IntN(len(phases))]
		return disturbance{kind: "fault " + string(p), at: write, phase: p}
	case 2:
		if r.IntN(3) == 0 {
			deaf := []string{"plug", "unplug"}[r.IntN(2)]
			return disturbance{kind: deaf + " refused", at: write, deaf: deaf}
		}
		return disturbance{kind: "interrupt", at: any, cancel: true}
	case 3, 4:
		d := disturbance{kind: "kill before", at: write, kill: true, phase: fault.Before}
		if r.IntN(2) == 0 {
			d.kind, d.phase = "kill after", fault.After
		}
		if r.IntN(3) == 0 {
			d.kind, d.act, d.on = d.kind+" and third party", act, whose
		}
		return d
	default:
		return disturbance{kind: "third party " + string(act), at: any, act: act, on: whose}
	}
}

// disturbed makes the change with a disturbance, and then plans and applies again.
func (b *bench) disturbed(d disturbance, sum *tally) {
	b.again()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	b.disturb(d, cancel)
	err := b.apply(ctx, b.plan)
	b.w.Change(func(world *state.World) { world.Served = nil })
	b.w.Sim.SetFaults(nil)
	b.refusing()
	b.down = b.down || d.act == thirdparty.Stop // HA obeys as root@pam
	b.lawsHold(d.String(), err)
	if d.kill {
		b.s.RestoreState(b.state)
		b.buryRun()
		b.w.Sim.Advance(3 * time.Minute) // another run may go on
		if d.act != "" {
			b.w.Sim.ThirdParty(thirdparty.Order{Act: d.act, VMID: d.on})
		}
	} else if err == nil && d.act == "" {
		b.isMade(d.String(), err)
	}
	b.goOn(d, sum)
}

// buryRun makes the marks of the run those of a process that is dead: the killed run and the next one are this process.
func (b *bench) buryRun() {
	cred := b.w.Sim.Credentials()
	b.w.Change(func(w *state.World) {
		for _, g := range w.Guests {
			for _, config := range append(slices.Collect(maps.Values(g.Snaps)), g.Config) {
				if text := config["description"]; text != "" {
					config["description"] = rig.Resign(cred, text, rig.OfADeadProcess)
				}
			}
		}
	})
}

// disturb prepares it.
func (b *bench) disturb(d disturbance, cancel context.CancelFunc) {
	d.match = fault.Match{Seq: d.at.Seq}
	switch {
	case d.deaf != "":
		b.refusing(d.deaf)
	case d.kill: // nothing of the provider's arrives any more
		dead := fault.Rule{Phase: fault.Before, Status: 599, Times: -1}
		d.arm(b.w, d.on, func() {
			b.w.Sim.SetFaults([]fault.Rule{dead})
			cancel()
		})
		if d.phase == fault.Before {
			first := dead
			first.Match.Seq = d.at.Seq
			b.w.Sim.SetFaults([]fault.Rule{first})
		}
	default:
		d.arm(b.w, d.on, cancel)
	}
}

// goOn plans and applies to the end of the change, which it has to reach unless a third party was there, or a task of PVE's died: that leaves
// what a warning names.
func (b *bench) goOn(d disturbance, sum *tally) {
	dies := d.phase == fault.KillTask || d.phase == fault.Partial
	must := d.act == "" && !dies && b.ends && !b.copiesByName()
	var last error
	for round := range 3 {
		b.w.Sim.Advance(time.Minute)
		pl, err := b.s.Plan(b.t.Context())
		if err != nil {
			sum.add("refused afterwards")
			if must {
				b.wrong(d.String(), "the next plan is refused", err)
			}
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
		last = b.apply(b.t.Context(), pl)
		b.lawsHold(fmt.Sprintf("%s, round %d", d, round), last)
	}
	sum.add("not at its end")
	said := fmt.Sprint(last) // of what a killed create of a snapshot, or of the other VM, has left
	if must && !slices.ContainsFunc([]string{"import id", "terraform import", "qm delsnapshot"}, func(way string) bool { return strings.Contains(said, way) }) {
		b.wrong(d.String(), "three applies do not come to the end", last)
	} else if os.Getenv("COMBINATION") != "" {
		b.t.Logf("%s: not at its end: %v", d, last)
	}
}

// refusing has QEMU refuse, for the guest, and obey in the rest.
func (b *bench) refusing(requests ...string) {
	b.w.Change(func(world *state.World) {
		if g := world.Guests[vmid]; g != nil {
			g.Ignores = requests
		}
	})
}
