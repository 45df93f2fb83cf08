// Package power starts, stops, reboots and suspends virtual machines.
package power

import (
	"slices"
	"strconv"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Managed reports whether HA cares for the request's guest, so that PVE hands what is asked to the manager.
func Managed(r *engine.Request) *state.HAResource {
	h := r.W.HA["vm:"+strconv.Itoa(r.VMID())]
	if h == nil || h.State == "ignored" {
		return nil
	}
	return h
}

// AskManager forks the task by which PVE hands a request to the HA manager: it has done its work when the request is
// filed.
func AskManager(r *engine.Request, typ, what string, file func(w *engine.Worker, h *state.HAResource) error) string {
	return guest.Fork(r, typ, func(w *engine.Worker) error {
		w.Logf("%s", what)
		if err := w.Checkpoint(); err != nil {
			return err
		}
		h := Managed(r)
		if h == nil {
			return perl.Die("resource 'vm:%d' is not HA managed", r.VMID())
		}
		if h.Failed {
			return perl.Die("service '%s' in error state, must be disabled and fixed first", h.SID)
		}
		if err := file(w, h); err != nil {
			return err
		}
		r.Engine.Round(h.SID)
		return nil
	})
}

func askManagerStop(r *engine.Request, seconds int) string {
	return AskManager(r, "hastop", "Requesting HA stop for VM "+strconv.Itoa(r.VMID()),
		func(_ *engine.Worker, h *state.HAResource) error {
			h.Command = &state.HACommand{Verb: "stop", TimeoutSeconds: seconds}
			return nil
		})
}

// Stopping is how a task is to end a guest.
type Stopping struct {
	Ask      bool // let the operating system shut down; else quit at once
	Force    bool // end it if it does not obey
	Seconds  int  // how long it is given; negative: startup's down=, or 60
	skiplock bool
	Obeyed   state.PowerKind // what it counts as if the guest obeys
}

// Stop is POST status/stop.
func Stop(r *engine.Request) (any, error) {
	skiplock, err := guest.SkipLock(r)
	if err != nil {
		return nil, err
	}
	if r.Params["keepActive"] == "1" && !r.Auth.IsRoot() {
		return nil, perl.Invalid("keepActive", "Only root may use this option.")
	}
	instead := r.Flag("overrule-shutdown")
	if Managed(r) != nil {
		if instead {
			return nil, perl.Invalid("overrule-shutdown", "Not applicable for HA resources.")
		}
		return askManagerStop(r, 0), nil
	}
	return guest.Fork(r, "qmstop", func(w *engine.Worker) error {
		if instead {
			overrule(r, w)
		}
		return StopWorker(r, w, Stopping{skiplock: skiplock})
	}), nil
}

// overrule ends the shutdowns of the guest that are under way (guest-common GuestHelpers.pm abort_guest_tasks).
func overrule(r *engine.Request, w *engine.Worker) {
	for upid, other := range r.Engine.Workers {
		if other.Task.Type != "qmshutdown" || other.Task.ID != strconv.Itoa(r.VMID()) || other.Terminate {
			continue
		}
		if !engine.OwnTask(w.Auth, other.Task) && w.Check("/nodes/"+r.Node(), "Sys.Modify") != nil {
			continue
		}
		other.Terminate = true
		w.Logf("overruled qmshutdown tasks: %s", upid)
		r.Engine.Wait(5*time.Second, func() bool { return !other.Task.Running })
		return
	}
}

// StopWorker is vm_stop: a stopped guest is no error, even a locked one.
func StopWorker(r *engine.Request, w *engine.Worker, how Stopping) error {
	if _, err := guest.Find(r.W, r.Node(), r.VMID()); err != nil {
		return err
	}
	release, err := guest.LockInTask(w, r.VMID(), false, engine.LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	g, err := guest.Find(r.W, r.Node(), r.VMID())
	if err != nil {
		return err
	}
	return end(engine.Process{Request: r, Worker: w}, g, how)
}

// end is QemuServer.pm's _do_vm_stop.
func end(p engine.Process, g *state.Guest, how Stopping) error {
	if g.Running == nil {
		return p.Worker.Checkpoint()
	}
	if err := guest.CheckLock(g); err != nil && !how.skiplock {
		return err
	}
	if err := p.Worker.Checkpoint(); err != nil {
		return err
	}
	kind := state.PowerStop
	if how.Ask {
		obeyed, err := ask(p, g, how)
		if err != nil {
			return err
		}
		if obeyed {
			kind = how.Obeyed
		}
	}
	halt(p, g, kind)
	return nil
}

// halt ends the guest's process; pending changes become current.
func halt(p engine.Process, g *state.Guest, kind state.PowerKind) {
	if g.Running != nil {
		p.Engine.Lose(g, kind, p.Worker.Task)
	}
	if g.StopWarning != "" {
		p.Worker.Warnf("%s", g.StopWarning)
	}
	if len(g.Pending)+len(g.Deletes) > 0 {
		config.ApplyPending(p, g, map[string]string{})
	}
}

// ask asks the operating system to shut down, by the agent if it answers within 3 s, else by ACPI, and waits for it.
// One that does not obey in time is an error, or is ended by the caller if how.force is set.
func ask(p engine.Process, g *state.Guest, how Stopping) (obeyed bool, err error) {
	w := p.Worker
	if g.Running == nil {
		return true, nil // it has died meanwhile
	}
	if agent.Enabled(g.Config["agent"]) && !agent.Answers(p.Request, g) {
		w.Wait(agent.Ping)
		if g.Running != nil && !agent.Answers(p.Request, g) {
			w.Logf("QEMU Guest Agent is not running - VM %d qmp command 'guest-ping' failed - got timeout", g.VMID)
		}
	}
	patience := time.Duration(how.Seconds) * time.Second
	if how.Seconds < 0 {
		patience = time.Minute
		if down := perl.Subvalue(g.Config["startup"], "down", false); down != "" && down != "0" {
			patience = time.Duration(perl.Number(down)) * time.Second
		}
	}
	asked := g.Running
	need, hears := reaction(p, g)
	obeyed = hears && need <= patience && patience > 0
	if hears && !obeyed {
		obeyLater(p, g, need)
	}
	if !obeyed {
		need = patience
	}
	p.Engine.Wait(need, func() bool { return w.Terminate || w.Kill || g.Running != asked })
	if obeyed && g.Running == asked && (w.Kill || w.Terminate) {
		obeyLater(p, g, need) // the guest has the request, whether or not a task waits
	}
	switch {
	case w.Kill:
		panic(engine.Killed{})
	case w.Terminate:
		return false, engine.ErrInterrupted
	case g.Running != asked || obeyed:
		return true, nil
	case !how.Force:
		return false, perl.Die("VM quit/powerdown failed - got timeout")
	}
	w.Logf("VM still running - terminating now with SIGTERM")
	return false, nil
}

// isPaused is QemuServer.pm's vm_is_paused.
func isPaused(run *state.Running) bool {
	return run.QMPStatus == "paused" || run.QMPStatus == "prelaunch"
}

// reaction is how long the operating system takes to shut down, and whether it hears the request at all: one that is
// paused or still booting does not.
func reaction(p engine.Process, g *state.Guest) (need time.Duration, hears bool) {
	if g.Running == nil {
		return 0, false
	}
	up := g.Running.StartedAt.Add(time.Duration(g.BootSeconds) * time.Second)
	deaf := slices.Contains(g.Ignores, "shutdown") || isPaused(g.Running) || g.BootSeconds > 0 &&
		p.W.Clock.Now().Before(up)
	return time.Duration(g.ShutdownSeconds) * time.Second, !deaf
}

// obeyLater lets a guest go off when its operating system has done its work, whether a caller still waits for it or
// not: an ACPI request cannot be taken back. Nothing starts it again, also after a reboot: PVE has dropped that request
// by then (QemuServer.pm, vm_reboot and clear_reboot_request).
func obeyLater(p engine.Process, g *state.Guest, need time.Duration) {
	asked, task := g.Running, p.Worker.Task
	p.Engine.After(need, func() {
		if g.Running == asked && p.W.Guests[g.VMID] == g {
			p.Engine.Lose(g, state.PowerShutdown, task)
			p.Engine.Round("vm:" + strconv.Itoa(g.VMID))
		}
	})
}

// patience is the timeout of a request in seconds, or fallback.
func patience(r *engine.Request, fallback int) int {
	if t, ok := r.Params["timeout"]; ok {
		return perl.Number(t)
	}
	return fallback
}

// Shutdown is POST status/shutdown.
func Shutdown(r *engine.Request) (any, error) {
	skiplock, err := guest.SkipLock(r)
	if err != nil {
		return nil, err
	}
	how := Stopping{Ask: true, Force: r.Flag("forceStop"), Seconds: patience(r, -1), skiplock: skiplock,
		Obeyed: state.PowerShutdown}
	if g := r.W.Guests[r.VMID()]; g != nil && g.Running != nil && isPaused(g.Running) {
		if !how.Force {
			return nil, perl.Die("VM is paused - cannot shutdown")
		}
		how.Ask = false
	}
	if Managed(r) != nil {
		return askManagerStop(r, patience(r, 60)), nil
	}
	return guest.Fork(r, "qmshutdown", func(w *engine.Worker) error { return StopWorker(r, w, how) }), nil
}
