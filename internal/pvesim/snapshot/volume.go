package snapshot

import (
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// snapshotVolume takes a snapshot of a volume: QEMU does it of an attached qcow2 file, else the storage (QemuServer.pm,
// qemu_volume_snapshot).
func snapshotVolume(p engine.Process, g *state.Guest, opt, volid, name string) error {
	v := p.W.Volume(g.Node, volid)
	id, file, _ := state.SplitVolid(volid)
	s := p.W.Storages[id]
	switch {
	case s == nil:
		return perl.Die("storage '%s' does not exist", id)
	case v == nil:
		return missingVolume(s, file)
	case s.IsDir() && v.Format != "qcow2" && !snapshotsRaw(s, v):
		return perl.Die("can't snapshot this image format")
	case s.IsDir() && g.Running != nil && slices.Contains(g.Ignores, "snapshot"):
		return perl.Die("VM %d qmp command 'blockdev-snapshot-internal-sync' failed - Block format 'qcow2' used by device "+
			"'drive-%s' does not support internal snapshots",
			g.VMID, opt)
	case s.Type == "lvmthin":
		p.Logf("  Logical volume \"snap_%s_%s\" created.", v.Name, name)
	case s.Type == "zfspool" && slices.Contains(v.Snaps, name): // ZFSPoolPlugin.pm volume_snapshot: zfs snapshot
		return perl.Die("zfs error: cannot create snapshot '%s/%s@%s': dataset already exists", s.Path, v.Name, name)
	}
	v.TakeSnapshot(name)
	return nil
}

// snapshotsRaw reports whether the storage takes snapshots of raw images: btrfs, of its subvolumes (BTRFSPlugin.pm,
// volume_snapshot).
func snapshotsRaw(s *state.Storage, v *state.Volume) bool {
	return s.Type == "btrfs" && v.Format == "raw"
}

// missingVolume is what the storage's tool says of a volume that is not there, when asked about its snapshots.
func missingVolume(s *state.Storage, name string) error {
	n, err := s.ParseName(name)
	switch {
	case err != nil:
		return err
	case s.Type == "zfspool":
		return perl.Die("zfs error: cannot open '%s/%s': dataset does not exist", s.Path, n.File)
	case volume.IsLVM(s):
		return perl.Die("lvcreate snapshot error:   Failed to find logical volume \"%s/%s\"", s.VG(), n.File)
	}
	return perl.Die("qemu-img: Could not open '%s': Could not open '%s': No such file or directory", s.VolumePath(name),
		s.VolumePath(name))
}

// DropVolumeSnapshot removes a snapshot of a volume (the plugins' volume_snapshot_delete).
func DropVolumeSnapshot(p engine.Process, g *state.Guest, volid, name string) error {
	id, file, _ := state.SplitVolid(volid)
	s := p.W.Storages[id]
	if s == nil {
		return perl.Die("storage '%s' does not exist", id)
	}
	n, err := s.ParseName(file)
	if err != nil {
		return err
	}
	v := p.W.Volume(g.Node, volid)
	known := v != nil && slices.Contains(v.Snaps, name)
	switch {
	case known && v.Held:
		return heldSnapshot(s, n.File, file, name)
	case !known && s.Type == "zfspool":
		return perl.Die("zfs error: could not find any snapshots to destroy; check snapshot names.")
	case !known && s.Type == "lvmthin":
		return perl.Die("lvremove snapshot '%s/snap_%s_%s' error:   Failed to find logical volume \"%s/snap_%s_%s\"", s.VG(),
			n.File, name, s.VG(),
			n.File, name)
	case !known && s.IsDir() && n.Format == "qcow2":
		return perl.Die("command '/usr/bin/qemu-img snapshot -d %s %s' failed: exit code 1", name, s.VolumePath(file))
	case !known:
		return perl.Die("can't delete snapshot for this image format")
	case s.Type == "lvmthin":
		p.Logf("  Logical volume \"snap_%s_%s\" successfully removed.", n.File, name)
	}
	v.DropSnapshot(name)
	return nil
}

// heldSnapshot is what the storage's tool says of a snapshot that it cannot remove: `zfs destroy` of one with a hold or
// a clone, lvremove of one that is open, qemu-img of a file that is locked (pve-storage ZFSPoolPlugin.pm,
// LvmThinPlugin.pm, Plugin.pm volume_snapshot_delete).
func heldSnapshot(s *state.Storage, volume, file, name string) error {
	switch s.Type {
	case "zfspool":
		return perl.Die("zfs error: cannot destroy snapshot %s/%s@%s: dataset is busy", s.Path, volume, name)
	case "lvmthin":
		return perl.Die("lvremove snapshot '%s/snap_%s_%s' error:   Logical volume %s/snap_%s_%s in use.", s.VG(), volume,
			name, s.VG(), volume, name)
	}
	return perl.Die("command '/usr/bin/qemu-img snapshot -d %s %s' failed: exit code 1", name, s.VolumePath(file))
}

// rollbackPossible is the plugins' volume_rollback_is_possible: ZFS goes back to the newest snapshot only.
func rollbackPossible(p engine.Process, g *state.Guest, volid, name string) error {
	id, file, _ := state.SplitVolid(volid)
	s := p.W.Storages[id]
	switch {
	case s == nil:
		return perl.Die("storage '%s' does not exist", id)
	case s.Type != "zfspool":
		return nil
	}
	v := p.W.Volume(g.Node, volid)
	if v == nil {
		return missingVolume(s, file)
	}
	switch at := slices.Index(v.Snaps, name); {
	case at < 0:
		return perl.Die("can't rollback, snapshot '%s' does not exist on '%s'", name, volid)
	case at < len(v.Snaps)-1:
		return perl.Die("can't rollback, '%s' is not most recent snapshot on '%s'", name, volid)
	}
	return nil
}

// rollbackVolume gives a volume the content and size that it had.
func rollbackVolume(p engine.Process, g *state.Guest, volid, name string) error {
	v := p.W.Volume(g.Node, volid)
	id, file, _ := state.SplitVolid(volid)
	s := p.W.Storages[id]
	switch {
	case s == nil:
		return perl.Die("storage '%s' does not exist", id)
	case v == nil || !slices.Contains(v.Snaps, name):
		return missingVolume(s, file)
	case s.Type == "lvmthin": // the volume goes, and a copy of its snapshot takes the name (LvmThinPlugin.pm)
		p.Logf("  Logical volume \"%s\" successfully removed.", v.Name)
		p.Logf("  Logical volume \"%s\" created.", v.Name)
	}
	v.Rollback(name)
	return nil
}
