package destroy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// seat is a disk that the create's VM has had in a slot.
type seat struct {
	place
	size int64 // in bytes
}

// follow notes the disks that the VM has in its slots, and knows those which it has brought along from another node,
// also where a third party has migrated it: a disk of the same slot and size, with the name that it has on the target
// (names). PVE keeps a name that is free there (qemu-server QemuMigrate.pm sync_offline_local_volumes).
func (m *Made) follow(node string, vmid int, config, names map[string]string) {
	now := map[string]seat{}
	for _, name := range vm.Slots(config) {
		volume, size, was := guest.VolumeOf(config[name]), sizeIn(name, config[name]), m.seen[name]
		if !isDiskOf(vmid, config, name) {
			continue
		}
		isAway := was.volume != "" && was.node != node
		if isAway && vm.FitsSize(size, was.size) && cmp.Or(names[was.volume], was.volume) == volume {
			m.add(node, byName, volume)
		}
		switch {
		case m.facts[place{node, volume}].proof > byGuess:
			now[name] = seat{place{node, volume}, size}
			m.show(name, now[name])
		case isAway:
			now[name] = was
		}
	}
	for name, was := range m.seen { // a name that the VM has elsewhere is to be told from that of the disk it had here
		if _, has := now[name]; !has && guest.Uses(config, was.volume) {
			now[name] = was
		}
	}
	m.seen = now
}

// slot is what is known of a slot that the create fills.
type slot struct {
	first string // its first disk, by the first look or by the log of its task; "": not known
	size  int64  // that the same has shown, in bytes; 0: not known
	moved bool   // the create has moved its disk, once that was seen to have ended well
}

// FirstSize is the size of the disk in a slot by the first look or the log of its task, in bytes; 0: not known.
func (m *Made) FirstSize(name string) int64 { return m.slots[name].size }

// show notes the size that a disk shows in its slot.
func (m *Made) show(name string, s seat) {
	f := m.facts[s.place]
	f.shown, f.grown = s.size, m.grown[name]
	m.facts[s.place] = f
}

// isIt reports whether a listed volume that is in no slot of the VM can be that of the fact.
func (f fact) isIt(v pve.Volume) bool {
	return f.fits(v) && (hasSize(v, f.shown) || f.grown != 0 && hasSize(v, f.grown))
}

// isOther reports whether a listed volume is another by now than that of the fact.
func (f fact) isOther(v pve.Volume, inSlot bool) bool {
	return f.proof == freed || !inSlot && !f.isIt(v)
}

// isUnread reports whether a disk in a slot may be another user's, since the log that tells could not be read.
func (m *Made) isUnread() bool { return m != nil && m.unread }

// Grows notes that the create is about to grow the disk in a slot, in bytes.
func (m *Made) Grows(name string, size int64) {
	m.grown[name] = size
	if was, seen := m.seen[name]; seen {
		m.show(name, was)
	}
}

// isResized reports whether a slot shows its disk with another size than before, and the create has not grown it: PVE
// gives a name that has come free to the next disk.
func (m *Made) isResized(name, value string) bool {
	was, seen := m.seen[name]
	size, grown := sizeIn(name, value), m.grown[name]
	return seen && was.volume == guest.VolumeOf(value) && !vm.FitsSize(size, was.size) &&
		(grown == 0 || !vm.FitsSize(size, grown))
}

// endReused ends the names of disks that another has by now: one in another slot, or of another size.
func (m *Made) endReused(node string, vmid int, config map[string]string) {
	for _, name := range vm.Slots(config) {
		volume := guest.VolumeOf(config[name])
		if !isDiskOf(vmid, config, name) {
			continue
		}
		for former, was := range m.seen {
			isIn := guest.VolumeOf(config[former]) == volume
			if was.place == (place{node, volume}) && !isIn || former == name && m.isResized(name, config[name]) {
				m.end(func(at place) bool { return at.volume == volume })
			}
		}
	}
}

// readMigration has the log of the last migration tell the names of the disks that the VM has brought along from
// another node, where they are not known there. A log that this identity may not see, or that is gone, tells nothing.
func (m *Made) readMigration(ctx context.Context, api pve.Reader, node string, vmid int,
	config map[string]string) error {
	if m == nil {
		return nil
	}
	for _, was := range m.seen {
		if was.node == node {
			continue
		}
		tasks, err := api.Tasks().List(ctx, was.node, pve.TaskFilter{VMID: vmid, Type: "qmigrate"})
		if err != nil {
			return fmt.Errorf("look how VM %d came to node %s: %w", vmid, node, err)
		}
		if len(tasks) == 0 {
			return nil
		}
		last := slices.MaxFunc(tasks, func(a, b pve.Task) int { return a.StartTime.Compare(b.StartTime) })
		log, err := api.Tasks().Log(ctx, last.UPID, makerLines)
		if err != nil && !pve.IsKind(err, pve.NotFound) && !pve.IsKind(err, pve.Denied) {
			return fmt.Errorf("look how VM %d came to node %s: %w", vmid, node, err)
		}
		m.follow(node, vmid, config, task.NamesOnTarget(log))
		return nil
	}
	return nil
}

// refuseWaiting refuses to destroy an uncommitted VM with a disk that waits for its next start and is not known to be
// its own. PVE destroys the waiting volumes too (qemu-server QemuServer.pm destroy_vm). Values wait where a guest has
// run, and has gone off by itself since (CLI/qm.pm cleanup). asked: it has read the configuration.
func refuseWaiting(ctx context.Context, r *removal, node string) (asked bool, err error) {
	ran := func(task pve.UPID) bool { return task.Type() == "qmstart" }
	if r.committed || r.InState == nil && !slices.ContainsFunc(r.Tasks.UPIDs, ran) {
		return false, nil
	}
	config, err := r.d.api.QEMU(node, r.VMID).Pending(ctx)
	if err != nil {
		return true, err
	}
	current, next := config.Current(), config.Merged()
	for _, volume := range unknownDisks(r, next) {
		if !guest.Uses(current, volume) {
			return true, final{fmt.Errorf("VM %d was not removed: the disk %s waits for its next start, and no task of its "+
				"create has made that. A destroy of the VM would destroy it. Look whose it is, and take it out first (in PVE's "+
				"interface: Hardware, Revert), then destroy again", r.VMID, volume)}
		}
	}
	return true, nil
}

// surviving are the disks of a VM that PVE does not destroy with it: a volume that carries another id, such as that of
// a proxmox_disk, and a device (qemu-server QemuServer.pm destroy_vm, $remove_owned_drive).
func surviving(vmid int, config map[string]string) []string {
	var stays []string
	own := guest.OwnVolumes(vmid, config)
	for _, slot := range vm.Slots(config) {
		volume := guest.VolumeOf(config[slot])
		if !vm.IsOptical(config[slot]) && !slices.Contains(own, volume) {
			stays = append(stays, fmt.Sprintf("%s (%s)", slot, volume))
		}
	}
	return stays
}

// are begins a sentence about disks.
func are(disks []string) string {
	if len(disks) == 1 {
		return "Its disk " + disks[0] + " is"
	}
	return "Its disks " + strings.Join(disks, ", ") + " are"
}

// unsaved refuses to destroy a VM whose saved memory may hold data that a surviving disk lacks. PVE destroys a VM that
// is suspended to disk (qemu-server QemuServer.pm destroy_vm, has_lock 'suspended'), and starts one whose lock alone
// was taken away from that memory (vm_start, $conf->{vmstate}).
func unsaved(d *destruction, config map[string]string) error {
	isSaved := config["vmstate"] != "" && (config["lock"] == suspended || config["lock"] == "")
	stays := surviving(d.r.Ref.VMID, config)
	if !isSaved || d.r.ForceStop || len(stays) == 0 {
		return nil
	}
	return &guest.FieldError{Path: "on_destroy.power_off", Summary: fmt.Sprintf("VM %d is suspended to disk",
		d.r.Ref.VMID),
		Detail: fmt.Sprintf("%s not destroyed with the VM, and data that the guest has not written there yet may be in its "+
			"saved memory alone. The VM was not removed. Start the guest and shut it down, then destroy again; or set "+
			"on_destroy.power_off = \"force\" and apply to have that memory destroyed, then destroy", are(stays))}
}

// changed refuses to destroy a VM that is off, and that was changed in a way that no plan has named. Once the VM went,
// it is the empty one that frees its volumes: the snapshots that went are kept, to be named.
func changed(ctx context.Context, d *destruction, r *removal, node string, now pve.PendingConfig) error {
	if err := unsaved(d, now.Current()); err != nil {
		return err
	}
	went := d.snapshots
	err := unforeseen(ctx, d, node, now, "The guest is off, and nothing else was touched")
	if r.deleted.config != nil {
		d.snapshots = went
	}
	return err
}

// snapped reads the snapshots of a VM, and refuses to destroy it with one that was taken since the plan, which has
// named the others: PVE destroys them with the VM. A destroy whose plan has not read them names them afterwards.
func snapped(ctx context.Context, d *destruction, node string, config pve.PendingConfig, touched string) error {
	vmid := d.r.Ref.VMID
	snapshots, err := d.d.use.Snapshots(ctx, pve.Resource{Type: "qemu", Node: node, VMID: vmid}, config)
	switch {
	case pve.IsKind(err, pve.NotFound): // it has moved, or is gone, which the next look tells
		return nil
	case err != nil:
		return fmt.Errorf("look for snapshots of VM %d (%s): %w", vmid, touched, err)
	}
	d.snapshots = snapshots
	if d.r.Foretold.Snapshots == nil {
		return nil
	}
	var since []string
	for _, name := range slices.Sorted(maps.Keys(snapshots)) {
		taken, was := d.r.Foretold.Snapshots[name]
		if !was || cmp.Or(snapshots[name]["snaptime"], "0") != fmt.Sprint(taken) {
			since = append(since, name)
		}
	}
	if len(since) == 0 {
		return nil
	}
	return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d has a snapshot that the plan does not name", vmid),
		Detail: fmt.Sprintf("Taken since the plan, or the plan could not look, since the provider's configuration was not "+
			"known yet: %s. A destroy of the VM would destroy them. %s. Plan again (`terraform plan`), and apply that plan to "+
			"destroy them with the VM; where that plan does not know the provider's configuration either, delete the "+
			"snapshots first", strings.Join(since, ", "), touched)}
}

// SnapshotsOf are the times at which the snapshots of a VM were taken, by name, wherever it is; none of one that is
// gone. The listing is of the run's beginning, and the refresh was earlier than the plan: the VM may have moved since
// either.
func (d *Destroyer) SnapshotsOf(ctx context.Context, ref guest.Ref) (map[string]int64, error) {
	node := ref.Node
	if listed, is, err := d.api.Listing().Guest(ctx, ref.VMID); is && err == nil {
		node = listed.Node
	}
	taken, err := d.takenAt(ctx, node, ref.VMID)
	if !pve.IsKind(err, pve.NotFound) {
		return taken, err
	}
	at, seen, err := d.guests.Find(ctx, ref, nil)
	if err != nil && seen == guest.Gone {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return d.takenAt(ctx, at.Node, ref.VMID)
}

// takenAt are the times at which the snapshots of a VM on a node were taken, by name.
func (d *Destroyer) takenAt(ctx context.Context, node string, vmid int) (map[string]int64, error) {
	snapshots, err := d.api.QEMU(node, vmid).Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[string]int64{}
	for _, s := range snapshots {
		taken[s.Name] = s.Taken
	}
	return taken, nil
}

// Settings names the firewall and the permissions of a VM's id that the configuration has not made. PVE removes them
// with the VM whatever it is told (qemu-server API2/Qemu.pm destroy_vm).
func (d *Destroyer) Settings(ctx context.Context, r Request) (lines []string) {
	vmid, node := r.Ref.VMID, r.Ref.Node
	if !r.OwnFirewall {
		lines = guest.FirewallFor(ctx, d.guests, node, vmid)
	}
	lines = append(lines, guest.FirewallRefsFor(ctx, d.guests, node, vmid)...)
	permissions := guest.RecentPermissionsFor
	if r.Pool != "" { // it lends its members permissions
		permissions = guest.GrantsFor
	}
	return append(lines, permissions(ctx, d.guests, vmid)...)
}

// learnSettings looks, while the guest shuts down, for the settings that the VM's successor begins without.
func (d *destruction) learnSettings(ctx context.Context) error {
	if d.r.Replaced {
		r := d.r
		r.Ref.Node, r.Pool = d.node, d.pool
		d.settings = d.d.Settings(ctx, r)
	}
	return nil
}
