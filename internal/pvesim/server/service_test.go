package server

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// served makes n requests at one moment and returns when each was served, counted from that moment, earliest first. It
// learns that from the tasks which the requests start.
func (g *rig) served(n int) []time.Duration {
	g.t.Helper()
	var begin time.Time
	g.s.Do(func(w *state.World) {
		clear(w.Tasks)
		begin = w.Clock.Now()
	})
	g.s.ResetOps()
	g.clock.Enter() // no time passes before the last has come
	var requests sync.WaitGroup
	for range n {
		requests.Go(func() {
			if r, err := g.try(g.request("root@pam!tf", "POST", "/nodes/pve1/qemu/8000/status/stop", nil)); err != nil ||
				r.status != 200 {
				g.t.Errorf("%d %s: %v", r.status, r.text, err)
			}
		})
	}
	for len(g.s.Ops()) < n {
		time.Sleep(time.Millisecond)
	}
	g.clock.Leave()
	requests.Wait()
	var at []time.Duration
	g.s.Do(func(w *state.World) {
		for _, task := range w.Tasks {
			at = append(at, task.Start.Sub(begin))
		}
	})
	slices.Sort(at)
	return at
}

// TestWorkers: three requests are in service at a time, the others in the order in which they came, and an
// idle worker is kept for no client.
func TestWorkers(t *testing.T) {
	const ms = time.Millisecond
	g := newRig(t, func(c *engine.Config) { c.Latency, c.Workers = 50*ms, 3 })
	if got, want := g.served(7), []time.Duration{50 * ms, 50 * ms, 50 * ms, 100 * ms, 100 * ms, 100 * ms,
		150 * ms}; !slices.Equal(got, want) {
		t.Errorf("seven at once were served after %v, want %v", got, want)
	}
	g.clock.Advance(time.Second)
	if got, want := g.served(1), []time.Duration{50 * ms}; !slices.Equal(got, want) {
		t.Errorf("one alone was served after %v, want %v", got, want)
	}
	unlimited := newRig(t, func(c *engine.Config) { c.Latency = 50 * ms })
	if got, want := unlimited.served(4), []time.Duration{50 * ms, 50 * ms, 50 * ms, 50 * ms}; !slices.Equal(got, want) {
		t.Errorf("without a limit four were served after %v, want %v", got, want)
	}
	slow := newRig(t, func(c *engine.Config) { c.Latency, c.Workers, c.TaskTime = 50*ms, 1, 200*ms })
	if got, want := slow.served(2), []time.Duration{50 * ms, 100 * ms}; !slices.Equal(got, want) {
		t.Errorf("beside a task of 200 ms two were served after %v, want %v", got, want)
	}
}
