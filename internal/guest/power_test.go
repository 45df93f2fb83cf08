package guest

import (
	"context"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func (w *world) perform(ctx context.Context, r request.Request) (pve.TaskResult, error) {
	return w.s.jobs.Perform(ctx, &request.Tasks{}, r)
}

func (w *world) isRunning() (is bool) {
	w.vm(func(g *state.Guest) { is = g.Running != nil })
	return is
}

// TestShutDown never stops a guest hard, however long it takes, and looks at what came of it before it calls that a
// failure.
func TestShutDown(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*world)
		off     bool
		says    []string
	}{
		"in time":     {off: true},
		"off already": {happens: func(w *world) { w.vm(func(g *state.Guest) { g.Running = nil }) }, off: true},
		"deaf": {happens: func(w *world) { w.vm(func(g *state.Guest) { g.Ignores = []string{"shutdown"} }) },
			says: []string{"VM 400 did not shut down within 1m0s"}},
		"answer lost": {happens: func(w *world) { w.fail(fault.After, "/status/shutdown") }, off: true},
		"refused": {happens: func(w *world) { w.fail(fault.Before, "/status/shutdown") },
			says: []string{"VM 400 did not shut down", "as told"}},
		"by HA, later": {happens: func(w *world) { w.manage("started") }, off: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.run(time.Hour)
			if c.happens != nil {
				c.happens(w)
			}
			err := w.s.ShutDown(t.Context(), w.perform, "pve1", theVM, time.Minute)
			if (err == nil) != c.off || w.isRunning() == c.off {
				t.Errorf("%v, running %t", err, w.isRunning())
			}
			mustSay(t, name, err, c.says...)
			for _, off := range w.sim.PowerOffs() {
				if off.Hard {
					t.Errorf("it was stopped hard: %+v", off)
				}
			}
		})
	}
}

// fail lets the next request of that path of the VM go wrong.
func (w *world) fail(phase fault.Phase, path string) {
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}" + path}, Phase: phase, Reason: "as told"}})
}

// manage gives the VM to HA.
func (w *world) manage(want string) {
	w.change(func(all *state.World) { all.HA["vm:400"] = &state.HAResource{SID: "vm:400", State: want} })
}

// TestAwaitStop waits for what PVE has only filed, and no longer than allowed.
func TestAwaitStop(t *testing.T) {
	w := newWorld(t, nil)
	w.run(time.Hour)
	before := w.s.clock.Now()
	err := w.s.AwaitStop(t.Context(), "pve1", theVM, 30*time.Second)
	if took := w.s.clock.Now().Sub(before); took < 30*time.Second || took > 40*time.Second {
		t.Errorf("it took %s", took)
	}
	mustSay(t, "a guest that runs on", err, "VM 400 on node pve1 did not shut down within 30s, although PVE accepted the request")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mustSay(t, "interrupted", w.s.AwaitStop(ctx, "pve1", theVM, time.Hour), "wait for VM 400", "canceled")
	if err := w.s.AwaitStop(t.Context(), "pve2", theVM, time.Hour); !pve.IsKind(err, pve.NotFound) {
		t.Errorf("a guest that is not there: %v", err)
	}
}

// TestStart: one that runs already is what was wanted, and so is one whose answer was lost; a failure is one.
func TestStart(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*world)
		runs    bool
	}{
		"off":         {runs: true},
		"on":          {happens: func(w *world) { w.run(time.Hour) }, runs: true},
		"answer lost": {happens: func(w *world) { w.fail(fault.After, "/status/start") }, runs: true},
		"refused":     {happens: func(w *world) { w.fail(fault.Before, "/status/start") }},
		"failed":      {happens: func(w *world) { w.fail(fault.Task, "/status/start") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			if c.happens != nil {
				c.happens(w)
			}
			perform := func(ctx context.Context, r request.Request) (pve.TaskResult, error) {
				return w.s.jobs.Perform(ctx, &request.Tasks{}, r)
			}
			if _, _, err := w.s.StartBy(t.Context(), perform, "pve1", theVM); (err == nil) != c.runs || w.isRunning() != c.runs {
				t.Errorf("%v, running %t", err, w.isRunning())
			}
		})
	}
}

func TestTimesAsPVETakesThem(t *testing.T) {
	for limit, want := range map[time.Duration]string{0: "1", 500 * time.Millisecond: "1",
		90 * time.Second: "90", 1900 * time.Millisecond: "1"} {
		if got := Within(limit)["timeout"]; got != want {
			t.Errorf("%s: %s, want %s", limit, got, want)
		}
	}
	if StopTimeout(0) != 3*time.Minute || StopTimeout(time.Second) != time.Second {
		t.Error("the time that a guest has to shut down")
	}
}

// TestOccupy: an id is idle again when everybody who was at work on it has done.
func TestOccupy(t *testing.T) {
	s := &Guests{}
	first, second := s.Occupy(100), s.Occupy(100)
	if _, ok := s.OccupyIdle(100); ok {
		t.Error("two are at work on it")
	}
	first()
	if _, ok := s.OccupyIdle(100); ok {
		t.Error("one is at work on it")
	}
	second()
	done, ok := s.OccupyIdle(100)
	if _, again := s.OccupyIdle(100); !ok || again {
		t.Errorf("idle: %t, and taken twice: %t", ok, again)
	}
	if done(); len(s.occupied.ids) != 0 {
		t.Errorf("left: %v", s.occupied.ids)
	}
}
