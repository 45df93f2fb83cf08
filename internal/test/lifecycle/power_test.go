package lifecycle_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
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
		"paused, to run and be changed":  {world: altered(pause), more: "tags = [\"a\"]\npower_state = \"running\"", status: "paused", stays: true},
		"paused, needs a restart":        {world: altered(pause), more: `cpu = { cores = 2 }`, says: "paused guest cannot be restarted", status: "paused", stays: true},
		"suspended, to be changed":       {world: suspend, more: `tags = ["a"]`, says: "suspended to disk", status: "stopped"},
		"suspended, to run and change":   {world: suspend, more: "tags = [\"a\"]\npower_state = \"running\"", says: "suspended to disk", status: "stopped"},
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
			w.Sim.Advance(time.Minute) // the listing has caught up
			w.Sim.ResetPowerOffs()
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.PoweredVM(c.more))
			_, err := s.Plan(t.Context())
			rig.Must(t, err)
			if paused := "VM 400 is paused and cannot be shut down"; strings.Contains(s.Diagnostics().Warnings().String(), paused) != (c.says == "is paused") {
				t.Errorf("the plan says %s", s.Diagnostics())
			}
			told := strings.Count(s.Diagnostics().Warnings().String(), "is suspended to disk")
			err = s.Converge(t.Context())
			if sleeps := c.says == "suspended to disk"; sleeps != (told == 1) || sleeps && !strings.Contains(fmt.Sprint(err), "`qm set 400 --delete vmstate`") {
				t.Errorf("the plan tells %d times that the guest is suspended; %v", told, err)
			}
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

// besideRescue takes VM 400 down as an administrator does, and mends its disk in VM 8000, on another node.
func besideRescue(world *state.World) {
	g, rescue := world.Guests[400], world.Guests[8000]
	if entry := world.HA["vm:400"]; entry != nil {
		entry.State = "stopped"
	}
	g.Running = nil
	delete(rescue.Config, "scsi0")
	volume, _, _ := strings.Cut(g.Config["scsi0"], ",")
	rescue.Node, rescue.Config["scsi5"] = "pve2", volume
	rescue.Running = &state.Running{QMPStatus: "running", PID: 99, StartedAt: world.Clock.Now(), Booted: maps.Clone(rescue.Config)}
}

const sharedVM = "node = \"pve1\"\nvmid = 400\nname = \"x\"\ndisks = { scsi0 = { storage = \"shared-nfs\", size = \"1G\" } }\n"

// TestStartBesideARescue: an administrator mends the disk of a VM in another one. No apply starts the VM beside it,
// neither by itself nor by HA.
func TestStartBesideARescue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after, at string }{
		"power_state":              {"power_state = \"stopped\"\n", "power_state = \"running\"\n", "power_state"},
		"HA's state is set back":   {"ha = { state = \"started\" }\n", "ha = { state = \"started\" }\n", "ha"},
		"put under HA":             {"power_state = \"stopped\"\n", "ha = { state = \"started\" }\n", "ha"},
		"put under HA, by default": {"", "ha = { max_restart = 3 }\n", "ha"},
	} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.RootTicket, rig.VMBlock(sharedVM+c.before))
		rig.Must(t, s.Converge(t.Context()))
		w.Change(besideRescue)
		w.Sim.Advance(time.Minute)
		w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(sharedVM+c.after))
		rig.MustRefuse(t, s.Run(t.Context()), []string{"VM 400 was not started", "VM 8000", c.at})
		w.Sim.Advance(5 * time.Minute)
		if rig.GuestOf(w, 400).Running != nil {
			t.Errorf("%s: VM 400 runs beside VM 8000", name)
		}
		w.Change(func(world *state.World) { delete(world.Guests[8000].Config, "scsi5") })
		w.Sim.Advance(5 * time.Minute)
		rig.Must(t, s.Converge(t.Context()))
		w.Sim.Advance(5 * time.Minute)
		if rig.GuestOf(w, 400).Running == nil {
			t.Errorf("%s: VM 400 is off, and nothing is in its way", name)
		}
	}
}

// TestStartedBeforeHAStopsIt: the plan puts a VM that is off under HA, which is to keep it off. A colleague starts it
// before the apply, and HA does not stop it.
func TestStartedBeforeHAStopsIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after string }{
		{"power_state = \"stopped\"\n", "ha = { state = \"stopped\" }\n"},
		{"power_state = \"stopped\"\n", "ha = { state = \"disabled\" }\n"},
	} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.RootTicket, rig.VMBlock(sharedVM+c.before))
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(sharedVM+c.after))
		w.Sim.Advance(time.Minute)
		pl, err := s.Plan(t.Context())
		rig.Must(t, err)
		rig.RunTask(t, w, "/nodes/pve1/qemu/400/status/start", "")
		rig.MustRefuse(t, s.Apply(t.Context(), pl), []string{"VM 400 was not put under HA", "started it since"})
		w.Sim.Advance(5 * time.Minute)
		if rig.GuestOf(w, 400).Running == nil {
			t.Errorf("%s: it was stopped", c.after)
		}
	}
}

// TestPausedByHand: an administrator pauses a guest. It counts as running, and no change resumes it.
func TestPausedByHand(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.RootTicket, rig.VMBlock(sharedVM+"power_state = \"running\"\n"))
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(sharedVM+"power_state = \"running\"\ndescription = \"new\"\n"))
		pause := func() { rig.RunTask(t, w, "/nodes/pve1/qemu/400/status/suspend", ""); w.Sim.Advance(time.Minute) }
		if before {
			pause()
		}
		pl, err := s.Plan(t.Context())
		rig.Must(t, err)
		if !before {
			pause()
		}
		rig.Must(t, s.Apply(t.Context(), pl))
		if is := rig.GuestOf(w, 400).Running.QMPStatus; is != "paused" {
			t.Errorf("paused before the plan %t: the guest is %s: %v", before, is, s.Diagnostics())
		}
		rig.Must(t, s.Converge(t.Context()))
	}
}

// TestStoppedSinceThePlan: a guest that is to run goes off after the plan, which shows another change alone. The apply
// makes that change, waits for no agent, and leaves it off. The next plan shows the start. PVE's listing is some seconds
// old, so a plan may also take a guest that was just shut down for running.
func TestStoppedSinceThePlan(t *testing.T) {
	t.Parallel()
	const running = sharedVM + "power_state = \"running\"\n"
	const agent = running + "agent = { enabled = true }\nwait_for = { agent = true }\n"
	for name, c := range map[string]struct {
		before, after string
		just          bool // before the plan
	}{
		"a description":          {running, running + "description = \"new\"\n", false},
		"needs a restart":        {running, running + "cpu = { cores = 2 }\n", false},
		"awaits an agent":        {agent, agent + "description = \"new\"\n", false},
		"power_state comes":      {sharedVM, running + "description = \"new\"\n", false},
		"off right before":       {running, running + "description = \"new\"\n", true},
		"HA keeps it as it is":   {running + "ha = { state = \"started\" }\n", running + "ha = { state = \"started\" }\ndescription = \"new\"\n", false},
		"HA, with more restarts": {running + "ha = { state = \"started\" }\n", running + "ha = { state = \"started\", max_restart = 4 }\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.RootTicket, rig.VMBlock(c.before))
			rig.Must(t, s.Converge(t.Context()))
			w.Sim.Advance(time.Minute)
			stop := func() {
				w.Change(func(world *state.World) {
					if world.Guests[400].Running = nil; world.HA["vm:400"] != nil {
						world.HA["vm:400"].State = "stopped"
					}
				})
			}
			if c.just {
				stop()
			}
			w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(c.after))
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			if !c.just {
				stop()
			}
			rig.Must(t, s.Apply(t.Context(), pl))
			g := rig.GuestOf(w, 400)
			if g.Running != nil || !strings.Contains(s.Diagnostics().String(), "VM 400 was left off (proxmox_vm.x.power_state") {
				t.Errorf("runs %t: %v", g.Running != nil, s.Diagnostics())
			}
			w.Sim.Advance(time.Minute)
			rig.Must(t, s.Run(t.Context()))
			w.Sim.Advance(time.Minute)
			if g = rig.GuestOf(w, 400); g.Running == nil {
				t.Errorf("the next apply did not start it: %v", s.Diagnostics())
			}
		})
	}
}

// TestStartsThatAreDue: a guest that is off is started where the plan has it come under HA, and after an apply that has
// cut it off for a restart and could not start it.
func TestStartsThatAreDue(t *testing.T) {
	t.Parallel()
	const running = sharedVM + "power_state = \"running\"\n"
	off := func(w *rig.World, _ *terraformtest.Session) {
		w.Change(func(world *state.World) { world.Guests[400].Running = nil })
	}
	cutOff := func(w *rig.World, s *terraformtest.Session) {
		w.Change(func(world *state.World) { disobey(world.Guests[400]) })
		w.ExpectPowerOffs(state.PowerStop)
		w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/start"},
			Phase: fault.Before, Status: 500, Reason: "no", Times: -1}})
		if err := s.Run(t.Context()); err == nil || rig.GuestOf(w, 400).Running != nil {
			t.Errorf("not cut off: %v", err)
		}
		w.Sim.SetFaults(nil)
		w.Sim.Advance(time.Minute)
	}
	for name, c := range map[string]struct {
		after   string
		before  func(*rig.World, *terraformtest.Session) // the plan
		between func(*rig.World, *terraformtest.Session) // plan and apply
	}{
		"HA comes":       {"ha = { state = \"started\" }\n", nil, off},
		"it was cut off": {"cpu = { cores = 2 }\nreboot_policy = \"force\"\nshutdown_timeout = \"30s\"\n", cutOff, nil},
	} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.RootTicket, rig.VMBlock(running))
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(running+c.after))
		if c.before != nil {
			c.before(w, s)
		}
		pl, err := s.Plan(t.Context())
		rig.Must(t, err)
		if c.between != nil {
			c.between(w, s)
		}
		rig.Must(t, s.Apply(t.Context(), pl))
		w.Sim.Advance(time.Minute)
		if rig.GuestOf(w, 400).Running == nil || strings.Contains(s.Diagnostics().String(), "left off") {
			t.Errorf("%s: off: %v", name, s.Diagnostics())
		}
	}
}

// TestStartedSinceThePlan: a guest that is off at the plan is started after it, or right before it, and the change waits for a restart.
// The apply, whose plan names none, leaves the guest running and says so; the next plan shows the restart.
func TestStartedSinceThePlan(t *testing.T) {
	t.Parallel()
	for _, just := range []bool{false, true} {
		l := rig.NewVM(t, rig.OneDisk+"\ncpu = { cores = 1 }\n")
		l.Guest(func(_ *state.World, g *state.Guest) { g.Running = nil })
		l.World.Sim.Advance(time.Minute)
		rig.Must(t, l.Session.Refresh(t.Context()))
		start := func() {
			l.Guest(func(world *state.World, g *state.Guest) {
				g.Running = &state.Running{QMPStatus: "running", PID: 99, StartedAt: world.Clock.Now(), Booted: maps.Clone(g.Config)}
			})
		}
		if just {
			start()
		}
		pl := l.Plan(rig.OneDisk + "\ncpu = { cores = 2 }\n")
		if said := pl.Diagnostics.String(); strings.Contains(said, "will be restarted") || just != strings.Contains(said, "keeps running with the old") {
			t.Errorf("the plan says %s", said)
		}
		if !just {
			start()
			l.World.Sim.Advance(time.Minute)
		}
		l.World.Sim.ResetPowerOffs()
		rig.Must(t, l.Session.Apply(t.Context(), pl))
		l.Warned("power_state", "VM 400 runs with the old values of cores", "has started it since")
		l.WantRunning()
		l.WantWaiting("cores")
		l.World.Sim.Advance(time.Minute)
		next := l.Plan(rig.OneDisk + "\ncpu = { cores = 2 }\n")
		if said := next.Diagnostics.String(); !strings.Contains(said, "will be restarted") {
			t.Errorf("the next plan says %q", said)
		}
		rig.Must(t, l.Session.Apply(t.Context(), next))
		l.WantWaiting()
	}
}

// TestBackupStartsNoGuest plans during a backup of a guest that is off: PVE runs its QEMU, paused (qemu-server
// VZDump/QemuServer.pm enforce_vm_running_for_backup). It is off, and a guest that was paused by hand is not.
func TestBackupStartsNoGuest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lock, want string
		isEmpty    bool
	}{
		"backed up, to be off": {lock: "backup", want: "stopped", isEmpty: true},
		"backed up, to run":    {lock: "backup", want: "running"},
		"paused, to be off":    {want: "stopped"},
		"paused, to run":       {want: "running", isEmpty: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := rig.OneDisk + fmt.Sprintf("\npower_state = %q\n", c.want)
			l := rig.NewVM(t, body)
			l.Guest(func(_ *state.World, g *state.Guest) {
				if c.lock != "" {
					g.SetLock(c.lock, "by hand")
				}
				g.Running = &state.Running{QMPStatus: "prelaunch"}
			})
			l.World.Sim.Advance(time.Minute) // the listing has caught up
			if plan := l.Plan(body); plan.Empty() != c.isEmpty {
				t.Errorf("the plan is %s; %s", plan, l.Session.Diagnostics())
			}
		})
	}
}
