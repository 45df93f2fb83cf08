package change

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// notSuspended refuses to change the options of a guest that is suspended to disk, since PVE takes none then. One that is to
// run is resumed by its start.
func (u *update) notSuspended(t todo) error {
	if u.before.Current()["lock"] != job.Suspended || t.isEmpty() {
		return nil
	}
	return fmt.Errorf("VM %d is suspended to disk, and PVE changes nothing on it until it runs again. Nothing was changed; "+
		"resume it with `qm resume %d` on node %s, "+
		"or drop its saved memory by removing the option vmstate in PVE, then apply", u.vmid, u.vmid, u.view.node)
}

// shutDown shuts the guest down where the configuration wants it off.
func (u *update) shutDown(ctx context.Context) error {
	if u.r.PowerState != guest.Stopped {
		return nil
	}
	status, err := u.view.Status(ctx)
	if err != nil || !status.IsRunning() {
		return err
	}
	if status.QMPStatus == "paused" {
		return &guest.FieldError{Path: "power_state", Summary: fmt.Sprintf("VM %d is paused", u.vmid),
			Detail: fmt.Sprintf("A paused guest hears no request to shut down. Resume it with `qm resume %d` on node %s, or stop it "+
				"yourself, then apply",
				u.vmid, u.view.node)}
	}
	timeout := guest.StopTimeout(u.r.StopTimeout)
	err = u.s.guests.ShutDown(ctx, u.view.Power, u.view.node, u.vmid, timeout)
	if err == nil || ctx.Err() != nil || pve.IsKind(err, pve.Locked) || pve.IsKind(err, pve.Denied) || pve.IsKind(err, pve.Unavailable) {
		return err
	}
	if disobeyed(err) {
		ended, lookErr := u.watchDisobedient(ctx, u.s.guests.IsStopped(u.view.node, u.vmid))
		if ended {
			return nil
		}
		if lookErr != nil && ctx.Err() == nil {
			err = errors.Join(err, lookErr)
		}
	}
	switch off, lookErr := u.isOff(ctx); {
	case off:
		return nil
	case lookErr != nil: // nobody knows what has become of it
		return errors.Join(err, lookErr)
	}
	return u.disobedient(&guest.FieldError{Path: "power_state", Summary: fmt.Sprintf("VM %d was not shut down", u.vmid),
		Detail: "It was asked to, and nothing else of the plan was done", Err: err},
		fmt.Sprintf("It runs on, and may go off later. Shut it down from inside, give it a guest agent or ACPI, or more time with "+
			"shutdown_timeout, then apply. `qm stop %d` on node %s would cut it off", u.vmid, u.view.node))
}

// isOff looks once more, when a guest did not go off as it was asked to, whose it is and whether it runs: that it runs on is said
// of nothing else, nor is a command named for another VM.
func (u *update) isOff(ctx context.Context) (bool, error) {
	ctx, cancel := u.s.jobs.Grace(ctx)
	defer cancel()
	if err := u.view.Guard(ctx); err != nil {
		return false, err
	}
	status, err := u.view.Status(ctx)
	return err == nil && !status.IsRunning(), err
}

// disobeyed tells whether PVE asked the guest to go off and it did not in time.
func disobeyed(err error) bool {
	var task *pve.TaskError
	return errors.As(err, &task) && task.Kind == pve.Busy
}

// watchDisobedient waits for a guest that did not go off in the time that PVE gave it, to the end of the operation's time. PVE
// has given up by then, and dropped a reboot (qemu-server QemuServer.pm vm_reboot, clear_reboot_request), but the guest has
// been asked and may still obey.
func (u *update) watchDisobedient(ctx context.Context, ended func(context.Context) (bool, error)) (bool, error) {
	ctx, over := account.Wait(ctx, account.Guest, fmt.Sprintf("VM %d to go off after all", u.vmid))
	defer over()
	end := u.s.clock.Now().Add(job.Remaining(ctx))
	for pause := pve.ForGuest.Pause(1, 0); u.s.clock.Now().Add(pause).Before(end); {
		if err := u.s.clock.Sleep(ctx, pause); err != nil {
			return false, err
		}
		over, err := ended(ctx)
		if over || err != nil && !pve.IsKind(err, pve.Unavailable) {
			return over, err
		}
	}
	return false, nil
}

// start starts the guest where the configuration wants it to run. One that was paused is resumed.
func (u *update) start(ctx context.Context) (started bool, err error) {
	if u.r.PowerState != guest.Running {
		return false, nil
	}
	status, err := u.view.Status(ctx)
	switch {
	case err != nil:
		return false, err
	case status.IsRunning() && status.QMPStatus == "paused":
		_, err := u.view.Power(ctx, job.Request{Type: "qmresume",
			Send: func(ctx context.Context) (pve.UPID, error) { return u.s.api.ResumeVM(ctx, u.view.node, u.vmid) }})
		return false, err
	case status.IsRunning():
		return false, nil
	}
	result, err := u.s.guests.StartBy(ctx, u.view.Power, u.view.node, u.vmid)
	if result.Warnings > 0 {
		u.warn(fmt.Sprintf("Start of VM %d ended with warnings", u.vmid), strings.Join(result.Log, "\n"))
	}
	return true, err
}
