package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// restart puts what waits for a restart of a running guest in force, as far as the policy allows. What waited before and is
// not of this change is no reason to restart a guest; it takes part in a restart, since PVE knows no half of one.
func (u *update) restart(ctx context.Context, sent []string) (restarted bool, err error) {
	if u.r.PowerState == guest.Stopped || u.r.HA.Stops() || len(sent)+len(u.r.Due) == 0 {
		return false, nil
	}
	config, err := u.view.Known(ctx)
	if err != nil {
		return false, err
	}
	due := u.due(config, sent)
	if len(due) == 0 {
		return false, nil
	}
	status, err := u.view.Status(ctx)
	if err != nil || !status.IsRunning() {
		return false, err
	}
	if due, err = u.resend(ctx, config, due, sent); err != nil || len(due) == 0 {
		return false, err
	}
	if u.r.Restart == RestartNever {
		u.warn(fmt.Sprintf("VM %d runs with the old values of %s", u.vmid, strings.Join(due, ", ")),
			"They take effect at its next stop and start; a restart from inside the guest is not one. reboot_policy = \"never\" left it running.")
		return false, nil
	}
	refused := u.reboot(ctx, status, due)
	if refused == nil || u.r.Restart != RestartForcibly || ctx.Err() != nil {
		return true, refused
	}
	if err = u.cutOff(ctx); err == nil {
		u.warn(fmt.Sprintf("VM %d was cut off and started again", u.vmid), "It did not restart when it was asked to: "+refused.Error())
	}
	return true, err
}

// resend sends options of an earlier change again, which may wait only because the task died that was to hand them to the
// guest: PVE tries no others than those of a request (qemu-server QemuServer.pm vmconfig_hotplug_pending). It returns what
// waits now.
func (u *update) resend(ctx context.Context, config pve.PendingConfig, due, sent []string) ([]string, error) {
	params, deletes := pve.Params{}, []string{}
	hopeless := vm.NeedsRestart(vm.Decode(config.Current()), vm.Decode(config.Merged()))
	for _, e := range config.Entries {
		switch {
		case !slices.Contains(due, e.Key) || slices.Contains(sent, e.Key) || slices.Contains(hopeless, e.Key) || !canBeResent(e.Key):
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
		return due, nil
	}
	if err := u.view.Set(ctx, params); err != nil && !pve.IsKind(err, pve.Invalid) { // refused: it waits on
		return nil, err
	}
	config, err := u.view.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	return u.due(config, sent), nil
}

// canBeResent tells whether an option that waits may be written once more. Drives may not, since PVE lets go of the volume of
// a drive that waits when another takes its place, be it the same (qemu-server API2/Qemu.pm update_vm_api); nor a password,
// which cannot be read.
func canBeResent(option string) bool {
	return len(vm.Slots(map[string]string{option: ""})) == 0 && option != "cipassword"
}

// due are the options of this change that wait for a restart. A boot order out of which PVE itself takes a device that was
// removed (qemu-server API2/Qemu.pm update_vm_api) is none of them: it means nothing before the next start.
func (u *update) due(config pve.PendingConfig, sent []string) []string {
	waited := u.before.Waiting()
	return slices.DeleteFunc(config.Waiting(), func(option string) bool {
		return (slices.Contains(waited, option) || option == "boot") && !slices.Contains(sent, option) && !slices.Contains(u.r.Due, option)
	})
}

// reboot asks the guest to restart by way of PVE, which stops its process and starts a new one. PVE's task ends with the
// stop; the start is made by another (qemu-server QemuServer.pm vm_reboot, qmeventd).
func (u *update) reboot(ctx context.Context, before pve.GuestStatus, due []string) error {
	timeout := guest.StopTimeout(u.r.StopTimeout)
	if before.QMPStatus == "paused" {
		return u.notRestarted("A paused guest cannot be restarted. Resume it", due, nil)
	}
	params := guest.Within(timeout)
	_, err := u.view.Power(ctx, job.Request{Type: "qmreboot", Done: u.isNewProcess(before),
		Send: func(ctx context.Context) (pve.UPID, error) { return u.s.api.RebootVM(ctx, u.view.node, u.vmid, params) }})
	if err != nil {
		return u.afterReboot(ctx, before, due, err)
	}
	return u.awaitStart(ctx, before)
}

// afterReboot is what becomes of a restart that failed. A guest that did not obey in time may still go off: then it is started.
func (u *update) afterReboot(ctx context.Context, before pve.GuestStatus, due []string, cause error) error {
	if again, err := u.isNewProcess(before)(ctx); again && err == nil {
		return nil
	}
	late := fmt.Sprintf("The guest did not shut down within %s", guest.StopTimeout(u.r.StopTimeout))
	switch {
	case !disobeyed(cause):
		return u.notRestarted("PVE did not restart it", due, cause)
	case u.r.Restart == RestartForcibly:
		return u.notRestarted(late, due, cause)
	}
	again := u.isNewProcess(before)
	ended, _ := u.watchDisobedient(ctx, func(ctx context.Context) (bool, error) {
		if started, err := again(ctx); started || err != nil {
			return started, err
		}
		return u.s.guests.IsStopped(u.view.node, u.vmid)(ctx)
	})
	if !ended { // its time is over, or it could not be seen, or somebody has interrupted us
		off, err := u.isOff(ctx)
		if err != nil {
			return u.notRestarted(late, due, errors.Join(cause, err))
		}
		ended = off
	}
	if ended {
		return u.startAgain(ctx, before)
	}
	return u.disobedient(u.notRestarted(late, due, cause), "It runs on. It was asked to shut down, so it may go off later, and then stays "+
		"off until it is started. Restart it yourself, give it a guest agent or ACPI, or set reboot_policy = \"force\"")
}

// startAgain starts a guest that went off after PVE had given up its restart, also after an interrupt.
func (u *update) startAgain(ctx context.Context, before pve.GuestStatus) error {
	ctx, cancel := u.s.jobs.Grace(ctx)
	defer cancel()
	if again, err := u.isNewProcess(before)(ctx); again && err == nil {
		return nil
	}
	if _, err := u.s.guests.StartBy(ctx, u.view.Power, u.view.node, u.vmid); err != nil {
		return fmt.Errorf("VM %d shut down late for its restart and does not start again: %w", u.vmid, err)
	}
	return nil
}

// notRestarted says that a change is made, but not in force.
func (u *update) notRestarted(detail string, due []string, err error) *guest.FieldError {
	return &guest.FieldError{Path: "reboot_policy", Summary: fmt.Sprintf("VM %d was changed, but not restarted", u.vmid),
		Detail: detail + ". Waiting for its restart: " + strings.Join(due, ", "), Err: err}
}

// isNewProcess tells whether another process runs the guest than before.
func (u *update) isNewProcess(before pve.GuestStatus) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		status, err := u.view.Status(ctx)
		return status.IsRunning() && (status.PID != before.PID || status.Uptime < before.Uptime), err
	}
}

// awaitStart waits until the guest runs again, also after an interrupt, which must not leave it off. Where PVE's own start
// does not come, ours says why.
func (u *update) awaitStart(ctx context.Context, before pve.GuestStatus) error {
	ctx, cancel := u.s.jobs.Grace(ctx)
	defer cancel()
	deadline := u.s.clock.Now().Add(time.Minute)
	for attempt := 0; u.s.clock.Now().Before(deadline); attempt++ {
		if err := u.s.jobs.Pause(ctx, attempt); err != nil {
			return fmt.Errorf("wait for VM %d to start again: %w", u.vmid, err)
		}
		switch again, err := u.isNewProcess(before)(ctx); {
		case again && err == nil:
			return nil
		case pve.IsKind(err, pve.NotFound):
			switch from := u.view.node; u.follow(ctx) {
			case guest.Gone:
				return fmt.Errorf("VM %d is gone from node %s while its restart was awaited: %w", u.vmid, from, err)
			case guest.Unknown:
				return fmt.Errorf("VM %d is not on node %s any more, where its restart was awaited: %w", u.vmid, from, err)
			}
		}
	}
	if _, err := u.s.guests.StartBy(ctx, u.view.Power, u.view.node, u.vmid); err != nil {
		return fmt.Errorf("VM %d shut down for its restart and does not start again: %w", u.vmid, err)
	}
	return nil
}

// cutOff stops a guest hard and starts it again, which reboot_policy = "force" asks for.
func (u *update) cutOff(ctx context.Context) error {
	err := u.stopHard(ctx)
	if err != nil {
		return fmt.Errorf("stop VM %d to restart it: %w", u.vmid, err)
	}
	late, cancel := u.s.jobs.Grace(ctx) // an interrupt must not leave it off
	defer cancel()
	if _, err = u.s.guests.StartBy(late, u.view.Power, u.view.node, u.vmid); err != nil {
		return errors.Join(fmt.Errorf("VM %d was stopped for its restart and does not start", u.vmid), err)
	}
	return nil
}
