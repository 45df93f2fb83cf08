package state

import (
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

// The patterns follow the plugins' parse_volname (pve-storage ZFSPoolPlugin.pm, LvmThinPlugin.pm, LVMPlugin.pm, Plugin.pm).
var (
	zfsName   = regexp.MustCompile(`^(?:(base-\d+-[^\s/]+)/)?((base|vm|subvol)-(\d+)-[^\s/]+)$`)
	thinName  = regexp.MustCompile(`^((vm|base)-(\d+)-[^\s/]+)$`)
	thickName = regexp.MustCompile(`^(vm-(\d+)-[^\s/]+)$`)
	dirName   = regexp.MustCompile(`^(?:(\d+/[^\s/]+)/)?(\d+)/([^\s/]+)$`)
	dirFile   = regexp.MustCompile(`^((vm|base|subvol)-(\d+)-[^\s/.]*\.(raw|qcow2|vmdk|subvol))$`)
	volid     = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9\-_.]*[A-Za-z0-9]):(.+)$`)
)

// IsDir reports whether images on the storage are files.
func (s *Storage) IsDir() bool {
	return slices.Contains([]string{"dir", "nfs", "cifs", "cephfs", "btrfs", "glusterfs"}, s.Type)
}

// Has reports whether the storage is configured for the content type.
func (s *Storage) Has(content string) bool { return slices.Contains(s.Content, content) }

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
			return VolumeName{Content: "images", VMID: atoi(m[4]), File: m[2], Base: m[1], IsBase: m[3] == "base", Format: "raw"}, nil
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
	}
	return parseDirName(name)
}

func parseDirName(name string) (VolumeName, error) {
	if m := dirName.FindStringSubmatch(name); m != nil {
		f := dirFile.FindStringSubmatch(m[3])
		if f == nil {
			return VolumeName{}, fmt.Errorf("unable to parse volume filename '%s'", m[3])
		}
		return VolumeName{Content: "images", VMID: atoi(m[2]), File: f[1], Base: m[1], IsBase: f[2] == "base", Format: f[4]}, nil
	}
	kind, file, ok := strings.Cut(name, "/")
	if !ok || file == "" || strings.ContainsAny(file, " \t\n") {
		return VolumeName{}, fmt.Errorf("unable to parse directory volume name '%s'", name)
	}
	ext := file[strings.LastIndexByte(file, '.')+1:]
	switch kind {
	case "iso":
		if ext == "iso" || ext == "img" {
			return VolumeName{Content: "iso", File: file, Format: "iso"}, nil
		}
	case "import":
		if slices.Contains([]string{"ova", "ovf", "qcow2", "raw", "vmdk"}, ext) {
			return VolumeName{Content: "import", File: file, Format: ext}, nil
		}
	case "snippets":
		return VolumeName{Content: "snippets", File: file, Format: "snippet"}, nil
	case "vztmpl":
		return VolumeName{Content: "vztmpl", File: file, Format: "t" + ext}, nil
	case "backup":
		return VolumeName{Content: "backup", File: file, Format: ext}, nil
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
	}
	sub := map[string]string{"iso": "template/iso", "vztmpl": "template/cache", "backup": "dump"}[n.Content]
	switch {
	case n.Content == "images":
		sub = "images/" + strconv.Itoa(n.VMID)
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
	if s.Shared {
		node = ""
	}
	return VolumeKey{Storage: s.ID, Node: node, Name: name}
}

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
		if k.Storage == s.ID && (k.Node == "" || k.Node == node) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b *Volume) int { return strings.Compare(a.Name, b.Name) })
	return list
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
