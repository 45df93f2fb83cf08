package remove

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove/usage"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

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

// scopeOf is the node whose guests alone can use the volumes, since none of their storages is shared; "" is the whole cluster.
func scopeOf(resources pve.Resources, node string, volumes []string) string {
	for _, volume := range volumes {
		if storage, ok := resources.Storage(node, vm.VolumeStorage(volume)); !ok || storage.Shared {
			return ""
		}
	}
	return node
}

// isBasedOn tells whether a volume is a linked clone of a base: its id has the base's in front, and where the storage says
// so, its parent is the base (pve-storage, parse_volname and list_images of the plugins).
func isBasedOn(v pve.Volume, base string) bool {
	if strings.HasPrefix(v.ID, base+"/") {
		return true
	}
	parent, _, _ := strings.Cut(v.Parent, "@")
	return parent != "" && v.ID != base && vm.VolumeStorage(v.ID) == vm.VolumeStorage(base) && usage.LastPart(parent) == usage.LastPart(base)
}

// holdsImages reports whether disks can be on a storage of the listing.
func holdsImages(storage pve.Resource) bool {
	return slices.Contains(strings.Split(storage.Content, ","), "images")
}
