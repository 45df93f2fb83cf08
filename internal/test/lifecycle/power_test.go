package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestPowerStates changes the power of guests that are neither plainly on nor plainly off.
func TestPowerStates(t *testing.T) {
	t.Parallel()
	pause := func(g *state.Guest) { g.Running.QMPStatus = "paused" }
	cases := map[string]struct {
		world  func(t *testing.T, w *rig.World)
		more   string // the change
		says   string // the error, "" for none
		status string // afterwards: stopped, or QEMU's word
		stays  bool   // no power-off
	}{
		"paused, to be stopped":          {world: altered(pause), more: `power_state = "stopped"`, says: "is paused", status: "paused", stays: true},
		"paused, to be changed":          {world: altered(pause), more: `tags = ["a"]`, status: "paused", stays: true},
		"paused, to run and be changed":  {world: altered(pause), more: "tags = [\"a\"]\npower_state = \"running\"", status: "running", stays: true},
		"paused, needs a restart":        {world: altered(pause), more: `cpu = { cores = 2 }`, says: "paused guest cannot be restarted", status: "paused", stays: true},
		"suspended, to be changed":       {world: suspend, more: `tags = ["a"]`, says: "suspended to disk", status: "stopped"},
		"suspended, to run":              {world: suspend, more: `power_state = "running"`, status: "running"},
		"disobedient, to be stopped":     {world: altered(disobey), more: "shutdown_timeout = \"30s\"\npower_state = \"stopped\"", says: "did not shut down within 30s", status: "running", stays: true},
		"slow, to be stopped":            {world: altered(func(g *state.Guest) { g.ShutdownSeconds = 100 }), more: `power_state = "stopped"`, status: "stopped"},
		"stopped by hand, to be stopped": {world: func(_ *testing.T, w *rig.World) { w.Sim.EndGuest(400) }, more: `power_state = "stopped"`, status: "stopped"},
		"stopped by hand, left alone":    {world: func(_ *testing.T, w *rig.World) { w.Sim.EndGuest(400) }, more: `cpu = { cores = 2 }`, status: "stopped"},
		"stopped by hand, to run":        {world: func(_ *testing.T, w *rig.World) { w.Sim.EndGuest(400) }, more: `power_state = "running"`, status: "running"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.PoweredVM(""))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.world(t, w)
			w.Sim.ResetPowerOffs()
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.PoweredVM(c.more))
			err := s.Converge(t.Context())
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("said %v, want %q", err, c.says)
			}
			guest, status := rig.GuestOf(w, 400), "stopped"
			if guest.Running != nil {
				status = guest.Running.QMPStatus
			}
			if status != c.status {
				t.Errorf("the guest is %s, want %s", status, c.status)
			}
			for _, off := range w.Sim.PowerOffs() {
				if c.stays || off.Hard {
					t.Errorf("power-off: %+v", off)
				}
			}
		})
	}
}

func altered(f func(*state.Guest)) func(*testing.T, *rig.World) {
	return func(_ *testing.T, w *rig.World) { w.Change(func(world *state.World) { f(world.Guests[400]) }) }
}

func disobey(g *state.Guest) { g.Ignores = append(g.Ignores, "shutdown") }

// suspend puts the guest to sleep on disk as a person at the console would.
func suspend(t *testing.T, w *rig.World) {
	t.Helper()
	rig.RunTask(t, w, "/nodes/pve1/qemu/400/status/suspend", "todisk=1")
}

// TestHAStopsAndAChangeWaits: a guest that HA is about to stop is not restarted before, for a change that waits for the stop.
func TestHAStopsAndAChangeWaits(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, rig.PoweredVM(`ha = { state = "started" }`))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Reconfigure(t, s, rig.RootTicket, rig.PoweredVM("ha = { state = \"stopped\" }\ncpu = { cores = 2 }"))
	w.ExpectPowerOffs(state.PowerShutdown)
	pl, err := s.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range pl.Diagnostics {
		if strings.Contains(d.Summary, "will be restarted") {
			t.Errorf("the plan says %s", d)
		}
	}
	if err := s.Apply(t.Context(), pl); err != nil {
		t.Fatal(err)
	}
	for _, off := range w.Sim.PowerOffs() {
		if off.Kind != state.PowerShutdown {
			t.Errorf("power-off: %+v", off)
		}
	}
	w.Sim.Advance(time.Minute)
	if g := rig.GuestOf(w, 400); g.Config["cores"] != "2" && g.Pending["cores"] != "2" {
		t.Errorf("cores: %q, pending %q", g.Config["cores"], g.Pending["cores"])
	}
}
