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
func (r *removal) destroy(ctx context.Context, found sighting) error {
	node, config := found.node, found.config.Values
	fresh := r.off // nothing is asked between the look and the deletion
	if err := r.refuseAdopted(ctx, config); err != nil {
		return err
	}
	if err := r.leaveHA(ctx, node); err != nil {
		return err
	}
	if err := r.stop(ctx, node); err != nil {
		return err
	}
	if config["protection"] == "1" && r.committed && !r.holder {
		r.blocked = fmt.Errorf("VM %d on node %s is protected since a moment ago; its protection was left alone", r.VMID, node)
		return r.blocked
	}
	if lock := config["lock"]; lock != "" && lock != job.Suspended {
		if r.committed && !guest.IsStub(config) {
			_, r.blocked = r.s.guests.FindUnlocked(ctx, guest.Ref{VMID: r.VMID, Node: node, Identity: r.identity})
			return r.blocked // nil: the next pass goes on
		}
		err := r.unlock(ctx, node, lock)
		if errors.Is(err, errCannotUnlock) {
			r.freeAll(ctx, node)
		}
		return err // nil: the next pass goes on
	}
	if config["protection"] == "1" && r.holder {
		return r.unprotect(ctx, node)
	}
	if config["protection"] == "1" {
		return r.change(ctx, found, pve.Params{"protection": "0"}) // the next pass goes on
	}
	fresh = fresh && !r.hasUnattached(config)
	if err := r.attach(ctx, found); err != nil {
		return err
	}
	whole := r.ours(node)
	if fresh {
		whole.seen = &found.config
	}
	return r.deleteGuest(ctx, whole)
}

// hasUnattached reports whether volumes of ours may be there that a configuration does not name.
func (r *removal) hasUnattached(config map[string]string) bool {
	if r.Fence.Only == nil {
		return true
	}
	for volume := range r.Fence.Only {
		if !guest.Uses(config, volume) {
			return true
		}
	}
	return false
}

// follow keeps up with a VM of ours that its user still had hold of a moment ago: where it is, and which volumes it has.
func (r *removal) follow(ctx context.Context, found sighting) error {
	if r.Fence.Node != found.node {
		r.leftFrom = append(r.leftFrom, r.Fence.Node)
	}
	r.Fence.Node = found.node
	if found.config.Digest == r.known && r.known != "" {
		return nil
	}
	storages := len(r.Fence.Storages)
	config, err := r.s.api.PendingConfig(ctx, found.node, r.VMID)
	if err != nil {
		return err
	}
	snapshots, err := r.s.surveyor.Snapshots(ctx, pve.Resource{Type: "qemu", Node: found.node, VMID: r.VMID}, config)
	if err != nil {
		return err
	}
	r.known = config.Digest
	configs := []map[string]string{found.config.Values, config.Current(), config.Merged()}
	if r.Fence.Own(ownVolumes(r.VMID, slices.AppendSeq(configs, maps.Values(snapshots))...)); len(r.Fence.Storages) != storages {
		r.checkSight(ctx)
	}
	return nil
}

// checkSight finds out on which storages the identity can see volumes without a VM.
func (r *removal) checkSight(ctx context.Context) {
	if err := retry(ctx, r.s, func() error { return r.Fence.Sees(ctx, r.s.guests) }); err != nil {
		for _, storage := range r.Fence.Storages {
			r.Fence.Blind[storage] = err
		}
		r.Fence.Storages = nil
	}
}

func retry(ctx context.Context, s *Remover, look func() error) error {
	var err error
	for attempt := range 3 {
		if s.jobs.Pause(ctx, attempt) != nil {
			break
		}
		if err = look(); err == nil {
			return nil
		}
	}
	return err
}

// deleteGuest has PVE remove the VM.
func (r *removal) deleteGuest(ctx context.Context, whole claim) error {
	whole.whole, whole.place = true, r.Fence.Node
	if r.Fence.Only != nil {
		whole.volumes = slices.Sorted(maps.Keys(r.Fence.Only))
	}
	e, err := r.prove(ctx, whole)
	if err != nil {
		return r.refusal(err)
	}
	result, err := r.s.deleteGuest(ctx, r.Tasks, e, r.committed && !r.keep || r.purge)
	if pve.IsKind(err, pve.NotFound) {
		return nil
	}
	if err != nil {
		r.off = false // one that runs is refused
		if refused := r.refused(ctx, err); refused != nil {
			r.blocked = refused
			return refused
		}
		return err
	}
	r.destroyed, r.had, r.gone = r.lastDestroy(), e.config.Values, true
	if r.Stub != nil {
		r.Stub.Digest = "" // a stub that looks the same is another's now
	}
	if r.destroyed != "" {
		r.ended[r.destroyed] = cleanedUp
	}
	if stayed := r.readDestroyLog(result.Log); result.Warnings > len(stayed) {
		r.notes = append(r.notes, Note{Text: "PVE removed it with warnings:\n" + strings.Join(result.Log, "\n")})
	}
	if len(r.Fence.Blind) > 0 && r.Fence.Only != nil {
		r.readUnseen(ctx)
	}
	return nil
}

// stop stops a running guest hard. It is ours and was never committed, or its owner has shut it down before.
func (r *removal) stop(ctx context.Context, node string) error {
	if r.off {
		return nil
	}
	status, err := r.s.api.GuestStatus(ctx, node, r.VMID)
	if err == nil && status.HAManaged && !r.committed && !r.purge { // its manager would start the guest again, and note that it is to be off
		r.blocked = r.managedByOthers(nil)
		return r.blocked
	}
	if err != nil || status.Status != "running" {
		return err
	}
	if r.committed && !r.force {
		r.blocked = fmt.Errorf("VM %d on node %s runs again after it was shut down: somebody started it, or HA did", r.VMID, node)
		return r.blocked
	}
	params := pve.Params{}
	if status.Lock != "" && r.s.api.Identity().IsRootTicket() {
		params["skiplock"] = "1"
	}
	e, err := r.prove(ctx, r.ours(node))
	if err != nil {
		return err
	}
	return r.s.stopHard(ctx, r.Tasks, e, params)
}

// unprotect switches off the protection of a VM that holds a disk, when nothing speaks against its end any more: the next pass goes on.
func (r *removal) unprotect(ctx context.Context, node string) error {
	whole := r.ours(node)
	whole.whole, whole.place, whole.volumes = true, r.Fence.Node, slices.Sorted(maps.Keys(r.Fence.Only))
	e, err := r.prove(ctx, whole)
	if err != nil {
		return r.refusal(err)
	}
	r.lifted = true
	return r.s.unprotect(ctx, e)
}

// refusal keeps what no further pass can change: another guest uses a volume of ours. A guest that is gone is what was wanted.
func (r *removal) refusal(err error) error {
	var inUse *InUseError
	if errors.As(err, &inUse) {
		r.blocked = fmt.Errorf("VM %d was not removed: %w", r.VMID, err)
		return r.blocked
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
	if pve.IsKind(err, pve.Ambiguous) {
		return nil // the next look tells
	}
	var unseen *unseenTasksError
	if errors.As(err, &unseen) {
		r.blocked = err
	}
	var atWork *atWorkError
	r.othersWork = errors.As(err, &atWork)
	if err == nil && r.s.api.Identity().IsRootTicket() { // which has marked it
		r.forgetStub()
		return nil
	}
	if err == nil {
		return r.noteUnlocked(ctx, node)
	}
	if errors.Is(err, errCannotUnlock) {
		r.blocked = fmt.Errorf("VM %d is locked (%s) by a worker that died; %w", r.VMID, lock, err)
		return r.blocked
	}
	return err
}

// noteUnlocked sees what a stub of ours looks like without its lock, which bears no mark. One that has a lock now is another's.
func (r *removal) noteUnlocked(ctx context.Context, node string) error {
	config, err := r.s.api.CurrentConfig(ctx, node, r.VMID)
	if err == nil || pve.IsKind(err, pve.NotFound) {
		r.forgetStub()
	}
	if err != nil {
		return err
	}
	if r.Stub != nil && guest.HalfMade(config.Values) && config.Values["lock"] == "" {
		r.Stub.Digest = config.Digest
	}
	return nil
}

// leaveHA removes the HA entry of a create of ours that failed: HA would start the guest again that we stop. Where it cannot
// be removed by itself it goes with the VM, whose removal then purges it. Any other removal of what was never committed purges nothing:
// what names its id in HA, and in replication and backup jobs, is somebody else's.
func (r *removal) leaveHA(ctx context.Context, node string) error {
	if !r.Managed {
		return nil
	}
	e, err := r.prove(ctx, r.ours(node))
	if err != nil {
		return err
	}
	err = r.s.dropHA(ctx, e)
	if r.haFails++; err == nil || pve.IsKind(err, pve.Denied) || r.haFails > 1 {
		r.Managed, r.purge = false, err != nil
		return nil
	}
	return fmt.Errorf("take VM %d out of HA: %w", r.VMID, err)
}
