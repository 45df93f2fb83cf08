package update

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// restart puts pending changes of a running guest in force, as far as the policy allows. A pending change of another
// origin is no reason for a restart, but takes part in one: PVE cannot restart for some changes only.
func (p power) restart(ctx context.Context, sent []string) (restarted bool, err error) {
	if p.r.PowerState == guest.Stopped || p.r.HA.Stops() || len(sent)+len(p.r.Due) == 0 {
		return false, nil
	}
	config, status, err := p.afterOptions(ctx)
	if err != nil {
		return false, err
	}
	due := p.due(config, sent)
	if len(due) == 0 {
		return false, nil
	}
	if status == nil {
		now, err := p.view.Status(ctx)
		if status = &now; err != nil {
			return false, err
		}
	}
	if !status.IsRunning() {
		return false, nil
	}
	if config, due, err = p.resend(ctx, config, due, sent); err != nil || len(due) == 0 {
		return false, err
	}
	if p.r.Restart != RestartNever && !p.r.mayRestart() {
		p.warnOfPower(fmt.Sprintf("VM %d runs with the old values of %s", p.vmid, strings.Join(due, ", ")),
			"It was off when the plan was made, and another user or a backup has started it since. The plan says nothing of "+
				"a restart; the next one does.")
		return false, nil
	}
	if p.r.Restart == RestartNever {
		if p.r.foretells(due) {
			return false, nil
		}
		p.warn(fmt.Sprintf("VM %d runs with the old values of %s", p.vmid, strings.Join(due, ", ")),
			"They take effect at its next stop and start; a restart from inside the guest is not one. reboot_policy = "+
				"\"never\" left it running.")
		return false, nil
	}
	return p.inTurn(ctx, config, *status, due, sent)
}

// afterOptions is the configuration after the change of the options. Where the guest runs and leaves all of it to its
// next start, the status that a restart needs anyway tells that, and is returned too.
func (p power) afterOptions(ctx context.Context) (config pve.PendingConfig, status *pve.GuestStatus, err error) {
	written, ran := p.view.Written, p.r.Ref.Status == string(guest.Running)
	if ran && len(p.r.Due) == 0 && !p.view.IsKnown() && written != nil && written.Waits() {
		now, err := p.view.Status(ctx)
		if status = &now; err != nil {
			return config, nil, err
		}
		if config, ok := written.Foretold(now); ok {
			return config, status, nil
		}
		status = nil // of a VM that the reading is to tell
	}
	config, err = p.view.Known(ctx)
	return config, status, err
}

// resend sends pending options of an earlier change again. They may wait only because the task died that was to hand
// them to the guest: PVE tries only the options of the current request (qemu-server QemuServer.pm
// vmconfig_hotplug_pending). It returns the configuration then, and the options that still wait.
func (p power) resend(ctx context.Context, config pve.PendingConfig, due, sent []string) (pve.PendingConfig, []string,
	error) {
	params, deletes := pve.Params{}, []string{}
	hopeless := vm.NeedsRestart(vm.Decode(config.Current()), vm.Decode(config.Merged()))
	for _, e := range config.Entries {
		switch {
		case !slices.Contains(due, e.Key) || slices.Contains(sent, e.Key) || slices.Contains(hopeless, e.Key) ||
			!canBeResent(e.Key):
		case e.Delete > 0:
			deletes = append(deletes, e.Key)
		case e.HasPending:
			params[e.Key] = e.Pending
		}
	}
	if len(deletes) > 0 {
		params["delete"] = strings.Join(deletes, ",")
	}
	if len(params) == 0 {
		return config, due, nil
	}
	if err := p.view.Set(ctx, params); err != nil && !pve.IsKind(err, pve.Invalid) { // refused: it waits on
		return config, nil, err
	}
	config, err := p.view.Fresh(ctx)
	if err != nil {
		return config, nil, err
	}
	return config, p.due(config, sent), nil
}

// canBeResent reports whether a pending option may be sent again. A drive may not: PVE drops the volume of a pending
// drive when another value replaces it, even the same one (qemu-server API2/Qemu.pm update_vm_api). Nor may a password,
// which cannot be read.
func canBeResent(option string) bool {
	return len(vm.Slots(map[string]string{option: ""})) == 0 && option != "cipassword"
}

// due are the options of this change, and of earlier ones, that wait for a restart. None is a third party's, whenever
// it came, nor a boot order from which PVE itself removes a deleted device (qemu-server API2/Qemu.pm update_vm_api).
// One of earlier with whose planned value the guest runs is none: the plan says that nothing is restarted for it.
func (p power) due(config pve.PendingConfig, sent []string) []string {
	current, planned := config.Current(), vm.Encode(p.r.Planned)
	return slices.DeleteFunc(guest.Waiting(config), func(option string) bool {
		isOwed := slices.Contains(p.r.Due, option) && current[option] != planned[option]
		return !slices.Contains(sent, option) && !isOwed
	})
}

// reboot restarts the guest through PVE, which stops its process and starts a new one. PVE's task ends with the stop;
// another task starts the guest (qemu-server QemuServer.pm vm_reboot, qmeventd).
func (p power) reboot(ctx context.Context, before *ran, due []string) error {
	timeout := guest.StopTimeout(p.r.StopTimeout)
	if isPaused(before.GuestStatus) {
		return p.pausedGuest(due, nil)
	}
	params := guest.Within(timeout)
	p.changer.restarts.note(p.vmid, before.disks)
	_, err := p.view.Power(p.mayReboot(before, due))(ctx, request.Request{Type: "qmreboot",
		Done: p.isNewProcess(before.GuestStatus), Send: func(ctx context.Context) (pve.UPID, error) {
			return p.changer.api.QEMU(p.view.Node(), p.vmid).Reboot(ctx, params)
		}})
	if err != nil {
		return p.afterReboot(ctx, before, due, err)
	}
	return p.awaitStart(ctx, *before)
}

// afterReboot handles a failed restart. A guest that did not shut down in time may still do so: then it is started.
func (p power) afterReboot(ctx context.Context, before *ran, due []string, cause error) error {
	if again, err := p.isNewProcess(before.GuestStatus)(ctx); again && err == nil {
		return nil
	}
	late := fmt.Sprintf("The guest did not shut down within %s", guest.StopTimeout(p.r.StopTimeout))
	var used *guard.InUseError
	var kept *guest.FieldError
	switch {
	case errors.As(cause, &kept): // of the look before another try
		return kept
	case errors.As(cause, &used):
		return p.notRestarted(besideAnother+fmt.Sprintf(". `qm reboot %d` on node %s restarts it without that, for guests "+
			"that are made to share the disk", p.vmid, p.view.Node()), due, cause)
	case !disobeyed(cause):
		return p.notRestarted("PVE did not restart it", due, cause)
	}
	if p.r.Restart == RestartForcibly {
		return p.force(ctx, before, due, p.notRestarted(late, due, cause))
	}
	_, _, _ = p.lookBeside(ctx, before) // the watch tells how the guest is
	again := p.isNewProcess(before.GuestStatus)
	ended, _ := p.watchDisobedient(ctx, func(ctx context.Context) (bool, error) {
		if started, err := again(ctx); started || err != nil {
			return started, err
		}
		return p.changer.guests.IsStopped(p.view.Node(), p.vmid)(ctx)
	})
	if !ended { // the time is over, the guest could not be seen, or the operation was interrupted
		off, err := p.isOff(ctx)
		if err != nil {
			return p.notRestarted(late, due, errors.Join(cause, err))
		}
		ended = off
	}
	if ended {
		return p.startAgain(ctx, before)
	}
	return p.disobedient(p.notRestarted(late, due, cause), mayGoOff+
		". Restart it yourself, give it a guest agent or ACPI, or set reboot_policy = \"force\"")
}

// mayGoOff is what becomes of a guest that did not hear its restart.
const mayGoOff = "It runs on. It was asked to shut down, so it may go off later, and then stays off until it is " +
	"started"

// startAgain starts a guest that went off after PVE had given up its restart, even after an interrupt.
func (p power) startAgain(ctx context.Context, before *ran) error {
	ctx, cancel := p.changer.jobs.Grace(ctx)
	defer cancel()
	if again, err := p.isNewProcess(before.GuestStatus)(ctx); again && err == nil {
		return nil
	}
	p.view.Forget() // the watch took its time, in which a disk may have come or left
	if config, err := p.view.Fresh(ctx); err == nil {
		removed, _ := p.removedBeside(config, nil, before.sent)
		before.removed = slices.Compact(slices.Sorted(slices.Values(slices.Concat(before.removed, removed))))
	}
	if _, err := p.startBeside(ctx, *before); err != nil {
		return fmt.Errorf("VM %d shut down late for its restart and does not start again: %w", p.vmid, err)
	}
	return nil
}

// notRestarted is the error for a change that is made, but not in force.
func (p power) notRestarted(detail string, due []string, err error) *guest.FieldError {
	return &guest.FieldError{Path: "reboot_policy", Summary: fmt.Sprintf("VM %d was changed, but not restarted", p.vmid),
		Detail: detail + ". Waiting for its restart: " + strings.Join(due, ", "), Err: err}
}

func (p power) pausedGuest(due []string, err error) error {
	return p.notRestarted("A paused guest cannot be restarted, and is not cut off. Resume it", due, err)
}

// isNewProcess reports whether another process runs the guest than before.
func (p power) isNewProcess(before pve.GuestStatus) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		status, err := p.view.Status(ctx)
		return isAnother(before, status), err
	}
}

func isAnother(before, now pve.GuestStatus) bool {
	return now.IsRunning() && (now.PID != before.PID || now.Uptime < before.Uptime)
}

// awaitStart waits until the guest runs again, even after an interrupt, which must not leave it off. If PVE does not
// start it, this does, so that the error has PVE's reason.
func (p power) awaitStart(ctx context.Context, before ran) error {
	ctx, cancel := p.changer.jobs.Grace(ctx)
	defer cancel()
	deadline := p.changer.clock.Now().Add(time.Minute)
	for attempt := 0; p.changer.clock.Now().Before(deadline); attempt++ {
		if err := p.changer.jobs.Pause(ctx, attempt); err != nil {
			return fmt.Errorf("wait for VM %d to start again: %w", p.vmid, err)
		}
		switch again, err := p.isNewProcess(before.GuestStatus)(ctx); {
		case again && err == nil:
			return nil
		case pve.IsKind(err, pve.NotFound):
			switch from := p.view.Node(); p.follow(ctx) {
			case guest.Gone:
				return fmt.Errorf("VM %d is gone from node %s while its restart was awaited: %w", p.vmid, from, err)
			case guest.Unknown:
				return fmt.Errorf("VM %d is not on node %s any more, where its restart was awaited: %w", p.vmid, from, err)
			}
		}
	}
	_, _, _ = p.lookBeside(ctx, &before) // the start tells how the guest is
	if _, err := p.startBeside(ctx, before); err != nil {
		return fmt.Errorf("VM %d shut down for its restart and does not start again: %w", p.vmid, err)
	}
	return nil
}

// errObeyed says that the process is gone that was to be cut off.
var errObeyed = errors.New("the guest has shut down")

// force cuts off a guest that was asked to shut down and did not obey, and starts it again, as reboot_policy = "force"
// asks for. Before each try it looks whether the guest has obeyed by then, and may be started again: a wait for a lock
// may last hours.
func (p power) force(ctx context.Context, before *ran, due []string, disobeyed error) error {
	if ctx.Err() != nil {
		return disobeyed
	}
	var refused error
	mayBeSent := false
	err := p.stopHard(ctx, func(ctx context.Context) error {
		all, status, err := p.lookBeside(ctx, before)
		removed, kept := p.removedBeside(p.view.Last(), due, before.sent)
		switch used := guard.Unknown(all, p.knows(*before)); {
		case err != nil:
			refused = errors.Join(disobeyed, err)
		case !before.isRunning(status):
			refused = errObeyed
		case isPaused(status):
			refused = p.pausedGuest(due, disobeyed)
		case used != nil:
			refused = errors.Join(disobeyed, p.notCutOff(used))
		case kept != nil:
			refused = errors.Join(disobeyed, p.disobedient(kept, mayGoOff))
		default:
			mayBeSent, before.removed = true, removed
		}
		return refused
	})
	switch {
	case errors.Is(refused, errObeyed):
		return p.startAgain(ctx, before)
	case err != nil && mayBeSent:
		failed := cmp.Or(refused, fmt.Errorf("stop VM %d to restart it: %w", p.vmid, err))
		if again, err := p.isBack(ctx, *before, failed); again || err != nil {
			return err
		}
	case refused != nil:
		return refused
	case err != nil:
		return fmt.Errorf("stop VM %d to restart it: %w", p.vmid, err)
	}
	late, cancel := p.changer.jobs.Grace(ctx) // an interrupt must not leave it off
	defer cancel()
	if _, err = p.startBeside(late, *before); err != nil {
		return errors.Join(fmt.Errorf("VM %d was stopped for its restart and does not start", p.vmid), err)
	}
	p.warn(fmt.Sprintf("VM %d was cut off and started again", p.vmid), "It did not restart when it was asked to: "+
		disobeyed.Error())
	return nil
}

// notCutOff is the error for a guest that another one would keep from its start.
func (p power) notCutOff(used error) error {
	return p.disobedient(&guest.FieldError{Path: "reboot_policy", Summary: fmt.Sprintf("VM %d was not cut off", p.vmid),
		Detail: besideAnother, Err: used}, mayGoOff)
}

// besideAnother is why a guest is not taken down for a restart.
const besideAnother = "Its start would give it a disk with which another guest runs by now, and two guests on one " +
	"disk destroy what is on it. Detach the disk there or shut that guest down, then apply again"

// isBack looks at a guest whose hard stop has failed, or was not seen to end: it may be off all the same, and is to
// start then. It is an error if it runs on, or cannot be seen.
func (p power) isBack(ctx context.Context, before ran, failed error) (bool, error) {
	status, err := p.lookAgain(ctx)
	var another *guest.IdentityError
	switch {
	case errors.As(err, &another), pve.IsKind(err, pve.NotFound):
		return false, errors.Join(failed, err)
	case err != nil:
		return false, &guest.FieldError{Path: "reboot_policy", Summary: fmt.Sprintf("VM %d may be off", p.vmid),
			Detail: fmt.Sprintf("It was cut off for its restart, or was about to be, and could not be seen since. If it is "+
				"off, start it: `qm start %d` on node %s", p.vmid, p.view.Node()), Err: errors.Join(failed, err)}
	case isAnother(before.GuestStatus, status):
		return true, nil
	case status.IsRunning():
		return false, failed
	}
	return false, nil
}
