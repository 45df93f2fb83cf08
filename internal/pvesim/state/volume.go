package state

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// VolumeName is what a storage plugin reads out of a volume's name (its parse_volname).
type VolumeName struct {
	Content string // images, iso, import, snippets, vztmpl, backup
	VMID    int    // owner, 0 if none
	File    string // the last part of the name
	Base    string // volume name of the base image of a linked clone
	IsBase  bool
	Format  string // raw, qcow2, vmdk, iso …
}

// The patterns follow the plugins' parse_volname (pve-storage ZFSPoolPlugin.pm, LvmThinPlugin.pm, LVMPlugin.pm,
// Plugin.pm, ISCSIPlugin.pm, ESXiPlugin.pm).
var (
	zfsName   = regexp.MustCompile(`^(?:(base-\d+-[^\s/]+)/)?((base|vm|subvol)-(\d+)-[^\s/]+)$`)
	thinName  = regexp.MustCompile(`^((vm|base)-(\d+)-[^\s/]+)$`)
	thickName = regexp.MustCompile(`^(vm-(\d+)-[^\s/]+)$`)
	dirName   = regexp.MustCompile(`^(?:(\d+/[^\s/]+)/)?(\d+)/([^\s/]+)$`)
	dirFile   = regexp.MustCompile(`^((base-)?[^/\s]+\.(raw|qcow2|vmdk|subvol))$`)
	packed    = regexp.MustCompile(`^[ a-zA-Z0-9\-.+=_]+\.ova/[ a-zA-Z0-9\-.+=_]+\.(qcow2|raw|vmdk)$`)
	template  = regexp.MustCompile(`(?i)^[^/]+\.tar\.(gz|xz|zst|bz2)$`)
	backup    = regexp.MustCompile(`^[^/]+\.(tgz|(?:tar|vma)(?:\.(?:gz|lzo|zst|bz2))?)$`)
	dumped    = regexp.MustCompile(`^vzdump-(?:openvz|lxc|qemu)-(\d+)-`)
	lunName   = regexp.MustCompile(`^\d+\.\d+\.\d+\.([^/\s]+)$`)
	esxiName  = regexp.MustCompile(`^[^/]+/[^/]+/(.+)$`)
	// PBSPlugin.pm
	pbsName = regexp.MustCompile(`^backup/((vm|ct|host)/(\S+)/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)$`)
	volid   = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9\-_.]*[A-Za-z0-9]):(.+)$`)
)

// IsDir reports whether images on the storage are files.
func (s *Storage) IsDir() bool {
	return slices.Contains([]string{"dir", "nfs", "cifs", "cephfs", "btrfs", "glusterfs"}, s.Type)
}

// Has reports whether the storage is configured for the content type.
func (s *Storage) Has(content string) bool { return slices.Contains(s.Content, content) }

// IsEverywhere reports whether each node has the same volumes on it. An ESXi host's are, and those on a LUN, though
// nothing says shared.
func (s *Storage) IsEverywhere() bool { return s.Shared || s.LUN || s.Type == "esxi" }

// VG is the volume group of an LVM storage; Path is "vg" or "vg/thinpool".
func (s *Storage) VG() string {
	vg, _, _ := strings.Cut(s.Path, "/")
	return vg
}

// Formats lists the image formats that the storage takes, the default one first.
func (s *Storage) Formats() []string {
	if s.IsDir() {
		return []string{"raw", "qcow2", "vmdk"}
	}
	return []string{"raw"}
}

// ParseName takes a volume name apart as the storage's plugin does.
func (s *Storage) ParseName(name string) (VolumeName, error) {
	switch {
	case s.Type == "zfspool" || s.Type == "rbd":
		if m := zfsName.FindStringSubmatch(name); m != nil {
			return VolumeName{Content: "images", VMID: atoi(m[4]), File: m[2], Base: m[1], IsBase: m[3] == "base",
				Format: "raw"}, nil
		}
		return VolumeName{}, fmt.Errorf("unable to parse %s volume name '%s'", strings.TrimSuffix(s.Type, "pool"), name)
	case s.Type == "lvmthin":
		if m := thinName.FindStringSubmatch(name); m != nil {
			return VolumeName{Content: "images", VMID: atoi(m[3]), File: m[1], IsBase: m[2] == "base", Format: "raw"}, nil
		}
		return VolumeName{}, fmt.Errorf("unable to parse lvm volume name '%s'", name)
	case s.Type == "lvm":
		if m := thickName.FindStringSubmatch(name); m != nil {
			return VolumeName{Content: "images", VMID: atoi(m[2]), File: m[1], Format: "raw"}, nil
		}
		return VolumeName{}, fmt.Errorf("unable to parse lvm volume name '%s'", name)
	case s.Type == "iscsi":
		if m := lunName.FindStringSubmatch(name); m != nil {
			return VolumeName{Content: "images", File: m[1], Format: "raw"}, nil
		}
		return VolumeName{}, fmt.Errorf("unable to parse iscsi volume name '%s'", name)
	case s.Type == "esxi":
		return parseESXiName(name)
	case s.Type == "pbs":
		if m := pbsName.FindStringSubmatch(name); m != nil {
			return VolumeName{Content: "backup", File: m[1], VMID: atoi(m[3]), Format: "pbs-" + m[2]}, nil
		}
		return VolumeName{}, fmt.Errorf("unable to parse PBS volume name '%s'", name)
	}
	return parseDirName(name)
}

// parseESXiName reads a path on an ESXi host: a machine is something to import, and everything else an image without an
// owner.
func parseESXiName(name string) (VolumeName, error) {
	m := esxiName.FindStringSubmatch(name)
	switch {
	case m == nil:
		return VolumeName{}, fmt.Errorf("failed to parse volname '%s'", name)
	case strings.HasSuffix(name, ".vmx"):
		return VolumeName{Content: "import", File: m[1], Format: "vmx"}, nil
	case strings.HasSuffix(name, ".vmdk"):
		return VolumeName{Content: "images", File: m[1], Format: "vmdk"}, nil
	}
	return VolumeName{Content: "images", File: m[1], Format: "raw"}, nil
}

func parseDirName(name string) (VolumeName, error) {
	if m := dirName.FindStringSubmatch(name); m != nil {
		f := dirFile.FindStringSubmatch(m[3])
		if f == nil {
			return VolumeName{}, fmt.Errorf("unable to parse volume filename '%s'", m[3])
		}
		return VolumeName{Content: "images", VMID: atoi(m[2]), File: f[1], Base: m[1], IsBase: f[2] != "",
			Format: f[3]}, nil
	}
	kind, file, ok := strings.Cut(name, "/")
	if !ok || file == "" || strings.ContainsAny(file, "\t\n") {
		return VolumeName{}, fmt.Errorf("unable to parse directory volume name '%s'", name)
	}
	return parseFileName(name, kind, file)
}

// parseFileName reads the names of volumes that are no images of a guest (Plugin.pm parse_volname).
func parseFileName(name, kind, file string) (VolumeName, error) {
	ext := file[strings.LastIndexByte(file, '.')+1:]
	switch kind {
	case "iso":
		if e := strings.ToLower(ext); !strings.Contains(file, "/") && (e == "iso" || e == "img") {
			return VolumeName{Content: "iso", File: file, Format: "iso"}, nil
		}
	case "import":
		if m := packed.FindStringSubmatch(file); m != nil {
			return VolumeName{Content: "import", File: file, Format: "ova+" + m[1]}, nil
		}
		if !strings.Contains(file, "/") && slices.Contains([]string{"ova", "ovf", "qcow2", "raw", "vmdk"}, ext) {
			return VolumeName{Content: "import", File: file, Format: ext}, nil
		}
	case "snippets":
		return VolumeName{Content: "snippets", File: file, Format: "snippet"}, nil
	case "vztmpl":
		if m := template.FindStringSubmatch(file); m != nil {
			return VolumeName{Content: "vztmpl", File: file, Format: "t" + m[1]}, nil
		}
	case "backup":
		if m := backup.FindStringSubmatch(file); m != nil {
			n := VolumeName{Content: "backup", File: file, Format: m[1]}
			if owner := dumped.FindStringSubmatch(file); owner != nil {
				n.VMID = atoi(owner[1])
			}
			return n, nil
		}
	}
	return VolumeName{}, fmt.Errorf("unable to parse directory volume name '%s'", name)
}

// VolumePath is the path on the node, as `pvesm path` prints it.
func (s *Storage) VolumePath(name string) string {
	n, err := s.ParseName(name)
	if err != nil {
		return ""
	}
	switch {
	case s.Type == "zfspool":
		return "/dev/zvol/" + s.Path + "/" + n.File
	case s.Type == "rbd":
		return "rbd:" + s.Path + "/" + n.File
	case s.Type == "lvm" || s.Type == "lvmthin":
		return "/dev/" + s.VG() + "/" + n.File
	case s.Type == "iscsi":
		return "/dev/disk/by-id/" + n.File
	case s.Type == "esxi":
		return "/run/pve/import/esxi/" + s.ID + "/mnt/" + name
	}
	sub := map[string]string{"iso": "template/iso", "vztmpl": "template/cache", "backup": "dump"}[n.Content]
	switch {
	case n.Content == "images":
		sub = "images/" + strconv.Itoa(n.VMID)
		if dir, isRaw := strings.CutSuffix(n.File, ".raw"); isRaw && s.Type == "btrfs" { // BTRFSPlugin.pm filesystem_path
			sub, n.File = sub+"/"+dir, "disk.raw"
		}
	case sub == "":
		sub = n.Content
	}
	return s.Path + "/" + sub + "/" + n.File
}

// SplitVolid cuts "storage:name" (PVE::Storage::parse_volume_id); ok is false for paths and the like.
func SplitVolid(full string) (storage, name string, ok bool) {
	m := volid.FindStringSubmatch(full)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// Key is where a volume of that storage lies when it is made on node.
func (s *Storage) Key(node, name string) VolumeKey {
	if s.IsEverywhere() {
		node = ""
	}
	return VolumeKey{Storage: s.place(), Node: node, Name: name}
}

// place is the id under which the volumes of the storage are filed.
func (s *Storage) place() string { return cmp.Or(s.Same, s.ID) }

// Volid is a volume's full name as this storage has it.
func (s *Storage) Volid(v *Volume) string { return s.ID + ":" + v.Name }

// Volume finds a volume as node sees it; nil if there is none.
func (w *World) Volume(node, volid string) *Volume {
	id, name, ok := SplitVolid(volid)
	if !ok {
		return nil
	}
	s := w.Storages[id]
	if s == nil {
		return nil
	}
	return w.Volumes[s.Key(node, name)]
}

// VolumesOn lists the volumes of a storage as node sees it, by name.
func (w *World) VolumesOn(node string, s *Storage) []*Volume {
	var list []*Volume
	for k, v := range w.Volumes {
		if k.Storage == s.place() && (k.Node == "" || k.Node == node) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b *Volume) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// ContentOf is what a listing calls a volume: an image is a container's if the guest that its name says is one,
// whatever mounts it; if there is no such guest, it counts as a virtual machine's (Plugin.pm list_volumes).
func ContentOf(w *World, v *Volume) string {
	if v.Content != "images" && v.Content != "rootdir" {
		return v.Content
	}
	if g := w.Guests[v.VMID]; g != nil && g.Type == "lxc" {
		return "rootdir"
	}
	return "images"
}

// Ctime is when the volume came to be, in seconds since the epoch.
func (v *Volume) Ctime() int64 {
	if v.Created.IsZero() {
		return defaultCtime.Unix()
	}
	return v.Created.Unix()
}

// Volid is the volume's full name.
func (v *Volume) Volid() string { return v.Storage + ":" + v.Name }

func atoi(s string) int {
	n, _ := strconv.Atoi(s) // callers pass digits matched by a pattern
	return n
}

// SnapshotData is a volume's content and size at the time of a snapshot.
type SnapshotData struct {
	Data string `json:"data,omitempty"`
	Size int64  `json:"size"`
}

// TakeSnapshot notes a snapshot with what the volume holds and how large it is.
func (v *Volume) TakeSnapshot(name string) {
	v.Snaps = append(v.Snaps, name)
	if v.SnapData == nil {
		v.SnapData = map[string]SnapshotData{}
	}
	v.SnapData[name] = SnapshotData{v.Data, v.Size}
}

// DropSnapshot forgets one.
func (v *Volume) DropSnapshot(name string) {
	v.Snaps = slices.DeleteFunc(slices.Clone(v.Snaps), func(s string) bool { return s == name })
	delete(v.SnapData, name)
}

// Rollback goes back to one.
func (v *Volume) Rollback(name string) {
	if was, ok := v.SnapData[name]; ok {
		v.Data, v.Size = was.Data, was.Size
	}
}

// WriteFile puts a file onto a node.
func (n *Node) WriteFile(path, content string) {
	if n.Files == nil { // a loaded world has none
		n.Files = map[string]string{}
	}
	n.Files[path] = content
}
