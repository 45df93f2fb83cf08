package handle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// importDisk fills a new volume from an existing image: a path (root only, checked before), a file of content type import, a
// disk packed into one, or a disk that may belong to another VM of the node.
func (m *diskMaker) importDisk(opt string, d drive, storage, src string) error {
	source, src, err := m.unpacked(src)
	if err != nil {
		return err
	}
	if source == nil {
		if source, err = m.importSource(src); err != nil {
			return err
		}
	}
	if release, err := m.lockOwner(source); err != nil {
		return err
	} else if release != nil {
		defer release()
	}
	if source.Storage != "" {
		m.logf("create full clone of drive %s(%s)", m.slotOf(source), src)
	}
	v, err := m.importTarget(opt, d, storage, source)
	if err != nil {
		return Die("cannot import from '%s' - %s", src, text(err))
	}
	v.Data = source.Data
	if err := m.finish(d, v, v.Size); err != nil {
		return err
	}
	if err := m.strike(opt); err != nil {
		if errors.Is(err, errInterrupted) {
			return m.copyFailed(src, source, v, "received interrupt")
		}
		return err
	}
	if source.Data == tornData {
		m.logf("qemu-img: error while writing at byte 4194304: Input/output error")
		return m.copyFailed(src, source, v, "exit code 1")
	}
	m.transferred(source.Size)
	return m.dropUnpacked(src)
}

// importTarget allocates the volume that an image is copied to.
func (m *diskMaker) importTarget(opt string, d drive, storage string, source *state.Volume) (*state.Volume, error) {
	s, err := m.W.StorageActive(m.node, storage)
	if err != nil {
		return nil, err
	}
	format := d["format"]
	if format == "" {
		format = source.Format
		if !slices.Contains(s.Formats(), format) {
			format = s.Formats()[0]
		}
	}
	if opt == "tpmstate0" {
		format = "raw"
	}
	return m.alloc(m.node, storage, m.vmid, "", format, source.Size)
}

// slotOf is the drive of the guest that owns the source and has it attached, with a space; "" if there is none.
func (m *diskMaker) slotOf(source *state.Volume) string {
	owner := m.W.Guests[source.VMID]
	if owner == nil || owner.Type != "qemu" {
		return ""
	}
	for _, opt := range slices.Sorted(maps.Keys(owner.Config)) {
		if d := m.Server.parseDrive(opt, owner.Config[opt]); isDrive(opt) && d != nil && d.file() == source.Volid() {
			return opt + " "
		}
	}
	return ""
}

// unpacked extracts a disk of an appliance to a volume of the guest's own, which is a file that only lives meanwhile
// (pve-storage GuestImport.pm, extract_disk_from_import_file). nil: the source is no such disk.
func (m *diskMaker) unpacked(src string) (*state.Volume, string, error) {
	id, name, ok := state.SplitVolid(src)
	if !ok || m.W.Storages[id] == nil {
		return nil, src, nil
	}
	n, _ := m.W.Storages[id].ParseName(name)
	format, packed := strings.CutPrefix(n.Format, "ova+")
	if !packed {
		return nil, src, nil
	}
	at := strings.LastIndexByte(name, '/')
	m.logf("extracting %s", src)
	size, err := m.packedSize(id, name[:at], name[at+1:])
	if err != nil {
		return nil, src, Die("error during extraction: %s", text(err))
	}
	storage := id
	if work := m.Params["import-working-storage"]; work != "" {
		storage = work
	}
	v, err := m.alloc(m.node, storage, m.vmid, "", format, size)
	if err != nil {
		return nil, src, Die("error during extraction: %s", text(err))
	}
	v.Data = src
	volid := v.Volid()
	m.made = append(m.made, volid)
	m.logf("finished extracting to %s", volid)
	return v, volid, nil
}

// packedSize is the virtual size of a disk in an appliance.
func (m *diskMaker) packedSize(storage, archive, file string) (int64, error) {
	s := m.W.Storages[storage]
	v := m.W.Volume(m.node, storage+":"+archive)
	if v == nil {
		return 0, Die("command 'tar -x --force-local --no-same-owner -f %s' failed: exit code 2", s.VolumePath(archive))
	}
	a, err := readOVA(v.Raw)
	if err != nil {
		return 0, err
	}
	size, ok := a.files[file]
	if !ok {
		return 0, Die("command 'tar -x --force-local --no-same-owner -f %s' failed: exit code 2", s.VolumePath(archive))
	}
	if e, err := m.description(s, archive, true); err == nil {
		for _, d := range e.disks() {
			if d.file == file && d.size > 0 {
				size = d.size
			}
		}
	}
	return size, nil
}

// dropUnpacked removes what was extracted, once it is copied.
func (m *diskMaker) dropUnpacked(volid string) error {
	at := slices.Index(m.made, volid)
	if at < 0 {
		return nil
	}
	if err := m.free(m.node, volid); err != nil {
		return Die("cannot import from '%s' - %s", volid, text(err))
	}
	m.made = slices.Delete(m.made, at, at+1)
	m.logf("cleaned up extracted image %s", volid)
	return nil
}

// tornData is the content of an image whose copying fails midway; that of one which cannot even be opened is "broken".
const tornData = "torn"

// copyFailed words the end of a qemu-img (QemuServer/QemuImage.pm, convert).
func (m *diskMaker) copyFailed(src string, from, to *state.Volume, why string) error {
	return Die("cannot import from '%s' - copy failed: %s", src, m.convertFailed(from, to, why))
}

// convertFailed is the failure of the command that copies one volume to another.
func (p process) convertFailed(from, to *state.Volume, why string) string {
	path := func(v *state.Volume) string {
		if s := p.W.Storages[v.Storage]; s != nil {
			return s.VolumePath(v.Name)
		}
		return v.Name
	}
	cache := ""
	if s := p.W.Storages[from.Storage]; s != nil && s.Type == "zfspool" {
		cache = " -T none"
	}
	return fmt.Sprintf("command '/usr/bin/qemu-img convert -p -n -t none%s -f %s -O %s %s zeroinit:%s' failed: %s",
		cache, from.Format, to.Format, path(from), path(to), why)
}

// importSource finds the image, as qemu-img would.
func (m *diskMaker) importSource(src string) (*state.Volume, error) {
	id, name, ok := state.SplitVolid(src)
	if !ok {
		return m.importPath(src)
	}
	s, err := m.W.StorageActive(m.node, id)
	if err != nil {
		return nil, err
	}
	n, err := s.ParseName(name)
	if err != nil {
		return nil, err
	}
	v := m.W.Volume(m.node, src)
	switch {
	case s.Type == "esxi" && v == nil:
		m.logf("failed to stat '%s'", s.VolumePath(name))
		return nil, Die("cannot import from '%s' - could not get size of %s", src, src)
	case s.Type == "esxi" && v.Busy != "": // its machine runs, and the host does not let go of it
		return &state.Volume{Storage: id, Name: name, Format: v.Format, Size: v.Size, Data: tornData}, nil
	case n.Content == "images":
		return m.activate(m.node, src)
	}
	if v == nil {
		return nil, Die("failed to stat '%s'", s.VolumePath(name))
	}
	if v.Data == "broken" {
		m.logf("command '/usr/bin/qemu-img info '--output=json' %s -f %s' failed: exit code 1", s.VolumePath(name), v.Format)
		return nil, Die("qemu-img: Could not open '%s': Image is not in %s format", s.VolumePath(name), v.Format)
	}
	return v, nil
}

// importPath finds an image by its path on the node: a volume's, or that of a file put there.
func (m *diskMaker) importPath(path string) (*state.Volume, error) {
	for _, v := range m.W.Volumes {
		s := m.W.Storages[v.Storage]
		if s != nil && (v.Node == "" || v.Node == m.node) && s.VolumePath(v.Name) == path {
			return &state.Volume{Size: v.Size, Data: v.Data, Format: v.Format, Name: path}, nil
		}
	}
	content, ok := m.W.Nodes[m.node].Files[path]
	if !ok {
		return nil, Die("failed to stat '%s'", path)
	}
	format := "raw"
	if strings.HasSuffix(path, ".qcow2") {
		format = "qcow2"
	}
	return &state.Volume{Size: max(512, int64(len(content))), Data: content, Format: format, Name: path}, nil
}

// lockOwner holds the lock of the VM whose disk is copied: shared if it is stopped, 30 s at most.
func (m *diskMaker) lockOwner(source *state.Volume) (release func(), err error) {
	if source.Content != "images" || source.VMID == 0 || source.VMID == m.vmid {
		return nil, nil
	}
	owner := m.W.Guests[source.VMID]
	if owner == nil {
		return nil, nil
	}
	if owner.Node != m.node {
		return nil, Die("owner VM %d not on local node", source.VMID)
	}
	return m.Server.Flock(m.W, m.node, GuestLock(source.VMID), owner.Running == nil, ImportLockTimeout)
}
