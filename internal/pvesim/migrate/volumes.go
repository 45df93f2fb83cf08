package migrate

import (
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// scan finds the volumes that have to move and what is in their way (QemuMigrate.pm scan_local_volumes). Every obstacle
// is a line of the log; the task's error only says that there are some.
func (m *migration) scan() error {
	const problem = "Problem found while scanning volumes - "
	blocked := false
	for _, u := range volumesOf(m.Engine, m.g) {
		v, err := m.consider(u)
		if err != nil {
			blocked = true
			m.say("WARN: can't migrate local disk '%s': %s", u.volid, perl.Message(err))
			continue
		}
		if v == nil {
			continue
		}
		m.moving = append(m.moving, v)
		m.say("found %s", v.describe())
		if v.kind == "attached" && m.g.Running != nil && !m.Flag("with-local-disks") {
			blocked = true
			m.say("WARN: can't migrate local disk '%s': can't live migrate attached local disks without with-local-disks option",
				u.volid)
		}
	}
	if blocked {
		return perl.Die(problem + "can't migrate VM - check log")
	}
	for _, v := range m.moving {
		s := m.W.Storages[v.source.Storage]
		if !migratable(s.Type) {
			return perl.Die(problem+"can't migrate '%s' - storage type '%s' not supported", v.volid, s.Type)
		}
		if n, err := s.ParseName(v.source.Name); err == nil && n.Base != "" {
			return perl.Die(problem+"can't migrate '%s' as it's a clone of '%s'", v.volid,
				n.Base[strings.LastIndexByte(n.Base, '/')+1:])
		}
	}
	return nil
}

func (v *movingVolume) describe() string {
	switch v.kind {
	case "attached":
		return "local disk '" + v.volid + "' (attached)"
	case "generated":
		return "generated disk '" + v.volid + "' (in current VM config)"
	case "unused":
		return "local disk '" + v.volid + "' (unused)"
	case "pending":
		return "local disk '" + v.volid + "' (pending change)"
	}
	return "local disk '" + v.volid + "' (referenced by snapshot(s))"
}

// consider looks at one volume; nil means that it need not move.
func (m *migration) consider(u *volumeUse) (*movingVolume, error) {
	switch {
	case strings.HasPrefix(u.volid, "/") && u.shared, u.cdrom && u.volid == "none":
		return nil, nil
	case strings.HasPrefix(u.volid, "/"):
		return nil, perl.Die("local file/device")
	case u.cdrom && u.volid == "cdrom":
		return nil, perl.Die("can't migrate local cdrom drive")
	}
	id, name, ok := state.SplitVolid(u.volid)
	if !ok {
		return nil, perl.Die("unable to parse volume ID '%s'", u.volid)
	}
	to, err := m.checkTarget(id, u.volid)
	if err != nil {
		return nil, err
	}
	s := m.W.Storages[id]
	if s.Shared {
		return nil, nil
	}
	source := m.W.Volume(m.g.Node, u.volid)
	if source == nil {
		return nil, perl.Die("volume '%s' does not exist", u.volid)
	}
	v := &movingVolume{volumeUse: u, source: source, storage: to, kind: u.kind()}
	if u.cdrom {
		if !drive.CloudinitFile.MatchString(u.volid) {
			return nil, perl.Die("local cdrom image")
		}
		v.kind = "generated"
		return v, nil
	}
	n, err := s.ParseName(name)
	if err != nil {
		return nil, err
	}
	if n.VMID != m.g.VMID {
		return nil, perl.Die("owned by other VM (owner = VM %d)", n.VMID)
	}
	return v, m.checkSnapshots(v, s, n)
}

// checkSnapshots: local snapshots travel only offline, and only within ZFS, btrfs or qcow2 files, not as a chain of
// files (qemu-server QemuMigrate.pm scan_local_volumes); a base not without its clones.
func (m *migration) checkSnapshots(v *movingVolume, s *state.Storage, n state.VolumeName) error {
	if v.vmstate {
		return nil
	}
	if len(v.snaps) > 0 {
		if m.g.Running != nil {
			return perl.Die("online storage migration not possible if non-replicated snapshot exists")
		}
		isChain := s.Options["snapshot-as-volume-chain"] == "1"
		if s.Type != "zfspool" && (s.Type != "btrfs" || n.Format != "raw") && (n.Format != "qcow2" || isChain) {
			return perl.Die("non-migratable snapshot exists")
		}
	}
	if n.IsBase && len(m.W.Children(v.source)) > 0 {
		return perl.Die("referenced by linked clone(s)")
	}
	return nil
}

func (u *volumeUse) kind() string {
	switch {
	case u.tpm:
		return "generated"
	case u.attached:
		return "attached"
	case u.unused:
		return "unused"
	case len(u.snaps) > 0:
		return "snapshot"
	}
	return "pending"
}

// copyAll sends the volumes that the choice is for.
func (m *migration) copyAll(choice func(*movingVolume) bool) error {
	for _, v := range m.moving {
		if !choice(v) || v.copy != nil {
			continue
		}
		if err := m.copyOne(v); err != nil {
			return perl.Die("storage migration for '%s' to storage '%s' failed - %s", v.volid, v.storage, perl.Message(err))
		}
		m.say("volume '%s' is '%s' on the target", v.volid, v.copy.Volid())
	}
	return nil
}

func (m *migration) copyOne(v *movingVolume) error {
	from, to := m.W.Storages[v.source.Storage], m.W.Storages[v.storage]
	offline := m.g.Running == nil || v.kind != "attached"
	if offline && !sendable(from, to, v.source) {
		return perl.Die("cannot migrate from storage type '%s' to '%s'", from.Type, to.Type)
	}
	if err := m.LockStorage(m.target, v.storage); err != nil {
		return err
	}
	if m.job != nil { // what replication has brought there is brought up to date
		delete(m.W.Volumes, to.Key(m.target, v.source.Name))
	}
	if v.vmstate && m.W.Volumes[to.Key(m.target, v.source.Name)] != nil {
		return perl.Die("volume '%s:%s' already exists", v.storage, v.source.Name)
	}
	c, err := state.CopyTo(m.W, v.source, m.target, v.storage, offline || m.job != nil)
	if err != nil {
		return err
	}
	c.Snaps = slices.Clone(v.source.Snaps)
	v.copy = c
	guest.Progress(m.Worker)
	return nil
}

// sendable reports whether the storages have a transfer format in common (pve-storage Storage.pm
// volume_transfer_formats): snapshots of ZFS go to ZFS only, a qcow2 or vmdk file to storages of files only.
func sendable(from, to *state.Storage, v *state.Volume) bool {
	switch {
	case from.IsDir() && v.Format != "raw":
		return to.IsDir()
	case len(v.Snaps) > 0:
		return from.Type == to.Type
	}
	return true
}
