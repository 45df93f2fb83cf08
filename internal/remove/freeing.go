package remove

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// attach gives our VM the volumes of its id that it does not know of, so that they are destroyed with it. Those that
// outlived it once are first freed by themselves, as are those that cannot be attached, while it keeps the id.
func (r *removal) attach(ctx context.Context, found sighting) error {
	node, config := found.node, found.config.Values
	params, next := pve.Params{}, 0
	for _, v := range r.left {
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
		if err := r.change(ctx, found, params); err != nil {
			if pve.IsKind(err, pve.DigestMismatch) {
				return err
			}
			if r.attachFails++; r.attachFails < 2 {
				return err
			}
			alone = true
		}
	}
	for _, v := range r.left {
		if alone && r.tried[v] == 0 && !guest.Uses(config, v) {
			_ = r.free(ctx, r.ours(node), v) // the next look tells
		}
		r.tried[v]++
	}
	return nil
}

// freeAll frees the volumes of a VM that cannot be unlocked, while its locked configuration keeps the id from others.
func (r *removal) freeAll(ctx context.Context, node string) {
	for _, v := range r.left {
		_ = r.free(ctx, r.ours(node), v) // the next look tells
	}
	if now, err := r.listOwn(ctx); err == nil {
		r.left = now
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

// change sets options of what was found, and of nothing that has come in its place since. One that nobody has committed gets the mark
// that says whose it is, which a stub does not have. What a lost answer has done the next look tells.
func (r *removal) change(ctx context.Context, found sighting, params pve.Params) error {
	if !r.committed && guest.HalfMade(found.config.Values) {
		params["description"] = r.Stamp.String()
	}
	r.unspent, params["digest"] = nil, found.config.Digest
	err := r.s.api.UpdateConfig(ctx, found.node, r.VMID, params)
	if err == nil && params["description"] != "" {
		r.forgetStub()
	}
	return err
}

// maxReclaims is how often the id is taken again to remove volumes that outlived their VM.
const maxReclaims = 4

// reclaim takes the id with an empty VM of ours, so that its volumes can be attached to it and go with it, and no stranger
// can get the id, and with it the volumes' names, in between.
func (r *removal) reclaim(ctx context.Context) error {
	r.explain(ctx)
	if r.reclaims == maxReclaims {
		r.blocked = fmt.Errorf("%d attempts did not remove it", maxReclaims+1)
		return r.blocked
	}
	if err := r.s.jobs.Pause(ctx, 2*r.reclaims); err != nil { // what is busy may come free
		return err
	}
	r.reclaims++
	r.gone = false
	params := pve.Params{"vmid": fmt.Sprint(r.VMID), "description": r.Stamp.String()}
	if r.Pool != "" {
		params["pool"] = r.Pool
	}
	if r.identity.UUID != "" {
		params["smbios1"] = "uuid=" + r.identity.UUID
	}
	for {
		_, err := r.s.jobs.Once(ctx, r.Tasks, job.Request{Node: r.Fence.Node, Type: "qmcreate", ID: r.VMID,
			Send: func(ctx context.Context) (pve.UPID, error) { return r.s.api.CreateVM(ctx, r.Fence.Node, params) }})
		switch {
		case params["smbios1"] != "" && pve.IsKind(err, pve.Denied):
			delete(params, "smbios1") // takes VM.Config.HWType
		case params["pool"] != "" && (pve.IsKind(err, pve.Denied) || pve.IsKind(err, pve.NotFound)):
			delete(params, "pool") // it is gone, or not ours to fill
		default:
			return err
		}
	}
}

// leaveToStranger leaves the id to the stranger that has it now. Volumes that were seen here while nobody else had the id, and
// that the stranger does not use, are ours still: he came later, and PVE gives nobody a name that exists. They are freed one by
// one, unless they were to go with a VM of ours before: such a name may have become free, and his, in between.
func (r *removal) leaveToStranger(ctx context.Context, node string, config map[string]string) (clean bool, err error) {
	r.forgetDestroyed(ctx)
	if r.taken = true; len(r.left) > 0 && guest.IsOwnLock(config["lock"]) {
		return false, job.LockedBy(config["lock"],
			fmt.Sprintf("tell the volumes of VM %d on node %s, which is somebody else's now, from ours", r.VMID, node))
	}
	if err := r.forgetUsed(ctx, config); err != nil {
		return false, err
	}
	r.unseen = config == nil
	for _, v := range r.left {
		if r.tried[v] == 0 && !r.unseen {
			if err := r.free(ctx, claim{}, v); err != nil {
				r.blocked = fmt.Errorf("VM %d is somebody else's now, so the volume can only be removed by itself: %w", r.VMID, err)
			}
		}
	}
	if err := r.forgetUsed(ctx, config); err != nil {
		return false, err
	}
	note := Note{Text: fmt.Sprintf("VM %d on node %s is somebody else's now; it was not touched", r.VMID, node)}
	if r.Unmarked {
		note = Note{Doubt: true, Text: fmt.Sprintf("VM %d on node %s is not marked as this create's any more: somebody has changed "+
			"or replaced it, and which of both cannot be told. It was left alone", r.VMID, node)}
	}
	r.notes = append(r.notes, note)
	if len(r.left) > 0 && r.blocked == nil {
		r.blocked = fmt.Errorf("VM %d is somebody else's now", r.VMID)
	}
	return len(r.left) == 0, r.blocked
}

// forgetDestroyed drops the volumes that PVE has destroyed together with our VM: its task ended well, and its log does not say that
// one of them could not be removed (see couldNot). What carries such a name now is the new owner's. What only a snapshot named
// PVE leaves, and it is still looked for.
func (r *removal) forgetDestroyed(ctx context.Context) {
	if r.destroyed == "" || len(r.left) == 0 {
		return
	}
	log, err := r.s.api.TaskLog(ctx, r.destroyed, logLines)
	if err != nil {
		return // they are told apart by what uses them
	}
	stayed := r.readDestroyLog(log)
	r.left = slices.DeleteFunc(r.left, func(v string) bool { return stayed[v] == "" && guest.Uses(r.had, v) })
}

// forgetUsed reduces what is left to what still exists and a stranger's configuration does not use.
func (r *removal) forgetUsed(ctx context.Context, config map[string]string) error {
	if len(r.left) == 0 {
		return nil
	}
	now, err := r.listOwn(ctx)
	if err == nil {
		r.left = slices.DeleteFunc(r.left, func(v string) bool { return !slices.Contains(now, v) || guest.Uses(config, v) })
	}
	return err
}
