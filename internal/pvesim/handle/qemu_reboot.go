package handle

import (
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

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
		if g.Running == nil {
			return Die("VM %d not running", g.VMID)
		}
		return do(w, g)
	}), nil
}

func qemuReset(r *Request) (any, error) {
	return r.onRunning("qmreset", func(w *Worker, g *state.Guest) error {
		r.W.PowerLoss(g, state.PowerReset, w.Task)
		again := *g.Running // what was asked of the old run is forgotten
		if again.StartedAt = g.Running.StartedAt; again.QMPStatus != "running" {
			again.QMPStatus = "prelaunch" // it waits to be resumed (qemu system/runstate.c, main_loop_should_exit)
		}
		g.Running = &again
		return nil
	})
}

// rebootGap is the time between the end of a guest that reboots and its start. PVE's depends on qmeventd and the disks.
const rebootGap = 3 * time.Second

// qemuReboot is POST reboot. It is never handed to HA. The task ends with the guest; what starts it again is a task of
// root's own, which nobody reports (qemu-server CLI/qm.pm cleanup, called by qmeventd).
func qemuReboot(r *Request) (any, error) {
	if g := r.W.Guests[r.vmid()]; g != nil && g.Running != nil && isPaused(g.Running) {
		return nil, Die("VM is paused - cannot shutdown")
	}
	if err := r.running(); err != nil {
		return nil, err
	}
	how := stopping{ask: true, seconds: r.patience(-1), obeyed: state.PowerReboot}
	return r.task("qmreboot", func(w *Worker) error {
		g := r.W.Guests[r.vmid()]
		ran := g != nil && g.Running != nil
		if err := r.stopWorker(w, how); err != nil {
			return err
		}
		if ran {
			r.Server.after(rebootGap, func() { r.Server.restart(r.node(), r.vmid()) })
		}
		return nil
	}), nil
}

// restart starts a guest of its own accord, in a task of root's, if its configuration is still there.
func (s *Server) restart(node string, vmid int) {
	if g := s.world.Guests[vmid]; g == nil || g.Node != node || !s.world.Nodes[node].Online {
		return
	}
	r := &Request{W: s.world, Method: "EVENT", Auth: rootAuth(), Server: s, Params: map[string]string{"node": node, "vmid": itoa(vmid)}}
	s.beside(s.newWorker(node, "qmstart", itoa(vmid), r.Auth), func(w *Worker) error { return perlText(r.startWorker(w, false)) })
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
