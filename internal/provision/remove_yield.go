package provision

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// yield leaves the id to the stranger that has it now. Volumes that were seen here while nobody else had the id, and that
// the stranger does not use, are ours still: he came later, and PVE gives nobody a name that exists. They are freed one by
// one, unless they were to go with a VM of ours before: such a name may have become free, and his, in between.
func (r *removal) yield(ctx context.Context, node string, config map[string]string) (bool, error) {
	if len(r.strays) > 0 && isOwnLock(config["lock"]) {
		return false, fmt.Errorf("VM %d is somebody else's now and locked (%s): its volumes cannot be told from ours yet", r.vmid, config["lock"])
	}
	if err := r.unclaimed(ctx, config); err != nil {
		return false, err
	}
	r.hidden = config == nil
	for _, v := range r.strays {
		if r.tried[v] == 0 && !r.hidden {
			if err := r.free(ctx, v); err != nil {
				r.stuck = fmt.Errorf("VM %d is somebody else's now, so the volume can only be removed by itself: %w", r.vmid, err)
			}
		}
	}
	if err := r.unclaimed(ctx, config); err != nil {
		return false, err
	}
	r.notes = append(r.notes, fmt.Sprintf("VM %d on node %s is somebody else's now; it was not touched", r.vmid, node))
	if len(r.strays) > 0 && r.stuck == nil {
		r.stuck = fmt.Errorf("VM %d is somebody else's now", r.vmid)
	}
	return len(r.strays) == 0, r.stuck
}

// unclaimed reduces the strays to those that still exist and that a stranger's configuration does not use.
func (r *removal) unclaimed(ctx context.Context, config map[string]string) error {
	if len(r.strays) == 0 {
		return nil
	}
	now, err := r.fence.strays(ctx, r.s)
	if err == nil {
		r.strays = slices.DeleteFunc(r.strays, func(v string) bool { return !slices.Contains(now, v) || uses(config, v) })
	}
	return err
}

// uses reports whether a configuration mentions a volume.
func uses(config map[string]string, volume string) bool {
	for _, value := range config {
		if id, _, _ := strings.Cut(value, ","); strings.TrimPrefix(id, "file=") == volume {
			return true
		}
	}
	return false
}

// hold takes the id with an empty VM of ours, so that its volumes can be attached to it and go with it, and no stranger
// can get the id, and with it the volumes' names, in between.
func (r *removal) hold(ctx context.Context) error {
	params := pve.Params{"vmid": fmt.Sprint(r.vmid), "description": r.stamp.String()}
	if r.pool != "" {
		params["pool"] = r.pool
	}
	if r.identity.UUID != "" {
		params["smbios1"] = "uuid=" + r.identity.UUID
	}
	for {
		_, err := r.s.once(ctx, r.ledger, job{node: r.fence.node, typ: "qmcreate", id: r.vmid,
			send: func(ctx context.Context) (pve.UPID, error) { return r.s.api.CreateVM(ctx, r.fence.node, params) }})
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
