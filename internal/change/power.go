package change

import (
	"context"
	"fmt"
	"strings"

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
	return fmt.Errorf("VM %d is suspended to disk, and PVE changes nothing on it until it runs again. Nothing was changed; resume it with `qm resume %d` on node %s, "+
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
			Detail: fmt.Sprintf("A paused guest hears no request to shut down. Resume it with `qm resume %d` on node %s, or stop it yourself, then apply",
				u.vmid, u.view.node)}
	}
	err = u.s.guests.ShutDown(ctx, u.view.Power, u.view.node, u.vmid, guest.StopTimeout(u.r.StopTimeout))
	if err == nil || ctx.Err() != nil || pve.IsKind(err, pve.Locked) || pve.IsKind(err, pve.Denied) || pve.IsKind(err, pve.Unavailable) {
		return err
	}
	return &guest.FieldError{Path: "power_state", Summary: fmt.Sprintf("VM %d was not shut down", u.vmid),
		Detail: fmt.Sprintf("It runs on. Shut it down from inside, give it a guest agent or ACPI, or more time with shutdown_timeout, then apply. "+
			"`qm stop %d` on node %s would cut it off", u.vmid, u.view.node), Err: err}
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
