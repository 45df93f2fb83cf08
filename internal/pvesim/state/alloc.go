package state

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	mib = 1 << 20
	// LVM allocates whole extents of this size.
	extent = 4 * mib
)

// StorageConfig finds an entry of storage.cfg: "storage 'x' does not exist" (PVE::Storage::storage_config).
func (w *World) StorageConfig(id string) (*Storage, error) {
	s := w.Storages[id]
	if s == nil {
		return nil, fmt.Errorf("storage '%s' does not exist", id)
	}
	return s, nil
}

// StorageEnabled checks that the storage may be used on node (PVE::Storage::storage_check_enabled).
func (w *World) StorageEnabled(node, id string) (*Storage, error) {
	s, err := w.StorageConfig(id)
	if err != nil {
		return nil, err
	}
	if s.Disabled {
		return nil, fmt.Errorf("storage '%s' is disabled", id)
	}
	if len(s.Nodes) > 0 && !slices.Contains(s.Nodes, node) {
		return nil, fmt.Errorf("storage '%s' is not available on node '%s'", id, node)
	}
	return s, nil
}

// StorageActive does what activate_storage does: enabled, and reachable, with its directories.
func (w *World) StorageActive(node, id string) (*Storage, error) {
	s, err := Reachable(w, node, id)
	if err == nil {
		delete(s.dropped, s.Key(node, "").Node)
	}
	return s, err
}

// Reachable is the storage if it can be used on a node. Looking changes nothing.
func Reachable(w *World, node, id string) (*Storage, error) {
	s, err := w.StorageEnabled(node, id)
	if err != nil {
		return nil, err
	}
	if s.Offline {
		return nil, fmt.Errorf("storage '%s' is not online", id)
	}
	return s, nil
}

// freeName is the lowest free disk name of a guest on the storage; vm- and base- names count alike, and on file
// storages those of every format (pve-storage Plugin.pm get_next_vm_diskname: a directory may be a "subvol", whose name
// has no suffix, so the pattern asks for none).
func freeName(w *World, node string, s *Storage, vmid int, format string) string {
	suffix := ""
	if s.IsDir() {
		suffix = "." + format
	}
	taken := map[int]bool{}
	pattern := regexp.MustCompile(fmt.Sprintf(`(?:vm|base|subvol)-%d-disk-(\d+)(?:\.\w+)?$`, vmid))
	for _, v := range w.VolumesOn(node, s) {
		if m := pattern.FindStringSubmatch(v.Name); m != nil {
			taken[atoi(m[1])] = true
		}
	}
	n := 0
	for taken[n] {
		n++
	}
	return fmt.Sprintf("vm-%d-disk-%d%s", vmid, n, suffix)
}

func (s *Storage) checkFormat(format string) error {
	if slices.Contains(s.Formats(), format) {
		return nil
	}
	where := map[string]string{
		"zfspool": "ZFSPoolPlugin.pm line 240", "lvmthin": "LvmThinPlugin.pm line 93", "lvm": "LVMPlugin.pm line 592",
	}[s.Type]
	if where == "" {
		return fmt.Errorf("unsupported format '%s'", format)
	}
	return fmt.Errorf("unsupported format '%s' at /usr/share/perl5/PVE/Storage/%s.", format, where)
}

// Alloc makes an image. An empty name takes the next free disk number; size is in bytes and is rounded up as the
// storage does. The texts are those of the plugins' alloc_image.
func (w *World) Alloc(node, storage string, vmid int, name, format string, size int64) (*Volume, error) {
	s, err := w.StorageActive(node, storage)
	if err != nil {
		return nil, err
	}
	if format == "" {
		format = s.Formats()[0]
	}
	if err := s.checkFormat(format); err != nil {
		return nil, err
	}
	switch {
	case name == "":
		name = freeName(w, node, s, vmid, format)
	case s.IsDir(): // any name will do (Plugin.pm, parse_name_dir)
		if !dirFile.MatchString(name) {
			return nil, fmt.Errorf("unable to parse volume filename '%s'", name)
		}
	case !strings.HasPrefix(name, fmt.Sprintf("vm-%d-", vmid)):
		return nil, fmt.Errorf("illegal name '%s' - should be 'vm-%d-*'", name, vmid)
	}
	full := name
	if s.IsDir() {
		full = strconv.Itoa(vmid) + "/" + name
	}
	if _, err := s.ParseName(full); err != nil {
		return nil, err
	}
	if takenName(w, node, s, full) {
		return nil, s.existsError(full, name)
	}
	if s.Same != "" {
		return nil, fmt.Errorf("not simulated: a new volume on storage '%s', a second name of '%s'", s.ID, s.Same)
	}
	size = s.roundUp(size)
	if err := checkSpace(w, node, s, vmid, name, size); err != nil {
		return nil, err
	}
	v := &Volume{Storage: s.ID, Node: s.Key(node, "").Node, Name: full, Content: "images", VMID: vmid, Format: format,
		Size: size}
	w.put(v)
	return v, nil
}

// checkSpace refuses what does not fit. A volume group says so in extents: PVE's own check compares bytes with KiB and
// never fires (LVMPlugin.pm, alloc_image). Thin pools and datasets are sparse, files may grow later.
func checkSpace(w *World, node string, s *Storage, vmid int, name string, size int64) error {
	free := s.Total - w.Used(node, s)
	switch {
	case s.Total <= 0 || size <= free:
		return nil
	case s.Type == "lvm":
		return fmt.Errorf("lvcreate '%s/%s' error:   Volume group \"%s\" has insufficient free space (%d extents): %d "+
			"required.",
			s.VG(), name, s.VG(), max(0, free)/extent, size/extent)
	case s.Full && s.Type == "zfspool":
		return fmt.Errorf("zfs error: cannot create '%s/%s': out of space", s.Path, name)
	case s.Full && s.Type == "lvmthin":
		_, pool, _ := strings.Cut(s.Path, "/")
		return fmt.Errorf("lvcreate '%s/%s' error:   Cannot create new thin volume, free space in thin pool %s/%s reached "+
			"threshold.", s.VG(),
			name, s.VG(), pool)
	case s.Full && s.IsDir():
		return fmt.Errorf("unable to create image: qemu-img: %s/images/%d/%s: Could not write: No space left on device",
			s.Path, vmid, name)
	}
	return nil
}

// takenName also sees linked clones, whose volume name carries their base.
func takenName(w *World, node string, s *Storage, full string) bool {
	if w.Volumes[s.Key(node, full)] != nil {
		return true
	}
	return slices.ContainsFunc(w.VolumesOn(node, s), func(v *Volume) bool { return strings.HasSuffix(v.Name, "/"+full) })
}

func (s *Storage) existsError(full, name string) error {
	switch s.Type {
	case "zfspool":
		return fmt.Errorf("zfs error: cannot create '%s/%s': dataset already exists", s.Path, name)
	case "lvm", "lvmthin":
		return fmt.Errorf("lvcreate '%s/%s' error:   Logical Volume \"%s\" already exists in volume group \"%s\"", s.VG(),
			name, name, s.VG())
	case "rbd":
		return fmt.Errorf("rbd create '%s' error: rbd: create error: (17) File exists", name)
	}
	return fmt.Errorf("disk image '%s' already exists", s.VolumePath(full))
}

func (s *Storage) roundUp(size int64) int64 {
	unit := int64(1024)
	switch s.Type {
	case "zfspool":
		unit = mib
	case "lvm", "lvmthin":
		unit = extent
	}
	return max(1, (size+unit-1)/unit) * unit
}

func (w *World) put(v *Volume) {
	if s := w.Storages[v.Storage]; s != nil {
		v.Storage = s.place()
		if s.LUN {
			v.Node = ""
		}
	}
	if w.Clock != nil {
		v.Created = w.Clock.Now()
	}
	w.Volumes[VolumeKey{v.Storage, v.Node, v.Name}] = v
}

// Put adds a ready-made volume (an upload, a test's orphan).
func (w *World) Put(v *Volume) { w.put(v) }

// Used is what the volumes of a storage take up, in bytes.
func (w *World) Used(node string, s *Storage) int64 {
	var sum int64
	for k, v := range w.Volumes {
		if k.Storage == s.place() && (k.Node == "" || k.Node == node) {
			sum += v.Size
		}
	}
	for _, size := range s.Zeroed {
		sum += size
	}
	return sum
}

// Free removes an image (PVE::Storage::vdisk_free). A missing one is only a warning or nothing at all on most storages.
func (w *World) Free(node, storage, name string) (warning string, err error) {
	s, err := w.StorageActive(node, storage)
	if err != nil {
		return "", err
	}
	n, err := s.ParseName(name)
	if err != nil {
		return "", err
	}
	v := w.Volumes[s.Key(node, name)]
	if v == nil {
		switch {
		case s.IsDir():
			return fmt.Sprintf("disk image '%s' does not exist", s.VolumePath(name)), nil
		case s.Type == "lvm": // before it removes a volume PVE activates it, to zero it out (LVMPlugin.pm, free_image)
			return "", fmt.Errorf("can't activate LV '%s/%s' to zero-out its data:   Failed to find logical volume \"%s/%s\"",
				s.VG(), n.File,
				s.VG(), n.File)
		}
		return "", nil
	}
	if n.IsBase && len(w.Children(v)) > 0 {
		return "", fmt.Errorf("base volume '%s' is still in use by linked clones", name)
	}
	if v.Busy != "" {
		return "", fmt.Errorf("%s", v.Busy)
	}
	if v.Held && len(v.Snaps) > 0 { // zfs destroy -r, lvremove (pve-storage ZFSPoolPlugin.pm, LvmThinPlugin.pm free_image)
		return "", s.busyError(n)
	}
	if s.BusyFrees != 0 {
		s.BusyFrees -= max(0, min(1, s.BusyFrees))
		return "", s.busyError(n)
	}
	if openedBy(w, node, v) != 0 && (s.Type == "zfspool" || s.Type == "lvm" || s.Type == "lvmthin") {
		return "", s.busyError(n)
	}
	if s.SafeRemoves() {
		if s.Zeroed[name] != 0 {
			return "", fmt.Errorf("lvrename '%s/%s' error:   Existing logical volume \"del-%s\" was found", s.VG(), name, name)
		}
		if s.Zeroed == nil {
			s.Zeroed = map[string]int64{}
		}
		s.Zeroed[name] = v.Size
	}
	delete(w.Volumes, s.Key(node, name))
	return "", nil
}

// SafeRemoves reports whether the storage only renames a freed volume, and a task of its own zeroes it (pve-storage
// LVMPlugin.pm free_lvm_volumes_locked, Storage.pm vdisk_free). No list shows it by then.
func (s *Storage) SafeRemoves() bool { return s.Type == "lvm" && s.Options["saferemove"] == "1" }

// busyError is what the storage's tool says of a volume that is open.
func (s *Storage) busyError(n VolumeName) error {
	switch s.Type {
	case "zfspool":
		return fmt.Errorf("zfs error: cannot destroy '%s/%s': dataset is busy", s.Path, n.File)
	case "lvm", "lvmthin":
		return fmt.Errorf("lvremove '%s/%s' error:   Logical volume %s/%s in use.", s.VG(), n.File, s.VG(), n.File)
	case "rbd":
		return fmt.Errorf("rbd rm '%s' error: rbd: error: image still has watchers", n.File)
	}
	return fmt.Errorf("unlink '%s/images/%d/%s' failed: Device or resource busy", s.Path, n.VMID, n.File)
}
