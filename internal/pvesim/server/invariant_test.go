package server

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestViolationIsTold: a handler, a command or a worker that leaves an unsound world is named.
func TestViolationIsTold(t *testing.T) {
	var told []string
	g := newRig(t, func(c *engine.Config) { c.Violated = func(err error) { told = append(told, err.Error()) } })
	spoil := func(w *state.World) { w.Guests[8000].Node = "gone" }
	mend := func(w *state.World) { w.Guests[8000].Node = "pve1"; told = nil }
	expect := func(what string) {
		t.Helper()
		g.s.Do(func(w *state.World) {
			if len(told) != 1 || !strings.Contains(told[0], what) ||
				!strings.Contains(told[0], `guest 8000: node "gone" does not exist`) {
				t.Errorf("told %q, want one violation after %s", told, what)
			}
			mend(w)
		})
	}
	g.s.Config.Routes["POST /pools"] = func(r *engine.Request) (any, error) { spoil(r.W); return nil, nil }
	g.do("root@pam!tf", "POST", "/pools", "poolid=x")
	expect("operation 1, POST /pools of 0 by root@pam!tf, status 200")

	g.s.Config.Routes["POST /pools"] = func(r *engine.Request) (any, error) {
		return r.Fork("pve1", "spoil", "", func(w *engine.Worker) error {
			spoil(w.W)
			w.Fork("pve1", "mend", "", func(w *engine.Worker) error { w.W.Guests[8000].Node = "pve1"; return nil })
			return nil
		}), nil
	}
	g.do("root@pam!tf", "POST", "/pools", "poolid=x")
	expect(`:spoil::root@pam!tf:, which ended "OK"`)

	g.s.Run(engine.Command{Node: "pve1", Path: "qm status", Line: "qm status 8000"},
		func(r *engine.Request) int { spoil(r.W); return 3 })
	expect("SSH qm status of 0 by root@pve1, status 3")
}

// BenchmarkCheck is what the look after an operation costs in the default world.
func BenchmarkCheck(b *testing.B) {
	w := state.Default([]string{"pve1", "pve2"})
	for b.Loop() {
		if err := w.Check(); err != nil {
			b.Fatal(err)
		}
	}
}
