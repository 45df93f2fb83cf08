package handle

import (
	"fmt"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// process is what the code of a handler runs in: the API daemon or a worker.
type process struct {
	*Request
	worker *Worker // nil: synchronous
}

func (p process) logf(format string, args ...any) {
	if p.worker != nil {
		p.worker.Logf(format, args...)
	}
}

// alloc is PVE::Storage's vdisk_alloc: under the storage's lock. LVM's tools say what they did.
func (p process) alloc(node, storage string, vmid int, name, format string, size int64) (*state.Volume, error) {
	if err := p.lockStorage(node, storage); err != nil {
		return nil, err
	}
	v, err := p.W.Alloc(node, storage, vmid, name, format, size)
	if err == nil && isLVM(p.W.Storages[storage]) {
		p.logf("  Logical volume \"%s\" created.", v.Name)
	}
	return v, err
}

func isLVM(s *state.Storage) bool { return s.Type == "lvm" || s.Type == "lvmthin" }

// free removes a volume; what PVE merely warns of goes to the log.
func (p process) free(node, volid string) error {
	storage, name, ok := state.SplitVolid(volid)
	if !ok {
		return Die("unable to parse volume ID '%s'", volid)
	}
	if err := p.lockStorage(node, storage); err != nil {
		return err
	}
	known := p.W.Volume(node, volid) != nil
	warning, err := p.W.Free(node, storage, name)
	switch {
	case warning != "":
		p.logf("%s", warning)
	case err == nil && known && isLVM(p.W.Storages[storage]):
		p.logf("  Logical volume \"%s\" successfully removed.", name)
	}
	return err
}

// cleanUp frees volumes after a failure, as the handlers' error paths do: what cannot be freed is a line in the log.
func (p process) cleanUp(node string, volids []string) {
	for _, volid := range volids {
		if p.worker != nil && p.worker.CleanupFails() {
			p.logf("unable to free volume '%s'", volid)
			continue
		}
		if err := p.free(node, volid); err != nil {
			p.logf("%s", text(err))
		}
	}
}

// activate makes a volume usable on the node, or says in the storage plugin's words why it cannot be (activate_volume).
func (p process) activate(node, volid string) (*state.Volume, error) {
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
		return p.awaitLink(node, volid, n.File)
	case "lvm":
		return nil, Die("can't activate LV '%s':   Failed to find logical volume \"%s/%s\"", s.VolumePath(name), s.VG(), n.File)
	case "lvmthin":
		return nil, Die("no such logical volume %s/%s", s.VG(), n.File)
	}
	return nil, Die("volume '%s' does not exist", volid)
}

func (p process) awaitLink(node, volid, file string) (*state.Volume, error) {
	seconds := zvolWaitSync
	wait := p.Wait
	if p.worker != nil {
		seconds, wait = zvolWaitWorker, p.worker.Wait
	}
	wait(time.Duration(seconds) * time.Second)
	if v := p.W.Volume(node, volid); v != nil {
		return v, nil
	}
	if p.worker != nil && (p.worker.terminate || p.worker.kill) {
		return nil, p.worker.Checkpoint()
	}
	return nil, Die("timeout: no zvol device link for '%s' found after %d sec.", file, seconds)
}

// formatted is what qemu-img create prints of a new file.
func (p process) formatted(s *state.Storage, v *state.Volume) {
	switch {
	case !s.IsDir():
	case v.Format == "raw":
		p.logf("Formatting '%s', fmt=raw size=%d preallocation=off", s.VolumePath(v.Name), v.Size)
	default:
		p.logf("Formatting '%s', fmt=%s cluster_size=65536 extended_l2=off preallocation=metadata compression_type=zlib size=%d "+
			"lazy_refcounts=off refcount_bits=16",
			s.VolumePath(v.Name), v.Format, v.Size)
	}
}

// humanSize prints a size as PVE's copy logs do: one decimal, binary unit.
func humanSize(size int64) string {
	value, unit := float64(size), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
