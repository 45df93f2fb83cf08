package volumeuse

import (
	"context"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Likeness says whether two storages are one place, so that a volume of one is the volume of that name of the other.
// PVE permits that, and compares paths (qemu-server 9.2.6 QemuServer.pm update_disk_config).
type Likeness int

// The degrees of likeness. Unclear counts as "may be the same", never as "is not".
const (
	Apart Likeness = iota
	Unclear
	Same
)

// Places are the storages of a cluster as they are configured, by id. A storage that is missing is one that the
// identity may not see.
type Places map[string]pve.StorageConfig

// placesLife is long: PVE lets no administrator change what a storage points to (`fixed` in options of the plugins).
const placesLife = time.Hour

// Places reads what the storages are.
func (s *Reader) Places(ctx context.Context) (Places, error) {
	return s.places.Get(ctx, s.clock, "", func(ctx context.Context) (Places, error) {
		all, err := s.api.Cluster().StorageConfigs(ctx)
		return PlacesOf(all), err
	})
}

// PlacesOf are the storages of a list.
func PlacesOf(all []pve.StorageConfig) Places {
	places := Places{}
	for _, c := range all {
		places[c.ID] = c
	}
	return places
}

// families are the types of storages whose volumes can be the same: a storage of one family holds none of another.
// Storages of files include those that a node mounts. Backups and the machines of another hypervisor are no volumes of
// guests here (PBSPlugin.pm and ESXiPlugin.pm plugindata).
func families() map[string]string {
	return map[string]string{"dir": "file", "btrfs": "file", "nfs": "file", "cifs": "file", "cephfs": "file",
		"glusterfs": "file", "lvm": "lvm", "lvmthin": "lvm", "zfspool": "zfs", "zfs": "zfs", "rbd": "rbd",
		"iscsi": "iscsi", "iscsidirect": "iscsi", "pbs": "backup", "esxi": "esxi"}
}

// Compare compares two storages by what the plugins of pve-storage 9.1.7 make paths of.
func (p Places) Compare(a, b string) Likeness {
	x, known := p[a]
	y, ok := p[b]
	switch {
	case a == b:
		return Same
	case !known || !ok:
		return Unclear
	}
	of := families()
	one, other := of[x.Type], of[y.Type]
	switch {
	case one == "" || other == "": // of a plugin that is not known
		return Unclear
	case one != other:
		return unclearUnless(!p.mayBeOn(a, b) && !p.mayBeOn(b, a), false)
	case one == "file":
		return p.compareFiles(a, b)
	case one == "lvm": // a logical volume is one of its group, in a pool or not (LVMPlugin.pm filesystem_path)
		return sameIf(x.VGName == y.VGName)
	case x.Type == "zfspool" && y.Type == "zfspool":
		return sameIf(x.Pool == y.Pool)
	case one == "zfs": // over iSCSI; the portal may be this node, or have other names
		return unclearUnless(x.Pool != y.Pool, x.Portal == y.Portal && x.Target == y.Target && x.Type == y.Type)
	case one != "rbd": // a target of iSCSI may be reached by several portals
		return Unclear
	}
	// RBDPlugin.pm get_rbd_path; a cluster of Ceph can be given by any of its monitors, or by none
	return unclearUnless(x.RBDPool() != y.RBDPool(), x.Monitors == y.Monitors)
}

// mayBeOn reports whether a volume group that other nodes have, too, may be on a LUN of a target.
func (p Places) mayBeOn(group, target string) bool {
	return p[group].Type == "lvm" && p[target].Type == "iscsi" && p.extentBy(group) == ofOthers
}

// CompareVolumes compares two names of volumes; a path and an id are compared by their names alone. A linked clone may
// be named with its base in front or without it (pve-storage ZFSPoolPlugin.pm parse_volname).
func (p Places) CompareVolumes(a, b string) Likeness {
	switch {
	case !share(a, b):
		return Apart
	case !volid.Valid(a) || !volid.Valid(b):
		return Same
	}
	return p.Compare(volid.Storage(a), volid.Storage(b))
}

// MayBe reports whether a volume is one of some others, or may be, under whatever name.
func (p Places) MayBe(volume string, others []string) bool {
	_, how := p.Likest(volume, slices.Values(others))
	return how != Apart
}

// AreOne reports whether two names are, or may be, of one volume: two storages can be one place. The places are asked
// for only where the names leave that open; if they cannot be read, the names may be of one.
func AreOne(a, b string, places func() (Places, error)) bool {
	if volid.Same(a, b) || (Places{}).CompareVolumes(a, b) == Apart {
		return volid.Same(a, b)
	}
	all, err := places()
	return err != nil || all.CompareVolumes(a, b) != Apart
}

// Likest is the first one of some others that a volume is most like, and how much.
func (p Places) Likest(volume string, others iter.Seq[string]) (likest string, how Likeness) {
	for other := range others {
		if like := p.CompareVolumes(other, volume); like > how {
			likest, how = other, like
		}
	}
	return likest, how
}

func sameIf(same bool) Likeness {
	if same {
		return Same
	}
	return Apart
}

func unclearUnless(apart, same bool) Likeness {
	switch {
	case apart:
		return Apart
	case same:
		return Same
	}
	return Unclear
}

// compareFiles compares two storages of files. A directory that an administrator has mounted may be that of any export,
// and one below its mount point is a part of it.
func (p Places) compareFiles(a, b string) Likeness {
	x, y := p[a], p[b]
	plain := x.ContentDirs == "" && y.ContentDirs == ""
	switch {
	case path.Clean(x.Path) == path.Clean(y.Path),
		isNetwork(x) && x.Type == y.Type && x.Server == y.Server && x.Export == y.Export && x.Subdir == y.Subdir:
		return unclearUnless(false, plain) // with directories of their own for some content they share the rest
	case !plain:
		return Unclear
	}
	onX, onY := p.mountOf(a), p.mountOf(b)
	x, y = p[onX], p[onY]
	switch {
	case onX == onY:
		return Apart
	case isNetwork(x) && isNetwork(y):
		apart := x.Type == y.Type && x.Server == y.Server && !isWithin(x.Export, y.Export) && !isWithin(y.Export, x.Export)
		return unclearUnless(apart && x.Type == "nfs", false)
	case isNetwork(x) || isNetwork(y):
		return unclearUnless(p.extentBy(a) != ofOthers || p.extentBy(b) != ofOthers, false)
	}
	return Apart
}

// isNetwork reports whether a storage of files is a network file system.
func isNetwork(c pve.StorageConfig) bool {
	return families()[c.Type] == "file" && c.Type != "dir" && c.Type != "btrfs"
}

// isFile reports whether a volume is a file. On LVM a qcow2 volume is none (pve-storage LVMPlugin.pm).
func (p Places) isFile(volume string) bool {
	return families()[p[volid.Storage(volume)].Type] == "file"
}

// IsShared reports whether all nodes have the same volumes on a storage.
func (p Places) IsShared(id string) bool { return p[id].Shared || isNetwork(p[id]) }

// ForImages are the storages of files on which a node may have images of guests.
func (p Places) ForImages(node string) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(p)) {
		c := p[id]
		has := func(list, item string) bool { return slices.Contains(strings.Split(list, ","), item) }
		if families()[c.Type] == "file" && !c.Disabled && has(c.Content, "images") && (c.Nodes == "" || has(c.Nodes, node)) {
			ids = append(ids, id)
		}
	}
	return ids
}

func isWithin(inner, outer string) bool {
	return strings.HasPrefix(path.Clean(inner)+"/", strings.TrimSuffix(path.Clean(outer), "/")+"/")
}
