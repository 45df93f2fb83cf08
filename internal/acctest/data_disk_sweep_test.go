package acctest_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
)

// diskTurn is a change in which something goes wrong.
type diskTurn struct {
	name          string
	before, after string
	holds         bool // there is a disk with data in it, which has to be there in the end
	gone          bool // and nothing is left then
}

// diskTurns are the ways of a disk, from VM to VM.
func diskTurns() []diskTurn {
	disk, grown := diskBlock(smallDisk), diskBlock(strings.Replace(smallDisk, "1G", "2G", 1))
	a, b := having("a", 400, ofDisk), having("b", 401, ofDisk, "depends_on = [proxmox_vm.a]")
	return []diskTurn{
		{name: "made", after: disk},
		{name: "made with its VM", after: disk + a},
		{name: "grown", before: disk, after: grown, holds: true},
		{name: "grown under its VM", before: disk + a, after: grown + a, holds: true},
		{name: "attached to a new VM", before: disk, after: disk + a, holds: true},
		{name: "attached to a VM", before: disk + letGo("a", 400), after: disk + a, holds: true},
		{name: "from VM to VM", before: disk + a, after: disk + letGo("a", 400) + b, holds: true},
		{name: "its VM replaced", before: disk + a, after: disk + having("a", 402, ofDisk), holds: true},
		{name: "its VM destroyed", before: disk + a, after: disk, holds: true},
		{name: "moved", before: disk, after: strings.Replace(disk, "local-zfs", "local-lvm", 1), holds: true},
		{name: "destroyed", before: disk, holds: true, gone: true},
		{name: "destroyed with its VM", before: disk + a, holds: true, gone: true},
	}
}

// diskBench is a world in which a turn is taken again and again.
type diskBench struct {
	*dataDisk
	turn   diskTurn
	id     acctest.Identity
	played []pvesim.Op
	reset  func()
}

// benchIn brings a world to where a turn begins.
func benchIn(t *testing.T, w *acctest.World, id acctest.Identity, turn diskTurn) *diskBench {
	t.Helper()
	w.Mark()
	b := &diskBench{dataDisk: &dataDisk{T: t, w: w, s: w.Session(t, id, turn.before)}, turn: turn, id: id}
	if turn.before != "" {
		b.converge()
		b.mark()
	}
	return b
}

func newDiskBench(t *testing.T, id acctest.Identity, turn diskTurn) *diskBench {
	t.Helper()
	b := benchIn(t, acctest.NewWorld(t), id, turn)
	w := b.w
	world, saved := w.Sim.Snapshot(), b.s.SaveState()
	b.reset = func() {
		w.Sim.SetFaults(nil)
		b.must(w.Sim.Load(world))
		b.s.RestoreState(saved)
		w.Reconfigure(t, b.s, id, turn.after)
		w.Sim.ResetOps()
	}
	b.reset()
	b.must(b.s.Run(t.Context()))
	b.played = w.Sim.Ops()
	return b
}

// finished wants the next applies to come to what was planned, whatever went wrong, and the data to be where it was. An apply that tells
// what is in its way gets a second chance.
func (b *diskBench) finished(what string, first error) {
	b.Helper()
	if b.turn.holds && !(b.turn.gone && b.volume().Name == "") {
		if v := b.volume(); v.Data != "of the database" {
			b.Errorf("%s: the disk holds %q; first %v", what, v.Data, first)
			return
		}
	}
	err := b.s.Converge(b.Context())
	for range 2 {
		if err != nil {
			b.w.Sim.Advance(10 * time.Minute)
			err = b.s.Converge(b.Context())
		}
	}
	switch {
	case err != nil:
		b.Errorf("%s: the next apply says %v\nat first: %v", what, err, first)
		return
	case b.turn.holds && !b.turn.gone:
		b.survives()
	}
	b.w.Reconfigure(b.T, b.s, b.id, "")
	if err := b.s.Run(b.Context()); err != nil {
		b.Errorf("%s: the destroy says %v", what, err)
		return
	}
	for _, line := range b.w.Leaks() {
		if at := strings.Fields(line); len(at) < 3 || !strings.Contains(fmt.Sprint(first), "pvesm free "+at[2]+":") { // else it was named
			b.Errorf("%s: in the end %s\nat first: %v", what, line, first)
		}
	}
	b.w.Reconfigure(b.T, b.s, b.id, b.turn.after)
}

// TestDiskSurvivesFaults fails the requests of each turn in each way. The data is there afterwards, and the next apply comes to the end. In
// the normal run one in twelve, with DESTROY_ALL all.
func TestDiskSurvivesFaults(t *testing.T) {
	t.Parallel()
	for n, turn := range diskTurns() {
		t.Run(turn.name, func(t *testing.T) {
			t.Parallel()
			b, effective := newDiskBench(t, acctest.RootTicket, turn), 0
			for at, op := range b.played {
				for p, phase := range []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Partial} {
					if op.Method == http.MethodGet && phase != fault.Before || os.Getenv("DESTROY_ALL") == "" && (at+p+n)%12 != 0 {
						continue
					}
					b.reset()
					b.w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Seq: at + 1}, Phase: phase}})
					err := b.s.Run(t.Context())
					if b.w.Sim.FaultsFired() == 0 {
						continue
					}
					effective++
					b.w.Sim.SetFaults(nil)
					b.finished(fmt.Sprintf("%s, %s at #%d %s", turn.name, phase, at+1, opName(op)), err)
				}
			}
			t.Logf("%d operations, %d faults with an effect", len(b.played), effective)
			if effective == 0 {
				t.Errorf("only %d faults had an effect", effective)
			}
		})
	}
}

// TestDiskSurvivesInterrupts: Ctrl-C at the requests of turns, those of all of them with CANCEL_ALL.
func TestDiskSurvivesInterrupts(t *testing.T) {
	t.Parallel()
	for n, turn := range diskTurns() {
		if n != 6 && !everything() {
			continue
		}
		t.Run(turn.name, func(t *testing.T) {
			t.Parallel()
			w := acctest.NewWorld(t, pvesim.Options{Clock: fast{time.Now()}})
			st := &stage{t: t, w: w, id: acctest.RootTicket, keys: &interrupter{w: w}, ended: map[string]int{}}
			w.LogTo(st.keys)
			b := benchIn(t, w, st.id, turn)
			st.s, st.saved, st.world = b.s, b.s.SaveState(), w.Sim.Snapshot()
			w.Sim.SetTaskTime(taskTime)
			cases := st.each(turn.name, func(ctx context.Context) error {
				w.Reconfigure(t, b.s, st.id, turn.after)
				return b.s.Run(ctx)
			}, func(name string, err error) {
				w.Sim.SetTaskTime(0)
				defer w.Sim.SetTaskTime(taskTime)
				b.finished(name, err)
			})
			if cases < 3 {
				t.Errorf("only %d interrupts", cases)
			}
		})
	}
}
