package change

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// adoptable are the volumes that are planned, that carry the VM's id and are in no configuration: a dead VM of that id has left them,
// or somebody has put them there. They are the VM's to attach where they are on their storages and no guest uses them. What is not is
// left to be refused.
func (u *update) adoptable(ctx context.Context) (map[string]bool, error) {
	loose, held := map[string]bool{}, guest.HoldingsOf(u.before)
	for _, slot := range slices.Sorted(maps.Keys(u.r.Planned.Disks)) {
		volume := u.r.Planned.Disks[slot].Volume
		_, unused := held.Unused[volume]
		owner, owned := vm.VolumeOwner(volume)
		if volume == "" || volume == u.r.Prior.Disks[slot].Volume || unused || held.SlotOf(volume) != "" || !owned || owner != u.vmid {
			continue
		}
		there, err := u.s.api.Content(ctx, u.view.node, vm.VolumeStorage(volume), "images", u.vmid)
		if err != nil {
			return nil, fmt.Errorf("look for volume %s: %w", volume, err)
		}
		if !slices.ContainsFunc(there, func(v pve.Volume) bool { return v.ID == volume }) {
			continue
		}
		if _, err := u.s.remover.ProveInState(ctx, u.view.inState(), []string{volume}); err != nil {
			return nil, &guest.FieldError{Path: "disks." + slot + ".imported_disk.volume", Summary: volume + " cannot be adopted",
				Detail: "It was not touched, and nothing was changed", Err: err}
		}
		loose[volume] = true
	}
	return loose, nil
}
