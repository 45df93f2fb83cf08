package handle

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// power forks the task of a power operation. Under HA management PVE files a request instead (API2/Qemu.pm); the manager
// here acts on it at once, in a task of root's own.
func (r *Request) power(typ, haState string, work func(w *Worker) error) (any, error) {
	ha := r.W.HA["vm:"+r.Params["vmid"]]
	if ha == nil || ha.State == "ignored" || haState == "" {
		return r.task(typ, work), nil
	}
	name := map[string]string{"started": "hastart", "stopped": "hastop"}[haState]
	return r.task(name, func(w *Worker) error {
		w.Logf("Requesting HA %s for VM %d", strings.TrimPrefix(name, "ha"), r.vmid())
		if err := w.Checkpoint(); err != nil {
			return err
		}
		ha.State = haState
		w.Auth = Auth{ID: "root@pam", User: "root@pam"}
		w.Fork(r.node(), typ, strconv.Itoa(r.vmid()), func(w *Worker) error { return perlText(work(w)) })
		return nil
	}), nil
}

func qemuStop(r *Request) (any, error) {
	skiplock, err := r.skiplock()
	if err != nil {
		return nil, err
	}
	return r.power("qmstop", "stopped", func(w *Worker) error { return r.stopWorker(w, skiplock, func(*state.Guest) error { return nil }) })
}

// stopWorker is _do_vm_stop: a stopped guest is no error, even a locked one. end waits for the guest's own end, if asked.
func (r *Request) stopWorker(w *Worker, skiplock bool, end func(g *state.Guest) error) error {
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
	if g.Running == nil {
		return w.Checkpoint()
	}
	if err := checkLock(g); err != nil && !skiplock {
		return err
	}
	if err := w.Checkpoint(); err != nil {
		return err
	}
	if err := end(g); err != nil {
		return err
	}
	process{r, w}.halt(g)
	return nil
}

// halt ends the guest's process; pending changes become current.
func (p process) halt(g *state.Guest) {
	g.Running = nil
	g.StatusAt = p.W.Clock.Now()
	if len(g.Pending)+len(g.Deletes) > 0 {
		p.applyPending(g, map[string]string{})
	}
}

func qemuShutdown(r *Request) (any, error) {
	skiplock, err := r.skiplock()
	if err != nil {
		return nil, err
	}
	g := r.W.Guests[r.vmid()]
	force := r.flag("forceStop")
	if g != nil && g.Running != nil && g.Running.QMPStatus == "paused" && !force {
		return nil, Die("VM is paused - cannot shutdown")
	}
	return r.power("qmshutdown", "stopped", func(w *Worker) error {
		return r.stopWorker(w, skiplock, func(g *state.Guest) error { return r.askGuest(w, g, force) })
	})
}

// askGuest waits for the operating system to shut down; one that does not listen runs into the timeout.
func (r *Request) askGuest(w *Worker, g *state.Guest, force bool) error {
	if g.Running.QMPStatus == "paused" || !slices.Contains(g.Ignores, "shutdown") {
		return nil
	}
	if agentEnabled(g.Config["agent"]) && g.Agent != nil && g.Agent.Silent {
		w.Logf("QEMU Guest Agent is not running - VM %d qmp command 'guest-ping' failed - got timeout", g.VMID)
	}
	seconds := 60
	if down := subvalue(g.Config["startup"], "down", false); down != "" {
		seconds, _ = strconv.Atoi(down)
	}
	if t, err := strconv.Atoi(r.Params["timeout"]); err == nil {
		seconds = t
	}
	w.Wait(time.Duration(seconds) * time.Second)
	if w.kill {
		panic(killed{})
	}
	if w.terminate {
		return Die("received interrupt")
	}
	if !force {
		return Die("VM quit/powerdown failed - got timeout")
	}
	w.Logf("VM still running - terminating now with SIGTERM")
	return nil
}

// running is the check of the operations that refuse a stopped guest before they fork.
func (r *Request) running() error {
	g, err := findGuest(r.W, r.node(), r.vmid())
	if err != nil {
		return err
	}
	if g.Running == nil {
		return Die("VM %d not running", g.VMID)
	}
	return nil
}

// onRunning forks a task that does something to a running, unlocked guest.
func (r *Request) onRunning(typ string, do func(w *Worker, g *state.Guest) error) (any, error) {
	skiplock, err := r.skiplock()
	if err != nil {
		return nil, err
	}
	if err := r.running(); err != nil {
		return nil, err
	}
	return r.task(typ, func(w *Worker) error {
		release, err := w.lockGuest(r.vmid(), false, LockTimeout)
		if err != nil {
			return err
		}
		defer release()
		g, err := r.guest()
		if err != nil {
			return err
		}
		if err := checkLock(g); err != nil && !skiplock {
			return err
		}
		if g.Running == nil {
			return Die("VM %d not running", g.VMID)
		}
		if err := w.Checkpoint(); err != nil {
			return err
		}
		return do(w, g)
	}), nil
}

func qemuReset(r *Request) (any, error) {
	return r.onRunning("qmreset", func(_ *Worker, g *state.Guest) error {
		g.Running.QMPStatus = "running"
		return nil
	})
}

func qemuReboot(r *Request) (any, error) {
	return r.onRunning("qmreboot", func(w *Worker, g *state.Guest) error {
		if err := r.askGuest(w, g, false); err != nil {
			return err
		}
		p := process{r, w}
		p.halt(g)
		return p.boot(g)
	})
}

func qemuResume(r *Request) (any, error) {
	g, err := findGuest(r.W, r.node(), r.vmid())
	if err != nil {
		return nil, err
	}
	if g.Lock() == "suspended" && g.Running == nil {
		return r.task("qmresume", func(w *Worker) error { return r.startWorker(w, false) }), nil
	}
	return r.onRunning("qmresume", func(_ *Worker, g *state.Guest) error {
		g.Running.QMPStatus = "running"
		return nil
	})
}
