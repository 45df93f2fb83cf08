package update

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// shaped is the result of moving disks.
type shaped struct {
	redrawn     bool              // the cloud-init drive is another one now, and empty
	moved       map[string]string // volumes that disks have moved from, by slot
	late        []vm.Move         // moves that wait for the restart
	lateVolumes map[string]string // volumes that are to move or grow then, by slot
}

// movesNow splits the moves: a disk of a running guest whose aio changes moves after the restart that puts the new aio
// in force. PVE moves no running disk with io_uring to storages where that hangs (qemu-server QemuServer.pm
// clone_disk_check_io_uring). So does one that waits for the restart: PVE moves the disk that is in the slot until then
// (API2/Qemu.pm move_vm_disk).
func (d disks) movesNow(ctx context.Context, t todo, config pve.PendingConfig) (now, late []vm.Move, err error) {
	current, merged := config.Current(), config.Merged()
	waits := func(m vm.Move) bool {
		return isDisk(merged[m.Slot]) && guest.VolumeOf(current[m.Slot]) != guest.VolumeOf(merged[m.Slot])
	}
	changes := func(m vm.Move) bool {
		disk, written := vm.Decode(t.change.Set).Disks[m.Slot]
		return written && aioOf(disk) != aioOf(vm.Decode(current).Disks[m.Slot])
	}
	waiting := slices.IndexFunc(t.change.Moves, waits)
	if waiting < 0 && !slices.ContainsFunc(t.change.Moves, changes) {
		return t.change.Moves, nil, nil
	}
	restarts := d.r.mayRestart() && d.r.PowerState != guest.Stopped && !d.r.HA.Stops()
	if restarts {
		status, err := d.view.Status(ctx)
		if err != nil {
			return nil, nil, err
		}
		restarts = status.IsRunning()
	}
	if !restarts && waiting >= 0 {
		return nil, nil, d.notYet(t.change.Moves[waiting].Slot, "storage", "moved")
	}
	for _, m := range t.change.Moves {
		if restarts && (waits(m) || changes(m)) {
			late = append(late, m)
		} else {
			now = append(now, m)
		}
	}
	return now, late, nil
}

// notYet is the error for a disk that a guest does not have yet.
func (d disks) notYet(slot, attribute, verb string) error {
	at := slotAttribute(slot, d.r.Planned)
	if strings.HasPrefix(at, "disks.") {
		at += "." + attribute
	}
	return &guest.FieldError{Path: at, Summary: fmt.Sprintf("%s of VM %d cannot be %s yet", slot, d.vmid, verb),
		Detail: fmt.Sprintf("The disk is attached at the next stop and start of the VM, and PVE does that with a disk only "+
			"when it is attached. It was not touched. Stop and start VM %d, and apply again", d.vmid)}
}

func aioOf(d vm.Disk) string {
	if d.AIO == nil {
		return ""
	}
	return *d.AIO
}

// shapeDisks moves and grows existing disks that stay in their slots, before their options change.
func (d disks) shapeDisks(ctx context.Context, t todo) (_ todo, done shaped, err error) {
	config, err := d.view.Fresh(ctx)
	if err != nil {
		return t, shaped{}, err
	}
	var shape vm.Change
	if shape.Moves, done.late, err = d.movesNow(ctx, t, config); err != nil {
		return t, done, err
	}
	done.lateVolumes = movedFrom(config.Merged(), done.late)
	shape.Grow, _ = growable(config, t.growsInPlace())
	slots := slotsOf(shape)
	if len(slots) == 0 {
		return t, done, nil
	}
	done.moved, err = d.reshape(ctx, config, shape)
	done.redrawn = done.moved != nil && slots[t.base.CloudInit.Slot]
	if err != nil {
		return t, done, err
	}
	if t, err = recompare(ctx, d.update, t, func(slot string) bool { return slots[slot] }); err == nil {
		err = d.checkMoved(t, slotsOf(vm.Change{Moves: shape.Moves}))
	}
	return t, done, err
}

// reshape moves and grows disks in their slots. A move writes the active configuration only. An option of the disk that
// waits for a restart stands in a pending line with the old volume, which the next boot would restore (qemu-server
// API2/Qemu.pm move_vm_disk). So pending values of these slots are dropped first, and sent again afterwards, a third
// party's too. It returns the volumes that disks have moved from, nil if it has not begun.
func (d disks) reshape(ctx context.Context, config pve.PendingConfig, shape vm.Change) (moved map[string]string,
	err error) {
	slots := slotsOf(shape)
	waiting := slices.DeleteFunc(config.Waiting(), func(option string) bool { return !slots[option] })
	if len(waiting) > 0 {
		if err := d.revert(ctx, waiting, config); err != nil {
			return nil, fmt.Errorf("drop what waits for a restart before a disk changes (%s): %w",
				valuesOf(waiting, config.Merged()), err)
		}
	}
	moved = movedFrom(config.Current(), shape.Moves)
	arrived, err := d.moveDisks(ctx, shape.Moves, moved)
	if err == nil && len(shape.Grow) > 0 {
		err = d.view.Grow(ctx, shape.Grow)
	}
	if err == nil {
		err = d.noteSizes(ctx, config, shape.Grow)
	}
	if err := errors.Join(err, d.waitAgain(ctx, waiting, config, shape.Moves, arrived)); err != nil {
		return moved, err
	}
	return moved, d.stillShaped(ctx, config, shape, arrived)
}

// stillShaped refuses to go on with slots that have got another disk since theirs was moved or grown, or get one at the
// next start.
func (d disks) stillShaped(ctx context.Context, before pve.PendingConfig, shape vm.Change,
	arrived map[string]string) error {
	config, err := d.view.Fresh(ctx)
	if err != nil {
		return err
	}
	moved := slotsOf(vm.Change{Moves: shape.Moves})
	for _, slot := range slices.Sorted(maps.Keys(slotsOf(shape))) {
		was, is := guest.VolumeOf(before.Current()[slot]), guest.VolumeOf(config.Merged()[slot])
		if moved[slot] { // a slot without a disk is judged later (checkMoved)
			was = cmp.Or(arrived[slot], guest.VolumeOf(config.Current()[slot]))
		}
		if is != was {
			return &guest.FieldError{Path: slotAttribute(slot, d.r.Planned),
				Summary: fmt.Sprintf("%s of VM %d has another disk than the one that was moved or grown", slot, d.vmid),
				Detail: fmt.Sprintf("That was %s, and a third party has put %q into the slot since, or for the next start. It "+
					"was not touched, and the rest of the plan was not done. Make a new plan, which shows what is there", was, is)}
		}
	}
	return nil
}

// checkMoved refuses to move a drive a second time because it did not get the planned format. A storage may not support
// that format; PVE then silently takes the storage's own (pve-storage Storage.pm resolve_format_hint), and refuses
// another move.
func (d disks) checkMoved(t todo, moved map[string]bool) error {
	for _, m := range t.change.Moves {
		if !moved[m.Slot] {
			continue
		}
		if m.Format == "" {
			return &guest.FieldError{Path: slotAttribute(m.Slot, t.planned),
				Summary: fmt.Sprintf("%s of VM %d is not on storage %s", m.Slot, d.vmid, m.Storage),
				Detail: "PVE has moved it there, and a third party has changed the slot since; the rest of the plan was not " +
					"done. Make a new plan, which shows what is there"}
		}
		return &guest.FieldError{Path: formatPath(t.planned, m.Slot),
			Summary: fmt.Sprintf("%s of VM %d has no format %s on storage %s", m.Slot, d.vmid, m.Format, m.Storage),
			Detail: "PVE has moved it there, in the format that the storage has. Leave format out, or take another storage; " +
				"the rest of the plan was not done"}
	}
	return nil
}

// formatPath is the attribute of a drive's format.
func formatPath(planned vm.Spec, slot string) string {
	switch {
	case slot == "efidisk0":
		return "efi_disk.format"
	case slot == planned.CloudInit.Slot:
		return "cloud_init.format"
	}
	return "disks." + slot + ".format"
}

// growsInPlace are the disks to grow that keep their volume and their slot.
func (t todo) growsInPlace() []vm.Growth {
	attached := t.attached()
	return slices.DeleteFunc(slices.Clone(t.change.Grow), func(g vm.Growth) bool {
		return !hasDisk(t.base.Disks, g.Slot) || attached[g.Slot] != ""
	})
}

func slotsOf(c vm.Change) map[string]bool {
	slots := map[string]bool{}
	for _, m := range c.Moves {
		slots[m.Slot] = true
	}
	for _, g := range c.Grow {
		slots[g.Slot] = true
	}
	return slots
}

// growable splits the disks that are to grow by whether the guest has them already. PVE grows attached disks only;
// those that wait for the guest's stop come later (qemu-server API2/Qemu.pm resize_vm).
func growable(config pve.PendingConfig, grow []vm.Growth) (now, later []vm.Growth) {
	if len(grow) == 0 {
		return nil, nil
	}
	current, merged := vm.Decode(config.Current()), vm.Decode(config.Merged())
	for _, g := range grow {
		if is, there := current.Disks[g.Slot]; there && is.Volume == merged.Disks[g.Slot].Volume {
			now = append(now, g)
		} else {
			later = append(later, g)
		}
	}
	return now, later
}

// growNewDisks grows the disks that were just made, since an import takes no size, and those that were attached. It
// returns those that the guest does not have yet, and their volumes.
func (d disks) growNewDisks(ctx context.Context, t todo, attached map[string]string) (late []vm.Growth,
	lateVolumes map[string]string, err error) {
	grow := t.change.Grow
	if len(grow)+len(attached) == 0 {
		return nil, nil, nil
	}
	config, err := d.view.Fresh(ctx)
	if err != nil {
		return nil, nil, err
	}
	more, err := d.attachedGrowth(vm.Decode(config.Merged()), t, attached)
	if err != nil {
		return nil, nil, err
	}
	now, late := growable(config, slices.Concat(grow, more))
	lateVolumes = map[string]string{}
	for _, g := range late {
		lateVolumes[g.Slot] = guest.VolumeOf(config.Merged()[g.Slot])
	}
	if len(now) == 0 {
		return late, lateVolumes, nil
	}
	return late, lateVolumes, d.view.Grow(ctx, now)
}

// attachedGrowth compares attached volumes with the planned sizes. PVE tells the size of a detached volume only once it
// is in a slot.
func (d disks) attachedGrowth(server vm.Spec, t todo, attached map[string]string) (grow []vm.Growth, err error) {
	for _, slot := range slices.Sorted(maps.Keys(attached)) {
		want, is := t.planned.Disks[slot].Size, server.Disks[slot].Size
		switch {
		case want == nil || is == nil || *want == *is:
		case *want < *is:
			return nil, &guest.FieldError{Path: "disks." + slot + ".size",
				Summary: fmt.Sprintf("Volume %s of VM %d is larger", attached[slot], d.vmid),
				Detail: fmt.Sprintf("It is in %s now, has %[2]s, and cannot be shrunk to %s. Write size = %[2]q, then apply", slot,
					property.FormatSize(*is), property.FormatSize(*want))}
		case !slices.ContainsFunc(t.change.Grow, func(g vm.Growth) bool { return g.Slot == slot }):
			grow = append(grow, vm.Growth{Slot: slot, Size: *want})
		}
	}
	return grow, nil
}

// shapeLateDisks moves and grows the disks that had to wait for the restart, whose turn may have come hours later.
// before has the volume of each slot as it was then.
func (d disks) shapeLateDisks(ctx context.Context, moves []vm.Move, grow []vm.Growth,
	before map[string]string) (moved map[string]string, err error) {
	if len(moves)+len(grow) == 0 {
		return nil, nil
	}
	config, err := d.view.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	for _, slot := range slices.Sorted(maps.Keys(before)) {
		if is := guest.VolumeOf(config.Merged()[slot]); is != before[slot] {
			return nil, &guest.FieldError{Path: slotAttribute(slot, d.r.Planned),
				Summary: fmt.Sprintf("%s of VM %d has another disk than before its restart", slot, d.vmid),
				Detail: fmt.Sprintf("%s was to be moved or grown after it, and a third party has put %q into the slot since. It "+
					"was not touched. Make a new plan, which shows what is there", before[slot], is)}
		}
	}
	now, later := growable(config, grow)
	if len(later) > 0 {
		return nil, d.notYet(later[0].Slot, "size", "grown")
	}
	for _, m := range moves {
		if guest.VolumeOf(config.Current()[m.Slot]) != before[m.Slot] {
			return nil, d.notYet(m.Slot, "storage", "moved")
		}
	}
	return d.reshape(ctx, config, vm.Change{Moves: moves, Grow: now})
}

// checkGrowth refuses to import and grow a disk in a slot that a running guest has not let go of, if the policy allows
// no restart.
func (d disks) checkGrowth(config pve.PendingConfig, t todo) error {
	_, later := growable(config, t.change.Grow)
	for _, g := range later {
		if d.r.Restart == RestartNever && slices.Contains(config.Waiting(), g.Slot) {
			if guest.VolumeOf(config.Current()[g.Slot]) == "" { // the disk itself waits for its place
				return d.notYet(g.Slot, "size", "grown")
			}
			return &guest.FieldError{Path: "disks." + g.Slot, Summary: fmt.Sprintf("VM %d still has another disk in %s", d.vmid,
				g.Slot),
				Detail: "Its removal waits for the next stop of the running VM, and a disk that is imported in its place can be " +
					"grown only then. Stop the VM, then apply"}
		}
	}
	return nil
}
