package remove

import (
	"context"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// yield leaves the id to the stranger that has it now. Volumes that were seen here while nobody else had the id, and that
// the stranger does not use, are ours still: he came later, and PVE gives nobody a name that exists. They are freed one by
// one, unless they were to go with a VM of ours before: such a name may have become free, and his, in between.
func (r *removal) yield(ctx context.Context, node string, config map[string]string) (bool, error) {
	r.forgetDestroyed(ctx)
	if r.taken = true; len(r.strays) > 0 && guest.IsOwnLock(config["lock"]) {
		return false, job.LockedBy(config["lock"], fmt.Sprintf("tell the volumes of VM %d on node %s, which is somebody else's now, from ours", r.VMID, node))
	}
	if err := r.unclaimed(ctx, config); err != nil {
		return false, err
	}
	r.hidden = config == nil
	for _, v := range r.strays {
		if r.tried[v] == 0 && !r.hidden {
			if err := r.free(ctx, claim{}, v); err != nil {
				r.stuck = fmt.Errorf("VM %d is somebody else's now, so the volume can only be removed by itself: %w", r.VMID, err)
			}
		}
	}
	if err := r.unclaimed(ctx, config); err != nil {
		return false, err
	}
	r.notes = append(r.notes, fmt.Sprintf("VM %d on node %s is somebody else's now; it was not touched", r.VMID, node))
	if len(r.strays) > 0 && r.stuck == nil {
		r.stuck = fmt.Errorf("VM %d is somebody else's now", r.VMID)
	}
	return len(r.strays) == 0, r.stuck
}

// forgetDestroyed drops the volumes that PVE has destroyed together with our VM: its task ended well, and its log does not say that
// one of them could not be removed (see couldNot). What carries such a name now is the new owner's. What only a snapshot named
// PVE leaves, and it is still looked for.
func (r *removal) forgetDestroyed(ctx context.Context) {
	if r.destroyed == "" || len(r.strays) == 0 {
		return
	}
	log, err := r.s.api.TaskLog(ctx, r.destroyed, logLines)
	if err != nil {
		return // they are told apart by what uses them
	}
	said := r.told(log)
	r.strays = slices.DeleteFunc(r.strays, func(v string) bool { return said[v] == "" && guest.Uses(r.had, v) })
}

// unclaimed reduces the strays to those that still exist and that a stranger's configuration does not use.
func (r *removal) unclaimed(ctx context.Context, config map[string]string) error {
	if len(r.strays) == 0 {
		return nil
	}
	now, err := r.Fence.Strays(ctx, r.s.guests)
	if err == nil {
		r.strays = slices.DeleteFunc(r.strays, func(v string) bool { return !slices.Contains(now, v) || guest.Uses(config, v) })
	}
	return err
}

// hold takes the id with an empty VM of ours, so that its volumes can be attached to it and go with it, and no stranger
// can get the id, and with it the volumes' names, in between.
func (r *removal) hold(ctx context.Context) error {
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
