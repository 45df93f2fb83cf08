package create

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// firstWrite is what became of the request that claims the VMID.
type firstWrite struct {
	sent    bool          // it may have had an effect
	lost    *request.Lost // it, if its answer was lost and its task was not found
	taken   bool          // another guest has the VMID
	done    bool          // it was carried out to its end
	held    bool          // it failed for a foreign lock
	strayed bool          // its source was not on the node any more
	bare    bool          // PVE has removed its configuration, and not its volumes: nothing can be kept
	uuid    string        // that it gave the VM, known before it was sent; "" if it gave none
	alone   time.Time     // when no other guest had the VM's disks: it had just made them, or all guests were read
}

// clone claims the VMID with a copy of the source.
func (a *attempt) clone(ctx context.Context) error {
	if held := vm.HeldVolume(a.from.vmid, a.from.config); held != "" && a.from.snapshot == nil {
		g := a.creator.destroyer.Guard
		if err := guard.CheckCopy(ctx, g, a.from.node, a.from.request.Path(), held); err != nil {
			return err
		}
	}
	params := a.from.cloneParams(a.vmid, a.r, a.node)
	params["description"] = a.firstMark("")
	return sendCopy(ctx, a, request.Request{Node: a.from.node, Type: "qmclone", ID: a.from.vmid, Done: a.cloned,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return a.creator.api.QEMU(a.from.node, a.from.vmid).Clone(ctx, params)
		}})
}

// sendFirst sends the first write. A VMID that is taken already is a collision, never a success.
func (a *attempt) sendFirst(ctx context.Context, r request.Request) error {
	since := a.creator.jobs.Clock.Now()
	send, refused := r.Send, false
	r.Send = func(ctx context.Context) (pve.UPID, error) {
		upid, err := send(ctx)
		if refused = pve.IsKind(err, pve.Exists); refused && !a.creator.api.Identity().PlanOnly {
			upid, err = repeated(ctx, a, r, since, err)
		}
		// a refusal at once comes before anything is done, and with plan_only nothing is sent
		a.first.sent = !pve.IsKind(err, pve.Exists) && !a.creator.api.Identity().PlanOnly
		return upid, err
	}
	result, err := a.creator.jobs.Once(ctx, &a.view.Tasks, r)
	if a.first.held = pve.IsKind(err, pve.Locked); fault.Contended(err) {
		a.first.sent = false
	}
	var ended *pve.TaskError
	isRefused := len(a.view.Tasks.UPIDs) == 0 && a.r.Clone != nil
	if a.first.strayed = isRefused && fault.IsGuestGone(err, a.from.vmid); a.first.strayed {
		a.first.sent = false // PVE reads the source first (qemu-server API2/Qemu.pm clone_vm)
	}
	a.first.bare = errors.As(err, &ended) && ended.LeavesVolumes()
	if pve.IsKind(err, pve.Ambiguous) && len(a.view.Tasks.UPIDs) == 0 {
		a.first.lost = &request.Lost{Request: r, Since: since, Patience: request.Patience(err)}
	}
	if err == nil && len(a.view.Tasks.Guessed) > 0 {
		err = a.verify(ctx)
	}
	if pve.IsKind(err, pve.Exists) {
		a.first.taken, a.first.sent = true, a.first.sent && !refused
		err = &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VMID %d is taken", a.vmid),
			Detail: "Another VM or container has this id; it was not touched. Choose another vmid, or leave it out to get " +
				"a free one",
			Err: err}
	}
	if a.first.done = err == nil; err == nil {
		a.first.alone = since // its disks are there, and can be attached elsewhere, while its task still runs
	}
	a.warn(fmt.Sprintf("Creation of VM %d ended with warnings", a.vmid), result)
	return err
}

// repeated finds out whether a VMID is taken by this very request: something in front of PVE may have sent it twice,
// and have given the second answer. Only this attempt's mark tells. PVE writes it when the first disk of a clone, or
// each disk of a new VM, is there (qemu-server API2/Qemu.pm clone_vm, create_vm). Before that nothing tells our VM from
// that of another process of this identity.
func repeated(ctx context.Context, a *attempt, r request.Request, since time.Time, refusal error) (pve.UPID, error) {
	config, err := a.creator.api.QEMU(r.Node, a.vmid).Config(ctx)
	if err != nil || !a.mark.Proves(a.vmid, config.Values) {
		return "", refusal
	}
	found, err := a.creator.jobs.Search(ctx, &a.view.Tasks, r, since, 1)
	if found != "" {
		a.view.Tasks.Guess(found)
		return found, nil
	}
	return "", &pve.Error{Op: fmt.Sprintf("create VM %d on node %s", a.vmid, r.Node), Kind: pve.Ambiguous,
		Message: "something in front of Proxmox VE has sent the request twice", Err: errors.Join(refusal, err)}
}

// verify proves that the VM of a task which a search took for ours is ours. Another process with the same identity may
// have created a VM under the same VMID while our request was refused, or cloned the same source while our request was
// lost.
func (a *attempt) verify(ctx context.Context) error {
	var mine bool
	var err error
	if a.from != nil && a.from.vmid != 0 {
		mine, err = a.cloned(ctx)
	} else {
		var config pve.GuestConfig
		config, err = a.creator.api.QEMU(a.node, a.vmid).Config(ctx)
		mine = err == nil && a.mark.Proves(a.vmid, config.Values)
	}
	if err != nil {
		return fmt.Errorf("find out what became of VM %d, since the answer to its create was lost: %w", a.vmid, err)
	}
	if mine {
		return nil
	}
	return &pve.Error{Op: fmt.Sprintf("create VM %d on node %s", a.vmid, a.node), Kind: pve.Exists,
		Message: "the answer was lost, and the VM that has the id now is not marked as this create's"}
}

// cloned awaits the end of a clone whose task is not known: if several clones of one source are under way, PVE lists
// all their tasks under the source. The mark tells which target is ours. A lock that no task holds is that of a dead
// worker, and such a clone never ends.
func (a *attempt) cloned(ctx context.Context) (bool, error) {
	dead := 0
	for attempt := 0; ; attempt++ {
		if err := a.creator.jobs.Pause(ctx, attempt); err != nil {
			return false, err
		}
		config, err := a.creator.api.QEMU(a.from.node, a.vmid).Config(ctx)
		if pve.IsKind(err, pve.NotFound) && a.node != a.from.node {
			config, err = a.creator.api.QEMU(a.node, a.vmid).Config(ctx)
		}
		if err != nil {
			return false, err
		}
		if config.Values["lock"] == "" {
			return a.mark.Proves(a.vmid, config.Values), nil
		}
		running, err := a.creator.api.Tasks().List(ctx, a.from.node,
			pve.TaskFilter{VMID: a.from.vmid, Type: "qmclone", RunningOnly: true})
		if err == nil && len(running) == 0 {
			if dead++; dead > 1 {
				return false, nil
			}
		}
	}
}

// convert makes the VM a template. PVE renames all its disks, and asks neither whose they are nor who else has them
// (qemu-server QemuServer.pm template_create), so that is looked at right before. The conversion of a dead run may have
// failed at a disk, and is continued.
func (a *attempt) convert(ctx context.Context) error {
	at, last := a.creator.api.QEMU(a.node, a.vmid), a.view.Last().Current()
	if !a.resumed || last["template"] != "1" {
		return convertBy(ctx, a, at.ConvertToTemplate)
	}
	for _, slot := range guest.Unconverted(a.vmid, last) {
		send := func(ctx context.Context) (pve.UPID, error) { return at.ConvertDisk(ctx, slot) }
		if err := convertBy(ctx, a, send); err != nil {
			return err
		}
	}
	return nil
}

func convertBy(ctx context.Context, a *attempt, send func(context.Context) (pve.UPID, error)) error {
	_, err := a.perform(ctx, request.Request{Type: "qmtemplate", Send: send}, func(ctx context.Context) error {
		if err := guard.CheckMade(ctx, a.creator.destroyer.Guard, a.node, a.mark, time.Time{}); err != nil {
			return &guest.FieldError{Path: "template", Summary: fmt.Sprintf("VM %d was not made a template", a.vmid),
				Detail: "PVE renames the disks of a template, and another guest that uses one would lose it", Err: err}
		}
		return a.look(ctx)
	})
	return err
}
