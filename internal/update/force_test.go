package update

import (
	"net/http"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestGuestThatWasNotAsked: reboot_policy = "force" cuts a guest off that was asked to shut down and does not obey. A
// paused guest hears nothing, and one whose restart PVE refuses, or whose task dies, was not asked.
func TestGuestThatWasNotAsked(t *testing.T) {
	rule := func(phase fault.Phase, status int) func(*world) {
		return func(w *world) {
			w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/reboot"},
				Phase: phase, Status: status, Reason: "got no worker upid - start worker failed", Times: -1}})
		}
	}
	pause := func(w *world) { w.alter(func(g *state.Guest) { g.Running.QMPStatus = "paused" }) }
	for name, c := range map[string]struct {
		begins func(*world)
		stops  int
	}{
		"paused":             {pause, 0},
		"paused when asked":  {func(w *world) { w.ignoreShutdown(); w.answered = onceSent(w, "/status/reboot", func() { pause(w) }) }, 0},
		"refused":            {rule(fault.Before, http.StatusInternalServerError), 0},
		"no answer":          {rule(fault.Before, 596), 0},
		"its task is killed": {rule(fault.KillTask, 0), 0},
		"deaf":               {func(w *world) { w.ignoreShutdown() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"cores": "1"})
			w.start()
			r := w.request()
			r.Planned.CPU.Cores, r.Restart = new(int64(2)), RestartForcibly
			c.begins(w)
			_, _, err := w.update(r)
			w.answered = nil
			if stops := w.sent("/status/stop"); stops != c.stops || (err == nil) != (c.stops > 0) {
				t.Errorf("%d stops: %v after %v", stops, err, w.writes())
			}
		})
	}
}

// onceSent does something at the first answer after a write to a path that ends so.
func onceSent(w *world, suffix string, do func()) func() {
	did := false
	return func() {
		if !did && w.sent(suffix) > 0 {
			did = true
			do()
		}
	}
}
