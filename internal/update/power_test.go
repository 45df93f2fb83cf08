package update

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// running is the VM's process.
func (w *world) running() *state.Running {
	all := w.sim.World()
	all.Lock()
	defer all.Unlock()
	if g := all.Guests[theVM]; g != nil {
		return g.Running
	}
	return nil
}

// restarting is an update in the middle of a restart, whose guest is off and has not come up again.
func (w *world) restarting() (*update, ran) {
	w.t.Helper()
	w.start()
	r := w.request()
	at, err := w.changer.guests.FindUnlocked(w.t.Context(), r.Ref)
	if err != nil {
		w.t.Fatal(err)
	}
	u := w.changer.newUpdate(r, at)
	before, err := u.view.Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	u.view.Forget()
	w.sim.EndGuest(theVM)
	w.sim.ResetOps()
	return u, power{u}.restarting(before)
}

// TestAwaitStartSparesAnotherVM: while a restart is awaited the VM is destroyed, and a third party's gets its id. It is
// not started.
func TestAwaitStartSparesAnotherVM(t *testing.T) {
	w := newWorld(t, nil)
	u, before := w.restarting()
	w.becomeAnother()
	err := power{u}.awaitStart(t.Context(), before)
	var another *guest.IdentityError
	if !errors.As(err, &another) {
		t.Errorf("got %v", err)
	}
	if n := w.sent("/status/start"); n != 0 || w.running() != nil {
		t.Errorf("a third party's VM was asked to start %d times, and runs: %v", n, w.running() != nil)
	}
}

// TestAwaitStartStartsOurs: where it is ours the update starts it.
func TestAwaitStartStartsOurs(t *testing.T) {
	w := newWorld(t, nil)
	u, before := w.restarting()
	if err := (power{u}).awaitStart(t.Context(), before); err != nil || w.running() == nil ||
		w.sent("/status/start") != 1 {
		t.Errorf("%v, started %d times", err, w.sent("/status/start"))
	}
}

// TestAwaitStartEndsForAGoneVM: a configuration that is gone is not waited for.
func TestAwaitStartEndsForAGoneVM(t *testing.T) {
	w := newWorld(t, nil)
	u, before := w.restarting()
	w.task(w.api.QEMU("pve1", theVM).Destroy(t.Context(), false))
	w.sim.ResetOps()
	err := power{u}.awaitStart(t.Context(), before)
	if err == nil || !strings.Contains(err.Error(), "is gone") || w.sent("/status/start") != 0 || w.sim.LastOp() > 3 {
		t.Errorf("%v after %d requests", err, w.sim.LastOp())
	}
}

// TestRestartDoesNotReportAnotherVM: what is read back at the end is the VM in state, or an error.
func TestRestartDoesNotReportAnotherVM(t *testing.T) {
	w := newWorld(t, nil)
	r := w.request()
	r.Planned.Description = new("new")
	w.changer.jobs.Log = func(context.Context, string, map[string]string) { w.becomeAnother() } // while the change is sent
	g, _, err := w.update(r)
	var another *guest.IdentityError
	if !errors.As(err, &another) || g.VMID != 0 {
		t.Errorf("%v, and VM %d", err, g.VMID)
	}
}

// TestLateRestart: a guest that obeys a restart after PVE has given it up is started again.
func TestLateRestart(t *testing.T) {
	w := newWorld(t, pve.Params{"cores": "1"})
	w.start()
	r := w.request()
	r.Planned.CPU.Cores, r.StopTimeout = new(int64(2)), 30*time.Second
	before := w.running()
	w.ignoreShutdown()
	w.when(2*time.Minute, func() { w.sim.EndGuest(theVM) })
	_, _, err := w.update(r)
	if now := w.running(); err != nil || now == nil || now == before || now.Booted["cores"] != "2" {
		t.Errorf("%v, runs %+v", err, now)
	}
}

// TestInterruptedRestart: so is one that goes off when the apply is interrupted; that it runs on is not said
// without a look.
func TestInterruptedRestart(t *testing.T) {
	w := newWorld(t, pve.Params{"cores": "1"})
	w.start()
	r := w.request()
	r.Planned.CPU.Cores, r.StopTimeout = new(int64(2)), 30*time.Second
	before := w.running()
	w.ignoreShutdown()
	ctx, cancel := context.WithCancel(t.Context())
	w.when(2*time.Minute, func() {
		w.sim.EndGuest(theVM)
		cancel()
	})
	_, _, err := w.changer.Update(ctx, r)
	if now := w.running(); now == nil || now == before || now.Booted["cores"] != "2" {
		t.Errorf("%v, runs %+v", err, now)
	}
}

// TestForcedRestart: a guest that does not obey is cut off and started again, and that is said only where it was done.
func TestForcedRestart(t *testing.T) {
	for name, another := range map[string]bool{"ours": false, "another's by then": true} {
		w := newWorld(t, pve.Params{"cores": "1"})
		w.start()
		r := w.request()
		r.Planned.CPU.Cores, r.StopTimeout, r.Restart = new(int64(2)), 30*time.Second, RestartForcibly
		w.ignoreShutdown()
		if another {
			w.when(20*time.Second, w.becomeAnother)
		}
		_, warnings, err := w.update(r)
		said := strings.Contains(text(warnings), "was cut off")
		if cut := w.sent("/status/stop") > 0; cut == another || said == another || (err != nil) != another {
			t.Errorf("%s: cut off %t, says so %t: %v", name, cut, said, err)
		}
	}
}

// TestLateStop: so is a guest that is to be off and goes off late.
func TestLateStop(t *testing.T) {
	w := newWorld(t, nil)
	w.start()
	r := w.request()
	r.PowerState, r.StopTimeout = guest.Stopped, 30*time.Second
	w.ignoreShutdown()
	w.when(2*time.Minute, func() { w.sim.EndGuest(theVM) })
	if _, _, err := w.update(r); err != nil || w.running() != nil {
		t.Errorf("%v, runs: %v", err, w.running() != nil)
	}
}

// TestStopUnderHA: HA cuts off a guest that does not obey, and the update says so.
func TestStopUnderHA(t *testing.T) {
	w := newWorld(t, nil)
	w.start()
	entry, all := &state.HAResource{SID: "vm:400", State: "started"}, w.sim.World()
	all.Lock()
	all.HA[entry.SID] = entry
	all.Unlock()
	r := w.request()
	r.PowerState, r.StopTimeout = guest.Stopped, 30*time.Second
	w.ignoreShutdown()
	_, warnings, err := w.update(r)
	said := text(warnings)
	if err != nil || w.running() != nil || !strings.Contains(said, "cuts a guest off that is not off within 30s") ||
		!strings.Contains(said, guest.NotesStop) {
		t.Errorf("%v, runs: %v, says %q", err, w.running() != nil, said)
	}
	all.Lock()
	defer all.Unlock()
	if entry.State != "stopped" {
		t.Errorf("HA is to keep it %s", entry.State)
	}
}

// TestStartByHAIsAwaited: PVE only files the start of a VM under HA with HA's manager. The update ends when the guest runs, also on another
// node, and says it where it does not run in the end.
func TestStartByHAIsAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		round time.Duration
		moves bool
		says  string
	}{
		"soon":                {},
		"late":                {round: 2 * time.Minute},
		"on another node":     {round: time.Hour, moves: true},
		"not within its time": {round: time.Hour, says: "VM 400 does not run yet"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}}, pve.Params{"cores": "1"})
			all := w.sim.World()
			all.Lock()
			all.HA["vm:400"], all.HARound = &state.HAResource{SID: "vm:400", State: "stopped"}, c.round
			all.Unlock()
			w.sim.Advance(15 * time.Second)
			r := w.request()
			r.PowerState = guest.Running
			if c.moves {
				w.when(18*time.Second, func() { w.alter(func(g *state.Guest) { g.Node = "pve2" }) })
				w.when(40*time.Second, func() {
					w.alter(func(g *state.Guest) {
						g.Running = &state.Running{PID: 77, StartedAt: all.Clock.Now(), Booted: g.Config}
					})
				})
			}
			g, _, err := w.update(r)
			wrong := err != nil || g.Status != string(guest.Running)
			if c.says != "" {
				wrong = !strings.Contains(fmt.Sprint(err), c.says)
			}
			if wrong {
				t.Errorf("%v, and the guest is %s", err, g.Status)
			}
		})
	}
}

// TestGuestThatDoesNotObey: of a guest that never obeys it is said that it may go off later. It is never cut off.
func TestGuestThatDoesNotObey(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"a restart": func(r *Request) { r.Planned.CPU.Cores = new(int64(2)) },
		"a stop":    func(r *Request) { r.PowerState = guest.Stopped },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"cores": "1"})
			w.start()
			r := w.request()
			r.StopTimeout = 30 * time.Second
			change(&r)
			w.ignoreShutdown()
			began := w.sim.World().Clock.Now()
			_, _, err := w.update(r)
			if err == nil || !strings.Contains(err.Error()+detailOf(err), "may go off later") {
				t.Errorf("says %v: %s", err, detailOf(err))
			}
			if lasted := w.sim.World().Clock.Now().Sub(began); lasted < 20*time.Minute {
				t.Errorf("it was watched for %s, with half an hour to go", lasted)
			}
			if w.running() == nil || w.sent("/status/stop") != 0 {
				t.Error("it was cut off")
			}
		})
	}
}

// TestRunsOnIsSaidOfTheEnd: that a guest which did not obey runs on is not said when a third party has stopped it
// since.
func TestRunsOnIsSaidOfTheEnd(t *testing.T) {
	w := newWorld(t, nil)
	w.start()
	r := w.request()
	r.PowerState, r.StopTimeout = guest.Stopped, 30*time.Second
	w.ignoreShutdown()
	base, last := w.sim.Snapshot(), fault.Match{Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/pending"}
	if _, _, err := w.update(r); !strings.Contains(detailOf(err), "It runs on") {
		t.Errorf("it was not stopped: %v", err)
	}
	for _, op := range w.sim.Ops() {
		if op.Method == last.Method && op.Path == last.Path {
			last.Nth++
		}
	}
	if err := w.sim.Load(base); err != nil {
		t.Fatal(err)
	}
	w.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Stop, VMID: theVM, Before: last}})
	_, _, err := w.update(r)
	if reports := w.sim.Reports(); err == nil || strings.Contains(detailOf(err), "runs on") || len(reports) != 1 ||
		!reports[0].Done {
		t.Errorf("he has stopped it (%v): %v, %s", reports, err, detailOf(err))
	}
}

// TestRunsOnIsNotSaidOfABackup: a backup starts a VM that is off, paused, and stops it at its end. It is not asked to
// shut down. If the backup begins right before the request, the error does not say that the VM runs on.
func TestRunsOnIsNotSaidOfABackup(t *testing.T) {
	for _, nth := range []int{1, 2} {
		w := newWorld(t, nil)
		r := w.request()
		r.PowerState = guest.Stopped
		if nth == 2 {
			r.Ref.Status = string(guest.Running)
			w.alter(func(g *state.Guest) {
				g.Running = &state.Running{QMPStatus: "running", PID: 77, StartedAt: w.sim.World().Clock.Now(), Booted: g.Config}
			})
		}
		orders := []thirdparty.Order{{Act: thirdparty.BackupRun, VMID: theVM, ForMS: 60_000,
			Before: fault.Match{Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/status/current"}}}
		if nth == 2 {
			before := fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/shutdown"}
			orders[0].Before = before
			orders = append([]thirdparty.Order{{Act: thirdparty.Stop, VMID: theVM, Before: before}}, orders...)
		}
		w.sim.SetThirdParties(orders)
		_, warnings, err := w.update(r)
		detail := detailOf(err)
		if left := strings.Contains(fmt.Sprint(warnings), "VM 400 was left running"); left != (nth == 1) {
			t.Errorf("%d: the warnings: %v", nth, warnings)
		}
		if reports := w.sim.Reports(); len(reports) != len(orders) || !reports[len(orders)-1].Done {
			t.Errorf("%d: the acts: %+v", nth, reports)
		}
		paused := strings.Contains(detail, "VM 400 is paused") && strings.Contains(detail, "apply again after the backup")
		if (err != nil) != (nth == 2) || paused != (nth == 2) || strings.Contains(detail, "runs on") {
			t.Errorf("%d: %v: %s", nth, err, detail)
		}
		if n := w.sent("/status/shutdown"); n != nth-1 {
			t.Errorf("%d: asked %d times to shut down", nth, n)
		}
	}
}

func detailOf(err error) string {
	var field *guest.FieldError
	if errors.As(err, &field) {
		return field.Summary + ". " + field.Detail
	}
	return ""
}

// ignoreShutdown has the guest not obey.
func (w *world) ignoreShutdown() {
	w.alter(func(g *state.Guest) { g.Ignores = append(g.Ignores, "shutdown") })
}

// TestRestartIsFollowed: a third party migrates the VM while its restart is awaited. It is not gone, and is looked at
// where it is.
func TestRestartIsFollowed(t *testing.T) {
	w := newWorld(t, nil)
	u, before := w.restarting()
	w.alter(func(g *state.Guest) {
		g.Node = "pve2"
		g.Running = &state.Running{QMPStatus: "running", PID: int(before.PID) + 1, StartedAt: w.sim.World().Clock.Now(),
			Booted: g.Config}
	})
	if err := (power{u}).awaitStart(t.Context(), before); err != nil || u.view.Node() != "pve2" ||
		w.sent("/status/start") != 0 {
		t.Errorf("%v, on node %s, sent %v", err, u.view.Node(), w.writes())
	}
	g, err := u.outcome(t.Context(), false)
	if err != nil || g.Node != "pve2" {
		t.Errorf("%v, and the VM on node %s", err, g.Node)
	}
}
