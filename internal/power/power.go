// Package power switches chosen VMs on, off, to sleep and back. A request that would have no effect succeeds and says
// so. A request that PVE would refuse is refused before anything is sent. Only the guest's process changes.
package power

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
)

// Action is what to do to a guest, by PVE's name of it.
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
	api    *pve.Client
	jobs   *request.Runner
	guests *guest.Guests
	guard  *guard.Guard
}

// New makes a Switch.
func New(jobs *request.Runner, guests *guest.Guests, guard *guard.Guard) *Switch {
	return &Switch{api: jobs.API, jobs: jobs, guests: guests, guard: guard}
}

// run is one action under way.
type run struct {
	*Switch
	Request
	node     string
	identity guest.Identity
	config   pve.PendingConfig // as it was seen; its digest tells a VM without identity
	lock     string            // as it was seen
	before   pve.GuestStatus   // as it was seen
	end      time.Time         // of the action's time
	tasks    request.Tasks
	sent     bool // a request may have been carried out
	tried    bool // to restart the guest
	warnings []guest.Warning
	// first is asked before each try; nil: nothing is. It may take its time, so the proof which VM it is comes after it.
	first func(context.Context) error
}

// look finds the VM, and the present state of its guest.
func (r *run) look(ctx context.Context) error {
	at, err := r.guests.Pick(ctx, r.Choice)
	if err != nil {
		return err
	}
	config := at.Config.Current()
	r.config = at.Config
	r.node, r.identity, r.lock = at.Node, guest.IdentityOf(config), config["lock"]
	if config["template"] == "1" {
		return guest.IsTemplate(r.VMID)
	}
	r.before, err = r.api.QEMU(r.node, r.VMID).Status(ctx)
	return err
}

// tell logs progress.
func (r *run) tell(ctx context.Context, text string) { r.jobs.Tell(ctx, text) }

// vm names the VM for people.
func (r *run) vm() string { return fmt.Sprintf("VM %d on node %s", r.VMID, r.node) }

// nothing says that the guest is already in the wanted state. It first proves that the guest is the one that is meant.
func (r *run) nothing(ctx context.Context, text string) error {
	err := r.isSame(ctx)
	if err == nil {
		r.tell(ctx, r.vm()+text)
	}
	return err
}

// refuse is the error for a request that PVE would refuse in the guest's present state. Nothing was sent.
func (r *run) refuse(ctx context.Context, why, next string) error {
	if err := r.isSame(ctx); err != nil {
		return err
	}
	return &guest.FieldError{Path: "action", Summary: fmt.Sprintf("VM %d %s", r.VMID, why), Detail: next +
		". Nothing was done"}
}

// isSame is an error if the VMID has another VM than before.
func (r *run) isSame(ctx context.Context) error {
	config, err := r.api.QEMU(r.node, r.VMID).Config(ctx)
	if err != nil {
		return err
	}
	seen := guest.IdentityOf(config.Values)
	if r.identity.Matches(seen) || r.identity.IsZero() && r.config.Digest == config.Digest {
		return nil
	}
	then := "That one was not touched"
	if r.sent {
		then = fmt.Sprintf("The request to %s was sent when the id was last seen to have the first of them. Look whether it "+
			"reached the second", r.Action)
	}
	return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d is another VM by now", r.VMID),
		Detail: fmt.Sprintf("When the action began it had %s; now the VM on node %s that has its id has %s. %s", r.identity,
			r.node, seen, then)}
}

// perform sends a request and awaits its task. Each try first proves which VM has the VMID, and is sent only while that
// proof is recent. It is a guest.Performer.
func (r *run) perform(ctx context.Context, j request.Request) (result pve.TaskResult, err error) {
	j.Node, j.ID = r.node, r.VMID
	begun, send := pve.UPID(""), j.Send
	try := guest.SoonAfter(r.jobs.Clock, r.isSame, func(ctx context.Context) (err error) {
		begun, err = send(ctx)
		r.noteSent(err)
		return err
	})
	j.Send = func(ctx context.Context) (pve.UPID, error) {
		begun = ""
		if r.first != nil {
			if err := r.first(ctx); err != nil {
				return "", err
			}
		}
		err := try(ctx)
		if err == nil {
			r.tell(ctx, "Task "+string(begun))
		}
		return begun, err
	}
	err = r.jobs.Contend(ctx, r.node, r.VMID, func(ctx context.Context) (err error) {
		if r.NoWait {
			_, err = j.Send(ctx)
		} else {
			result, err = r.jobs.Once(ctx, &r.tasks, j)
		}
		return err
	})
	if err == nil && !r.NoWait {
		r.tellLog(ctx, begun)
	}
	if result.Warnings > 0 {
		r.warnings = append(r.warnings, guest.Warning{Summary: fmt.Sprintf("The %s of VM %d ended with warnings", r.Action,
			r.VMID),
			Detail: strings.Join(result.Log, "\n")})
	}
	return result, err
}

// noteSent notes that a request that ended like this may have been carried out.
func (r *run) noteSent(err error) { r.sent = r.sent || err == nil || pve.IsKind(err, pve.Ambiguous) }

// tellLog logs what a task has logged.
func (r *run) tellLog(ctx context.Context, upid pve.UPID) {
	if upid == "" {
		return
	}
	const lines = 10
	log, err := r.api.Tasks().Log(ctx, upid, lines)
	if err != nil {
		return // what the task did is known without it
	}
	for _, line := range log {
		if line != "TASK OK" {
			r.tell(ctx, line)
		}
	}
}

// status is the guest's present state. HA may have taken it to another node.
func (r *run) status(ctx context.Context) (pve.GuestStatus, error) {
	now, err := r.api.QEMU(r.node, r.VMID).Status(ctx)
	if !pve.IsKind(err, pve.NotFound) || !r.before.HAManaged {
		return now, err
	}
	at, err := r.guests.Pick(ctx, guest.Choice{VMID: r.VMID, UUID: r.identity.UUID})
	if err != nil {
		return now, err
	}
	r.node = at.Node
	return r.api.QEMU(r.node, r.VMID).Status(ctx)
}

// pausedFor is how long ago the guest was paused at most, by the clock of its node: it has stood still since its first
// pause after its last resume. It is not known without Sys.Audit on the node, or where no task has paused the guest.
func (r *run) pausedFor(ctx context.Context, now pve.GuestStatus) (time.Duration, bool) {
	if now.QMPStatus != "paused" {
		return 0, false
	}
	tasks, err := r.api.Tasks().List(ctx, r.node, pve.TaskFilter{VMID: r.VMID})
	if err != nil {
		return 0, false
	}
	var resumed, paused time.Time
	for _, t := range tasks {
		well := t.Status == "OK" || strings.HasPrefix(t.Status, "WARNINGS")
		if t.UPID.Type() == "qmresume" && well && t.StartTime.After(resumed) {
			resumed = t.StartTime
		}
	}
	for _, t := range tasks {
		if t.UPID.Type() == "qmpause" && !t.StartTime.Before(resumed) && (paused.IsZero() || t.StartTime.Before(paused)) {
			paused = t.StartTime
		}
	}
	at, err := r.api.Node(r.node).Time(ctx)
	return at.Sub(paused), err == nil && !paused.IsZero()
}

// await waits until the guest is in the wanted state, at most until end.
func (r *run) await(ctx context.Context, end time.Time, is func(pve.GuestStatus) bool) (bool, error) {
	for attempt := 0; ; attempt++ {
		if err := r.jobs.Pause(ctx, attempt); err != nil {
			return false, err
		}
		now, err := r.status(ctx)
		switch {
		case err == nil && is(now):
			return true, nil
		case err != nil && !pve.IsKind(err, pve.Unavailable):
			return false, err
		case !r.jobs.Clock.Now().Before(end):
			return false, nil
		}
	}
}
