package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// diskBench is a world in which a turn is taken again and again.
type diskBench struct {
	*rig.DataDisk
	turn   engine.DiskStep
	id     rig.Identity
	played []pvesim.Op
	reset  func()
}

// benchIn brings a world to where a turn begins.
func benchIn(t *testing.T, w *rig.World, id rig.Identity, turn engine.DiskStep) *diskBench {
	t.Helper()
	w.Mark()
	b := &diskBench{DataDisk: &rig.DataDisk{T: t, World: w, Session: w.Session(t, id, turn.Before)}, turn: turn, id: id}
	if turn.Before != "" {
		b.Converge()
		b.Mark()
	}
	return b
}

func newDiskBench(t *testing.T, id rig.Identity, turn engine.DiskStep) *diskBench {
	t.Helper()
	b := benchIn(t, rig.NewWorld(t), id, turn)
	w := b.World
	world, saved := w.Sim.Snapshot(), b.Session.SaveState()
	b.reset = func() {
		w.Sim.SetFaults(nil)
		b.Must(w.Sim.Load(world))
		b.Session.RestoreState(saved)
		w.Reconfigure(t, b.Session, id, turn.After)
		w.Sim.ResetOps()
	}
	b.reset()
	b.Must(b.Session.Run(t.Context()))
	b.played = w.Sim.Ops()
	return b
}

// finished wants the next applies to come to what was planned, whatever went wrong, and the data to be where it was. An apply that tells
// what is in its way gets a second chance.
func (b *diskBench) finished(what string, first error) {
	b.Helper()
	if b.turn.Holds && !(b.turn.Gone && b.Volume().Name == "") {
		if v := b.Volume(); v.Data != "of the database" {
			b.Errorf("%s: the disk holds %q; first %v", what, v.Data, first)
			return
		}
	}
	err := b.Session.Converge(b.Context())
	for range 2 {
		if err != nil {
			b.World.Sim.Advance(10 * time.Minute)
			err = b.Session.Converge(b.Context())
		}
	}
	switch {
	case err != nil:
		b.Errorf("%s: the next apply says %v\nat first: %v", what, err, first)
		return
	case b.turn.Holds && !b.turn.Gone:
		b.Survives()
	}
	b.World.Reconfigure(b.T, b.Session, b.id, "")
	if err := b.Session.Run(b.Context()); err != nil {
		b.Errorf("%s: the destroy says %v", what, err)
		return
	}
	for _, line := range b.World.Leaks() {
		if at := strings.Fields(line); len(at) < 3 || !strings.Contains(fmt.Sprint(first), "pvesm free "+at[2]+":") { // else it was named
			b.Errorf("%s: in the end %s\nat first: %v", what, line, first)
		}
	}
	b.World.Reconfigure(b.T, b.Session, b.id, b.turn.After)
}

// TestDiskSurvivesFaults fails the requests of each turn in each way. The data is there afterwards, and the next apply comes to the end. In
// the normal run one in 16.
func TestDiskSurvivesFaults(t *testing.T) {
	t.Parallel()
	for n, turn := range engine.DiskSteps() {
		t.Run(turn.Name, func(t *testing.T) {
			t.Parallel()
			b, effective := newDiskBench(t, rig.RootTicket, turn), 0
			for at, op := range b.played {
				for p, phase := range []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Partial} {
					if op.Method == http.MethodGet && phase != fault.Before || !share.IsWhole() && (at+p+n)%16 != 0 {
						continue
					}
					b.reset()
					b.World.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Seq: at + 1}, Phase: phase}})
					err := b.Session.Run(t.Context())
					if b.World.Sim.FaultsFired() == 0 {
						continue
					}
					effective++
					b.World.Sim.SetFaults(nil)
					b.finished(fmt.Sprintf("%s, %s at #%d %s", turn.Name, phase, at+1, engine.OpName(op)), err)
				}
			}
			t.Logf("%d operations, %d faults with an effect", len(b.played), effective)
			if effective == 0 {
				t.Errorf("only %d faults had an effect", effective)
			}
		})
	}
}

// TestDiskSurvivesInterrupts: Ctrl-C at the requests of turns, in the whole those of all of them.
func TestDiskSurvivesInterrupts(t *testing.T) {
	t.Parallel()
	for n, turn := range engine.DiskSteps() {
		if n != 6 && !share.IsWhole() {
			continue
		}
		t.Run(turn.Name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Clock: rig.NewFastClock()})
			st := &engine.InterruptStage{T: t, World: w, ID: rig.RootTicket, Keys: &engine.Interrupter{World: w}, Ended: map[string]int{}}
			w.LogTo(st.Keys)
			b := benchIn(t, w, st.ID, turn)
			st.Session, st.Saved, st.Snapshot = b.Session, b.Session.SaveState(), w.Sim.Snapshot()
			w.Sim.SetTaskTime(engine.InterruptTaskTime)
			cases := st.Each(turn.Name, func(ctx context.Context) error {
				w.Reconfigure(t, b.Session, st.ID, turn.After)
				return b.Session.Run(ctx)
			}, func(name string, err error) {
				w.Sim.SetTaskTime(0)
				defer w.Sim.SetTaskTime(engine.InterruptTaskTime)
				b.finished(name, err)
			})
			if cases < 3 {
				t.Errorf("only %d interrupts", cases)
			}
		})
	}
}
