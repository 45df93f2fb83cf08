package change

import (
	"context"
)

// reorder keeps the boot order that is planned.
func (u *update) reorder(ctx context.Context) error {
	if u.r.BootOrder == nil || !u.appended {
		return nil
	}
	u.stale = true
	return u.s.jobs.SetBootOrder(ctx, u.node, u.vmid, u.r.BootOrder)
}
