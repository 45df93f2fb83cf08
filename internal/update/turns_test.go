package update

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestRestartParallelismTurns: no more turns are out than allowed, whatever the number of those who want one, and an
// interrupt or a lost guest ends all waits.
func TestRestartParallelismTurns(t *testing.T) {
	var c Changer
	c.LimitRestarts(3)
	var out, most atomic.Int64
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			mine, err := c.turns.take(t.Context(), n)
			if err != nil {
				t.Error(err)
				return
			}
			now := out.Add(1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			out.Add(-1)
			mine.leave(t.Context())
		})
	}
	all.Wait()
	if most.Load() > 3 {
		t.Errorf("%d turns were out at once", most.Load())
	}
	var held []*turn
	for range 3 {
		mine, err := c.turns.take(t.Context(), 1)
		if err != nil || mine.waited {
			t.Fatal(err, mine)
		}
		held = append(held, mine)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.turns.take(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	ended := make(chan error)
	go func() {
		_, err := c.turns.take(t.Context(), 2)
		ended <- err
	}()
	held[0].end(&lostGuestError{vmid: 7, node: "pve1"})
	held[1].end(&lostGuestError{vmid: 8, node: "pve1"})
	held[0].leave(t.Context())
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "VM 7 on node pve1") {
		t.Errorf("a guest was lost, and a turn came: %v", err)
	}
	if _, err := c.turns.take(t.Context(), 3); err == nil {
		t.Error("a guest was lost, and a later turn came")
	}
}

// TestRestartParallelismEndsWithAnInterrupt: an interrupt reaches the operations one after the other. The turn of the first is not
// given to one that it has not reached yet, and one that it has reached takes no turn.
func TestRestartParallelismEndsWithAnInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Changer
		c.LimitRestarts(1)
		first, interrupt := context.WithCancel(t.Context())
		mine, err := c.turns.take(first, 1)
		if err != nil {
			t.Fatal(err)
		}
		second, interruptLate := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := c.turns.take(second, 2)
			ended <- err
		}()
		interrupt()
		mine.leave(first)
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatalf("the turn was passed on: %v", <-ended)
		}
		interruptLate()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for range 100 { // either of the two is to be had
			var free Changer
			free.LimitRestarts(1)
			if _, err := free.turns.take(first, 1); !errors.Is(err, context.Canceled) {
				t.Fatalf("after the interrupt: %v", err)
			}
		}
	})
}

// TestRestartParallelismLosesAGuest: one that goes off right after its restart has not come back. The next update that
// would restart a guest is refused before it writes anything; one that would not is made.
func TestRestartParallelismLosesAGuest(t *testing.T) {
	w := newWorld(t, pve.Params{"cores": "1"})
	w.changer.LimitRestarts(1)
	w.start()
	r := w.request()
	r.Planned.CPU.Cores = new(int64(2))
	before := w.running()
	done := false
	w.clock.each = func() {
		if now := w.running(); !done && now != nil && now != before && w.sim.World().Clock.Now().Sub(now.StartedAt) > 5*time.Second {
			done = true
			w.sim.EndGuest(theVM)
		}
	}
	_, _, err := w.update(r)
	if err == nil || !strings.Contains(err.Error(), "did not come back from its restart") || !strings.Contains(err.Error(), "has stopped again within 30s") {
		t.Fatalf("the guest went off, and the update says %v", err)
	}
	w.clock.each = nil
	w.start()
	r = w.request()
	r.Planned.CPU.Cores = new(int64(3))
	if _, _, err := w.update(r); err == nil || !strings.Contains(err.Error(), "VM 400 was not changed") || len(w.writes()) > 0 {
		t.Errorf("%v after %v", err, w.writes())
	}
	r = w.request()
	r.Planned.Description = new("new")
	if _, _, err := w.update(r); err != nil || w.config()["description"] != "new" {
		t.Errorf("a change that restarts nothing: %v", err)
	}
}

// TestRestartParallelismFollowsAGuest: a guest that is moved to another node while it settles is still up.
func TestRestartParallelismFollowsAGuest(t *testing.T) {
	w := newWorld(t, pve.Params{"cores": "1"})
	w.changer.LimitRestarts(1)
	w.start()
	r := w.request()
	r.Planned.CPU.Cores = new(int64(2))
	before, moved := w.running(), false
	w.clock.each = func() {
		if now := w.running(); !moved && now != nil && now != before && w.sim.World().Clock.Now().Sub(now.StartedAt) > 5*time.Second {
			moved = true
			w.alter(func(g *state.Guest) { g.Node = "pve2" })
		}
	}
	g, _, err := w.update(r)
	if err != nil || !moved || g.Node != "pve2" || w.changer.turns.lost() != nil {
		t.Errorf("moved %t: %v, and the VM is on %s", moved, err, g.Node)
	}
}
