package guard

import (
	"context"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// OwnVolumes returns the volumes that go with a VM: those in its configurations, snapshots included, that carry its
// id. PVE only detaches a volume of another id, which belongs to another guest.
func OwnVolumes(vmid int, configs ...map[string]string) []string {
	own := map[string]bool{}
	for _, config := range configs {
		for option, value := range config {
			volume := guest.VolumeOf(value)
			if owner, ok := volid.Owner(volume); ok && owner == vmid && guest.HoldsVolume(option) {
				own[volume] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(own))
}

// HasVolume reports whether a volume is on its storage. PVE leaves volumes that the identity may not see out of a
// listing, in silence, so one that could be hidden counts as there.
func (g *Guard) HasVolume(ctx context.Context, node, volume string) (bool, error) {
	vmid, _ := volid.Owner(volume)
	volumes, err := g.api.Storage(node, volid.Storage(volume)).Content(ctx, "images", vmid)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(volumes, func(v pve.Volume) bool { return v.ID == volume }) {
		return true, nil
	}
	b := guest.OwnBaseline(node, vmid, []string{volume})
	err = b.CheckVisible(ctx, g.guests)
	return len(b.Unlisted) > 0, err
}
