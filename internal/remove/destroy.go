package remove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// destroy does the next thing towards the end of our VM: take it out of HA, stop it, unlock it, switch its protection off, attach the
// volumes that it does not know of, and at last delete it with all of them. One pass does as much of this as goes well.
func (r *removal) destroy(ctx context.Context, node string, config map[string]string) error {
	if r.committed {
		r.follow(ctx, node, config)
	}
	if err := r.leaveHA(ctx); err != nil {
		return err
	}
	if err := r.halt(ctx, node); err != nil {
		return err
	}
	if config["protection"] == "1" && r.committed {
		r.stuck = fmt.Errorf("VM %d on node %s is protected since a moment ago; its protection was left alone", r.VMID, node)
		return r.stuck
	}
	if lock := config["lock"]; lock != "" && lock != job.Suspended {
		if r.committed && !guest.IsStub(config) {
			_, _, r.stuck = r.s.guests.Unlocked(ctx, guest.Ref{VMID: r.VMID, Node: node, Identity: r.identity})
			return r.stuck // nil: the next pass goes on
		}
		if err := r.unlock(ctx, node, lock); err != nil {
			if r.stuck != nil {
				r.freeAll(ctx)
			}
			return err
		}
	}
	if config["protection"] == "1" {
		if err := r.s.jobs.Put(ctx, node, r.VMID, pve.Params{"protection": "0"}); err != nil {
			return err
		}
	}
	if err := r.adopt(ctx, node, config); err != nil {
		return err
	}
	return r.delete(ctx, node)
}

// follow keeps up with a VM of ours that its user still had hold of a moment ago: where it is, and which volumes it has.
func (r *removal) follow(ctx context.Context, node string, config map[string]string) {
	storages := len(r.Fence.Storages)
	r.Fence.Node = node
	if r.Fence.Own(ownVolumes(r.VMID, config)); len(r.Fence.Storages) != storages {
		r.survey(ctx)
	}
}

// delete has PVE remove the VM.
func (r *removal) delete(ctx context.Context, node string) error {
	send := r.s.jobs.Once // a rollback has its own loop, and takes the locks of its own dead tasks away
	if r.committed {
		send = r.s.jobs.Perform
	}
	result, err := send(ctx, r.Ledger, job.Request{Node: node, Type: "qmdestroy", ID: r.VMID,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return r.s.api.DeleteVM(ctx, node, r.VMID, pve.DeleteOptions{Purge: !r.keep})
		}})
	if pve.IsKind(err, pve.NotFound) {
		return nil
	}
	if err != nil {
		if refused := r.refused(ctx, err); refused != nil {
			r.stuck = refused
			return refused
		}
		return err
	}
	if said := r.told(result.Log); result.Warnings > len(said) {
		r.notes = append(r.notes, "PVE removed it with warnings:\n"+strings.Join(result.Log, "\n"))
	}
	if len(r.Fence.Blind) > 0 && r.Fence.Only != nil {
		r.hear(ctx)
	}
	return nil
}

// halt stops a running guest hard. It is ours and was never committed, or its owner has shut it down before.
func (r *removal) halt(ctx context.Context, node string) error {
	status, err := r.s.api.GuestStatus(ctx, node, r.VMID)
	if err != nil || status.Status != "running" {
		return err
	}
	if r.committed && !r.force {
		r.stuck = fmt.Errorf("VM %d on node %s runs again after it was shut down: somebody started it, or HA did", r.VMID, node)
		return r.stuck
	}
	params := pve.Params{}
	if status.Lock != "" && r.s.api.Identity().IsRootTicket() {
		params["skiplock"] = "1"
	}
	_, err = r.s.jobs.Once(ctx, r.Ledger, job.Request{Node: node, Type: "qmstop", ID: r.VMID,
		Send: func(ctx context.Context) (pve.UPID, error) { return r.s.api.StopVM(ctx, node, r.VMID, params) }})
	return err
}

// unlock takes away the lock of a dead worker of ours: with a ticket of root@pam over the API, since PVE lets nobody else
// skip a lock, not even a token of root; else over SSH. Any other lock is somebody's at work and stays.
func (r *removal) unlock(ctx context.Context, node, lock string) error {
	if !guest.IsOwnLock(lock) {
		return job.LockedBy(lock, fmt.Sprintf("destroy VM %d on node %s", r.VMID, node))
	}
	if err := r.unheld(ctx, node, lock); err != nil {
		return err
	}
	if r.s.api.Identity().IsRootTicket() {
		return r.s.jobs.Put(ctx, node, r.VMID, pve.Params{"delete": "lock", "skiplock": "1", "description": r.Stamp.String()})
	}
	if r.s.shell != nil {
		return r.s.shell.Unlock(ctx, node, r.VMID)
	}
	r.stuck = fmt.Errorf("VM %d is locked (%s) by a worker that died; only the user root@pam with a password may unlock it over the API, and no SSH is configured", r.VMID, lock)
	return r.stuck
}

// unheld makes sure that no task at work holds the lock of our VM: since ours died, somebody may have removed what it left
// and be creating a VM of his own. A token without Sys.Audit sees its own tasks only.
func (r *removal) unheld(ctx context.Context, node, lock string) error {
	tasks, err := r.s.api.Tasks(ctx, node, pve.TaskFilter{RunningOnly: true})
	if err != nil {
		return err
	}
	for _, t := range tasks {
		mayHold := t.UPID.ID() == fmt.Sprint(r.VMID) || lock == "clone" && t.UPID.Type() == "qmclone"
		if mayHold && !slices.Contains(r.Ledger.UPIDs, t.UPID) && !r.s.jobs.IsKnown(t.UPID) {
			return fmt.Errorf("task %s is running and may hold the lock of VM %d", t.UPID, r.VMID)
		}
	}
	return nil
}

// adopt attaches to our VM the volumes of its id that it does not know of, so that they are destroyed with it. Those that
// outlived it once are first freed by themselves, as are those that cannot be attached, while it keeps the id.
func (r *removal) adopt(ctx context.Context, node string, config map[string]string) error {
	params, next := pve.Params{}, 0
	for _, v := range r.strays {
		if guest.Uses(config, v) || r.tried[v] > 0 && r.free(ctx, v) == nil { // the next look tells
			continue
		}
		for ; config[fmt.Sprintf("unused%d", next)] != ""; next++ {
		}
		params[fmt.Sprintf("unused%d", next)] = v
		next++
	}
	alone := false
	if len(params) > 0 {
		if err := r.s.jobs.Put(ctx, node, r.VMID, params); err != nil {
			if r.failed++; r.failed < 2 {
				return err
			}
			alone = true
		}
	}
	for _, v := range r.strays {
		if alone && r.tried[v] == 0 && !guest.Uses(config, v) {
			_ = r.free(ctx, v) // the next look tells
		}
		r.tried[v]++
	}
	return nil
}

// freeAll frees the volumes of a VM that cannot be unlocked, while its locked configuration keeps the id from others.
func (r *removal) freeAll(ctx context.Context) {
	for _, v := range r.strays {
		_ = r.free(ctx, v) // the next look tells
	}
	if now, err := r.Fence.Strays(ctx, r.s.guests); err == nil {
		r.strays = now
	}
}

// free removes one volume of ours: over the API, which takes Datastore.Allocate, else over SSH. The next pass looks
// whether it is gone; what PVE says of it proves nothing.
func (r *removal) free(ctx context.Context, volume string) error {
	_, err := r.s.jobs.Once(ctx, r.Ledger, job.Request{Node: r.Fence.Node, Type: "imgdel", ID: r.VMID,
		Send: func(ctx context.Context) (pve.UPID, error) { return r.s.api.DeleteVolume(ctx, r.Fence.Node, volume) }})
	if err == nil && r.tried[volume] < 2 {
		return nil
	}
	if r.s.shell != nil {
		err = r.s.shell.FreeVolume(ctx, r.Fence.Node, volume)
	} else if err == nil {
		err = errors.New("the volume is still there after PVE removed it")
	}
	if err != nil && (r.why[volume] == "" || !pve.IsKind(err, pve.Denied)) {
		r.why[volume] = err.Error()
	}
	return err
}

// leaveHA removes the HA entry of a create of ours that failed: HA would start the guest again that we stop. Where it cannot
// be removed by itself it goes with the VM, whose removal purges it.
func (r *removal) leaveHA(ctx context.Context) error {
	if !r.Managed {
		return nil
	}
	err := r.s.guests.DropHA(ctx, r.VMID)
	if r.refusals++; err == nil || pve.IsKind(err, pve.Denied) || r.refusals > 1 {
		r.Managed = false
		return nil
	}
	return fmt.Errorf("take VM %d out of HA: %w", r.VMID, err)
}
