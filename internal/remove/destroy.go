package remove

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	if err := r.leaveHA(ctx, node); err != nil {
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
			_, r.stuck = r.s.guests.FindUnlocked(ctx, guest.Ref{VMID: r.VMID, Node: node, Identity: r.identity})
			return r.stuck // nil: the next pass goes on
		}
		if err := r.unlock(ctx, node, lock); err != nil {
			if errors.Is(err, errCannotUnlock) {
				r.freeAll(ctx, node)
			}
			return err
		}
	}
	if config["protection"] == "1" {
		if err := r.s.jobs.Put(ctx, node, r.VMID, r.marked(pve.Params{"protection": "0"}, config)); err != nil {
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
	whole := r.ours(node)
	whole.whole, whole.place = true, r.Fence.Node
	if r.Fence.Only != nil {
		whole.volumes = slices.Sorted(maps.Keys(r.Fence.Only))
	}
	e, err := r.prove(ctx, whole)
	if err != nil {
		return r.refusal(err)
	}
	send := r.s.jobs.Once // a rollback has its own loop, and takes the locks of its own dead tasks away
	if r.committed {
		send = r.s.jobs.Perform
	}
	result, err := r.s.deleteGuest(ctx, send, r.Tasks, e, !r.keep)
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
	r.destroyed, r.had = r.lastDestroy(), e.config.Values
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
	e, err := r.prove(ctx, r.ours(node))
	if err != nil {
		return err
	}
	return r.s.stopHard(ctx, r.s.jobs.Once, r.Tasks, e, params)
}

// refusal keeps what no further pass can change: another guest uses a volume of ours. A guest that is gone is what was wanted.
func (r *removal) refusal(err error) error {
	var inUse *InUseError
	if errors.As(err, &inUse) {
		r.stuck = fmt.Errorf("VM %d was not removed: %w", r.VMID, err)
		return r.stuck
	}
	if pve.IsKind(err, pve.NotFound) {
		return nil
	}
	return err
}

// unlock takes away the lock of a dead worker of ours: with a ticket of root@pam over the API, since PVE lets nobody else
// skip a lock, not even a token of root; else over SSH. Any other lock is somebody's at work and stays.
func (r *removal) unlock(ctx context.Context, node, lock string) error {
	if !guest.IsOwnLock(lock) {
		return job.LockedBy(lock, fmt.Sprintf("destroy VM %d on node %s", r.VMID, node))
	}
	c := r.ours(node)
	c.lock = true
	e, err := r.prove(ctx, c)
	if err == nil {
		err = r.s.takeLock(ctx, e, r.Stamp.String())
	}
	var unseen *unseenTasksError
	if errors.As(err, &unseen) {
		r.stuck = err
	}
	if err == nil && !r.s.api.Identity().IsRootTicket() {
		return r.noteUnlocked(ctx, node)
	}
	if errors.Is(err, errCannotUnlock) {
		r.stuck = fmt.Errorf("VM %d is locked (%s) by a worker that died; %w", r.VMID, lock, err)
		return r.stuck
	}
	return err
}

// noteUnlocked sees what a stub of ours looks like without its lock, which bears no mark.
func (r *removal) noteUnlocked(ctx context.Context, node string) error {
	config, err := r.s.api.CurrentConfig(ctx, node, r.VMID)
	if err == nil && r.Stub != nil && guest.HalfMade(config.Values) {
		r.Stub.Digest = config.Digest
	}
	return err
}

// marked adds to a change of a VM that nobody has committed the mark that says whose it is, which a stub does not have.
func (r *removal) marked(params pve.Params, config map[string]string) pve.Params {
	if !r.committed && guest.HalfMade(config) {
		params["description"] = r.Stamp.String()
	}
	return params
}

// adopt attaches to our VM the volumes of its id that it does not know of, so that they are destroyed with it. Those that
// outlived it once are first freed by themselves, as are those that cannot be attached, while it keeps the id.
func (r *removal) adopt(ctx context.Context, node string, config map[string]string) error {
	params, next := pve.Params{}, 0
	for _, v := range r.strays {
		if guest.Uses(config, v) || r.tried[v] > 0 && r.free(ctx, r.ours(node), v) == nil { // the next look tells
			continue
		}
		for ; config[fmt.Sprintf("unused%d", next)] != ""; next++ {
		}
		params[fmt.Sprintf("unused%d", next)] = v
		next++
	}
	alone := false
	if len(params) > 0 {
		if err := r.s.jobs.Put(ctx, node, r.VMID, r.marked(params, config)); err != nil {
			if r.failed++; r.failed < 2 {
				return err
			}
			alone = true
		}
	}
	for _, v := range r.strays {
		if alone && r.tried[v] == 0 && !guest.Uses(config, v) {
			_ = r.free(ctx, r.ours(node), v) // the next look tells
		}
		r.tried[v]++
	}
	return nil
}

// freeAll frees the volumes of a VM that cannot be unlocked, while its locked configuration keeps the id from others.
func (r *removal) freeAll(ctx context.Context, node string) {
	for _, v := range r.strays {
		_ = r.free(ctx, r.ours(node), v) // the next look tells
	}
	if now, err := r.Fence.Strays(ctx, r.s.guests); err == nil {
		r.strays = now
	}
}

// free removes one volume of ours: over the API, which takes Datastore.Allocate, else over SSH. The next pass looks
// whether it is gone; what PVE says of it proves nothing.
func (r *removal) free(ctx context.Context, c claim, volume string) error {
	c.place, c.volumes, c.lock = r.Fence.Node, []string{volume}, true
	e, err := r.prove(ctx, c)
	if err == nil {
		err = r.s.freeVolume(ctx, r.Tasks, e, volume)
	}
	if err == nil && r.tried[volume] < 2 {
		return nil
	}
	switch {
	case !e.mayFree(volume): // somebody uses it, or may
		err = errors.Join(err, e.held)
	case r.s.shell != nil:
		err = r.s.freeByShell(ctx, e, volume)
	case err == nil:
		err = errors.New("the volume is still there after PVE removed it")
	}
	if err != nil && (r.why[volume] == "" || !pve.IsKind(err, pve.Denied)) {
		r.why[volume] = err.Error()
	}
	return err
}

// leaveHA removes the HA entry of a create of ours that failed: HA would start the guest again that we stop. Where it cannot
// be removed by itself it goes with the VM, whose removal purges it.
func (r *removal) leaveHA(ctx context.Context, node string) error {
	if !r.Managed {
		return nil
	}
	e, err := r.prove(ctx, r.ours(node))
	if err != nil {
		return err
	}
	err = r.s.dropHA(ctx, e)
	if r.refusals++; err == nil || pve.IsKind(err, pve.Denied) || r.refusals > 1 {
		r.Managed = false
		return nil
	}
	return fmt.Errorf("take VM %d out of HA: %w", r.VMID, err)
}
