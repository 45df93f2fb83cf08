package update

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/backoff"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// notSuspended refuses to change the options of a guest that is suspended to disk, since PVE takes none then. A start
// resumes a guest that is to run.
func (p power) notSuspended(t todo) error {
	if p.before.Current()["lock"] != request.Suspended || t.isEmpty() {
		return nil
	}
	return fmt.Errorf("VM %d is suspended to disk, and nothing was changed. %s. Then apply", p.vmid,
		guest.Wake(p.vmid, p.view.Node()))
}

// shutDown shuts the guest down if the configuration wants it off.
func (p power) shutDown(ctx context.Context) error {
	if p.r.PowerState != guest.Stopped {
		return nil
	}
	status, err := p.view.Status(ctx)
	if err != nil || !status.IsRunning() {
		return err
	}
	if p.r.Ref.Status == string(guest.Stopped) {
		p.warnOfPower(fmt.Sprintf("VM %d was left running", p.vmid), "It was off when the plan was made, and another "+
			"user or a backup has started it since. The plan says nothing of a shutdown; the next one does.")
		return nil
	}
	if isPaused(status) {
		return p.paused(nil)
	}
	err = p.takeDown(ctx, status)
	p.view.Forget() // that takes minutes
	return err
}

// takeDown shuts down a running guest in its turn.
func (p power) takeDown(ctx context.Context, status pve.GuestStatus) error {
	mine, err := p.changer.turns.take(ctx, p.vmid)
	if err != nil {
		return &guest.FieldError{Path: "power_state", Summary: fmt.Sprintf("VM %d was not shut down", p.vmid),
			Detail: "Its turn did not come, and nothing else of the plan was done", Err: err}
	}
	defer mine.leave(ctx)
	if mine != nil && mine.waited { // a third party may have another VM under the id by now
		p.view.Forget()
	}
	timeout := guest.StopTimeout(p.r.StopTimeout)
	p.warnOfHA(status, timeout)
	var kept error
	look := func(ctx context.Context) error {
		kept = mayCarryOut(ctx, p.update, "at the stop of the guest")
		return kept
	}
	err = p.changer.guests.ShutDown(ctx, p.view.Power(look), p.view.Node(), p.vmid, timeout)
	if kept != nil {
		return kept
	}
	if err == nil || ctx.Err() != nil || pve.IsKind(err, pve.Locked) || pve.IsKind(err, pve.Denied) ||
		pve.IsKind(err, pve.Unavailable) {
		return err
	}
	if disobeyed(err) {
		ended, lookErr := p.watchDisobedient(ctx, p.changer.guests.IsStopped(p.view.Node(), p.vmid))
		if ended {
			return nil
		}
		if lookErr != nil && ctx.Err() == nil {
			err = errors.Join(err, lookErr)
		}
	}
	switch status, lookErr := p.lookAgain(ctx); {
	case lookErr != nil: // its state is unknown
		return errors.Join(err, lookErr)
	case !status.IsRunning():
		return nil
	case isPaused(status):
		return p.paused(err)
	}
	return p.disobedient(&guest.FieldError{Path: "power_state", Summary: fmt.Sprintf("VM %d was not shut down", p.vmid),
		Detail: "It was asked to, and nothing else of the plan was done", Err: err},
		fmt.Sprintf("It runs on, and may go off later. Shut it down from inside, give it a guest agent or ACPI, or more "+
			"time with shutdown_timeout, then apply. `qm stop %d` on node %s would cut it off", p.vmid, p.view.Node()))
}

// mayCarryOut refuses to have PVE carry out what waits while that takes a disk of the plan from its slot: another user
// has set it since the plan. PVE carries out all of it at the stop of the guest, and with the first request to a VM
// that is off, or its start (qemu-server QemuServer.pm vm_stop_cleanup, vm_start_nolock, API2/Qemu.pm update_vm_api).
// The changes of some slots are taken back.
func mayCarryOut(ctx context.Context, u *update, when string, back ...string) error {
	config, err := u.view.Fresh(ctx)
	if err != nil {
		return err
	}
	becomes := guest.RemovedAtStart(config)
	for _, slot := range slices.Sorted(maps.Keys(becomes)) {
		if slices.Contains(back, slot) || !keepsData(u, slot, config) {
			continue
		}
		keep := shell.Or(shell.VM("qm set {vmid} --revert {}", u.vmid, slot), shell.ByHand)
		return &guest.FieldError{Path: slotAttribute(slot),
			Summary: fmt.Sprintf("%s of VM %d would lose its disk", slot, u.vmid),
			Detail: fmt.Sprintf("Another user has set that since the plan, and PVE carries it out %s: %s. Nothing else of the "+
				"plan was done. Keep the disk (%s on node %s), or make a new plan, which names it", when, becomes[slot], keep,
				u.view.Node())}
	}
	return nil
}

// keepsData reports whether the plan keeps the disk that waits to leave a slot: in a slot, perhaps on another storage,
// where it has no name yet, or detached, where another user wants it destroyed.
func keepsData(u *update, slot string, config pve.PendingConfig) bool {
	volume := guest.VolumeOf(config.Current()[slot])
	wanted, stays := u.r.Planned.EveryDisk()[slot]
	isForced := slices.ContainsFunc(config.Entries, func(e pve.PendingValue) bool { return e.Key == slot && e.Delete > 1 })
	return guest.HasInSlot(vm.Encode(u.r.Planned), volume) || u.r.Prior.EveryDisk()[slot].Volume == volume &&
		(stays && wanted.Volume == "" || isForced && !u.r.DestroyRemoved)
}

// mayWrite is mayCarryOut for a VM that is off, before the first request of an update to it.
func (p power) mayWrite(ctx context.Context, t todo, config pve.PendingConfig, back []string) error {
	isIdle := t.isEmpty() && p.r.PowerState != guest.Running && !p.r.HA.Starts()
	if isIdle || len(guest.RemovedAtStart(config)) == 0 {
		return nil
	}
	status, err := p.view.Status(ctx)
	if err != nil || status.IsRunning() {
		return err
	}
	return mayCarryOut(ctx, p.update, "with the first request to a VM that is off, or with its start", back...)
}

// warnOfHA says what becomes of the shutdown of a guest under HA: PVE only files it with HA's manager (qemu-server
// API2/Qemu.pm vm_shutdown), which stops the guest hard when the time is over and notes that it is to be off
// (pve-ha-manager HA/Resources/PVEVM.pm shutdown, HA/Manager.pm next_state_started).
func (p power) warnOfHA(status pve.GuestStatus, timeout time.Duration) {
	if !status.HAManaged {
		return
	}
	p.warn(fmt.Sprintf("HA was asked to shut down VM %d", p.vmid), fmt.Sprintf("HA's manager cuts a guest off that is "+
		"not off within %s, and does not tell. %s. To have only the guest itself end its work, take the VM out of HA "+
		"first, or have HA ignore it.", timeout, guest.NotesStop))
}

// isPaused reports whether PVE refuses to shut the guest down (qemu-server QemuServer.pm vm_is_paused).
func isPaused(status pve.GuestStatus) bool {
	return status.QMPStatus == "paused" || status.QMPStatus == "prelaunch"
}

// paused is the error for a guest that receives no request. A backup of a VM that is off starts it paused, and stops
// it at the end (qemu-server VZDump/QemuServer.pm enforce_vm_running_for_backup), so nothing is said of what comes.
func (p power) paused(err error) error {
	return &guest.FieldError{Path: "power_state", Summary: fmt.Sprintf("VM %d is paused", p.vmid), Err: err,
		Detail: fmt.Sprintf("A paused guest hears no request to shut down, and nothing else of the plan was done. If a "+
			"backup has started the VM, it also stops it: apply again after the backup. Otherwise resume it "+
			"(the action proxmox_vm_power, or `qm resume %d` on node %s), or stop it yourself, then apply", p.vmid,
			p.view.Node())}
}

// isOff looks again whether the guest is off.
func (p power) isOff(ctx context.Context) (bool, error) {
	status, err := p.lookAgain(ctx)
	return err == nil && !status.IsRunning(), err
}

// lookAgain looks again, after a guest did not shut down as asked, whose VM it is and whether it runs. An error must
// not say that it still runs, or print a command, for another VM.
func (p power) lookAgain(ctx context.Context) (pve.GuestStatus, error) {
	ctx, cancel := p.changer.jobs.Grace(ctx)
	defer cancel()
	if err := p.view.Guard(ctx); err != nil {
		return pve.GuestStatus{}, err
	}
	return p.view.Status(ctx)
}

// disobeyed reports whether PVE asked the guest to shut down and it did not do so in time.
func disobeyed(err error) bool {
	var task *pve.TaskError
	return errors.As(err, &task) && task.Kind == pve.Busy
}

// watchDisobedient waits for a guest that did not shut down in the time that PVE gave it, until the operation's time is
// over, or as long as it may keep its turn. PVE has given up by then, and has dropped a reboot (qemu-server
// QemuServer.pm vm_reboot, clear_reboot_request), but the guest was asked and may still obey.
func (p power) watchDisobedient(ctx context.Context, ended func(context.Context) (bool, error)) (bool, error) {
	ctx, over := oplog.Wait(ctx, oplog.Guest, fmt.Sprintf("VM %d to go off after all", p.vmid))
	defer over()
	end := p.changer.clock.Now().Add(p.changer.turns.patience(request.Remaining(ctx)))
	for pause := backoff.ForGuest.Pause(1, 0); p.changer.clock.Now().Add(pause).Before(end); {
		if err := p.changer.clock.Sleep(ctx, pause); err != nil {
			return false, err
		}
		over, err := ended(ctx)
		if over || err != nil && !pve.IsKind(err, pve.Unavailable) {
			return over, err
		}
	}
	return false, nil
}

// start starts the guest if the configuration wants it to run, unless it went off after the plan, which then shows no
// start. No step before this one takes down a guest that is to run. A paused guest counts as running, and why it stands
// still is its user's business.
func (p power) start(ctx context.Context) (started bool, err error) {
	if p.r.PowerState != guest.Running {
		return false, nil
	}
	status, err := p.view.Status(ctx)
	switch {
	case err != nil:
		return false, err
	case isPaused(status):
		p.warn(fmt.Sprintf("VM %d is paused", p.vmid), "It counts as running, and was left paused. The action "+
			"proxmox_vm_power, or `qm resume` on its node, continues it.")
		return false, nil
	case status.IsRunning():
		return false, nil
	case p.r.Ref.Status == string(guest.Running) && (!p.r.HA.Starts() || p.r.PriorHA.Starts()):
		p.leftOff = true
		p.warnOfPower(fmt.Sprintf("VM %d was left off", p.vmid), "It ran when the plan was made, by PVE's listing, and has "+
			"gone off since. The plan says nothing of a start; the next one does.")
		return false, nil
	}
	result, err := p.startBeside(ctx, ran{})
	if result.Warnings > 0 {
		p.warn(fmt.Sprintf("Start of VM %d ended with warnings", p.vmid), strings.Join(result.Log, "\n"))
	}
	return true, err
}

// startBeside starts the guest, unless another one runs with one of its disks that is not known to have done so before.
// It looks before each try, since a wait for a lock may last hours.
func (p power) startBeside(ctx context.Context, before ran) (pve.TaskResult, error) {
	look := func(ctx context.Context) error { return p.hasItsDisks(ctx, before) }
	result, byHA, err := p.changer.guests.StartBy(ctx, p.view.Power(look), p.view.Node(), p.vmid)
	if err == nil && byHA {
		p.view.Forget() // that takes its time
		err = awaitHA(ctx, p)
	}
	return result, err
}

// startsWithin is how long HA may take to start a guest. Its managers come round each 10 s and each 5 s, and it may
// relocate the guest first (pve-ha-manager HA/Manager.pm next_state_request_start).
const startsWithin = 5 * time.Minute

// awaitHA waits until HA has started the guest, on this node or on another one.
func awaitHA(ctx context.Context, p power) error {
	ctx, over := oplog.Wait(ctx, oplog.Guest, fmt.Sprintf("VM %d to be started by HA", p.vmid))
	defer over()
	end := p.changer.clock.Now().Add(min(startsWithin, request.Remaining(ctx)))
	for attempt := 0; ; attempt++ {
		if err := p.changer.jobs.Pause(ctx, attempt); err != nil {
			return fmt.Errorf("wait for VM %d to be started by HA: %w", p.vmid, err)
		}
		status, err := p.view.Status(ctx)
		if pve.IsKind(err, pve.NotFound) && p.follow(ctx) == guest.Gone {
			return fmt.Errorf("VM %d is gone from node %s while its start by HA was awaited: %w", p.vmid, p.view.Node(), err)
		}
		switch {
		case err == nil && status.IsRunning():
			return nil
		case err != nil && !pve.IsKind(err, pve.Unavailable) && !pve.IsKind(err, pve.NotFound):
			return err
		case !p.changer.clock.Now().Before(end):
			return &guest.FieldError{Path: "power_state", Summary: fmt.Sprintf("VM %d does not run yet", p.vmid),
				Detail: "It is under HA, whose manager has taken the request to start it, and may start it yet. `ha-manager " +
					"status` on a node says how HA sees it"}
		}
	}
}

// hasItsDisks refuses to start a guest beside another one that runs with one of its disks, such as one in which an
// administrator mends it: two guests on one disk destroy what is on it. PVE does not ask (qemu-server QemuServer.pm
// vm_start_nolock); QEMU locks a disk against guests of its own node only.
func (p power) hasItsDisks(ctx context.Context, before ran) error {
	volumes, err := p.ownDisks(ctx)
	if err != nil {
		return err
	}
	if len(volumes) == 0 {
		return nil
	}
	defer p.view.Forget() // that takes its time, in which a third party may put another VM in the place of this one
	beside := fmt.Sprintf("VM %d is started beside guests that were not seen", p.vmid)
	// an earlier try's
	p.warnings = slices.DeleteFunc(p.warnings, func(w guest.Warning) bool { return w.Summary == beside })
	var used *guard.InUseError
	look := p.changer.destroyer.Guard
	switch err := guard.CheckRunning(ctx, look, p.view.Node(), p.vmid, volumes, p.knows(before)); {
	case errors.As(err, &used):
		at, next := "power_state", "apply again"
		switch {
		case p.r.HA.Starts():
			at = "ha"
		case p.r.PowerState != guest.Running: // no plan starts it
			at, next = "reboot_policy", fmt.Sprintf("start VM %d", p.vmid)
		}
		return &guest.FieldError{Path: at, Summary: fmt.Sprintf("VM %d was not started", p.vmid),
			Detail: fmt.Sprintf("Two guests on one disk destroy what is on it. Detach the disk there or shut that guest down, "+
				"then %s. `qm start %d` on node %s starts VM %d without that, for guests that are made to share the disk, such as "+
				"the nodes of a cluster", next, p.vmid, p.view.Node(), p.vmid), Err: err}
	case ctx.Err() != nil:
		return err
	case err != nil: // such as for a node that is off, whose guests are mostly off, too
		p.warn(beside, "Whether one that runs has a disk of the VM could not be told: "+err.Error())
	}
	return nil
}

// mayEnterHA refuses to have HA start the guest beside another one that runs with one of its disks, or stop a guest
// that was started since the plan: HA's manager does both without asking (pve-ha-manager HA/Resources/PVEVM.pm start,
// shutdown).
func (p power) mayEnterHA(ctx context.Context) error {
	if p.r.HA == nil || p.r.HA.State != nil && *p.r.HA.State == "ignored" {
		return nil
	}
	status, err := p.view.Status(ctx)
	switch {
	case err != nil:
		return err
	case p.r.HA.Stops() && status.IsRunning() && p.r.Ref.Status == string(guest.Stopped):
		return &guest.FieldError{Path: "ha", Summary: fmt.Sprintf("VM %d was not put under HA", p.vmid),
			Detail: "HA would stop it. It was off when the plan was made, and another user or a backup has started it since. " +
				"Make a new plan, which shows that"}
	case p.r.HA.Stops() && status.IsRunning():
		return mayCarryOut(ctx, p.update, "at the stop of the guest")
	case p.r.HA.Stops() || status.IsRunning():
		return nil
	}
	return p.hasItsDisks(ctx, ran{})
}
