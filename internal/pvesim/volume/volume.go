// Package volume allocates, activates and frees volumes as PVE::Storage does, with its log lines.
package volume

import (
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Activating a ZFS volume waits for its device link: long in a worker, short in a synchronous call (ZFSPoolPlugin.pm).
const (
	zvolWaitWorker = 300
	zvolWaitSync   = 10
)

// Alloc is PVE::Storage's vdisk_alloc: under the storage's lock. LVM's tools say what they did.
func Alloc(p engine.Process, node, storage string, vmid int, name, format string, size int64) (*state.Volume, error) {
	if err := p.LockStorage(node, storage); err != nil {
		return nil, err
	}
	v, err := p.W.Alloc(node, storage, vmid, name, format, size)
	if err == nil && IsLVM(p.W.Storages[storage]) {
		p.Logf("  Logical volume \"%s\" created.", v.Name)
	}
	return v, err
}

// IsLVM reports whether the volumes of a storage are logical volumes.
func IsLVM(s *state.Storage) bool { return s.Type == "lvm" || s.Type == "lvmthin" }

// Free removes a volume; what PVE merely warns of goes to the log.
func Free(p engine.Process, node, volid string) error {
	storage, name, ok := state.SplitVolid(volid)
	if !ok {
		return perl.Die("unable to parse volume ID '%s'", volid)
	}
	if err := p.LockStorage(node, storage); err != nil {
		return err
	}
	known := p.W.Volume(node, volid) != nil
	warning, err := p.W.Free(node, storage, name)
	switch {
	case warning != "":
		p.Logf("%s", warning)
	case err == nil && known && p.W.Storages[storage].SafeRemoves(): // for hours: a test ends it
		w := p.Engine.NewWorker(node, "imgdel", "", p.Auth)
		w.ThirdParty = true
		w.Logf("zero-out data on image %s (/dev/%s/del-%s)", name, p.W.Storages[storage].VG(), name)
	case err == nil && known && IsLVM(p.W.Storages[storage]):
		p.Logf("  Logical volume \"%s\" successfully removed.", name)
	}
	return err
}

// CleanUp frees volumes after a failure, as the handlers' error paths do: what cannot be freed is a line in the log.
func CleanUp(p engine.Process, node string, volids []string) {
	for _, volid := range volids {
		if p.Worker != nil && p.Worker.CleanupFails() {
			p.Logf("unable to free volume '%s'", volid)
			continue
		}
		if err := Free(p, node, volid); err != nil {
			p.Logf("%s", perl.Message(err))
		}
	}
}

// Activate makes a volume usable on the node, or says in the storage plugin's words why it cannot be (activate_volume).
func Activate(p engine.Process, node, volid string) (*state.Volume, error) {
	id, name, ok := state.SplitVolid(volid)
	if !ok {
		return nil, nil // a path
	}
	s, err := p.W.StorageActive(node, id)
	if err != nil {
		return nil, err
	}
	n, err := s.ParseName(name)
	if err != nil {
		return nil, err
	}
	if v := p.W.Volume(node, volid); v != nil {
		return v, nil
	}
	switch s.Type {
	case "zfspool":
		return awaitLink(p, node, volid, n.File)
	case "lvm":
		return nil, perl.Die("can't activate LV '%s':   Failed to find logical volume \"%s/%s\"", s.VolumePath(name), s.VG(),
			n.File)
	case "lvmthin":
		return nil, perl.Die("no such logical volume %s/%s", s.VG(), n.File)
	}
	return nil, perl.Die("volume '%s' does not exist", volid)
}

func awaitLink(p engine.Process, node, volid, file string) (*state.Volume, error) {
	seconds := zvolWaitSync
	wait := p.Wait
	if p.Worker != nil {
		seconds, wait = zvolWaitWorker, p.Worker.Wait
	}
	wait(time.Duration(seconds) * time.Second)
	if v := p.W.Volume(node, volid); v != nil {
		return v, nil
	}
	if p.Worker != nil && (p.Worker.Terminate || p.Worker.Kill) {
		return nil, p.Worker.Checkpoint()
	}
	return nil, perl.Die("timeout: no zvol device link for '%s' found after %d sec.", file, seconds)
}

// Formatted is what qemu-img create prints of a new file.
func Formatted(p engine.Process, s *state.Storage, v *state.Volume) {
	switch {
	case !s.IsDir():
	case v.Format == "vmdk":
		p.Logf("Formatting '%s', fmt=vmdk size=%d compat6=off hwversion=undefined", s.VolumePath(v.Name), v.Size)
	case v.Parent != "":
		base := "../" + v.Parent
		p.Logf("Formatting '%s', fmt=qcow2 cluster_size=65536 extended_l2=off compression_type=zlib size=%d "+
			"backing_file=%s backing_fmt=%s lazy_refcounts=off refcount_bits=16",
			s.VolumePath(v.Name), v.Size, base, base[strings.LastIndexByte(base, '.')+1:])
	case v.Format == "raw":
		p.Logf("Formatting '%s', fmt=raw size=%d preallocation=off", s.VolumePath(v.Name), v.Size)
	default:
		p.Logf("Formatting '%s', fmt=%s cluster_size=65536 extended_l2=off preallocation=metadata compression_type=zlib "+
			"size=%d lazy_refcounts=off refcount_bits=16",
			s.VolumePath(v.Name), v.Format, v.Size)
	}
}
