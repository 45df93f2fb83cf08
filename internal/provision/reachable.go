package provision

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// reachable refuses to destroy a VM whose volumes PVE cannot remove now: it would log that, remove the configuration all
// the same and leave the volumes to nobody (qemu-server QemuServer.pm, destroy_vm). Storages that the identity may not see
// are not judged.
func (s *Service) reachable(ctx context.Context, node string, vmid int, config map[string]string) error {
	volumes := ownVolumes(config, vmid)
	if len(volumes) == 0 {
		return nil
	}
	storages, err := s.api.Storages(ctx, node, "")
	if err != nil {
		return fmt.Errorf("look whether the volumes of VM %d can be removed; it was not touched: %w", vmid, err)
	}
	for _, storage := range storages {
		for _, volume := range volumes {
			if vm.VolumeStorage(volume) != storage.ID || storage.Enabled && storage.Active {
				continue
			}
			state := "not available"
			if !storage.Enabled {
				state = "disabled"
			}
			return fmt.Errorf("storage %s, which holds %s, is %s on node %s: PVE would remove VM %d and leave the volume behind. "+
				"The VM was not touched; bring the storage back, then destroy again", storage.ID, volume, state, node, vmid)
		}
	}
	return nil
}

// ownVolumes are the volumes in a configuration that go with the VM: those that carry its id.
func ownVolumes(config map[string]string, vmid int) []string {
	own := map[string]bool{}
	for _, value := range config {
		file, _, _ := strings.Cut(value, ",")
		volume := strings.TrimPrefix(file, "file=")
		if owner, ok := vm.VolumeOwner(volume); ok && owner == vmid {
			own[volume] = true
		}
	}
	return slices.Sorted(maps.Keys(own))
}
