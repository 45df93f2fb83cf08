package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// isDeaf reports whether a guest hears no request to shut down, so that PVE refuses to send one (qemu-server
// QemuServer.pm vm_is_paused).
func isDeaf(status pve.GuestStatus) bool {
	return slices.Contains([]string{"paused", "prelaunch", "suspended"}, status.QMPStatus)
}

func isRunning(status pve.GuestStatus) bool { return status.IsRunning() && !isDeaf(status) }

// start starts the guest. PVE resumes one that was suspended to disk (QemuServer.pm vm_start).
func (r *run) start(ctx context.Context) error {
	switch {
	case isDeaf(r.before):
		return r.refuse(ctx, "is "+r.before.QMPStatus, "PVE starts no guest that is there already. The action \"resume\" "+
			"lets it go on")
	case r.before.IsRunning():
		return r.nothing(ctx, " runs already: there is nothing to do")
	case r.lock == request.Suspended:
		r.tell(ctx, r.vm()+" was suspended to disk: its start resumes it")
	}
	r.first = r.hasItsDisks
	return r.startNow(ctx)
}

// hasItsDisks refuses to start the guest beside another one that runs with one of its disks: PVE does not ask
// (qemu-server QemuServer.pm vm_start_nolock). One that a restart has ended is started again, as it ran before. One
// with a saved memory goes on with the disks that it had: such a start applies no pending changes.
func (r *run) hasItsDisks(ctx context.Context) error {
	config, err := r.api.QEMU(r.node, r.VMID).Pending(ctx)
	if err != nil {
		return err
	}
	current, disks := config.Current(), guest.DisksToRun(config.Merged())
	if current["lock"] == request.Suspended || current["vmstate"] != "" {
		disks = guest.DisksToRun(current)
	}
	none := func(guard.Neighbor) bool { return false }
	return r.isAlone(ctx, "started", "qm start", disks, none)
}

// getsItsDisks refuses a restart that gives the guest a disk which another one has: PVE puts in force what waits, and
// starts it again without asking. It looks at nothing where the guest gets no disk.
func (r *run) getsItsDisks(ctx context.Context) error {
	config := r.config
	if r.tried { // a lock was waited for
		var err error
		if config, err = r.api.QEMU(r.node, r.VMID).Pending(ctx); err != nil {
			return err
		}
	}
	r.tried = true
	has := guest.DisksToRun(config.Current())
	gets := slices.DeleteFunc(guest.DisksToRun(config.Merged()), func(d string) bool { return slices.Contains(has, d) })
	return r.isAlone(ctx, "restarted", "qm reboot", gets, func(guard.Neighbor) bool { return false })
}

// goesOnAlone refuses to have a paused guest go on beside another one that has got one of its disks since: its memory
// has what it knew of the disk. One that already ran when this one was started, or was paused, shares the disk.
func (r *run) goesOnAlone(ctx context.Context) error {
	config, err := r.api.QEMU(r.node, r.VMID).Pending(ctx)
	if err != nil {
		return err
	}
	now, err := r.status(ctx)
	if err != nil {
		return err
	}
	up := time.Duration(now.Uptime) * time.Second
	paused := sync.OnceValues(func() (time.Duration, bool) { return r.pausedFor(ctx, now) })
	shares := func(n guard.Neighbor) bool {
		if n.Suspended || n.Uptime >= up {
			return !n.Suspended
		}
		since, known := paused()
		return known && n.Uptime > since
	}
	return r.isAlone(ctx, "resumed", "qm resume", guest.DisksToRun(config.Current()), shares)
}

// isAlone refuses to have the guest run beside another one with one of some disks, but those that share it.
func (r *run) isAlone(ctx context.Context, done, command string, disks []string,
	shares func(guard.Neighbor) bool) error {
	beside := fmt.Sprintf("VM %d is %s beside guests that were not seen", r.VMID, done)
	r.warnings = slices.DeleteFunc(r.warnings, func(w guest.Warning) bool { return w.Summary == beside })
	err := guard.CheckRunning(ctx, r.guard, r.node, r.VMID, disks, shares)
	var used *guard.InUseError
	switch {
	case errors.As(err, &used):
		return &guest.FieldError{Path: "action", Summary: fmt.Sprintf("VM %d was not %s", r.VMID, done),
			Detail: fmt.Sprintf("Two guests on one disk destroy what is on it. Detach the disk there or shut that guest down, "+
				"then repeat the action. `%s %d` on node %s does it without that, for guests that are made to share the disk, "+
				"such as the nodes of a cluster", command, r.VMID, r.node), Err: err}
	case ctx.Err() != nil:
		return err
	case err != nil: // such as for a node that is off, whose guests are mostly off, too
		r.warnings = append(r.warnings, guest.Warning{Summary: beside,
			Detail: "Whether one that runs has a disk of the VM could not be told: " + err.Error()})
	}
	return nil
}

func (r *run) startNow(ctx context.Context) error {
	if _, _, err := r.guests.StartBy(ctx, r.perform, r.node, r.VMID); err != nil || r.NoWait {
		return err
	}
	if !r.before.HAManaged {
		return nil
	}
	r.tell(ctx, "The start was filed with HA: waiting until "+r.vm()+" runs")
	if runs, err := r.await(ctx, r.end, isRunning); err != nil || runs {
		return err
	}
	return fmt.Errorf("HA was asked to start VM %d, and within %s it did not run. HA's manager may start it later", r.VMID,
		r.Timeout)
}

// shutDown asks the guest to shut down. HA's manager stops a guest hard that does not obey (pve-ha-manager
// HA/Resources/PVEVM.pm shutdown).
func (r *run) shutDown(ctx context.Context) error {
	switch {
	case !r.before.IsRunning():
		return r.nothing(ctx, " is off: there is nothing to do")
	case isDeaf(r.before):
		return r.refuse(ctx, "is "+r.before.QMPStatus, "A guest that is paused hears no request to shut down. The action "+
			"\"resume\" lets it go on, and \"stop\" cuts it off")
	case r.before.HAManaged:
		r.tell(ctx, r.vm()+" is under HA, whose manager shuts it down, and cuts it off if it does not obey. "+
			guest.NotesStop)
	}
	patience := r.patience()
	r.tell(ctx, fmt.Sprintf("Asking %s to shut down within %s", r.vm(), patience))
	params := guest.Within(patience)
	_, err := r.perform(ctx, request.Request{Type: "qmshutdown", Done: r.guests.IsStopped(r.node, r.VMID),
		Send: func(ctx context.Context) (pve.UPID, error) { return r.api.QEMU(r.node, r.VMID).Shutdown(ctx, params) }})
	var ended *pve.TaskError // also by who cuts it off meanwhile (API2/Qemu.pm vm_stop, overrule-shutdown)
	if r.NoWait || err != nil && !errors.As(err, &ended) || ctx.Err() != nil {
		return err
	}
	until := r.end
	if err != nil && !disobeyed(err) {
		until = r.jobs.Clock.Now().Add(10 * time.Second)
	}
	off, lookErr := r.await(ctx, until, func(now pve.GuestStatus) bool { return !now.IsRunning() })
	switch {
	case off:
		return r.isSame(ctx)
	case lookErr != nil || !disobeyed(err) && err != nil:
		return errors.Join(err, lookErr)
	}
	return &guest.FieldError{Path: "action", Summary: fmt.Sprintf("VM %d did not shut down within %s", r.VMID, r.Timeout),
		Err: err,
		Detail: "It was asked to, and ran on when it was looked at last; it may go off later. Shut it down from inside, " +
			"give it a guest agent or ACPI, or more time with timeout; the action \"stop\" cuts it off"}
}

// patience is how long a guest is given to shut down: some of the time is left for one that obeys late.
func (r *run) patience() time.Duration {
	left := r.end.Sub(r.jobs.Clock.Now())
	return max(time.Second, (left - left/4).Truncate(time.Second))
}

// disobeyed reports whether PVE asked the guest to shut down and it did not do so in time.
func disobeyed(err error) bool {
	var task *pve.TaskError
	return errors.As(err, &task) && task.Kind == pve.Busy
}

// stop cuts the guest's power.
func (r *run) stop(ctx context.Context) error {
	if !r.before.IsRunning() {
		return r.nothing(ctx, " is off: there is nothing to do")
	}
	if r.before.HAManaged {
		r.tell(ctx, r.vm()+" is under HA, whose manager cuts it off. "+guest.NotesStop)
	}
	r.tell(ctx, "Cutting off "+r.vm())
	return r.hard(ctx, r.guard.StopHard)
}

// reset presses the guest's reset button. PVE asks HA nothing.
func (r *run) reset(ctx context.Context) error {
	if !r.before.IsRunning() {
		return r.refuse(ctx, "is off", "There is nothing to reset. The action \"start\" starts it")
	}
	r.tell(ctx, "Resetting "+r.vm())
	return r.hard(ctx, r.guard.Reset)
}

// hard sends a request that may destroy data which the guest has not written yet, through the guard.
func (r *run) hard(ctx context.Context,
	do func(context.Context, *request.Tasks, string, int, func(context.Context) (guard.Evidence, error)) error) error {
	if r.identity.IsZero() {
		return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d has no identity", r.VMID),
			Detail: fmt.Sprintf("It has neither an SMBIOS uuid nor the time of its creation, so nothing tells it from "+
				"another VM that gets its "+
				"id at this moment, and none of the two is cut off. Nothing was done; %s on node %s does it",
				shell.Or(shell.VM("qm {} {vmid}", r.VMID, string(r.Action)), "a command"), r.node)}
	}
	named := guard.InState{Node: r.node, VMID: r.VMID, Identities: []guest.Identity{r.identity}}
	prove := func(ctx context.Context) (guard.Evidence, error) { return r.guard.ProveInState(ctx, named, nil) }
	err := do(ctx, &r.tasks, r.node, r.VMID, prove)
	if len(r.tasks.UPIDs) > 0 || pve.IsKind(err, pve.Ambiguous) {
		r.sent = true
	}
	if err != nil && ctx.Err() == nil {
		if other := r.isSame(ctx); other != nil {
			return other
		}
	}
	for _, upid := range r.tasks.UPIDs {
		r.tell(ctx, "Task "+string(upid))
		r.tellLog(ctx, upid)
	}
	return err
}

// reboot has PVE end the guest and start it again. PVE's task ends when it is off; another one of PVE's own starts it
// (QemuServer.pm vm_reboot, CLI/qm.pm cleanup). HA is not asked.
func (r *run) reboot(ctx context.Context) error {
	switch {
	case !r.before.IsRunning():
		return r.refuse(ctx, "is off", "There is nothing to restart. The action \"start\" starts it")
	case isDeaf(r.before):
		return r.refuse(ctx, "is "+r.before.QMPStatus, "A guest that is paused hears no request to restart. The action "+
			"\"resume\" lets it go on, and \"reset\" presses its reset button")
	}
	params := guest.Within(r.patience())
	r.first = r.getsItsDisks
	_, err := r.perform(ctx, request.Request{Type: "qmreboot",
		Done: func(ctx context.Context) (bool, error) { now, err := r.status(ctx); return r.isNew(now), err },
		Send: func(ctx context.Context) (pve.UPID, error) { return r.api.QEMU(r.node, r.VMID).Reboot(ctx, params) }})
	switch {
	case r.NoWait || err != nil && !disobeyed(err):
		return err
	case err == nil:
		return r.awaitStart(ctx)
	}
	r.tell(ctx, r.vm()+" did not shut down in the time that PVE gave it; it may still")
	off, lookErr := r.await(ctx, r.end, func(now pve.GuestStatus) bool { return !now.IsRunning() || r.isNew(now) })
	switch {
	case lookErr != nil:
		return errors.Join(err, lookErr)
	case off:
		return r.awaitStart(ctx)
	}
	return &guest.FieldError{Path: "action", Summary: fmt.Sprintf("VM %d did not restart within %s", r.VMID, r.Timeout),
		Err: err,
		Detail: "It was asked to shut down, and ran on when it was looked at last; it may go off later, and then stays off " +
			"until it is started. Restart it from inside, give it a guest agent or ACPI, or more time with timeout; the " +
			"action \"reset\" presses its reset button"}
}

// isNew reports whether another process runs the guest than at first.
func (r *run) isNew(now pve.GuestStatus) bool {
	return now.IsRunning() && (now.PID != r.before.PID || now.Uptime < r.before.Uptime)
}

// awaitStart waits until a guest that went off for its restart runs again, even after an interrupt, which must not
// leave it off. If PVE does not start it, this does.
func (r *run) awaitStart(ctx context.Context) error {
	ctx, cancel := r.jobs.Grace(ctx)
	defer cancel()
	r.first = nil
	r.tell(ctx, "Waiting until "+r.vm()+" runs again")
	again, err := r.await(ctx, r.jobs.Clock.Now().Add(time.Minute), r.isNew)
	if again || err != nil {
		return err
	}
	if err := r.startNow(ctx); err != nil {
		return fmt.Errorf("VM %d shut down for its restart and does not start again: %w", r.VMID, err)
	}
	return nil
}

// suspend pauses the guest, or saves it to disk and ends it.
func (r *run) suspend(ctx context.Context) error {
	params, typ := pve.Params{}, "qmpause"
	is := func(now pve.GuestStatus) bool { return now.QMPStatus == "paused" }
	if r.ToDisk {
		params, typ = pve.Params{"todisk": "1"}, "qmsuspend"
		is = func(now pve.GuestStatus) bool { return !now.IsRunning() && now.Lock == request.Suspended }
	}
	if r.StateStorage != "" {
		params["statestorage"] = r.StateStorage
	}
	switch {
	case is(r.before):
		return r.nothing(ctx, " is suspended already: there is nothing to do")
	case !r.before.IsRunning():
		return r.refuse(ctx, "is off", "There is nothing to suspend")
	case r.ToDisk && r.before.HAManaged:
		return r.refuse(ctx, "is under HA", "PVE suspends no guest to disk that HA manages")
	}
	_, err := r.perform(ctx, request.Request{Type: typ,
		Done: func(ctx context.Context) (bool, error) { now, err := r.status(ctx); return is(now), err },
		Send: func(ctx context.Context) (pve.UPID, error) { return r.api.QEMU(r.node, r.VMID).Suspend(ctx, params) }})
	if err == nil || !r.ToDisk || r.NoWait {
		return err
	}
	look, cancel := r.jobs.LookAfter(ctx)
	defer cancel()
	if now, lookErr := r.api.QEMU(r.node, r.VMID).Status(look); lookErr == nil && now.Lock == "suspending" {
		return errors.Join(err, fmt.Errorf("VM %d is locked (suspending), which PVE leaves when the memory could not be "+
			"saved. When its task has ended, the action proxmox_vm_unlock takes the lock away", r.VMID))
	}
	return err
}

// resume lets a paused guest go on, wakes a sleeping one, and brings back one that was suspended to disk, which PVE
// does by a start. PVE lets any other go on that does not run, such as one that QEMU has stopped (io-error) since its
// storage was full (qemu-server QemuServer/RunState.pm vm_resume).
func (r *run) resume(ctx context.Context) error {
	goesOn := func(now pve.GuestStatus) bool { return now.IsRunning() && now.QMPStatus == "running" }
	switch {
	case goesOn(r.before):
		return r.nothing(ctx, " runs: there is nothing to do")
	case !r.before.IsRunning() && r.lock == request.Suspended:
		r.first = r.hasItsDisks
		return r.startNow(ctx)
	case !r.before.IsRunning():
		return r.refuse(ctx, "is off", "There is nothing to resume. The action \"start\" starts it")
	}
	r.first = r.goesOnAlone
	_, err := r.perform(ctx, request.Request{Type: "qmresume",
		Done: func(ctx context.Context) (bool, error) { now, err := r.status(ctx); return goesOn(now), err },
		Send: func(ctx context.Context) (pve.UPID, error) { return r.api.QEMU(r.node, r.VMID).Resume(ctx) }})
	return err
}
