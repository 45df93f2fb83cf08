package volumeuse

import (
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Foreign returns why a volume that no guest of this cluster uses may still have an owner: a program that keeps volumes
// of its own, or another cluster on the same storage. Nil: neither. exclusive are the shared storages that no other
// cluster uses.
func Foreign(volume string, shared bool, exclusive []string) error {
	storage := volid.Storage(volume)
	switch {
	case !volid.IsNameOfPVE(volume):
		return fmt.Errorf("PVE gives no volume the name of %s, so a program may keep it for itself (a Kubernetes volume, "+
			"for one)", volume)
	case shared && !slices.Contains(exclusive, storage):
		return fmt.Errorf("storage %s is shared, and %s may belong to another cluster (exclusive_storages says that no "+
			"other cluster uses a storage)", storage, volume)
	}
	return nil
}

// AnyForeign is the same for several volumes on a node. A storage of an unknown kind counts as shared.
func AnyForeign(resources pve.Resources, node string, volumes, exclusive []string) error {
	for _, volume := range volumes {
		storage, ok := resources.Storage(node, volid.Storage(volume))
		if err := Foreign(volume, storage.Shared || !ok, exclusive); err != nil {
			return err
		}
	}
	return nil
}
