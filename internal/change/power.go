package change

import (
	"context"
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// awake refuses to change the options of a guest that is suspended to disk, since PVE takes none then. One that is to run is
// resumed by its start.
func (u *update) awake() error {
	if u.config.Current()["lock"] != "suspended" || len(u.change.Set)+len(u.change.Delete)+len(u.change.DeleteFirst)+len(u.change.Moves)+len(u.change.Grow) == 0 {
		return nil
	}
	return fmt.Errorf("VM %d is suspended to disk, and PVE changes nothing on it until it runs again. Nothing was changed; resume it with `qm resume %d` on node %s, "+
		"or drop its saved memory by removing the option vmstate in PVE, then apply", u.vmid, u.vmid, u.node)
}

// powerOff shuts the guest down where the configuration wants it off.
func (u *update) powerOff(ctx context.Context) error {
	if u.r.PowerState != guest.Stopped {
		return nil
	}
	status, err := u.s.api.GuestStatus(ctx, u.node, u.vmid)
	if err != nil || status.Status != "running" {
		return err
	}
	if status.QMPStatus == "paused" {
		return &guest.FieldError{Path: "power_state", Summary: fmt.Sprintf("VM %d is paused", u.vmid),
			Detail: fmt.Sprintf("A paused guest hears no request to shut down. Resume it with `qm resume %d` on node %s, or stop it yourself, then apply", u.vmid, u.node)}
	}
	if err := u.s.guests.ShutDown(ctx, &u.ledger, u.node, u.vmid, guest.StopTimeout(u.r.StopTimeout)); err != nil {
		if ctx.Err() != nil || pve.IsKind(err, pve.Locked) || pve.IsKind(err, pve.Denied) || pve.IsKind(err, pve.Unavailable) {
			return err
		}
		return &guest.FieldError{Path: "power_state", Summary: fmt.Sprintf("VM %d was not shut down", u.vmid),
			Detail: fmt.Sprintf("It runs on. Shut it down from inside, give it a guest agent or ACPI, or more time with shutdown_timeout, then apply. "+
				"`qm stop %d` on node %s would cut it off", u.vmid, u.node), Err: err}
	}
	if u.stale = len(u.config.Waiting()) > 0; u.stale { // they are in force now
		return u.look(ctx)
	}
	return nil
}

// powerOn starts the guest where the configuration wants it to run. One that was paused is resumed.
func (u *update) powerOn(ctx context.Context) error {
	if u.r.PowerState != guest.Running {
		return nil
	}
	status, err := u.s.api.GuestStatus(ctx, u.node, u.vmid)
	switch {
	case err != nil:
		return err
	case status.Status == "running" && status.QMPStatus == "paused":
		_, err := u.s.jobs.Perform(ctx, &u.ledger, job.Request{Node: u.node, Type: "qmresume", ID: u.vmid,
			Send: func(ctx context.Context) (pve.UPID, error) { return u.s.api.ResumeVM(ctx, u.node, u.vmid) }})
		return err
	case status.Status == "running":
		return nil
	}
	u.stale, u.booted = true, true
	result, err := u.s.guests.Start(ctx, &u.ledger, u.node, u.vmid)
	if result.Warnings > 0 {
		u.warn(fmt.Sprintf("Start of VM %d ended with warnings", u.vmid), strings.Join(result.Log, "\n"))
	}
	return err
}
