package clone

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// Resize is PUT resize: since 8.0 a task, with every check but the parameters' inside it.
func Resize(r *engine.Request) (any, error) {
	skiplock, err := guest.SkipLock(r)
	if err != nil {
		return nil, err
	}
	return guest.Fork(r, "resize", func(w *engine.Worker) error { return resizeWorker(r, w, skiplock) }), nil
}

func resizeWorker(r *engine.Request, w *engine.Worker, skiplock bool) error {
	release, err := guest.LockInTask(w, r.VMID(), false, engine.LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	g, err := guest.Load(r)
	if err != nil {
		return err
	}
	if want := r.Params["digest"]; want != "" && want != g.Digest() {
		return perl.Die("checksum mismatch (file change by other user?)")
	}
	if err := guest.CheckLock(g); err != nil && !skiplock {
		return err
	}
	opt := r.Params["disk"]
	d := drive.Drive(nil)
	if g.Config[opt] != "" {
		d = drive.Parse(r.Engine, opt, g.Config[opt])
	}
	if d == nil {
		return perl.Die("disk '%s' does not exist", opt)
	}
	if d.IsCDROM() {
		return perl.Die("you can't resize a cdrom")
	}
	storage, _, _ := state.SplitVolid(d.File())
	if err := w.Check("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	v := r.W.Volume(g.Node, d.File())
	if v == nil {
		return perl.Die("Could not determine current size of volume '%s'", d.File())
	}
	size := newSize(r.Params["size"], v.Size)
	if size < v.Size {
		return perl.Die("shrinking disks is not supported")
	}
	if err := w.Checkpoint(); err != nil {
		return err
	}
	if size == v.Size {
		return nil
	}
	s, old := r.W.Storages[v.Storage], v.Size
	if s.IsDir() && v.Format == "vmdk" { // pve-storage Plugin.pm volume_resize
		return perl.Die("can't resize this image format")
	}
	if n, err := s.ParseName(v.Name); err == nil && n.IsBase && s.IsDir() { // it is immutable (Plugin.pm, create_base)
		path := s.VolumePath(v.Name)
		w.Logf("qemu-img: Could not open '%s': Could not open '%s': Operation not permitted", path, path)
		return perl.Die("command '/usr/bin/qemu-img resize -f %s %s %d' failed: exit code 1", v.Format, path, size)
	}
	if err := state.Resize(r.W, v, size); err != nil {
		return err
	}
	switch {
	case s.IsDir() && g.Running == nil: // QEMU resizes what it has open, and says nothing
		w.Logf("Image resized.")
	case volume.IsLVM(s):
		w.Logf("  Size of logical volume %s/%s changed from %s to %s.", s.VG(), v.Name, lvmSize(old), lvmSize(v.Size))
		w.Logf("  Logical volume %s/%s successfully resized.", s.VG(), v.Name)
	}
	d["size"] = schema.FormatSize(v.Size)
	g.Config[opt] = drive.Print(r.Engine, opt, d)
	if g.Running != nil {
		g.Running.Booted[opt] = g.Config[opt]
	}
	return nil
}

// lvmSize is a size as lvextend prints it.
func lvmSize(size int64) string {
	unit, value := "KMGTP", float64(size)/1024
	for value >= 1024 && len(unit) > 1 {
		unit, value = unit[1:], value/1024
	}
	return fmt.Sprintf("%.2f %ciB (%d extents)", value, unit[0], size>>22)
}

var sizeWord = regexp.MustCompile(`^(\+)?(\d+(?:\.\d+)?)([KMGT])?$`)

// newSize reads "+1G" and "32G"; no unit means bytes.
func newSize(word string, old int64) int64 {
	m := sizeWord.FindStringSubmatch(word)
	if m == nil {
		return -1
	}
	n, _ := strconv.ParseFloat(m[2], 64) // digits, by the pattern
	n *= math.Pow(1024, float64(strings.Index("KMGT", m[3])+1))
	if m[3] == "" {
		n, _ = strconv.ParseFloat(m[2], 64)
	}
	if m[1] == "+" {
		return old + int64(n)
	}
	return int64(n)
}
