package create

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// asleep has a create stand still after its request n until the returned function is called, as that of a machine that
// sleeps. The function returns the result.
func (b bench) asleep(t *testing.T, r Request, n int) (came bool, wake func() (Created, error)) {
	t.Helper()
	type result struct {
		created Created
		err     error
	}
	asleep, awake, done := make(chan struct{}), make(chan struct{}), make(chan result, 1)
	var seen atomic.Int32
	sleep := func(context.Context, string, map[string]string) {
		if seen.Add(1) == int32(n) {
			close(asleep)
			<-awake
		}
	}
	config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
		Clock: b.jobs.Clock, Trace: sleep}
	token(&config, b.sim.Credentials())
	sleeper := creatorWith(t, config)
	sleeper.guests.Process = elsewhere
	go func() {
		created, err := sleeper.Create(context.WithoutCancel(t.Context()), r)
		done <- result{created, err}
	}()
	wake = func() (Created, error) {
		close(awake)
		end := <-done
		return end.created, end.err
	}
	select {
	case <-asleep:
		return true, wake
	case <-done:
		return false, nil
	}
}

// meanwhile is what another party does with VM 150 while a run of that create stands still. It reports whether it did.
var meanwhile = map[string]func(t *testing.T, b bench, r Request) bool{
	"another run completes it": func(t *testing.T, b bench, r Request) bool {
		created, err := creatorOf(t, b.sim, token).Create(t.Context(), r)
		return err == nil && created.Guest.VMID == 150
	},
	"a third party replaces it": func(t *testing.T, b bench, _ Request) bool {
		upid, err := b.api.QEMU("pve1", 150).Destroy(t.Context(), false)
		if err == nil {
			_, err = b.api.Tasks().Wait(t.Context(), upid)
		}
		if err != nil {
			return false
		}
		his := named(onZFS(), "his")
		his.VMID = 150
		_, err = creatorOf(t, b.sim, ticket).Create(t.Context(), his)
		return err == nil
	},
}

// TestSleeperTouchesNothingOfOthers: a run stands still for an hour, after any of its requests, as one does whose
// machine sleeps. Another run of the same create completes its VM meanwhile, or a third party has another VM in its
// place. When it wakes up it fails, and that VM stays as it is.
func TestSleeperTouchesNothingOfOthers(t *testing.T) {
	ways := map[string]func() Request{"create": onZFS, "clone": ofTemplate, "restore": aRestore}
	for what, others := range meanwhile {
		for how, request := range ways {
			met := 0
			for n, came := 2, true; came; n++ {
				synctest.Test(t, func(t *testing.T) {
					b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
					b.backedUp(nil)
					b.change(func(w *state.World) { delete(w.Guests[9000].Config, "protection") })
					r := request()
					r.VMID, r.Start = 150, true
					var wake func() (Created, error)
					if came, wake = b.asleep(t, r, n); !came {
						return
					}
					time.Sleep(time.Hour)
					did := others(t, b, r)
					was := b.everythingOf(150)
					created, err := wake()
					if !did || err == nil { // it had not begun, or was done
						return
					}
					met++
					if now := b.everythingOf(150); now != was {
						t.Errorf("%s, %s, asleep after request %d: VM 150 was\n%s\nand is\n%s\n%v, left %+v", how, what, n, was, now,
							err, created.Left)
					}
				})
			}
			if met == 0 {
				t.Errorf("%s, %s: no run was asleep at the right time", how, what)
			}
		}
	}
}

// everythingOf is what the cluster has of a VM.
func (b bench) everythingOf(vmid int) (all string) {
	b.change(func(w *state.World) {
		if g := w.Guests[vmid]; g != nil {
			all = fmt.Sprint(g.Config, g.Running != nil)
		}
	})
	return all
}
