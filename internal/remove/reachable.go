package remove

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
func (s *Remover) reachable(ctx context.Context, node string, vmid int, volumes []string) error {
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

// ownVolumes are the volumes in a VM's configurations, its own and those of its snapshots, that go with it: those that carry
// its id. A volume of another id is somebody else's, and PVE only detaches it.
func ownVolumes(vmid int, configs ...map[string]string) []string {
	own := map[string]bool{}
	for _, config := range configs {
		for _, value := range config {
			file, _, _ := strings.Cut(value, ",")
			volume := strings.TrimPrefix(file, "file=")
			if owner, ok := vm.VolumeOwner(volume); ok && owner == vmid {
				own[volume] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(own))
}
