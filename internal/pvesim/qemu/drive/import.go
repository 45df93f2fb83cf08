package drive

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/storage/appliance"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// ImportDisk fills a new volume from an existing image: a path (root only, checked before), a file of content type
// import, a disk packed into one, or a disk that may belong to another VM of the node.
func (m *Maker) ImportDisk(opt string, d Drive, storage, src string) error {
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
		m.Logf("create full clone of drive %s(%s)", m.slotOf(source), src)
	}
	v, err := m.importTarget(opt, d, storage, source)
	if err != nil {
		return perl.Die("cannot import from '%s' - %s", src, perl.Message(err))
	}
	v.Data = source.Data
	if err := m.finish(d, v, v.Size); err != nil {
		return err
	}
	if err := m.strike(opt); err != nil {
		if errors.Is(err, engine.ErrInterrupted) {
			return m.copyFailed(src, source, v, "received interrupt")
		}
		return err
	}
	if source.Data == tornData {
		m.Logf("qemu-img: error while writing at byte 4194304: Input/output error")
		return m.copyFailed(src, source, v, "exit code 1")
	}
	m.transferred(source.Size)
	return m.dropUnpacked(src)
}

// importTarget allocates the volume that an image is copied to.
func (m *Maker) importTarget(opt string, d Drive, storage string, source *state.Volume) (*state.Volume, error) {
	s, err := m.W.StorageActive(m.Node, storage)
	if err != nil {
		return nil, err
	}
	format := d["format"]
	if format == "" {
		format = source.Format
	}
	if !slices.Contains(s.Formats(), format) { // not refused: QemuServer/ImportDisk.pm, resolve_dst_disk_format
		format = s.Formats()[0]
	}
	if opt == "tpmstate0" {
		format = "raw"
	}
	return volume.Alloc(m.Process, m.Node, storage, m.Vmid, "", format, source.Size)
}

// slotOf is the drive of the guest that owns the source and has it attached, with a space; "" if there is none.
func (m *Maker) slotOf(source *state.Volume) string {
	owner := m.W.Guests[source.VMID]
	if owner == nil || owner.Type != "qemu" {
		return ""
	}
	for _, opt := range slices.Sorted(maps.Keys(owner.Config)) {
		if d := Parse(m.Engine, opt, owner.Config[opt]); IsDrive(opt) && d != nil && d.File() == source.Volid() {
			return opt + " "
		}
	}
	return ""
}

// unpacked extracts a disk of an appliance to a volume of the guest's own, which is a file that only lives meanwhile
// (pve-storage GuestImport.pm, extract_disk_from_import_file). nil: the source is no such disk.
func (m *Maker) unpacked(src string) (*state.Volume, string, error) {
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
	m.Logf("extracting %s", src)
	size, err := m.packedSize(id, name[:at], name[at+1:])
	if err != nil {
		return nil, src, perl.Die("error during extraction: %s", perl.Message(err))
	}
	storage := id
	if work := m.Params["import-working-storage"]; work != "" {
		storage = work
	}
	v, err := volume.Alloc(m.Process, m.Node, storage, m.Vmid, "", format, size)
	if err != nil {
		return nil, src, perl.Die("error during extraction: %s", perl.Message(err))
	}
	v.Data = src
	volid := v.Volid()
	m.Made = append(m.Made, volid)
	m.Logf("finished extracting to %s", volid)
	return v, volid, nil
}

// packedSize is the virtual size of a disk in an appliance.
func (m *Maker) packedSize(storage, archive, file string) (int64, error) {
	s := m.W.Storages[storage]
	v := m.W.Volume(m.Node, storage+":"+archive)
	if v == nil {
		return 0, perl.Die("command 'tar -x --force-local --no-same-owner -f %s' failed: exit code 2", s.VolumePath(archive))
	}
	a, err := appliance.ReadOVA(v.Raw)
	if err != nil {
		return 0, err
	}
	size, ok := a.Files[file]
	if !ok {
		return 0, perl.Die("command 'tar -x --force-local --no-same-owner -f %s' failed: exit code 2", s.VolumePath(archive))
	}
	if e, err := appliance.Description(m.Process.Request, s, archive, true); err == nil {
		for _, d := range e.AllDisks() {
			if d.File == file && d.Size > 0 {
				size = d.Size
			}
		}
	}
	return size, nil
}

// dropUnpacked removes what was extracted, once it is copied.
func (m *Maker) dropUnpacked(volid string) error {
	at := slices.Index(m.Made, volid)
	if at < 0 {
		return nil
	}
	if err := volume.Free(m.Process, m.Node, volid); err != nil {
		return perl.Die("cannot import from '%s' - %s", volid, perl.Message(err))
	}
	m.Made = slices.Delete(m.Made, at, at+1)
	m.Logf("cleaned up extracted image %s", volid)
	return nil
}

// tornData is the content of an image whose copying fails midway; that of one which cannot even be opened is "broken".
const tornData = "torn"

// copyFailed words the end of a qemu-img (QemuServer/QemuImage.pm, convert).
func (m *Maker) copyFailed(src string, from, to *state.Volume, why string) error {
	return perl.Die("cannot import from '%s' - copy failed: %s", src, ConvertFailed(m.Process, from, to, why))
}

// ConvertFailed is the failure of the command that copies one volume to another.
func ConvertFailed(p engine.Process, from, to *state.Volume, why string) string {
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
func (m *Maker) importSource(src string) (*state.Volume, error) {
	id, name, ok := state.SplitVolid(src)
	if !ok {
		v, err := m.ImportPath(src)
		if err != nil { // PVE::Storage abs_filesystem_path, before the size is asked for
			return nil, perl.Die("can't find file '%s'", src)
		}
		return v, nil
	}
	s, err := m.W.StorageActive(m.Node, id)
	if err != nil {
		return nil, err
	}
	n, err := s.ParseName(name)
	if err != nil {
		return nil, err
	}
	v := m.W.Volume(m.Node, src)
	switch {
	case s.Type == "esxi" && v == nil:
		m.Logf("failed to stat '%s'", s.VolumePath(name))
		return nil, perl.Die("cannot import from '%s' - could not get size of %s", src, src)
	case s.Type == "esxi" && v.Busy != "": // its machine runs, and the host does not let go of it
		return &state.Volume{Storage: id, Name: name, Format: v.Format, Size: v.Size, Data: tornData}, nil
	case n.Content == "images":
		return volume.Activate(m.Process, m.Node, src)
	}
	if v == nil {
		return nil, perl.Die("failed to stat '%s'", s.VolumePath(name))
	}
	if v.Data == "broken" {
		m.Logf("command '/usr/bin/qemu-img info '--output=json' %s -f %s' failed: exit code 1", s.VolumePath(name), v.Format)
		return nil, perl.Die("qemu-img: Could not open '%s': Image is not in %s format", s.VolumePath(name), v.Format)
	}
	return v, nil
}

// ImportPath finds an image by its path on the node: a volume's, or that of a file put there.
func (m *Maker) ImportPath(path string) (*state.Volume, error) {
	for _, v := range m.W.Volumes {
		s := m.W.Storages[v.Storage]
		if s != nil && (v.Node == "" || v.Node == m.Node) && s.VolumePath(v.Name) == path {
			return &state.Volume{Size: v.Size, Data: v.Data, Format: v.Format, Name: path}, nil
		}
	}
	content, ok := m.W.Nodes[m.Node].Files[path]
	if !ok {
		return nil, perl.Die("failed to stat '%s'", path)
	}
	format := "raw"
	if strings.HasSuffix(path, ".qcow2") {
		format = "qcow2"
	}
	return &state.Volume{Size: max(512, int64(len(content))), Data: content, Format: format, Name: path}, nil
}

// lockOwner holds the lock of the VM whose disk is copied: shared if it is stopped, 30 s at most.
func (m *Maker) lockOwner(source *state.Volume) (release func(), err error) {
	if source.Content != "images" || source.VMID == 0 || source.VMID == m.Vmid {
		return nil, nil
	}
	owner := m.W.Guests[source.VMID]
	if owner == nil {
		return nil, nil
	}
	if owner.Node != m.Node {
		return nil, perl.Die("owner VM %d not on local node", source.VMID)
	}
	return m.Engine.Flock(m.W, m.Node, engine.GuestLock(source.VMID), owner.Running == nil, engine.ImportLockTimeout)
}
