package volumeuse

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// name is one under which a guest may have a volume or a device: in a directory, or a part of it alone.
type name struct{ directory, name, partition string }

// everywhere is the directory of names that are those of one device on every node.
const everywhere = "everywhere"

// How the kernel, udev and kpartx name a partition, and how udev and multipath name a device by its id: NAA, EUI-64, a
// SCSI name, those of NVMe; or by the target and the number of a LUN (systemd 60-persistent-storage.rules).
var (
	partitions = []*regexp.Regexp{regexp.MustCompile(`^(.+)-part(\d+)$`), regexp.MustCompile(`^(.*\d)-?p(\d+)$`),
		regexp.MustCompile(`^((?:[hsv]|xv)d[a-z]+|mpath[a-z]+|[23](?:[0-9a-f]{15}|[0-9a-f]{31})[a-f])(\d+)$`)}
	worldwide = regexp.MustCompile(`^(?:scsi-|nvme-|dm-uuid-(?:part\d+-)?mpath-|dm-name-)?` +
		`(?:(?:[23]|eui\.)([0-9a-f]{16,32})|(uuid\.[0-9a-f-]{36}|8(?:iqn|eui|naa)\..+))$|` +
		`^wwn-0x([0-9a-f]{16,32})$|-((?:iscsi-.+|fc-0x[0-9a-f]+)-lun-[0-9a-fx]+)$`)
)

// namesOf are all names under which a volume id or a path may name a volume or a device. A device may be a partition of
// another. A file may be in the directory of a volume; a raw one of btrfs always is (pve-storage BTRFSPlugin.pm
// filesystem_path).
func namesOf(file string) []name {
	if !volid.IsDevice(file) {
		return []name{{name: LastPart(file)}}
	}
	file = path.Clean(file)
	directory, last := path.Split(file)
	if strings.HasPrefix(file, "/dev/") {
		return devices(directory, last)
	}
	names := []name{{directory, LastPart(last), ""}}
	for _, part := range strings.Split(file, "/") {
		at := strings.Index(part+snapshotMark, snapshotMark) // of btrfs
		part, snapshot := part[:at], part[at:]
		if _, ok := volid.Owner("path:" + part); ok {
			names = append(names, name{name: part, partition: snapshot}, name{name: part + ".raw", partition: snapshot})
		}
	}
	if last == "disk.raw" {
		names = append(names, name{name: path.Base(directory) + ".raw"})
	}
	return names
}

// IsParent reports whether the parent of a volume in a listing may be another volume: a path of it, whole or relative
// to the volume, or its name with a snapshot of it (pve-storage, list_images of the plugins).
func IsParent(parent, volume string) bool {
	switch {
	case parent == "": // as most have
		return false
	case strings.Contains(parent, "/"):
		return share(path.Clean("/"+parent), volume)
	}
	parent, _, _ = strings.Cut(parent, "@")
	return share(parent, volume)
}

// MayBeParent reports whether such a parent is a device by a number, which may be any volume that is a device.
func (p Places) MayBeParent(parent, volume string) bool {
	return numberKey(parent) == loopKey || numberKey(parent) == numberedKey && !p.isFile(volume)
}

// devices are the names of a device, and of those of which it may be a partition.
func devices(directory, last string) (names []name) {
	given := []name{{directory, last, ""}}
	for _, of := range partitions {
		if m := of.FindStringSubmatch(last); m != nil {
			given = append(given, name{directory, m[1], m[2]})
		}
	}
	for _, n := range given {
		if m := worldwide.FindStringSubmatch(n.name); m != nil {
			names = append(names, name{everywhere, strings.Join(m[1:], ""), n.partition})
		}
		n = n.unmap()
		names = append(append(names, n), n.originals()...)
	}
	return names
}

// snapshotMark is in front of the part of a volume that is a snapshot of it.
const snapshotMark = "@"

// originals are the volumes of which a device may be a snapshot (pve-storage ZFSPoolPlugin.pm and RBDPlugin.pm path,
// LvmThinPlugin.pm filesystem_path, LVMPlugin.pm get_snap_name).
func (n name) originals() (all []name) {
	if volume, snapshot, ok := strings.Cut(n.name, snapshotMark); ok {
		all = append(all, name{n.directory, volume, snapshotMark + snapshot})
	}
	both, ok := strings.CutPrefix(strings.TrimSuffix(n.name, ".qcow2"), "snap_")
	for i, r := range both {
		if ok && r == '_' { // either name can have more of them
			volume := both[:i] + n.name[len("snap_")+len(both):]
			all = append(all, name{n.directory, volume, snapshotMark + both[i+1:]})
		}
	}
	return all
}

// snapshotsOf are the names of the snapshots of which a path may be the device.
func snapshotsOf(file string) (all []string) {
	for _, n := range namesOf(file) {
		if snapshot, ok := strings.CutPrefix(n.partition, snapshotMark); ok {
			all = append(all, snapshot)
		}
	}
	return all
}

// overlap reports whether two names of one volume name the same content of it, and not two snapshots or one and the
// volume itself.
func overlap(a, b string) bool {
	x, y := snapshotsOf(a), snapshotsOf(b)
	return len(x)+len(y) == 0 || slices.ContainsFunc(x, func(s string) bool { return slices.Contains(y, s) })
}

// unmap undoes the names of the device mapper. It doubles the dashes in the names of a volume group and of a logical
// volume, and joins them with one; the directory is that of the group then.
func (n name) unmap() name {
	mapped, ok := strings.CutPrefix(n.name, "dm-name-") // /dev/disk/by-id
	if !ok && n.directory != "/dev/mapper/" {
		return n
	}
	const doubled = "\x00"
	group := strings.ReplaceAll(mapped, "--", doubled)
	at := strings.LastIndexByte(group, '-') + 1
	directory := "/dev/" + strings.ReplaceAll(strings.TrimSuffix(group[:at], "-"), doubled, "-") + "/"
	return name{directory, strings.ReplaceAll(group[at:], doubled, "-"), n.partition}
}

// share reports whether two names of volumes, which are paths of one node if they are paths, may name the same one.
// PVE's own names of volumes tell one from another; other names may be in two directories, such as those of two volume
// groups. Of one device only two partitions are apart.
func share(a, b string) bool {
	paths := volid.IsDevice(a) && volid.IsDevice(b)
	theirs := namesOf(b)
	return slices.ContainsFunc(namesOf(a), func(x name) bool {
		return slices.ContainsFunc(theirs, func(y name) bool {
			return x.name == y.name && (!paths || (x.directory == y.directory || x.owner() != 0) &&
				(x.partition == y.partition || x.partition == "" || y.partition == ""))
		})
	})
}

func (n name) owner() int {
	owner, _ := volid.Owner("path:" + n.name)
	return owner
}

// ownerOf is the VM whose id a volume carries that a guest names by its id or by a path; 0: none.
func ownerOf(as string) int {
	if owner, ok := volid.Owner(as); ok || volid.Valid(as) {
		return owner
	}
	for _, n := range namesOf(as) {
		if owner := n.owner(); owner != 0 {
			return owner
		}
	}
	return 0
}

// isWorldwide reports whether a path has the id of a device in its name, which the device has on every node.
func isWorldwide(file string) bool {
	return volid.IsDevice(file) &&
		slices.ContainsFunc(namesOf(file), func(n name) bool { return n.directory == everywhere })
}

// keysOf are the places of the users of a volume in an index.
func keysOf(file string) []string {
	var keys []string
	for _, n := range namesOf(file) {
		if !slices.Contains(keys, n.name) {
			keys = append(keys, n.name)
		}
	}
	return keys
}

// The places of users of numbered devices in an index are no names of volumes: those that are no file's, and all.
const (
	numberedKey = "/"
	loopKey     = "/loop"
)

// How the kernel numbers devices, and how udev names them by their contents.
var (
	loops    = regexp.MustCompile(`^/dev/(loop|nbd)\d`)
	numbered = regexp.MustCompile(`^/dev/(.*/)?((dm-|zd|rbd)\d+(p\d+)?|(dm-uuid-|lvm-pv-uuid-).*)$|` +
		`^/dev/(block|disk/by-(uuid|label|partuuid|partlabel|diskseq))/[^/]*$`)
)

// numberKey is where an index has the users of a path that names a device by a number that the kernel gave it, by an id
// of LVM's own, or by its contents: it can be any volume. "" is another path.
func numberKey(file string) string {
	switch {
	case !strings.HasPrefix(file, "/dev/"): // as most are
		return ""
	case loops.MatchString(path.Clean(file)):
		return loopKey
	case numbered.MatchString(path.Clean(file)):
		return numberedKey
	}
	return ""
}
