package change

import (
	"context"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
)

// regroup moves the VM from one pool to another.
func (u *update) regroup(ctx context.Context) error {
	from, to := u.r.PriorPool, u.r.Pool
	if from == to {
		return nil
	}
	if from != "" {
		if err := u.s.jobs.Contend(ctx, "", u.vmid, func(ctx context.Context) error { return u.s.api.RemoveFromPool(ctx, from, u.vmid) }); err != nil {
			return &guest.FieldError{Path: "pool", Summary: fmt.Sprintf("Cannot take VM %d out of pool %s", u.vmid, from), Detail: "It is still a member", Err: err}
		}
		u.pool = ""
	}
	if to != "" {
		if err := u.s.jobs.Contend(ctx, "", u.vmid, func(ctx context.Context) error { return u.s.api.AddToPool(ctx, to, u.vmid) }); err != nil {
			return &guest.FieldError{Path: "pool", Summary: fmt.Sprintf("Cannot put VM %d into pool %s", u.vmid, to), Detail: "It is in no pool now", Err: err}
		}
		u.pool = to
	}
	return nil
}
