package handle

import (
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// managed reports whether HA cares for the request's guest, so that PVE hands what is asked to the manager.
func (r *Request) managed() *state.HAResource {
	h := r.W.HA["vm:"+itoa(r.vmid())]
	if h == nil || h.State == "ignored" {
		return nil
	}
	return h
}

// askManager forks the task by which PVE hands a request to the HA manager: it has done its work when the request is filed.
func (r *Request) askManager(typ, what string, file func(h *state.HAResource) error) string {
	return r.task(typ, func(w *Worker) error {
		w.Logf("%s", what)
		if err := w.Checkpoint(); err != nil {
			return err
		}
		h := r.managed()
		if h == nil {
			return Die("resource 'vm:%d' is not HA managed", r.vmid())
		}
		if h.Failed {
			return Die("service '%s' in error state, must be disabled and fixed first", h.SID)
		}
		if err := file(h); err != nil {
			return err
		}
		r.Server.round(h.SID)
		return nil
	})
}

func (r *Request) askManagerStop(seconds int) string {
	return r.askManager("hastop", "Requesting HA stop for VM "+itoa(r.vmid()), func(h *state.HAResource) error {
		h.Command = &state.HACommand{Verb: "stop", TimeoutSeconds: seconds}
		return nil
	})
}

// stopping is how a task is to end a guest.
type stopping struct {
	ask      bool // let the operating system shut down; else quit at once
	force    bool // end it if it does not obey
	seconds  int  // how long it is given; negative: startup's down=, or 60
	skiplock bool
	obeyed   state.PowerKind // what it counts as if the guest obeys
}

func qemuStop(r *Request) (any, error) {
	skiplock, err := r.skiplock()
	if err != nil {
		return nil, err
	}
	overrule := r.flag("overrule-shutdown")
	if r.managed() != nil {
		if overrule {
			return nil, Invalid("overrule-shutdown", "Not applicable for HA resources.")
		}
		return r.askManagerStop(0), nil
	}
	return r.task("qmstop", func(w *Worker) error {
		if overrule {
			r.overrule(w)
		}
		return r.stopWorker(w, stopping{skiplock: skiplock})
	}), nil
}

// overrule ends the shutdowns of the guest that are under way (guest-common GuestHelpers.pm abort_guest_tasks).
func (r *Request) overrule(w *Worker) {
	for upid, other := range r.Server.workers {
		if other.Task.Type != "qmshutdown" || other.Task.ID != itoa(r.vmid()) || other.terminate {
			continue
		}
		if !ownTask(w.Auth, other.Task) && w.Check("/nodes/"+r.node(), "Sys.Modify") != nil {
			continue
		}
		other.terminate = true
		w.Logf("overruled qmshutdown tasks: %s", upid)
		r.Server.Wait(5*time.Second, func() bool { return !other.Task.Running })
		return
	}
}

// stopWorker is vm_stop: a stopped guest is no error, even a locked one.
func (r *Request) stopWorker(w *Worker, how stopping) error {
	if _, err := findGuest(r.W, r.node(), r.vmid()); err != nil {
		return err
	}
	release, err := w.lockGuest(r.vmid(), false, LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	g, err := findGuest(r.W, r.node(), r.vmid())
	if err != nil {
		return err
	}
	return process{r, w}.end(g, how)
}

// end is QemuServer.pm's _do_vm_stop.
func (p process) end(g *state.Guest, how stopping) error {
	if g.Running == nil {
		return p.worker.Checkpoint()
	}
	if err := checkLock(g); err != nil && !how.skiplock {
		return err
	}
	if err := p.worker.Checkpoint(); err != nil {
		return err
	}
	kind := state.PowerStop
	if how.ask {
		obeyed, err := p.ask(g, how)
		if err != nil {
			return err
		}
		if obeyed {
			kind = how.obeyed
		}
	}
	p.halt(g, kind)
	return nil
}

// halt ends the guest's process; pending changes become current.
func (p process) halt(g *state.Guest, kind state.PowerKind) {
	if g.Running != nil {
		p.Server.lose(g, kind, p.worker.Task)
	}
	if g.StopWarning != "" {
		p.worker.Warnf("%s", g.StopWarning)
	}
	if len(g.Pending)+len(g.Deletes) > 0 {
		p.applyPending(g, map[string]string{})
	}
}

// ask asks the operating system to shut down, by the agent if it answers within 3 s, else by ACPI, and waits for it. One that
// does not obey in time is an error, or is ended by the caller if how.force is set.
func (p process) ask(g *state.Guest, how stopping) (obeyed bool, err error) {
	w := p.worker
	if g.Running == nil {
		return true, nil // it has died meanwhile
	}
	if agentEnabled(g.Config["agent"]) && !p.agentAnswers(g) {
		w.Wait(agentPing)
		if g.Running != nil && !p.agentAnswers(g) {
			w.Logf("QEMU Guest Agent is not running - VM %d qmp command 'guest-ping' failed - got timeout", g.VMID)
		}
	}
	patience := time.Duration(how.seconds) * time.Second
	if how.seconds < 0 {
		patience = time.Minute
		if down := subvalue(g.Config["startup"], "down", false); down != "" && down != "0" {
			patience = time.Duration(number(down)) * time.Second
		}
	}
	asked := g.Running
	need, hears := p.reaction(g)
	obeyed = hears && need <= patience && patience > 0
	if hears && !obeyed {
		p.obeyLater(g, need)
	}
	if !obeyed {
		need = patience
	}
	p.Server.Wait(need, func() bool { return w.terminate || w.kill || g.Running != asked })
	if obeyed && g.Running == asked && (w.kill || w.terminate) {
		p.obeyLater(g, need) // the request is out, whoever waits for it
	}
	switch {
	case w.kill:
		panic(killed{})
	case w.terminate:
		return false, errInterrupted
	case g.Running != asked || obeyed:
		return true, nil
	case !how.force:
		return false, Die("VM quit/powerdown failed - got timeout")
	}
	w.Logf("VM still running - terminating now with SIGTERM")
	return false, nil
}

// isPaused is QemuServer.pm's vm_is_paused.
func isPaused(run *state.Running) bool {
	return run.QMPStatus == "paused" || run.QMPStatus == "prelaunch"
}

// reaction is how long the operating system takes to shut down, and whether it hears the request at all: one that is paused or
// still booting does not.
func (p process) reaction(g *state.Guest) (need time.Duration, hears bool) {
	if g.Running == nil {
		return 0, false
	}
	up := g.Running.StartedAt.Add(time.Duration(g.BootSeconds) * time.Second)
	deaf := slices.Contains(g.Ignores, "shutdown") || isPaused(g.Running) || g.BootSeconds > 0 && p.W.Clock.Now().Before(up)
	return time.Duration(g.ShutdownSeconds) * time.Second, !deaf
}

// obeyLater lets a guest go off when its operating system has done its work, whether anybody still waits for it or not: an ACPI
// request cannot be taken back. Nothing starts it again, also after a reboot: PVE has dropped that request by then
// (QemuServer.pm, vm_reboot and clear_reboot_request).
func (p process) obeyLater(g *state.Guest, need time.Duration) {
	asked, task := g.Running, p.worker.Task
	p.Server.after(need, func() {
		if g.Running == asked && p.W.Guests[g.VMID] == g {
			p.Server.lose(g, state.PowerShutdown, task)
			p.Server.round("vm:" + itoa(g.VMID))
		}
	})
}

// patience is the timeout of a request in seconds, or fallback.
func (r *Request) patience(fallback int) int {
	if t, ok := r.Params["timeout"]; ok {
		return number(t)
	}
	return fallback
}

func qemuShutdown(r *Request) (any, error) {
	skiplock, err := r.skiplock()
	if err != nil {
		return nil, err
	}
	how := stopping{ask: true, force: r.flag("forceStop"), seconds: r.patience(-1), skiplock: skiplock, obeyed: state.PowerShutdown}
	if g := r.W.Guests[r.vmid()]; g != nil && g.Running != nil && isPaused(g.Running) {
		if !how.force {
			return nil, Die("VM is paused - cannot shutdown")
		}
		how.ask = false
	}
	if r.managed() != nil {
		return r.askManagerStop(r.patience(60)), nil
	}
	return r.task("qmshutdown", func(w *Worker) error { return r.stopWorker(w, how) }), nil
}
