package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// isDeaf reports whether a guest hears no request to shut down, which PVE refuses to send it (qemu-server QemuServer.pm vm_is_paused).
func isDeaf(status pve.GuestStatus) bool {
	return slices.Contains([]string{"paused", "prelaunch", "suspended"}, status.QMPStatus)
}

func isRunning(status pve.GuestStatus) bool { return status.IsRunning() && !isDeaf(status) }

// start starts the guest. PVE resumes one that was suspended to disk (QemuServer.pm vm_start).
func (u *run) start(ctx context.Context) error {
	switch {
	case isDeaf(u.before):
		return u.refuse(ctx, "is "+u.before.QMPStatus, "PVE starts no guest that is there already. The action \"resume\" lets it go on")
	case u.before.IsRunning():
		return u.nothing(ctx, " runs already: there is nothing to do")
	case u.lock == job.Suspended:
		u.tell(ctx, u.vm()+" was suspended to disk: its start resumes it")
	}
	return u.startNow(ctx)
}

func (u *run) startNow(ctx context.Context) error {
	if _, err := u.guests.StartBy(ctx, u.perform, u.node, u.VMID); err != nil || u.NoWait {
		return err
	}
	if !u.before.HAManaged {
		return nil
	}
	u.tell(ctx, "The start was filed with HA: waiting until "+u.vm()+" runs")
	if runs, err := u.await(ctx, u.end, isRunning); err != nil || runs {
		return err
	}
	return fmt.Errorf("HA was asked to start VM %d, and within %s it did not run. HA's manager may start it later", u.VMID, u.Timeout)
}

// shutDown asks the guest to shut down. HA's manager cuts one off that does not obey (pve-ha-manager HA/Resources/PVEVM.pm shutdown).
func (u *run) shutDown(ctx context.Context) error {
	switch {
	case !u.before.IsRunning():
		return u.nothing(ctx, " is off: there is nothing to do")
	case isDeaf(u.before):
		return u.refuse(ctx, "is "+u.before.QMPStatus, "A guest that is paused hears no request to shut down. The action \"resume\" lets "+
			"it go on, "+
			"and \"stop\" cuts it off")
	case u.before.HAManaged:
		u.tell(ctx, u.vm()+" is under HA, whose manager shuts it down, and cuts it off if it does not obey")
	}
	patience := u.patience()
	u.tell(ctx, fmt.Sprintf("Asking %s to shut down within %s", u.vm(), patience))
	params := guest.Within(patience)
	_, err := u.perform(ctx, job.Request{Type: "qmshutdown", Done: u.guests.IsStopped(u.node, u.VMID),
		Send: func(ctx context.Context) (pve.UPID, error) { return u.api.ShutdownVM(ctx, u.node, u.VMID, params) }})
	var ended *pve.TaskError // also by who cuts it off meanwhile (API2/Qemu.pm vm_stop, overrule-shutdown)
	if u.NoWait || err != nil && !errors.As(err, &ended) || ctx.Err() != nil {
		return err
	}
	until := u.end
	if err != nil && !disobeyed(err) {
		until = u.jobs.Clock.Now().Add(10 * time.Second)
	}
	off, lookErr := u.await(ctx, until, func(now pve.GuestStatus) bool { return !now.IsRunning() })
	switch {
	case off:
		return u.isSame(ctx)
	case lookErr != nil || !disobeyed(err) && err != nil:
		return errors.Join(err, lookErr)
	}
	return &guest.FieldError{Path: "action", Summary: fmt.Sprintf("VM %d did not shut down within %s", u.VMID, u.Timeout), Err: err,
		Detail: "It was asked to, and ran on when it was looked at last; it may go off later. " +
			"Shut it down from inside, give it a guest agent or ACPI, or more time with timeout; the action \"stop\" cuts it off"}
}

// patience is how long a guest is given to shut down: some of the time is left for one that obeys late.
func (u *run) patience() time.Duration {
	left := u.end.Sub(u.jobs.Clock.Now())
	return max(time.Second, (left - left/4).Truncate(time.Second))
}

// disobeyed tells whether PVE asked the guest to go off and it did not in time.
func disobeyed(err error) bool {
	var task *pve.TaskError
	return errors.As(err, &task) && task.Kind == pve.Busy
}

// stop cuts the guest's power.
func (u *run) stop(ctx context.Context) error {
	if !u.before.IsRunning() {
		return u.nothing(ctx, " is off: there is nothing to do")
	}
	u.tell(ctx, "Cutting off "+u.vm())
	return u.hard(ctx, u.remover.StopHard)
}

// reset presses the guest's reset button. PVE asks HA nothing.
func (u *run) reset(ctx context.Context) error {
	if !u.before.IsRunning() {
		return u.refuse(ctx, "is off", "There is nothing to reset. The action \"start\" starts it")
	}
	u.tell(ctx, "Resetting "+u.vm())
	return u.hard(ctx, u.remover.Reset)
}

// hard does what may destroy what the guest has not written yet, by the one door for destruction.
func (u *run) hard(ctx context.Context,
	do func(context.Context, *job.Tasks, string, int, func(context.Context) (remove.Evidence, error)) error) error {
	if u.identity.IsZero() {
		return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d has no identity", u.VMID),
			Detail: fmt.Sprintf("It has neither an SMBIOS uuid nor the time of its creation, so nothing tells it from another VM that gets its "+
				"id at this moment, and none of the two is cut off. Nothing was done; `qm %s %d` on node %s does it", u.Action, u.VMID, u.node)}
	}
	named := remove.InState{Node: u.node, VMID: u.VMID, Identities: []guest.Identity{u.identity}}
	prove := func(ctx context.Context) (remove.Evidence, error) { return u.remover.ProveInState(ctx, named, nil) }
	err := do(ctx, &u.tasks, u.node, u.VMID, prove)
	if err != nil && ctx.Err() == nil {
		if other := u.isSame(ctx); other != nil {
			return other
		}
	}
	for _, upid := range u.tasks.UPIDs {
		u.tell(ctx, "Task "+string(upid))
		u.tellLog(ctx, upid)
	}
	return err
}

// reboot has PVE end the guest and start it again. PVE's task ends when it is off; another one of PVE's own starts it (QemuServer.pm
// vm_reboot, CLI/qm.pm cleanup). HA is not asked.
func (u *run) reboot(ctx context.Context) error {
	switch {
	case !u.before.IsRunning():
		return u.refuse(ctx, "is off", "There is nothing to restart. The action \"start\" starts it")
	case isDeaf(u.before):
		return u.refuse(ctx, "is "+u.before.QMPStatus, "A guest that is paused hears no request to restart. The action \"resume\" lets it "+
			"go on, "+
			"and \"reset\" presses its reset button")
	}
	params := guest.Within(u.patience())
	_, err := u.perform(ctx, job.Request{Type: "qmreboot",
		Done: func(ctx context.Context) (bool, error) { now, err := u.status(ctx); return u.isNew(now), err },
		Send: func(ctx context.Context) (pve.UPID, error) { return u.api.RebootVM(ctx, u.node, u.VMID, params) }})
	switch {
	case u.NoWait || err != nil && !disobeyed(err):
		return err
	case err == nil:
		return u.awaitStart(ctx)
	}
	u.tell(ctx, u.vm()+" did not shut down in the time that PVE gave it; it may still")
	off, lookErr := u.await(ctx, u.end, func(now pve.GuestStatus) bool { return !now.IsRunning() || u.isNew(now) })
	switch {
	case lookErr != nil:
		return errors.Join(err, lookErr)
	case off:
		return u.awaitStart(ctx)
	}
	return &guest.FieldError{Path: "action", Summary: fmt.Sprintf("VM %d did not restart within %s", u.VMID, u.Timeout), Err: err,
		Detail: "It was asked to shut down, and ran on when it was looked at last; it may go off later, and then stays off until it is " +
			"started. Restart it from inside, give it a guest agent or ACPI, or more time with timeout; " +
			"the action \"reset\" presses its reset button"}
}

// isNew tells whether another process runs the guest than at first.
func (u *run) isNew(now pve.GuestStatus) bool {
	return now.IsRunning() && (now.PID != u.before.PID || now.Uptime < u.before.Uptime)
}

// awaitStart waits until a guest that went off for its restart runs again, also after an interrupt, which must not leave it off. Where
// PVE does not start it, it is started here.
func (u *run) awaitStart(ctx context.Context) error {
	ctx, cancel := u.jobs.Grace(ctx)
	defer cancel()
	u.tell(ctx, "Waiting until "+u.vm()+" runs again")
	again, err := u.await(ctx, u.jobs.Clock.Now().Add(time.Minute), u.isNew)
	if again || err != nil {
		return err
	}
	if err := u.startNow(ctx); err != nil {
		return fmt.Errorf("VM %d shut down for its restart and does not start again: %w", u.VMID, err)
	}
	return nil
}

// suspend pauses the guest, or saves it to disk and ends it.
func (u *run) suspend(ctx context.Context) error {
	params, typ := pve.Params{}, "qmpause"
	is := func(now pve.GuestStatus) bool { return now.QMPStatus == "paused" }
	if u.ToDisk {
		params, typ = pve.Params{"todisk": "1"}, "qmsuspend"
		is = func(now pve.GuestStatus) bool { return !now.IsRunning() && now.Lock == job.Suspended }
	}
	if u.StateStorage != "" {
		params["statestorage"] = u.StateStorage
	}
	switch {
	case is(u.before):
		return u.nothing(ctx, " is suspended already: there is nothing to do")
	case !u.before.IsRunning():
		return u.refuse(ctx, "is off", "There is nothing to suspend")
	case u.ToDisk && u.before.HAManaged:
		return u.refuse(ctx, "is under HA", "PVE suspends no guest to disk that HA manages")
	}
	_, err := u.perform(ctx, job.Request{Type: typ,
		Done: func(ctx context.Context) (bool, error) { now, err := u.status(ctx); return is(now), err },
		Send: func(ctx context.Context) (pve.UPID, error) { return u.api.SuspendVM(ctx, u.node, u.VMID, params) }})
	if err == nil || !u.ToDisk || u.NoWait {
		return err
	}
	look, cancel := u.jobs.LookAfter(ctx)
	defer cancel()
	if now, lookErr := u.api.GuestStatus(look, u.node, u.VMID); lookErr == nil && now.Lock == "suspending" {
		return errors.Join(err, fmt.Errorf("VM %d is locked (suspending), which PVE leaves when the memory could not be saved. "+
			"When its task has ended, the action proxmox_vm_unlock takes the lock away", u.VMID))
	}
	return err
}

// resume lets a paused guest go on, wakes one that sleeps, and brings one back that was suspended to disk, which PVE does by its start.
func (u *run) resume(ctx context.Context) error {
	switch {
	case isRunning(u.before):
		return u.nothing(ctx, " runs: there is nothing to do")
	case !u.before.IsRunning() && u.lock == job.Suspended:
		return u.startNow(ctx)
	case !u.before.IsRunning():
		return u.refuse(ctx, "is off", "There is nothing to resume. The action \"start\" starts it")
	}
	_, err := u.perform(ctx, job.Request{Type: "qmresume",
		Done: func(ctx context.Context) (bool, error) { now, err := u.status(ctx); return isRunning(now), err },
		Send: func(ctx context.Context) (pve.UPID, error) { return u.api.ResumeVM(ctx, u.node, u.VMID) }})
	return err
}
