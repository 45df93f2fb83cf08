package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	moved, destroyed, isConverted := p.moved(r), destroyedBy(r, p.change.Delete), converts(p.change)
	if len(moved)+len(destroyed) == 0 && !isConverted {
		return
	}
	names, err := c.api.QEMU(r.from(), r.ID).SnapshotNames(ctx)
	if names = r.staying(names); err != nil || len(names) == 0 {
		return
	}
	if isConverted {
		p.say(snapshotForbids, "template", guest.KeptBySnapshots(names, fmt.Sprintf("VM %d from becoming a template", r.ID))+
			". "+elseFails, strconv.Itoa(r.ID))
	}
	if len(moved)+len(destroyed) > 0 {
		p.byDisks(ctx, c, r, names, moved, destroyed)
	}
}

const elseFails = "Else the apply fails."

// byDisks reports disks that are to go to another storage or format, or to be destroyed, and that a snapshot has. PVE
// moves none of them if the source is to go (qemu-server API2/Qemu.pm move_vm_disk), and frees none (QemuServer.pm
// try_deallocate_drive).
func (p kept) byDisks(ctx context.Context, c *Checker, r Request, names []string, moved, destroyed map[string]string) {
	configs, err := c.guests.SnapshotConfigs(ctx, r.from(), r.ID, names)
	if err != nil {
		return
	}
	volumes := maps.Clone(moved)
	maps.Copy(volumes, destroyed)
	keepers, slots := guest.KeepersOf(volumes, names, configs)
	if len(slots) == 0 {
		return
	}
	path, or := "removed_disks", ""
	if slices.ContainsFunc(slots, func(slot string) bool { return destroyed[slot] != "" }) {
		or = " Or set removed_disks = \"detach\"."
	}
	if first := slots[0]; moved[first] != "" {
		attribute, _ := vm.AttributeOf(first)
		path = attribute.In(first) + ".storage"
		if d, isDisk := r.Prior.Disks[first]; isDisk && d.Storage == r.Planned.Disks[first].Storage {
			path = attribute.In(first) + ".format"
		}
	}
	p.say(snapshotKeeps, path, guest.KeptBySnapshots(keepers, guest.OnStorages(slots, volumes))+"."+or+" "+elseFails,
		strings.Join(slots, ", "), strconv.Itoa(r.ID), "its storage")
}

// moved are the volumes that the apply has PVE move, by slot. A volume that only one node has goes to its planned
// storage with the migration, as far as PVE's pairs of storages take it there.
func (p kept) moved(r Request) map[string]string {
	volumes, pairs := map[string]string{}, map[string]string{}
	if len(p.change.Moves) == 0 {
		return volumes
	}
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

// byNode reports disks that cannot be migrated since a snapshot has them: those of a running guest, and those on a
// storage whose snapshots do not travel (qemu-server QemuMigrate.pm scan_local_volumes): those of a qcow2 file do
// unless they are files of their own (snapshot-as-volume-chain). Whether a replication takes it there is not known.
func (p kept) byNode(ctx context.Context, c *Checker, r Request, disks []pve.LocalDisk) {
	var slots, names []string
	allTravel := true
	for _, disk := range disks {
		with := r.staying(disk.Snapshots)
		if len(with) == 0 || disk.CDROM || r.Acting || disk.Drive == "" { // a saved memory has no drive
			continue
		}
		storage, format := volid.Storage(disk.Volume), volid.Format(disk.Volume)
		at, seen := p.resources.Storage(r.Moving.From, storage)
		travels := at.PluginType == "zfspool" || format == "qcow2" || at.PluginType == "btrfs" && format == "raw"
		if format == "qcow2" {
			places, err := c.whereStoragesAre(ctx)
			travels = err != nil || !places[storage].VolumeChain
		}
		if r.Running || seen && !travels {
			slots, names, allTravel = append(slots, disk.Drive), append(names, with...), allTravel && travels
		}
	}
	if len(slots) == 0 {
		return
	}
	slices.Sort(slots)
	slices.Sort(names)
	why := "A migration takes snapshots along only on ZFS, on btrfs, and in qcow2 files of a storage without " +
		"snapshot-as-volume-chain. "
	if r.Running {
		why = "A migration takes a disk of a running guest along only without snapshots, or where a replication has it on " +
			"that node already. "
		if allTravel {
			why += "Or shut the VM down in an apply of its own, and migrate it then. "
		}
	}
	all, node := strings.Join(slots, ", "), "node "+r.Moving.From
	p.say(snapshotKeeps, slots[0], guest.KeptBySnapshots(slices.Compact(names), all+" on "+node)+". "+why+elseFails, all,
		strconv.Itoa(r.ID), node)
}

// from is the node that a VM in state is on.
func (r Request) from() string {
	if r.Moving != nil {
		return r.Moving.From
	}
	return r.Node
}

// staying are those of the VM's snapshots that the plan is not known to remove.
func (r Request) staying(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(r.SnapshotsGo, name) })
}
