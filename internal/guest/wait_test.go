package guest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// steps is a clock on which a wait is one step, and something may happen at each.
type steps struct {
	now  time.Time
	each func(pause int)
	n    int
}

func (s *steps) Now() time.Time { return s.now }

func (s *steps) Sleep(ctx context.Context, d time.Duration) error {
	s.now = s.now.Add(d)
	if s.n++; s.each != nil {
		s.each(s.n)
	}
	return ctx.Err()
}

// TestAwait: what is waited for comes, or cannot come, or does not; and never is anything changed on the server.
func TestAwait(t *testing.T) {
	answers := func(w *world, addresses ...string) {
		w.vm(func(g *state.Guest) {
			g.Agent = &state.Agent{Interfaces: []state.AgentInterface{{Name: "eth0", MAC: "bc:24:11:00:00:01", Addresses: addresses}}}
		})
	}
	silent := func(w *world) { w.vm(func(g *state.Guest) { g.Agent = &state.Agent{Silent: true} }) }
	for name, c := range map[string]struct {
		wait    *Wait
		before  func(*world)
		each    func(w *world, pause int)
		guest   func(*Guest)
		started bool
		says    []string // an error; nil: it came
		within  time.Duration
	}{
		"nothing":    {before: silent},
		"the agent":  {wait: &Wait{Agent: true}, within: time.Second},
		"an address": {wait: &Wait{IPv4: true}, before: func(w *world) { answers(w, "10.0.0.1/24") }, within: time.Second},
		"an address that is": {wait: &Wait{IPv6: true, Timeout: 20 * time.Second},
			before: func(w *world) { answers(w, "10.0.0.1/24", "fe80::1/64") }, within: 21 * time.Second,
			says: []string{"an IPv6 address", "within 20s", "The agent answers, but reports none", "VM 400 on node pve1 is complete"}},
		"one that comes late": {wait: &Wait{IPv4: true}, before: silent, each: func(w *world, pause int) {
			if pause == 5 {
				answers(w, "10.0.0.1/24")
			}
		}, within: 30 * time.Second},
		"one that never comes": {wait: &Wait{IPv4: true, IPv6: true}, before: silent, within: 6 * time.Minute,
			says: []string{"an IPv4 address and an IPv6 address", "did not come within 5m0s", "The last word: "}},
		"a guest that stops": {wait: &Wait{Agent: true}, before: silent,
			each:   func(w *world, _ int) { w.vm(func(g *state.Guest) { g.Running = nil }) },
			within: time.Minute, says: []string{"the guest has stopped while it was waited for"}},
		"one that HA starts again": {wait: &Wait{Agent: true, Timeout: time.Minute},
			before: func(w *world) { w.vm(func(g *state.Guest) { g.Running = nil }) },
			guest:  func(g *Guest) { g.HA = &HA{} }, within: 61 * time.Second, says: []string{"HA is to start it"}},
		"one that moves": {wait: &Wait{Agent: true}, before: func(w *world) { w.vm(func(g *state.Guest) { g.Node = "pve2" }) },
			within: time.Second},
		"one that is removed": {wait: &Wait{Agent: true},
			before: func(w *world) { w.change(func(all *state.World) { delete(all.Guests, theVM) }) },
			within: time.Second, says: []string{"another user has removed it"}},
		"one that has stopped already": {wait: &Wait{Agent: true}, guest: func(g *Guest) { g.Status = "stopped" }, started: true,
			says: []string{"the guest has stopped right after its start"}},
		"one that is to be off": {wait: &Wait{Agent: true}, guest: func(g *Guest) { g.Status = "stopped" }},
		"no agent": {wait: &Wait{Agent: true}, guest: func(g *Guest) { g.Spec.Agent.Enabled = nil },
			says: []string{"Set agent.enabled = true"}},
		"an agent after the restart": {wait: &Wait{Agent: true}, guest: func(g *Guest) { g.Pending = []string{"agent"} },
			says: []string{"PVE adds the agent's device at the next start only"}},
		"an address of either family": {wait: &Wait{ByDefault: true}, before: func(w *world) { answers(w, "10.0.0.1/24") }, within: time.Second},
		"an IPv6 address alone": {wait: &Wait{ByDefault: true}, before: func(w *world) { answers(w, "2001:db8::1/64") },
			within: settleTime + 3*time.Second},
		"an IPv4 address soon after": {wait: &Wait{ByDefault: true}, before: func(w *world) { answers(w, "2001:db8::1/64") },
			each: func(w *world, _ int) { answers(w, "2001:db8::1/64", "10.0.0.1/24") }, within: settleTime - time.Second},
		"no address, by default": {wait: &Wait{ByDefault: true, Timeout: time.Minute}, before: silent, within: 61 * time.Second,
			says: []string{"an IP address", "did not come within 1m0s"}},
		"no device, by default": {wait: &Wait{ByDefault: true}, guest: func(g *Guest) { g.Spec.Networks = nil }},
		"no device":             {wait: &Wait{IPv4: true}, guest: func(g *Guest) { g.Spec.Networks = nil }, says: []string{"it has no network device"}},
		"no right": {wait: &Wait{Agent: true}, before: func(w *world) {
			w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/agent/network-get-interfaces"},
				Phase: fault.Before, Status: 403, Reason: "no"}})
		}, within: time.Second, says: []string{"the agent may not be asked"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]string{"agent": "1", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0"})
			w.run(time.Hour)
			g, err := w.s.ReadBack(t.Context(), "pve1", theVM)
			if err != nil {
				t.Fatal(err)
			}
			if c.before != nil {
				c.before(w)
			}
			if c.guest != nil {
				c.guest(&g)
			}
			clock := &steps{now: time.Unix(1e9, 0)}
			if c.each != nil {
				clock.each = func(pause int) { c.each(w, pause) }
			}
			w.s.clock = clock
			w.sim.ResetOps()
			warnings, err := w.s.Await(t.Context(), &g, c.wait, c.started)
			var waited *WaitError
			if took := clock.now.Sub(time.Unix(1e9, 0)); errors.As(err, &waited) != (c.says != nil) || len(warnings) > 0 || took > c.within {
				t.Errorf("%v, %v, after %s", err, warnings, took)
			}
			mustSay(t, name, err, c.says...)
			if c.says == nil && c.within > 0 && g.Interfaces == nil {
				t.Error("what the agent said is not in the guest")
			}
			if writes := w.writes(); len(writes) > 0 {
				t.Errorf("changed: %q", writes)
			}
		})
	}
}

// TestAwaitWarns: a wait that is to warn ends with a warning, also when it is interrupted.
func TestAwaitWarns(t *testing.T) {
	w := newWorld(t, map[string]string{"agent": "1"})
	w.run(time.Hour)
	w.vm(func(g *state.Guest) { g.Agent = &state.Agent{Silent: true} })
	g, err := w.s.ReadBack(t.Context(), "pve1", theVM)
	if err != nil {
		t.Fatal(err)
	}
	clock := &steps{now: time.Unix(1e9, 0)}
	w.s.clock = clock
	wait := &Wait{Agent: true, Timeout: time.Minute, Warn: true}
	warnings, err := w.s.Await(t.Context(), &g, wait, false)
	if err != nil || len(warnings) != 1 || warnings[0].Summary != "Waiting for the guest agent of VM 400 failed" {
		t.Errorf("%v, %v", warnings, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	clock.each = func(int) { cancel() }
	warnings, err = w.s.Await(ctx, &g, wait, false)
	if err != nil || len(warnings) != 1 {
		t.Fatalf("interrupted: %v, %v", warnings, err)
	}
	mustSay(t, "interrupted", errors.New(warnings[0].Detail), "it was interrupted", "everything that was planned has been done")
	if refusal := (&WaitError{Err: &pve.Error{Kind: pve.Denied}}); !pve.IsKind(refusal, pve.Denied) {
		t.Error("what the server said is lost")
	}
}

// TestFirstDeviceWins: a later device's address counts when the earlier ones have had their time.
func TestFirstDeviceWins(t *testing.T) {
	w := newWorld(t, map[string]string{"agent": "1", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0",
		"net1": "virtio=BC:24:11:00:00:02,bridge=vmbr0"})
	w.run(time.Hour)
	w.vm(func(g *state.Guest) {
		g.Agent = &state.Agent{Interfaces: []state.AgentInterface{{Name: "eth1", MAC: "bc:24:11:00:00:02", Addresses: []string{"10.0.0.2/24"}}}}
	})
	g, err := w.s.ReadBack(t.Context(), "pve1", theVM)
	if err != nil {
		t.Fatal(err)
	}
	clock := &steps{now: time.Unix(1e9, 0)}
	w.s.clock = clock
	if _, err := w.s.Await(t.Context(), &g, &Wait{IPv4: true}, false); err != nil {
		t.Error(err)
	}
	if took := clock.now.Sub(time.Unix(1e9, 0)); took < settleTime || took > 2*settleTime {
		t.Errorf("the first device had %s", took)
	}
}
