package change

import (
	"context"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// keepPendingDisks takes back the removal of disks that waits for the guest's stop, where the same disk is wanted in its slot
// again: it is still attached, with its data.
func (u *update) keepPendingDisks(ctx context.Context, t todo) (todo, error) {
	current, merged, config, err := u.view.Spec(ctx)
	if err != nil {
		return t, err
	}
	var slots []string
	for slot, wanted := range t.planned.Disks {
		is, there := current.Disks[slot]
		if there && !hasDisk(t.prior.Disks, slot) && !hasDisk(merged.Disks, slot) && canBecome(is, wanted) {
			slots = append(slots, slot)
		}
	}
	if len(slots) == 0 {
		return t, nil
	}
	slices.Sort(slots)
	if slices.Contains(config.Waiting(), "boot") && slices.Equal(t.prior.BootOrder, t.planned.BootOrder) {
		slots = append(slots, "boot") // PVE takes a drive that goes out of the boot order
	}
	if err := u.view.Revert(ctx, slots); err != nil {
		return t, fmt.Errorf("keep disks that were about to leave VM %d: %w", u.vmid, err)
	}
	if config, err = u.view.Fresh(ctx); err != nil {
		return t, err
	}
	return compare(u.vmid, config, t.prior, t.planned, t.loose)
}

// canBecome tells whether a disk can become what is wanted without being moved or made anew.
func canBecome(is, wanted vm.Disk) bool {
	return (wanted.Storage == "" || wanted.Storage == is.Storage) &&
		(wanted.Volume == "" || wanted.Volume == is.Volume) &&
		(wanted.Format == nil || is.Format != nil && *wanted.Format == *is.Format) &&
		(wanted.Size == nil || is.Size != nil && *wanted.Size >= *is.Size)
}
