// Package power switches VMs that somebody names by their ids: on, off, to sleep and back. What PVE has nothing to do for is a success
// that says so; what it refuses is refused before anything is sent. It changes nothing but what the guest's process does.
package power

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// Action is what is to be done to a guest, by PVE's name of it.
type Action string

// The actions.
const (
	Start    Action = "start"
	Shutdown Action = "shutdown"
	Stop     Action = "stop"
	Reboot   Action = "reboot"
	Reset    Action = "reset"
	Suspend  Action = "suspend"
	Resume   Action = "resume"
)

// Actions are all of them.
func Actions() []Action { return []Action{Start, Shutdown, Stop, Reboot, Reset, Suspend, Resume} }

// Request is one action on one VM.
type Request struct {
	guest.Choice
	Action Action
	// ToDisk has a suspended guest's memory saved to StateStorage, or where PVE chooses, and the guest ended.
	ToDisk       bool
	StateStorage string
	// Timeout bounds all of it. The guest has most of it to shut down in.
	Timeout time.Duration
	// NoWait ends the action when PVE has taken the request. Hard ones are awaited all the same.
	NoWait bool
}

// Switch switches the VMs of one cluster.
type Switch struct {
	api     *pve.Client
	jobs    *job.Runner
	guests  *guest.Guests
	remover *remove.Remover
}

// New makes a Switch.
func New(jobs *job.Runner, guests *guest.Guests, remover *remove.Remover) *Switch {
	return &Switch{api: jobs.API, jobs: jobs, guests: guests, remover: remover}
}

// run is one action under way.
type run struct {
	*Switch
	Request
	node     string
	identity guest.Identity
	digest   string          // of the configuration that was seen, which tells a VM without identity
	lock     string          // as it was seen
	before   pve.GuestStatus // as it was seen
	end      time.Time       // of the action's time
	tasks    job.Tasks
	warnings []guest.Warning
}

// look finds the VM, and what its guest does now.
func (u *run) look(ctx context.Context) error {
	at, err := u.guests.Pick(ctx, u.Choice)
	if err != nil {
		return err
	}
	config := at.Config.Current()
	u.node, u.identity, u.digest, u.lock = at.Node, guest.IdentityOf(config), at.Config.Digest, config["lock"]
	if config["template"] == "1" {
		return guest.IsTemplate(u.VMID)
	}
	u.before, err = u.api.GuestStatus(ctx, u.node, u.VMID)
	return err
}

// tell says something on the way.
func (u *run) tell(ctx context.Context, text string) { u.jobs.Tell(ctx, text) }

// vm names the VM for people.
func (u *run) vm() string { return fmt.Sprintf("VM %d on node %s", u.VMID, u.node) }

// nothing says that the guest is as it is to be already. That it is his who is meant is looked at last.
func (u *run) nothing(ctx context.Context, text string) error {
	err := u.isSame(ctx)
	if err == nil {
		u.tell(ctx, u.vm()+text)
	}
	return err
}

// refuse is the error for what PVE would refuse of a guest as it is now. Nothing was sent.
func (u *run) refuse(ctx context.Context, why, next string) error {
	if err := u.isSame(ctx); err != nil {
		return err
	}
	return &guest.FieldError{Path: "action", Summary: fmt.Sprintf("VM %d %s", u.VMID, why), Detail: next + ". Nothing was done"}
}

// isSame looks whether the VM is still the one that was seen: somebody may have made another one under its id.
func (u *run) isSame(ctx context.Context) error {
	config, err := u.api.CurrentConfig(ctx, u.node, u.VMID)
	if err != nil {
		return err
	}
	seen := guest.IdentityOf(config.Values)
	if u.identity.Matches(seen) || u.identity.IsZero() && u.digest == config.Digest {
		return nil
	}
	return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d is another VM by now", u.VMID),
		Detail: fmt.Sprintf("When the action began it had %s; now the VM on node %s that has its id has %s. That one was not touched",
			u.identity, u.node, seen)}
}

// perform sends a request, each time after a look whose VM it is, and awaits its task. It is a guest.Performer.
func (u *run) perform(ctx context.Context, j job.Request) (result pve.TaskResult, err error) {
	j.Node, j.ID = u.node, u.VMID
	begun, send := pve.UPID(""), j.Send
	j.Send = func(ctx context.Context) (pve.UPID, error) {
		upid, err := send(ctx)
		if begun = upid; err == nil {
			u.tell(ctx, "Task "+string(upid))
		}
		return upid, err
	}
	err = u.jobs.Contend(ctx, u.node, u.VMID, func(ctx context.Context) error {
		err := u.isSame(ctx)
		switch {
		case err != nil:
		case u.NoWait:
			_, err = j.Send(ctx)
		default:
			result, err = u.jobs.Once(ctx, &u.tasks, j)
		}
		return err
	})
	if err == nil && !u.NoWait {
		u.tellLog(ctx, begun)
	}
	if result.Warnings > 0 {
		u.warnings = append(u.warnings, guest.Warning{Summary: fmt.Sprintf("The %s of VM %d ended with warnings", u.Action, u.VMID),
			Detail: strings.Join(result.Log, "\n")})
	}
	return result, err
}

// tellLog says what a task has logged.
func (u *run) tellLog(ctx context.Context, upid pve.UPID) {
	if upid == "" {
		return
	}
	const lines = 10
	log, err := u.api.TaskLog(ctx, upid, lines)
	if err != nil {
		return // what the task did is known without it
	}
	for _, line := range log {
		if line != "TASK OK" {
			u.tell(ctx, line)
		}
	}
}

// status is the guest's state now. HA may have taken it to another node.
func (u *run) status(ctx context.Context) (pve.GuestStatus, error) {
	now, err := u.api.GuestStatus(ctx, u.node, u.VMID)
	if !pve.IsKind(err, pve.NotFound) || !u.before.HAManaged {
		return now, err
	}
	at, err := u.guests.Pick(ctx, guest.Choice{VMID: u.VMID, UUID: u.identity.UUID})
	if err != nil {
		return now, err
	}
	u.node = at.Node
	return u.api.GuestStatus(ctx, u.node, u.VMID)
}

// await waits until the guest is as it is to be, at most until end.
func (u *run) await(ctx context.Context, end time.Time, is func(pve.GuestStatus) bool) (bool, error) {
	for attempt := 0; ; attempt++ {
		if err := u.jobs.Pause(ctx, attempt); err != nil {
			return false, err
		}
		now, err := u.status(ctx)
		switch {
		case err == nil && is(now):
			return true, nil
		case err != nil && !pve.IsKind(err, pve.Unavailable):
			return false, err
		case !u.jobs.Clock.Now().Before(end):
			return false, nil
		}
	}
}
