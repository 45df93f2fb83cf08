package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Children lists the linked clones of a base image, as far as the storage knows them: LVM does not.
func (w *World) Children(v *Volume) []*Volume {
	var list []*Volume
	for k, c := range w.Volumes {
		if k.Storage == v.Storage && k.Node == v.Node && c.Parent == v.Name {
			list = append(list, c)
		}
	}
	return list
}

// LinkedClone makes a thin copy of a base image for vmid.
func LinkedClone(w *World, node string, base *Volume, vmid int) (*Volume, error) {
	s, err := w.StorageActive(node, base.Storage)
	if err != nil {
		return nil, err
	}
	n, err := s.ParseName(base.Name)
	if err != nil {
		return nil, err
	}
	if !n.IsBase {
		return nil, fmt.Errorf("clone_image on wrong vtype '%s'", n.Content)
	}
	v := &Volume{Storage: s.ID, Node: base.Node, Content: "images", VMID: vmid, Format: base.Format, Size: base.Size,
		Data: base.Data}
	switch {
	case s.IsDir():
		v.Format, v.Parent = "qcow2", base.Name
		v.Name = fmt.Sprintf("%s/%d/%s", base.Name, vmid, freeName(w, node, s, vmid, "qcow2"))
	case s.Type == "lvmthin":
		v.Name = freeName(w, node, s, vmid, "raw")
	default:
		v.Parent = base.Name
		v.Name = n.File + "/" + freeName(w, node, s, vmid, "raw")
	}
	w.put(v)
	return v, nil
}

// CanTemplate reports whether images on the storage can become base images (volume feature "template").
func (s *Storage) CanTemplate() bool { return s.Type != "lvm" }

// CreateBase turns an image into a base image under its new name.
func (w *World) CreateBase(v *Volume) (*Volume, error) {
	s, err := w.StorageActive(v.Node, v.Storage)
	if v.Node == "" {
		s, err = w.StorageConfig(v.Storage)
	}
	if err != nil {
		return nil, err
	}
	if !s.CanTemplate() {
		return nil, fmt.Errorf("not implemented")
	}
	at := strings.LastIndex(v.Name, "vm-")
	if at < 0 {
		return nil, fmt.Errorf("create_base not possible with base image")
	}
	delete(w.Volumes, VolumeKey{v.Storage, v.Node, v.Name})
	v.Name = v.Name[:at] + "base-" + v.Name[at+3:]
	w.Volumes[VolumeKey{v.Storage, v.Node, v.Name}] = v
	return v, nil
}

// Resize grows an image to size bytes, rounded up as the storage does.
func Resize(w *World, v *Volume, size int64) error {
	s, err := w.StorageConfig(v.Storage)
	if err != nil {
		return err
	}
	if s.Offline || s.Disabled {
		return fmt.Errorf("storage '%s' is not online", s.ID)
	}
	v.Size = s.roundUp(size)
	return nil
}

// CopyTo copies an image to another node as a migration does: under its own name if that is free there and it keeps it,
// or else under the first free one.
func CopyTo(w *World, v *Volume, node, storage string, keepsName bool) (*Volume, error) {
	s, err := w.StorageActive(node, storage)
	if err != nil {
		return nil, err
	}
	old, err := w.Storages[v.Storage].ParseName(v.Name)
	if err != nil {
		return nil, err
	}
	format := v.Format
	if !slices.Contains(s.Formats(), format) {
		format = s.Formats()[0]
	}
	file := strings.TrimSuffix(old.File, "."+v.Format)
	if s.IsDir() {
		file += "." + format
	}
	if base, isBase := strings.CutPrefix(file, "base-"); isBase {
		file = "vm-" + base
	}
	full := file
	if s.IsDir() {
		full = strconv.Itoa(v.VMID) + "/" + file
	}
	if !keepsName || takenName(w, node, s, full) && !strings.Contains(file, "cloudinit") {
		file = ""
	}
	c, err := w.Alloc(node, storage, v.VMID, file, format, v.Size)
	if err != nil {
		return nil, err
	}
	c.Data = v.Data
	if old.IsBase {
		return w.CreateBase(c)
	}
	return c, nil
}

// Rename gives an image to another guest, under the next free name (the plugins' rename_volume).
func (w *World) Rename(v *Volume, vmid int) error {
	s, err := w.StorageConfig(v.Storage)
	if err != nil {
		return err
	}
	if s.Offline || s.Disabled {
		return fmt.Errorf("storage '%s' is not online", s.ID)
	}
	n, err := s.ParseName(v.Name)
	if err != nil {
		return err
	}
	delete(w.Volumes, VolumeKey{v.Storage, v.Node, v.Name})
	name := freeName(w, v.Node, s, vmid, v.Format)
	if s.IsDir() {
		name = strconv.Itoa(vmid) + "/" + name
	}
	if n.Base != "" {
		name = n.Base + "/" + name
	}
	v.Name, v.VMID = name, vmid
	w.Volumes[VolumeKey{v.Storage, v.Node, v.Name}] = v
	return nil
}
