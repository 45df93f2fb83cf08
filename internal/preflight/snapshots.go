package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// kept finds the disks that a snapshot keeps where they are.
type kept struct{ *planCheck }

// bySnapshots reports the part of a change that a snapshot of the VM forbids. Once the apply has begun the update tells
// it, since by then the snapshot may be gone.
func (p kept) bySnapshots(ctx context.Context, c *Checker, r Request) {
	if r.Creating || r.Acting || r.from() == "" || len(p.found) > 0 {
		return
	}
	volumes, converts := p.moved(r), r.converts()
	if len(volumes) == 0 && !converts {
		return
	}
	names, err := c.api.QEMU(r.from(), r.ID).SnapshotNames(ctx)
	if err != nil || len(names) == 0 {
		return
	}
	if converts {
		p.say(snapshotForbids, "template", fmt.Sprintf("It has %s, and PVE makes no template of a VM with snapshots. %s",
			strings.Join(names, ", "), removeFirst(names)), fmt.Sprint(r.ID))
	}
	if len(volumes) > 0 {
		p.byMoves(ctx, c, r, volumes, names)
	}
}

// byMoves reports disks that are to go to another storage or format and that a snapshot has: PVE moves none of
// them if the source is to go (qemu-server API2/Qemu.pm move_vm_disk).
func (p kept) byMoves(ctx context.Context, c *Checker, r Request, volumes map[string]string, names []string) {
	configs, err := c.guests.SnapshotConfigs(ctx, r.from(), r.ID, names)
	if err != nil {
		return
	}
	for _, slot := range slices.Sorted(maps.Keys(volumes)) {
		var with []string
		for i, config := range configs {
			if guest.Uses(config, volumes[slot]) {
				with = append(with, names[i])
			}
		}
		if len(with) == 0 {
			continue
		}
		attribute, _ := vm.AttributeOf(slot)
		path, key := attribute.In(slot), ".storage"
		if d, isDisk := r.Prior.Disks[slot]; isDisk && d.Storage == r.Planned.Disks[slot].Storage {
			key = ".format"
		}
		p.say(snapshotKeeps, path+key, fmt.Sprintf("Snapshot %s of VM %d has volume %s, and PVE moves no disk that a "+
			"snapshot has. %s", strings.Join(with, ", "), r.ID, volumes[slot], removeFirst(with)), slot,
			"storage "+volid.Storage(volumes[slot]))
	}
}

// moved are the volumes that the apply has PVE move, by slot. A volume that only one node has goes to its planned
// storage with the migration, as far as PVE's pairs of storages take it there.
func (p kept) moved(r Request) map[string]string {
	volumes, pairs := map[string]string{}, map[string]string{}
	if r.Moving != nil {
		pairs = vm.StorageMap(r.Prior, r.Prior, r.Planned)
	}
	has := vm.Encode(r.Prior)
	for _, m := range p.change.Moves {
		volume := guest.VolumeOf(has[m.Slot])
		from := volid.Storage(volume)
		at, _ := p.resources.Storage(r.from(), from)
		if !volid.IsCloudInit(volume) && (at.Shared || pairs[from] != m.Storage) {
			volumes[m.Slot] = volume
		}
	}
	return volumes
}

// byNode reports a disk that cannot be migrated since a snapshot has it: that of a running guest, and one on a
// storage whose snapshots do not travel (qemu-server QemuMigrate.pm scan_local_volumes): those of a qcow2 file do
// unless they are files of their own (snapshot-as-volume-chain). Whether a replication takes it there is not known.
func (p kept) byNode(ctx context.Context, c *Checker, r Request, disk pve.LocalDisk) {
	if len(disk.Snapshots) == 0 || disk.CDROM || r.Acting || disk.Drive == "" { // a saved memory has no drive
		return
	}
	storage, format := volid.Storage(disk.Volume), volid.Format(disk.Volume)
	at, seen := p.resources.Storage(r.Moving.From, storage)
	travels := at.PluginType == "zfspool" || format == "qcow2" || at.PluginType == "btrfs" && format == "raw"
	if format == "qcow2" {
		places, err := c.whereStoragesAre(ctx)
		travels = err != nil || !places[storage].VolumeChain
	}
	var why, next string
	switch {
	case r.Running:
		why = "takes a disk of a running guest along only without snapshots, or where a replication has it on that node " +
			"already"
		if travels {
			next = " Or shut the VM down in an apply of its own, and migrate it then."
		}
	case seen && !travels:
		why = "takes snapshots along only on ZFS, on btrfs, and in qcow2 files of a storage without " +
			"snapshot-as-volume-chain"
	default:
		return
	}
	p.say(snapshotKeeps, disk.Drive, fmt.Sprintf("Snapshot %s of VM %d has volume %s, which only node %s has, and a "+
		"migration %s. %s%s", strings.Join(disk.Snapshots, ", "), r.ID, disk.Volume, r.Moving.From, why,
		removeFirst(disk.Snapshots), next), disk.Drive, "node "+r.Moving.From)
}

// from is the node that a VM in state is on.
func (r Request) from() string {
	if r.Moving != nil {
		return r.Moving.From
	}
	return r.Node
}

// removeFirst is the next step. Terraform destroys what depends on a VM before it updates the VM (its
// transform_destroy_edge.go).
func removeFirst(snapshots []string) string {
	names := strings.Join(snapshots, ", ")
	return fmt.Sprintf("Next step: remove %s: take its proxmox_vm_snapshot out of the configuration, which the same "+
		"apply may do, since Terraform removes it before it changes the VM; or use PVE's interface (Snapshots). Else the "+
		"apply fails there.", names)
}
