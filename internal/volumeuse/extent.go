package volumeuse

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// extent says which machines may have what a storage points to. Scope, Reach and Compare follow it.
type extent int

const (
	ofNode   extent = iota // the node alone
	ofDisk                 // as PVE's interface sets up a disk of a node; an administrator can write the same
	ofOthers               // other nodes or hosts
)

// extentOf is that of a storage by all entries that may be of its place.
func (p Places) extentOf(id string) extent {
	for other := range p {
		if p.extentBy(other) == ofOthers && p.Compare(id, other) != Apart {
			return ofOthers
		}
	}
	return p.extentBy(id)
}

// extentBy is that of a storage by its own entry, and by that of the mount point above it. A directory that is mounted
// may be a share, and a volume group on a LUN of iSCSI. With a base it is (pve-storage 9.1.7 LVMPlugin.pm on_add_hook);
// that names one LUN, so an administrator makes a group on several paths by hand.
func (p Places) extentBy(id string) extent {
	c, known := p[id]
	on := p[p.mountOf(id)]
	target := func(o pve.StorageConfig) bool { return o.Type == "iscsi" }
	above := func(o pve.StorageConfig) bool { return o.Shared && isWithin(c.Path, o.Path) }
	switch {
	case !known, c.Shared, c.Base != "", isNetwork(on), c.Path != "" && p.has(above):
		return ofOthers
	case !isMounted(on) && !(c.Type == "lvm" && p.has(target)):
		return ofNode
	case p.isByInterface(on):
		return ofDisk
	}
	return ofOthers
}

// isByInterface reports whether an entry is one that PVE's interface writes for disks of nodes: a 1 and the mount point
// of that name, for the nodes that have such a disk (API2/Disks/Directory.pm create, API2/Storage/Config.pm
// create_or_update), or a group of one node (LVM.pm). It is no share, on however many nodes: a node that is off must
// not block the use of its neighbour's disk. Another value than 1, such as a path, is an administrator's.
func (p Places) isByInterface(c pve.StorageConfig) bool {
	elsewhere := func(o pve.StorageConfig) bool { return o.Type == "lvm" && o.VGName == c.VGName && o.Nodes != c.Nodes }
	switch {
	case c.Nodes == "":
		return false
	case c.Type == "lvm":
		return !strings.Contains(c.Nodes, ",") && !p.has(elsewhere)
	}
	return c.Mountpoint == "1" && c.Path == "/mnt/pve/"+c.ID
}

func (p Places) has(is func(pve.StorageConfig) bool) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(p)), is)
}

// Scope returns the node whose guests alone can use the volumes, because other nodes have none of their storages, under
// this or another name. "" stands for the whole cluster.
func (s *Reader) Scope(ctx context.Context, resources pve.Resources, node string, volumes []string) (string, error) {
	places, err := s.Places(ctx)
	if err != nil {
		return "", err
	}
	for _, volume := range volumes {
		switch {
		case isWorldwide(volume):
			return "", nil
		case volid.IsDevice(volume): // of the node
			continue
		}
		id := volid.Storage(volume)
		if storage, ok := resources.Storage(node, id); !ok || storage.Shared || places.extentOf(id) == ofOthers {
			return "", nil
		}
	}
	return node, nil
}

// Reach reports whether other machines may reach a storage, although its entry does not say that it is shared. It
// trusts no likeness to a disk that PVE's interface has set up: here an error costs another host's volume.
func (p Places) Reach(id string) bool { return p.extentOf(id) != ofNode }

// IsOfOthers reports whether other nodes may have the volumes of a storage that the identity sees, by its own entry and
// by that of the mount point above it.
func (p Places) IsOfOthers(id string) bool {
	_, known := p[id]
	return known && p.extentBy(id) == ofOthers
}

// isMounted reports whether an administrator or PVE's interface mounts a directory (DirPlugin.pm, is_mountpoint).
// BTRFSPlugin.pm refuses other file systems than its own (assert_btrfs).
func isMounted(c pve.StorageConfig) bool { return c.Type == "dir" && c.IsMountpoint() }

// mountOf is the storage on whose mount point a directory lies, the deepest one; its own id where there is none.
func (p Places) mountOf(id string) string {
	at, on := p[id], id
	if at.Path == "" || isNetwork(at) || isMounted(at) {
		return id
	}
	for _, other := range slices.Sorted(maps.Keys(p)) {
		c := p[other]
		isMount := isNetwork(c) || isMounted(c)
		if isMount && isWithin(at.Path, c.Path) && (on == id || !isWithin(p[on].Path, c.Path)) {
			on = other
		}
	}
	return on
}
