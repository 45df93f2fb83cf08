package power

import (
	"strconv"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// CheckRunning is the check of the operations that refuse a stopped guest before they fork.
func CheckRunning(r *engine.Request) error {
	g, err := guest.Find(r.W, r.Node(), r.VMID())
	if err != nil {
		return err
	}
	if g.Running == nil {
		return perl.Die("VM %d not running", g.VMID)
	}
	return nil
}

// onRunning forks a task that does something to a running, unlocked guest.
func onRunning(r *engine.Request, typ string, do func(w *engine.Worker, g *state.Guest) error) (any, error) {
	skiplock, err := guest.SkipLock(r)
	if err != nil {
		return nil, err
	}
	if err := CheckRunning(r); err != nil {
		return nil, err
	}
	return guest.Fork(r, typ, func(w *engine.Worker) error {
		release, err := guest.LockInTask(w, r.VMID(), false, engine.LockTimeout)
		if err != nil {
			return err
		}
		defer release()
		g, err := guest.Load(r)
		if err != nil {
			return err
		}
		if err := guest.CheckLock(g); err != nil && !skiplock {
			return err
		}
		if g.Running == nil {
			return perl.Die("VM %d not running", g.VMID)
		}
		if err := w.Checkpoint(); err != nil {
			return err
		}
		if g.Running == nil {
			return perl.Die("VM %d not running", g.VMID)
		}
		return do(w, g)
	}), nil
}

// Reset is POST status/reset: the reset button.
func Reset(r *engine.Request) (any, error) {
	return onRunning(r, "qmreset", func(w *engine.Worker, g *state.Guest) error {
		r.W.PowerLoss(g, state.PowerReset, w.Task)
		again := *g.Running // requests to the old run are forgotten
		if again.StartedAt = g.Running.StartedAt; again.QMPStatus != "running" {
			again.QMPStatus = "prelaunch" // it waits to be resumed (qemu system/runstate.c, main_loop_should_exit)
		}
		g.Running = &again
		return nil
	})
}

// RebootGap is the time between the end of a guest that reboots and its start. PVE's depends on qmeventd and the disks.
const RebootGap = 3 * time.Second

// Reboot is POST reboot. It is never handed to HA. The task ends with the guest; what starts it again is a task of
// root's own, which no answer reports (qemu-server CLI/qm.pm cleanup, called by qmeventd).
func Reboot(r *engine.Request) (any, error) {
	if g := r.W.Guests[r.VMID()]; g != nil && g.Running != nil && isPaused(g.Running) {
		return nil, perl.Die("VM is paused - cannot shutdown")
	}
	if err := CheckRunning(r); err != nil {
		return nil, err
	}
	how := Stopping{Ask: true, Seconds: patience(r, -1), Obeyed: state.PowerReboot}
	return guest.Fork(r, "qmreboot", func(w *engine.Worker) error {
		g := r.W.Guests[r.VMID()]
		ran := g != nil && g.Running != nil
		if err := StopWorker(r, w, how); err != nil {
			return err
		}
		if ran {
			r.Engine.After(RebootGap, func() { Restart(r.Engine, r.Node(), r.VMID()) })
		}
		return nil
	}), nil
}

// Restart starts a guest of its own accord, in a task of root's, if its configuration is still there.
func Restart(e *engine.Engine, node string, vmid int) {
	if g := e.World.Guests[vmid]; g == nil || g.Node != node || !e.World.Nodes[node].Online {
		return
	}
	r := &engine.Request{W: e.World, Method: "EVENT", Auth: auth.Root(), Engine: e,
		Params: map[string]string{"node": node, "vmid": strconv.Itoa(vmid)}}
	w := e.NewWorker(node, "qmstart", strconv.Itoa(vmid), r.Auth)
	w.Beside(func(w *engine.Worker) error { return perl.Stringify(StartWorker(r, w, false)) })
}

// Resume is POST status/resume, of a paused guest and of one that was saved to disk.
func Resume(r *engine.Request) (any, error) {
	g, err := guest.Find(r.W, r.Node(), r.VMID())
	if err != nil {
		return nil, err
	}
	if g.Lock() == "suspended" && g.Running == nil {
		return guest.Fork(r, "qmresume", func(w *engine.Worker) error { return StartWorker(r, w, false) }), nil
	}
	return onRunning(r, "qmresume", func(_ *engine.Worker, g *state.Guest) error {
		g.Running.QMPStatus = "running"
		return nil
	})
}
