package engine

import (
	"errors"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
)

// Checkpoint lets half of the remaining task time pass, with the mutex released, and is where faults and signals
// strike: it belongs where dying hurts most, after volumes were allocated and before the final config write, in a
// destroy after some volumes were freed.
//
// It returns the injected failure (phases task, partial and, where a task makes a guest, rival), or "received
// interrupt" after DELETE of the task: return it as PVE returns an error, through PVE's clean-up. Phase kill_task
// unwinds the worker by a private panic, so that no clean-up runs; only defers do, which must therefore do nothing but
// release locks.
func (w *Worker) Checkpoint() error {
	share := w.Left / 2
	w.Left -= share
	if share > 0 {
		w.Wait(share)
	}
	if w.Kill || w.Engine.Ctx.Err() != nil {
		panic(Killed{})
	}
	if w.Terminate {
		return ErrInterrupted
	}
	k := w.Armed
	elsewhere := k != nil && (k.Phase == fault.FirewallLock || k.Phase == fault.NoQuorum)
	if k == nil || elsewhere || k.Phase == fault.Rival && !w.makesGuest() {
		return nil
	}
	w.Wait(k.Delay())
	w.Armed, w.Struck = nil, k
	switch k.Phase {
	case fault.KillTask:
		k.Took()
		panic(Killed{})
	case fault.Offline:
		k.Took()
		w.Engine.Crash(w.Task.Node, k.Away())
		panic(Killed{})
	case fault.Task:
		k.Took()
	}
	return errors.New(k.Text("injected failure"))
}

// ErrInterrupted is what SIGTERM makes of a worker's work (PVE::RESTEnvironment, fork_worker).
var ErrInterrupted = errors.New("received interrupt")

// LosesQuorum reports phase no_quorum. Ask it where the task writes the configuration of a guest that it has made.
func (w *Worker) LosesQuorum() bool {
	if k := w.Armed; k != nil && k.Phase == fault.NoQuorum {
		w.Wait(k.Delay())
		w.Armed, w.Struck = nil, k
		k.Took()
	}
	return w.Struck != nil && w.Struck.Phase == fault.NoQuorum
}

// ErrReadOnly is what a write of a guest's configuration dies of without quorum (pve-common Tools.pm
// file_set_contents).
func ErrReadOnly(node string, vmid int) error {
	return perl.Die("unable to open file '/etc/pve/nodes/%s/qemu-server/%d.conf.tmp.4711' - Permission denied", node, vmid)
}

// CleanupFails reports phase partial: PVE's own clean-up frees nothing, logs the warning that PVE would print, and
// unlinks the config as PVE does. Ask it only where there is something to free, because the question counts as the
// fault's effect.
func (w *Worker) CleanupFails() bool {
	if w.Struck == nil || w.Struck.Phase != fault.Partial {
		return false
	}
	if w.asks++; w.asks == 1 {
		w.Struck.Took()
	}
	return true
}

// makesGuest reports whether the task's failure leaves a VMID free that its success would have taken.
func (w *Worker) makesGuest() bool {
	return strings.Contains(" qmcreate qmclone qmrestore ", " "+w.Task.Type+" ")
}

// settleRival lets a third party take the id that this task has given up: by failing to make a guest, or by destroying
// one.
func (w *Worker) settleRival(err error) {
	k := w.Struck
	if w.Task.Type == "qmdestroy" && err == nil {
		k = w.Armed
	}
	if k == nil || k.Phase != fault.Rival || w.vmid == 0 || w.W.Guests[w.vmid] != nil {
		return
	}
	RivalCreate(w.W, w.Task.Node, w.vmid)
	k.Took()
}
