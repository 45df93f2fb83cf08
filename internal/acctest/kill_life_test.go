package acctest_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// killedTurn is a change of a VM, or its end, whose provider gets killed.
type killedTurn struct {
	*killBench
	lifeBench
}

func newKilledTurn(t *testing.T, id acctest.Identity, l turn) *killedTurn {
	t.Helper()
	b := &killedTurn{killBench: newKillBench(t, id)}
	b.lifeBench = lifeBench{w: b.killBench.w, s: b.killBench.s, id: id, turn: l}
	sim := b.killBench.w.Sim
	b.killBench.w.ExpectPowerOffs(l.offs...)
	b.killBench.w.Change(strangersBeside)
	b.unkilled()
	b.configure(t, l.before)
	if err := b.killBench.s.Converge(t.Context()); err != nil {
		t.Fatalf("%s: what was before: %v", l.name, err)
	}
	b.killBench.w.Change(func(world *state.World) {
		label(world)
		if l.prepare != nil {
			l.prepare(world)
		}
	})
	sim.Advance(30 * time.Second) // listings have caught up, HA has settled
	if err := b.killBench.s.Refresh(t.Context()); err != nil {
		t.Fatalf("%s: refresh: %v", l.name, err)
	}
	b.base, b.state = sim.Snapshot(), b.killBench.s.SaveState()
	b.configure(t, l.after)
	b.killBench.s.TrustPlans = true
	pl, err := b.killBench.s.Plan(t.Context())
	if err != nil {
		t.Fatalf("%s: plan: %v", l.name, err)
	}
	b.plan = pl
	return b
}

func (b *killedTurn) apply(ctx context.Context) error { return b.killBench.s.Apply(ctx, b.plan) }

// rehearse makes the change with nobody killed.
func (b *killedTurn) rehearse(t *testing.T) []acctest.Moment {
	t.Helper()
	b.reset(t)
	b.unkilled()
	if err := b.apply(t.Context()); err != nil {
		t.Fatalf("%s, %s: with nobody killed: %v", b.killBench.id, b.turn.name, err)
	}
	moments := b.gate.Moments()
	b.killBench.w.Sim.Advance(30 * time.Second)
	b.want, b.done = b.canonical(t), b.killBench.s.SaveState()
	if pl, err := b.killBench.s.Plan(t.Context()); err != nil || !pl.Empty() {
		t.Fatalf("%s, %s: with nobody killed: the plan afterwards: %v\n%v", b.killBench.id, b.turn.name, err, pl)
	}
	return moments
}

// play kills, and applies again, twice at most. With forgetful Terraform has lost the private state: that is what it makes of a provider
// that dies (a CLI that dies with it keeps all).
func (b *killedTurn) play(t *testing.T, at acctest.Moment, after time.Duration, forgetful bool) (rounds int, wrong []string) {
	t.Helper()
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	b.reset(t)
	if !b.kill(t, at, func() error { return b.apply(t.Context()) }) {
		if !at.IsWrite() && at.Nth > 1 {
			return 0, nil // who waits asks more or less often
		}
		return 0, []string{"the moment never came"}
	}
	died := b.clock.Now()
	s := b.killBench.s
	if forgetful && slices.Contains(s.Addresses(), "proxmox_vm.x") {
		s.SetPrivate("proxmox_vm.x", nil)
	}
	b.killBench.w.Sim.Advance(after)
	lost := ""
	for rounds < 2 {
		pl, err := s.Plan(t.Context())
		if err == nil && pl.Empty() {
			wrong = nil
			break
		}
		rounds++
		if err == nil {
			lost += lostNotes(pl.Diagnostics)
			err = s.Apply(t.Context(), pl)
		}
		if err == nil {
			wrong = nil
			break
		}
		add("apply %d: %v", rounds, err)
		if rounds == 1 {
			b.killBench.w.Sim.Advance(max(0, acctest.KillPatience-b.clock.Now().Sub(died)))
		}
	}
	if forgetful {
		b.takeOut(t, lost, add)
	}
	b.killBench.w.Sim.Advance(30 * time.Second)
	if text := b.differs(t, lifeFault{}); text != "" {
		add("%s", text)
	}
	if dark := b.tooDark(false); dark != "" {
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

// lostNotes is what a plan says when Terraform has lost what was noted beside the state.
func lostNotes(said drive.Diagnostics) string {
	for _, d := range said {
		if strings.Contains(d.Summary, "is lost") {
			return d.Detail
		}
	}
	return ""
}

// takeOut does what was said to do with what the configuration does not name any more, if it is not known that it did before: to name a
// device for one apply, and to change a value on the server.
func (b *killedTurn) takeOut(t *testing.T, lost string, add func(string, ...any)) {
	t.Helper()
	again, path := b.turn.before, ""
	switch b.turn.name {
	case "many options", "many options, HA":
		path = "networks.net1"
		again = with(b.turn.after, "    net2 = { bridge", "    net1 = { bridge = \"vmbr1\" }\n    net2 = { bridge", "net2 = { ipv4", "net1 = { ipv4 = \"dhcp\" }, net2 = { ipv4")
	case "detach a disk":
		path = "disks.scsi1"
	case "leave HA":
		path = "same is not known: ha"
	}
	switch {
	case path == "" || !strings.Contains(lost, path) || b.differs(t, lifeFault{}) == "":
		return
	case b.turn.name == "leave HA":
		b.killBench.w.Change(func(world *state.World) { delete(world.HA, "vm:101") })
		if err := b.killBench.s.Refresh(t.Context()); err != nil {
			add("refresh: %v", err)
		}
		return
	}
	for _, config := range []string{again, b.turn.after} {
		b.configure(t, config)
		if err := b.killBench.s.Run(t.Context()); err != nil {
			add("what was said to do with %s: %v", path, err)
		}
	}
}

// TestKillLife kills the provider at every request of every change of a VM and of every destroy, before it is served and before its
// answer. The next apply, at once or when the cluster has done what it was at, brings about what the configuration says, or the one after
// that; nothing of the VM is lost, nothing is left over or locked, nobody else is touched, and nothing goes off that nobody asked to go off.
//
// `make test` plays some kills of some changes, KILL_ALL=1 all, KILL_ALL=N one in N; KILL_ONLY restricts it to such names.
func TestKillLife(t *testing.T) {
	t.Parallel()
	share := acctest.KillShare(t)
	var mu sync.Mutex
	tally, kills := map[string]int{}, 0
	t.Run("turns", func(t *testing.T) {
		for _, l := range turns() {
			if share == 0 && !slices.Contains([]string{"restart", "detach a disk", "destroy, running"}, l.name) || !strings.Contains(l.name, os.Getenv("KILL_ONLY")) {
				continue
			}
			id := acctest.TokenNoSSH
			if l.ticket {
				id = acctest.RootTicket
			}
			if l.ssh {
				id = acctest.TokenSSH
			}
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				b := newKilledTurn(t, id, l)
				for i, at := range b.rehearse(t) {
					drawn := fnv.New32a()
					_, _ = drawn.Write([]byte(l.name + at.String()))
					if every := max(share, 1); share == 0 && drawn.Sum32()%6 != 0 || drawn.Sum32()%every != 0 {
						continue
					}
					for n, after := range []time.Duration{0, 30 * time.Second} {
						rounds, wrong := b.play(t, at, after, (i+n)%2 == 0)
						for _, line := range wrong {
							t.Errorf("%s, killed %s, applied after %v: %s", l.name, at, after, line)
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
