package handle

import (
	"errors"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
)

// Checkpoint lets half of the remaining task time pass, with the mutex released, and is where faults and signals strike:
// it belongs where dying hurts most, after volumes were allocated and before the final config write, in a destroy after some
// volumes were freed.
//
// It returns the injected failure (phases task, partial and, where a task makes a guest, rival), or "received interrupt"
// after DELETE of the task: return it as PVE returns an error, through PVE's clean-up. Phase kill_task unwinds the worker by
// a private panic, so that no clean-up runs; only defers do, which must therefore do nothing but release locks.
func (w *Worker) Checkpoint() error {
	share := w.left / 2
	w.left -= share
	if share > 0 {
		w.Wait(share)
	}
	if w.kill || w.Server.ctx.Err() != nil {
		panic(killed{})
	}
	if w.terminate {
		return errInterrupted
	}
	k := w.armed
	if k == nil || k.Phase == fault.FirewallLock || k.Phase == fault.Rival && !w.makesGuest() {
		return nil
	}
	w.Wait(k.Delay())
	w.armed, w.struck = nil, k
	switch k.Phase {
	case fault.KillTask:
		k.Took()
		panic(killed{})
	case fault.Offline:
		k.Took()
		w.Server.crash(w.Task.Node, k.Away())
		panic(killed{})
	case fault.Task:
		k.Took()
	}
	return errors.New(k.Text("injected failure"))
}

// errInterrupted is what SIGTERM makes of a worker's work (PVE::RESTEnvironment, fork_worker).
var errInterrupted = errors.New("received interrupt")

// CleanupFails reports phase partial: PVE's own clean-up frees nothing, logs the warning that PVE would print, and unlinks
// the config as PVE does. Ask it only where there is something to free, because the question counts as the fault's effect.
func (w *Worker) CleanupFails() bool {
	if w.struck == nil || w.struck.Phase != fault.Partial {
		return false
	}
	if w.asks++; w.asks == 1 {
		w.struck.Took()
	}
	return true
}

// makesGuest reports whether the task's failure leaves a VMID free that its success would have taken.
func (w *Worker) makesGuest() bool {
	return strings.Contains(" qmcreate qmclone qmrestore ", " "+w.Task.Type+" ")
}

// settleRival lets a stranger take the id that this task has given up: by failing to make a guest, or by destroying one.
func (w *Worker) settleRival(err error) {
	k := w.struck
	if w.Task.Type == "qmdestroy" && err == nil {
		k = w.armed
	}
	if k == nil || k.Phase != fault.Rival || w.vmid == 0 || w.W.Guests[w.vmid] != nil {
		return
	}
	rivalCreate(w.W, w.Task.Node, w.vmid)
	k.Took()
}
