package handle

import (
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// driveNames are the drives of a section in the order in which PVE goes through them (Drive.pm, valid_drive_names).
func driveNames(conf map[string]string) []string {
	names := bootNames(conf)
	for _, opt := range []string{"efidisk0", "tpmstate0"} {
		if _, ok := conf[opt]; ok {
			names = append(names, opt)
		}
	}
	return names
}

// disksOf are the drives of a section that are no CD-ROMs, with their volumes' names.
func (s *Server) disksOf(conf map[string]string) (opts []string, volids map[string]string) {
	volids = map[string]string{}
	for _, opt := range driveNames(conf) {
		if d := s.parseDrive(opt, conf[opt]); d != nil && !d.isCDROM() {
			opts, volids[opt] = append(opts, opt), d.file()
		}
	}
	return opts, volids
}

// snapshotVolume takes a snapshot of a volume: QEMU does it of an attached qcow2 file, else the storage (QemuServer.pm,
// qemu_volume_snapshot).
func (p process) snapshotVolume(g *state.Guest, opt, volid, name string) error {
	v := p.W.Volume(g.Node, volid)
	id, file, _ := state.SplitVolid(volid)
	s := p.W.Storages[id]
	switch {
	case s == nil:
		return Die("storage '%s' does not exist", id)
	case v == nil:
		return missingVolume(s, file)
	case s.IsDir() && v.Format != "qcow2":
		return Die("can't snapshot this image format")
	case s.IsDir() && g.Running != nil && slices.Contains(g.Ignores, "snapshot"):
		return Die("VM %d qmp command 'blockdev-snapshot-internal-sync' failed - Block format 'qcow2' used by device 'drive-%s' does not "+
			"support internal snapshots",
			g.VMID, opt)
	case s.Type == "lvmthin":
		p.logf("  Logical volume \"snap_%s_%s\" created.", v.Name, name)
	}
	v.TakeSnapshot(name)
	return nil
}

// missingVolume is what the storage's tool says of a volume that is not there, when asked about its snapshots.
func missingVolume(s *state.Storage, name string) error {
	n, err := s.ParseName(name)
	switch {
	case err != nil:
		return err
	case s.Type == "zfspool":
		return Die("zfs error: cannot open '%s/%s': dataset does not exist", s.Path, n.File)
	case isLVM(s):
		return Die("lvcreate snapshot error:   Failed to find logical volume \"%s/%s\"", s.VG(), n.File)
	}
	return Die("qemu-img: Could not open '%s': Could not open '%s': No such file or directory", s.VolumePath(name), s.VolumePath(name))
}

// dropVolumeSnapshot removes a snapshot of a volume (the plugins' volume_snapshot_delete).
func (p process) dropVolumeSnapshot(g *state.Guest, volid, name string) error {
	id, file, _ := state.SplitVolid(volid)
	s := p.W.Storages[id]
	if s == nil {
		return Die("storage '%s' does not exist", id)
	}
	n, err := s.ParseName(file)
	if err != nil {
		return err
	}
	v := p.W.Volume(g.Node, volid)
	known := v != nil && slices.Contains(v.Snaps, name)
	switch {
	case !known && s.Type == "zfspool":
		return Die("zfs error: could not find any snapshots to destroy; check snapshot names.")
	case !known && s.Type == "lvmthin":
		return Die("lvremove snapshot '%s/snap_%s_%s' error:   Failed to find logical volume \"%s/snap_%s_%s\"", s.VG(), n.File, name, s.VG(),
			n.File, name)
	case !known && s.IsDir() && n.Format == "qcow2":
		return Die("command '/usr/bin/qemu-img snapshot -d %s %s' failed: exit code 1", name, s.VolumePath(file))
	case !known:
		return Die("can't delete snapshot for this image format")
	case s.Type == "lvmthin":
		p.logf("  Logical volume \"snap_%s_%s\" successfully removed.", n.File, name)
	}
	v.DropSnapshot(name)
	return nil
}

// rollbackPossible is the plugins' volume_rollback_is_possible: ZFS goes back to the newest snapshot only.
func (p process) rollbackPossible(g *state.Guest, volid, name string) error {
	id, file, _ := state.SplitVolid(volid)
	s := p.W.Storages[id]
	switch {
	case s == nil:
		return Die("storage '%s' does not exist", id)
	case s.Type != "zfspool":
		return nil
	}
	v := p.W.Volume(g.Node, volid)
	if v == nil {
		return missingVolume(s, file)
	}
	switch at := slices.Index(v.Snaps, name); {
	case at < 0:
		return Die("can't rollback, snapshot '%s' does not exist on '%s'", name, volid)
	case at < len(v.Snaps)-1:
		return Die("can't rollback, '%s' is not most recent snapshot on '%s'", name, volid)
	}
	return nil
}

// rollbackVolume gives a volume the content and size that it had.
func (p process) rollbackVolume(g *state.Guest, volid, name string) error {
	v := p.W.Volume(g.Node, volid)
	id, file, _ := state.SplitVolid(volid)
	if v == nil || !slices.Contains(v.Snaps, name) {
		s := p.W.Storages[id]
		if s == nil {
			return Die("storage '%s' does not exist", id)
		}
		return missingVolume(s, file)
	}
	v.Rollback(name)
	return nil
}

// stateVolume allocates the volume for the memory of a guest.
func (p process) stateVolume(g *state.Guest, name, storage string) (*state.Volume, error) {
	if storage == "" {
		storage = p.stateStorage(g)
	}
	memory := int64(number(subvalue(g.Config["memory"], "current", true)))
	if memory == 0 {
		memory = 512
	}
	file := "vm-" + itoa(g.VMID) + "-state-" + name
	s := p.W.Storages[storage]
	if s != nil && s.IsDir() {
		file += ".raw"
	}
	v, err := p.alloc(g.Node, storage, g.VMID, file, "raw", (2*memory+500)<<20)
	if err == nil {
		p.formatted(s, v)
	}
	return v, err
}

// stateStorage is where the memory of a guest goes: where it says, else to a shared storage that it has a disk on, else to a
// local one, among equals to the first unless a later one holds files (QemuServer.pm, find_vmstate_storage).
func (p process) stateStorage(g *state.Guest) string {
	if s := g.Config["vmstatestorage"]; s != "" {
		return s
	}
	found := map[bool]string{} // by shared
	opts, volids := p.Server.disksOf(g.Config)
	for _, opt := range opts {
		id, _, ok := state.SplitVolid(volids[opt])
		s := p.W.Storages[id]
		if ok && s != nil && (found[s.Shared] == "" || s.IsDir()) {
			found[s.Shared] = id
		}
	}
	for _, shared := range []bool{true, false} {
		if found[shared] != "" {
			return found[shared]
		}
	}
	return "local"
}

// saveState writes the memory of a running guest to its volume (QemuConfig.pm, __snapshot_create_vol_snapshots_hook).
func (p process) saveState(volid string) {
	storage, _, _ := state.SplitVolid(volid)
	p.logf("saving VM state and RAM using storage '%s'", storage)
	p.logf("0.00 B in 0s")
	p.logf("completed saving the VM state in 1s, saved %s", savedSize)
}

const savedSize = "20.00 MiB"

// runningCPU is what a snapshot with memory notes of the processor.
func runningCPU(conf map[string]string) string {
	cpu := subvalue(conf["cpu"], "cputype", true)
	if cpu == "" {
		cpu = "kvm64"
	}
	return cpu + ",enforce,+kvm_pv_eoi,+kvm_pv_unhalt,+lahf_lm,+sep"
}
