package kill_test

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// killedTurn is a change of a VM, or its end, whose provider gets killed.
type killedTurn struct {
	*killBench
	engine.ChangeBench
	moments []engine.Moment // of the change without a kill
}

func newKilledTurn(t *testing.T, id rig.Identity, l engine.Step) *killedTurn {
	t.Helper()
	b := &killedTurn{killBench: newKillBench(t, id)}
	b.ChangeBench = engine.ChangeBench{World: b.killBench.w, Session: b.killBench.s, ID: id, Turn: l, Killed: true}
	sim := b.killBench.w.Sim
	b.killBench.w.ExpectPowerOffs(l.Offs...)
	b.killBench.w.Change(engine.AddThirdParties)
	b.unkilled()
	b.configure(t, l.Before)
	if err := b.killBench.s.Converge(t.Context()); err != nil {
		t.Fatalf("%s: apply the previous configuration: %v", l.Name, err)
	}
	b.killBench.w.Change(func(world *state.World) {
		engine.Label(world)
		if l.Prepare != nil {
			l.Prepare(world)
		}
	})
	sim.Advance(30 * time.Second) // listings have caught up, HA has settled
	if err := b.killBench.s.Refresh(t.Context()); err != nil {
		t.Fatalf("%s: refresh: %v", l.Name, err)
	}
	b.Base, b.State = sim.Snapshot(), b.killBench.s.SaveState()
	b.configure(t, l.After)
	b.killBench.s.TrustPlans = true
	pl, err := b.killBench.s.Plan(t.Context())
	if err != nil {
		t.Fatalf("%s: plan: %v", l.Name, err)
	}
	b.Plan = pl
	return b
}

func (b *killedTurn) apply(ctx context.Context) error { return b.killBench.s.Apply(ctx, b.Plan) }

// rehearse makes the change without a kill.
func (b *killedTurn) rehearse(t *testing.T) []engine.Moment {
	t.Helper()
	b.Reset(t)
	b.unkilled()
	if err := b.apply(t.Context()); err != nil {
		t.Fatalf("%s, %s: without a kill: %v", b.killBench.id, b.Turn.Name, err)
	}
	b.moments = b.gate.Moments()
	b.killBench.w.Sim.Advance(30 * time.Second)
	b.Want, b.Done = b.Canonical(t), b.killBench.s.SaveState()
	if pl, err := b.killBench.s.Plan(t.Context()); err != nil || !pl.Empty() {
		t.Fatalf("%s, %s: without a kill: the plan afterwards: %v\n%v", b.killBench.id, b.Turn.Name, err, pl)
	}
	return b.moments
}

// play kills, and applies again, twice at most. With forgetful Terraform has lost the private state: that is what it makes of a provider
// that dies (a CLI that dies with it keeps all).
func (b *killedTurn) play(t *testing.T, at engine.Moment, after time.Duration, forgetful bool) (rounds int, wrong []string) {
	t.Helper()
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	b.Reset(t)
	if !b.kill(t, at, func() error { return b.apply(t.Context()) }) {
		if !at.IsWrite() && at.Nth > 1 {
			return 0, nil // a waiting provider polls more or less often
		}
		return 0, []string{"the moment never came"}
	}
	died := b.clock.Now()
	s := b.killBench.s
	if forgetful && slices.Contains(s.Addresses(), "proxmox_vm.x") {
		s.SetPrivate("proxmox_vm.x", nil)
	}
	b.killBench.w.Sim.Advance(after)
	lost, settled := "", after > 0
	for rounds < 2 {
		pl, err := s.Plan(t.Context())
		if err == nil && pl.Empty() && !settled { // a task of the dead provider may run
			settled = true
			b.killBench.w.Sim.Advance(30 * time.Second)
			continue
		}
		if err == nil && pl.Empty() {
			wrong = nil
			break
		}
		rounds++
		if err != nil && strings.Contains(err.Error(), "its uuid was changed, as by an apply that was killed") {
			err = b.adopt(t) // the error names the way out
			rounds--
			if err == nil {
				continue
			}
		}
		if err == nil {
			lost += lostNotes(pl.Diagnostics)
			err = s.Apply(t.Context(), pl)
		}
		if err == nil && !settled {
			settled, wrong = true, nil
			b.killBench.w.Sim.Advance(30 * time.Second)
			continue
		}
		if err == nil {
			wrong = nil
			break
		}
		add("apply %d: %v", rounds, err)
		if rounds == 1 {
			b.killBench.w.Sim.Advance(max(0, KillPatience-b.clock.Now().Sub(died)))
		}
	}
	if forgetful {
		b.takeOut(t, lost, add)
	}
	b.killBench.w.Sim.Advance(30 * time.Second)
	if b.leavesOldData(at) {
		b.killBench.w.Change(func(world *state.World) { world.Guests[engine.ChangedVMID].Cloudinit = nil })
	}
	if text := b.Differs(t, engine.Fault{}); text != "" {
		add("%s", text)
	}
	if dark := b.PowerOffProblem(false); dark != "" {
		add("%s", dark)
	}
	if pl, err := s.Plan(t.Context()); err != nil || !pl.Empty() {
		add("the plan afterwards: %v\n%v", err, pl)
	}
	if took := b.clock.Now().Sub(died); took > 10*time.Minute {
		add("it took %v of the cluster's time", took)
	}
	return rounds, wrong
}

// adopt forgets the VM in state and imports the one that is there.
func (b *killedTurn) adopt(t *testing.T) error {
	t.Helper()
	b.killBench.s.Forget("proxmox_vm.x")
	return b.killBench.s.Import(t.Context(), "proxmox_vm.x", fmt.Sprintf("pve1/%d", engine.ChangedVMID))
}

// leavesOldData reports whether an update that is killed at a moment may leave the cloud-init drive with the data from before: it has
// sent the options and has not had the drive regenerated. PVE tells of some of these options only, and where the rest is done the next
// plan is empty, so the table of the faults leaves it to the guest's next start.
func (b *killedTurn) leavesOldData(at engine.Moment) bool {
	const redraw = "PUT /nodes/{node}/qemu/{vmid}/cloudinit"
	served := func(path string) int {
		return slices.IndexFunc(b.moments, func(m engine.Moment) bool { return m.Served && m.IsWrite() && strings.HasSuffix(m.Request, path) })
	}
	n := slices.Index(b.moments, at)
	return served("/config") >= 0 && served("/config") <= n && n < served("/cloudinit") &&
		engine.Permits(engine.Fault{Op: redraw, Phase: fault.Before}, "qm cloudinit")
}

// lostNotes is a plan's message when Terraform has lost the private state.
func lostNotes(said terraformtest.Diagnostics) string {
	for _, d := range said {
		if strings.Contains(d.Summary, "is lost") {
			return d.Detail
		}
	}
	return ""
}

// names tells whether one of the lists in a message has an attribute.
func names(text, attribute string) bool {
	for _, list := range lists.FindAllStringSubmatch(text, -1) {
		if slices.Contains(strings.Split(list[1], ", "), attribute) {
			return true
		}
	}
	return false
}

var lists = regexp.MustCompile(`known[^:.]*: ([^:]*?)\.(?: |$)`)

// takeOut does what was said to do with what the configuration does not name any more, if it is not known that it did before: to name a
// device for one apply, and to change a value on the server.
func (b *killedTurn) takeOut(t *testing.T, lost string, add func(string, ...any)) {
	t.Helper()
	isLost := slices.ContainsFunc(b.Turn.Leaves, func(path string) bool { return names(lost, path) })
	switch {
	case !isLost || b.Differs(t, engine.Fault{}) == "":
		return
	case b.Turn.ByHand != nil:
		b.killBench.w.Change(b.Turn.ByHand)
		if err := b.killBench.s.Refresh(t.Context()); err != nil {
			add("refresh: %v", err)
		}
		return
	}
	for _, config := range []string{cmp.Or(b.Turn.Again, b.Turn.Before), b.Turn.After} {
		b.configure(t, config)
		if err := b.killBench.s.Run(t.Context()); err != nil {
			add("what was said to do with %v: %v", b.Turn.Leaves, err)
		}
	}
}

// TestKillLife kills the provider at every request of every change of a VM and of every destroy, before it is served and before its
// answer. The next apply, at once or when the cluster has done what it was at, brings about what the configuration says, or the one after
// that; nothing of the VM is lost, nothing is left over or locked, no other guest is touched, and no guest goes off unasked.
//
// `make test` plays some kills of some changes, SHARE=1 all.
func TestKillLife(t *testing.T) {
	t.Parallel()
	part := uint32(share.Of(0))
	var mu sync.Mutex
	tally, kills := map[string]int{}, 0
	t.Run("turns", func(t *testing.T) {
		for _, l := range engine.Steps() {
			if part == 0 && !slices.Contains([]string{"restart", "detach a disk", "destroy, running"}, l.Name) || !share.Picks(l.Name) {
				continue
			}
			id := rig.TokenNoSSH
			if l.Ticket {
				id = rig.RootTicket
			}
			if l.SSH {
				id = rig.TokenSSH
			}
			t.Run(l.Name, func(t *testing.T) {
				t.Parallel()
				b := newKilledTurn(t, id, l)
				for i, at := range b.rehearse(t) {
					drawn := fnv.New32a()
					_, _ = drawn.Write([]byte(l.Name + at.String()))
					if every := max(part, 1); part == 0 && drawn.Sum32()%6 != 0 || drawn.Sum32()%every != 0 {
						continue
					}
					for n, after := range []time.Duration{0, 30 * time.Second} {
						rounds, wrong := b.play(t, at, after, (i+n)%2 == 0)
						for _, line := range wrong {
							t.Errorf("%s, killed %s, applied after %v: %s", l.Name, at, after, line)
						}
						mu.Lock()
						kills++
						tally[fmt.Sprintf("%d applies", rounds)]++
						mu.Unlock()
					}
				}
			})
		}
	})
	t.Logf("%d kills: %v", kills, tally)
}
