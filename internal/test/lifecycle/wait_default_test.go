package lifecycle_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestWaitByDefault: a create waits for an address where the configuration itself enables the agent, and the next plan is
// empty. A wait_for changes that or ends it. A wait that fails warns, with the way to end it, and never taints.
func TestWaitByDefault(t *testing.T) {
	t.Parallel()
	const forever = -1
	for name, c := range map[string]struct {
		waitFor, more string
		silent        int // questions of 3 s to the agent that it does not answer
		between       [2]time.Duration
		unknown       bool // no address is in state
		warns         []string
	}{
		"an address":      {silent: 8, between: [2]time.Duration{24 * time.Second, time.Minute}},
		"no address":      {silent: forever, between: [2]time.Duration{2 * time.Minute, 130 * time.Second}, unknown: true, warns: []string{"within 2m0s"}},
		"a short wait":    {waitFor: `wait_for = { timeout = "30s" }`, silent: forever, between: [2]time.Duration{30 * time.Second, 40 * time.Second}, unknown: true, warns: []string{"within 30s"}},
		"switched off":    {waitFor: "wait_for = { agent = false }", silent: forever, between: [2]time.Duration{0, 5 * time.Second}, unknown: true},
		"the agent alone": {waitFor: "wait_for = { agent = true }", silent: 2, between: [2]time.Duration{6 * time.Second, 20 * time.Second}},
		"not started":     {more: `power_state = "stopped"`, silent: forever, between: [2]time.Duration{0, 5 * time.Second}, unknown: true},
		"a template":      {more: "template = true", silent: forever, between: [2]time.Duration{0, 5 * time.Second}, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(t *testing.T, w *rig.World) {
				s := w.Session(t, rig.TokenNoSSH, awaited(c.waitFor, "description = \"complete\"\n"+c.more))
				rig.SilenceAgent(w, c.silent)
				before := time.Now()
				rig.Must(t, s.Run(t.Context()))
				if took := time.Since(before); took < c.between[0] || took > c.between[1] {
					t.Errorf("it took %s, want %s to %s", took, c.between[0], c.between[1])
				}
				if len(c.warns) == 0 && said(s) != "" {
					t.Errorf("warned: %s", said(s))
				}
				if len(c.warns) > 0 {
					rig.MustSayAll(t, said(s), append(c.warns, "VM 500", "is complete", "wait_for = { agent = false }")...)
				}
				mustBeComplete(t, w, s, false)
				if ip := s.Attr("proxmox_vm.web", "ipv4_address"); ip.IsNull() != c.unknown {
					t.Errorf("ipv4_address is %#v", ip)
				}
				before = time.Now()
				rig.Must(t, s.Converge(t.Context()))
				if took := time.Since(before); took > 30*time.Second {
					t.Errorf("a refresh and a plan took %s: they wait for no agent", took)
				}
			})
		})
	}
}

// TestWaitByDefaultOfATemplatesAgent: an agent that only the template has switched on is not waited for, one that the
// configuration switches on is.
func TestWaitByDefaultOfATemplatesAgent(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]bool{"": false, "agent = { enabled = true }": true} {
		inTime(t, func(t *testing.T, w *rig.World) {
			w.Change(func(world *state.World) { world.Guests[9000].Config["agent"] = "1" })
			s := w.Session(t, rig.TokenNoSSH, "resource \"proxmox_vm\" \"web\" {\n  vmid = 500\n  clone = { vmid = 9000 }\n  "+agent+"\n}\n")
			w.ResetCalls()
			rig.Must(t, s.Run(t.Context()))
			asked := slices.ContainsFunc(w.Sim.Ops(), func(op pvesim.Op) bool { return strings.Contains(op.Path, "/agent/") })
			if asked != want {
				t.Errorf("%q: asked: %t", agent, asked)
			}
		})
	}
}

// TestWaitByDefaultInterrupted: an interrupt leaves a complete VM that is not tainted.
func TestWaitByDefaultInterrupted(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, w *rig.World) {
		s := w.Session(t, rig.TokenNoSSH, awaited("", `description = "complete"`))
		rig.SilenceAgent(w, -1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			time.Sleep(20 * time.Second)
			cancel()
		}()
		before := time.Now()
		_ = s.Run(ctx)
		if took := time.Since(before); took > 25*time.Second {
			t.Errorf("it took %s", took)
		}
		rig.MustSayAll(t, said(s), "is complete", "interrupted")
		mustBeComplete(t, w, s, false)
		w.Sim.SetFaults(nil)
		rig.Must(t, s.Refresh(t.Context()))
		if ip := s.Attr("proxmox_vm.web", "ipv4_address"); ip.IsNull() {
			t.Error("the refresh did not take over the address")
		}
	})
}
