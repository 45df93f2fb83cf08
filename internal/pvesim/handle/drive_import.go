package handle

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// importDisk fills a new volume from an existing image: a path (root only, checked before), a file of content type import,
// or a disk that may belong to another VM of the node.
func (m *diskMaker) importDisk(opt string, d drive, storage, src string) error {
	source, err := m.importSource(src)
	if err != nil {
		return err
	}
	if release, err := m.lockOwner(source); err != nil {
		return err
	} else if release != nil {
		defer release()
	}
	s, err := m.W.StorageActive(m.node, storage)
	if err != nil {
		return err
	}
	if source.Storage != "" {
		m.logf("create full clone of drive (%s)", src)
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
	v, err := m.alloc(m.node, storage, m.vmid, "", format, source.Size)
	if err != nil {
		return err
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
	if n.Content == "images" {
		return m.activate(m.node, src)
	}
	v := m.W.Volume(m.node, src)
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
