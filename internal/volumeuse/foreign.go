package volumeuse

import (
	"errors"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Foreign returns why a volume that no guest of this cluster uses may still have an owner: a program that keeps volumes
// of its own, or another cluster on the same storage. Nil: neither. exclusive are the shared storages that no other
// cluster uses.
func Foreign(volume string, shared bool, exclusive []string) error {
	storage := volid.Storage(volume)
	why := ownership.Volume{ID: volume, Storage: storage, OfPVE: volid.IsNameOfPVE(volume), Shared: shared,
		Exclusive: slices.Contains(exclusive, storage)}.Foreign()
	if why == "" {
		return nil
	}
	return errors.New(why)
}

// AnyForeign is the same for several volumes on a node. A storage of an unknown kind counts as shared.
func AnyForeign(places Places, resources pve.Resources, node string, volumes, exclusive []string) error {
	for _, volume := range volumes {
		id := volid.Storage(volume)
		storage, ok := resources.Storage(node, id)
		if err := Foreign(volume, storage.Shared || !ok || places.Reach(id), exclusive); err != nil {
			return err
		}
	}
	return nil
}
