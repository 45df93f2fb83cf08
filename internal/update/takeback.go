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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// takeBack reverts the options that PVE refused at hotplug: they stay pending on the server and would take effect at
// the next boot, long after the error. Options that were pending before the update stay so, or wait again. If PVE died
// in the middle of a request it has noted options as pending without trying them, and all of those are reverted. A
// volume that was made for a reverted drive is destroyed.
func (u *update) takeBack(ctx context.Context, c vm.Change, before pve.PendingConfig, cause error) error {
	if !fault.RefusedAtHotplug(cause) && !fault.DiedMidway(cause) {
		return cause
	}
	ctx, cancel := u.changer.jobs.Grace(ctx)
	defer cancel()
	now, err := u.view.Fresh(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	revert := toRevert(c, before, now, cause)
	revert = slices.DeleteFunc(revert, func(slot string) bool { return isTheirs(slot, c, now, cause) })
	if len(revert) == 0 {
		return cause
	}
	if err := u.revert(ctx, revert, now); err != nil {
		return errors.Join(cause, fmt.Errorf("take back the refused changes: %w", err))
	}
	cause = errors.Join(cause, lostDevices(u, revert, before, now, cause))
	waited := before.Waiting()
	dropped := slices.DeleteFunc(slices.Clone(revert), func(o string) bool { return !slices.Contains(waited, o) })
	cause = errors.Join(cause, disks{u}.waitAgain(ctx, dropped, before, nil, nil))
	made := madeFor(revert, c, before, now)
	boot := !sends(c, "boot") && !slices.Contains(before.Waiting(), "boot") &&
		slices.ContainsFunc(revert, func(slot string) bool {
			return vm.Decode(map[string]string{slot: now.Current()[slot]}).CDROMs != nil
		})
	if len(made) == 0 && !boot {
		return cause
	}
	return errors.Join(cause, u.removeMade(ctx, made, boot))
}

// lostDevices says which devices the guest may run without now. PVE takes a network device, a USB device or a disk out
// of a running guest, or the device's tap off its bridge, before it plugs it in with the new values, and puts nothing
// back where that fails (qemu-server QemuServer.pm vmconfig_update_net, qemu_usb_hotplug, vmconfig_update_disk). It
// takes a SCSI disk out before its controller, which a paused guest keeps; and QEMU remembers the request for a device
// that such a guest has not let go of yet (vm_deviceunplug, qemu_deletescsihw). A revert changes the configuration
// alone (API2/Qemu.pm update_vm_api).
func lostDevices(u *update, revert []string, before, now pve.PendingConfig, cause error) error {
	lost := slices.DeleteFunc(slices.Clone(revert), func(slot string) bool {
		return !leavesFirst(slot, before.Current(), now.Merged()[slot]) || !fault.Refuses(cause, slot)
	})
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("the guest may run without %s now, or let go of it later, and no later plan shows it: PVE takes a "+
		"device out before it plugs in the changed one, or before its controller, and only the configuration came back. A "+
		"restart gives the guest its devices back: `%s` as root on node %s", strings.Join(lost, " and "),
		shell.VM("qm reboot {vmid}", u.vmid), u.view.Node())
}

// leavesFirst reports whether PVE takes the device in a slot out of a running guest before it is done with the change:
// a drive leaves for nothing, and a disk for another volume. One of IDE or SATA, or in the boot order, does not leave
// (vm_deviceunplug).
func leavesFirst(slot string, current map[string]string, next string) bool {
	is := current[slot]
	if strings.HasPrefix(slot, "net") || strings.HasPrefix(slot, "usb") {
		return is != ""
	}
	isOther := next == "" || isDisk(is) && isDisk(next) && guest.VolumeOf(is) != guest.VolumeOf(next)
	return vm.IsBusSlot(slot) && is != "" && isOther && !vm.IsCold(slot) &&
		!slices.Contains(vm.BootOrder(current), slot)
}

// toRevert are the options of a change that are pending because PVE refused them, or never tried them. One that waited
// before is among them only if it waits to be removed now: PVE has dropped its value for that (pve-guest-common
// AbstractConfig.pm add_to_pending_delete).
func toRevert(c vm.Change, before, now pve.PendingConfig, cause error) []string {
	var revert []string
	midway, boot := fault.DiedMidway(cause), false
	for _, option := range now.Waiting() {
		isDropped := now.Merged()[option] == "" && before.Merged()[option] != ""
		switch {
		case slices.Contains(before.Waiting(), option) && !isDropped:
		case fault.Refuses(cause, option), midway && sends(c, option):
			revert = append(revert, option)
		case option == "boot" && !sends(c, "boot"):
			boot = true
		}
	}
	if boot && len(revert) > 0 {
		revert = append(revert, "boot") // PVE takes a drive that goes out of the boot order
	}
	return revert
}

// isTheirs reports whether another volume waits in a slot than PVE has made for the change: a third party has put
// theirs there since. The log of the task names the one that was made. Without it, it is on the storage that is asked
// for, and has the size that is (qemu-server API2/Qemu.pm create_disks).
func isTheirs(slot string, c vm.Change, now pve.PendingConfig, cause error) bool {
	asked, waits := vm.Decode(map[string]string{slot: c.Set[slot]}).Disks[slot], now.Merged()[slot]
	volume := guest.VolumeOf(waits)
	if asked.Storage == "" || asked.Volume != "" || !volid.Valid(volume) {
		return false
	}
	var refused *pve.TaskError
	if errors.As(cause, &refused) {
		if made := task.DisksMade(refused.Log)[slot]; made != "" {
			return volume != made
		}
	}
	is := vm.Decode(map[string]string{slot: waits}).Disks[slot]
	return volid.Storage(volume) != asked.Storage || !vm.FitsSize(is.Bytes(), asked.Bytes())
}

// madeFor are the volumes that PVE made for drives that are reverted.
func madeFor(revert []string, c vm.Change, before, now pve.PendingConfig) []string {
	var made []string
	for _, slot := range revert {
		volume := guest.VolumeOf(now.Merged()[slot])
		asked := vm.Change{Set: map[string]string{slot: c.Set[slot]}}
		if asked.Allocates() && volid.Valid(volume) && !guest.Uses(before.Current(), volume) &&
			!guest.Uses(before.Merged(), volume) {
			made = append(made, volume)
		}
	}
	return made
}

// removeMade removes the remains of a revert: the volumes that were made, which are detached by then, in a request
// bound to the digest; and a CD-ROM drive that PVE added to the boot order (qemu-server API2/Qemu.pm update_vm_api).
func (u *update) removeMade(ctx context.Context, made []string, boot bool) error {
	config, err := u.view.Fresh(ctx)
	if err != nil {
		return fmt.Errorf("see what taking back has left: %w", err)
	}
	var entries []string
	for _, volume := range made {
		if entry := unusedEntry(config.Current(), volume); entry != "" {
			entries = append(entries, entry)
		}
	}
	if len(entries) > 0 {
		if err := u.destroyMade(ctx, config, made, entries); err != nil {
			return fmt.Errorf("volume %s was made for it and is left, detached: %w", strings.Join(made, ", "), err)
		}
	}
	if boot && slices.Contains(config.Waiting(), "boot") {
		return u.view.Revert(ctx, []string{"boot"}, config)
	}
	return nil
}

// waitAgain sends what waited for a restart in slots once more, for the volumes that are in them by now. A slot that
// was to get another disk is left alone, and so is one that has another than its own, or than the one that arrived with
// its move. Where a third party has set another value meanwhile, that waits on in place of the old one. A move that is
// left at work has the lock, and changes the volume before it ends.
func (d disks) waitAgain(ctx context.Context, slots []string, before pve.PendingConfig, moves []vm.Move,
	arrived map[string]string) error {
	if len(slots) == 0 {
		return nil
	}
	ctx, cancel := d.changer.jobs.Grace(ctx)
	defer cancel()
	was, waited := before.Current(), before.Merged()
	taken := map[string]string{}   // values that a third party has set to wait meanwhile
	dropped := map[string]string{} // what slots have that theirs is not sent again for
	err := d.view.Edit(ctx, func(ctx context.Context, config pve.PendingConfig) (vm.Change, error) {
		is, waits, again := config.Current(), config.Merged(), vm.Change{Set: map[string]string{}}
		clear(taken)
		clear(dropped)
		to := arrived
		if to == nil {
			to = d.arrived(ctx, config, before, moves)
		}
		for _, slot := range slots {
			next := waited[slot]
			if waits[slot] != is[slot] && !vm.MeansSame(slot, waits[slot], withVolumeOf(next, is[slot])) {
				taken[slot], next = waits[slot], waits[slot]
			}
			volume := guest.VolumeOf(is[slot])
			isIt := isDisk(is[slot]) && (volume == guest.VolumeOf(was[slot]) || volume == to[slot])
			switch _, isTaken := taken[slot]; {
			case isIt && isDisk(next) && guest.VolumeOf(was[slot]) == guest.VolumeOf(next):
				again.Set[slot] = withVolumeOf(next, is[slot])
			case !isTaken && waits[slot] != next:
				dropped[slot] = is[slot]
			}
		}
		maps.DeleteFunc(again.Set, func(slot, next string) bool { return vm.MeansSame(slot, waits[slot], next) })
		return again, nil
	})
	for _, slot := range slices.Sorted(maps.Keys(taken)) {
		d.warn(fmt.Sprintf("The value of %s that waited for a restart of VM %d was dropped", slot, d.vmid),
			fmt.Sprintf("It was %s, and made way for the change of the disk. A third party has set another one "+
				"meanwhile, which waits now: %s. Set the old one again, if it is still wanted", waited[slot],
				cmp.Or(taken[slot], "the removal of the disk")))
	}
	for _, slot := range slices.Sorted(maps.Keys(dropped)) {
		d.warn(fmt.Sprintf("The value of %s that waited for a restart of VM %d was dropped", slot, d.vmid),
			fmt.Sprintf("It was %s, and made way for the change of the disk. It was not set again: the slot has %s now. Set it "+
				"again, if it is still wanted", cmp.Or(waited[slot], "the removal of the disk"), cmp.Or(dropped[slot], "no disk")))
	}
	if err != nil {
		return fmt.Errorf("send what waited for a restart of VM %d once more, which was dropped for the change of a disk "+
			"(%s): %w", d.vmid, valuesOf(slots, waited), err)
	}
	return nil
}

// valuesOf is what slots have, for a message.
func valuesOf(slots []string, values map[string]string) string {
	var all []string
	for _, slot := range slots {
		all = append(all, slot+": "+values[slot])
	}
	return strings.Join(all, "; ")
}

// withVolumeOf is a drive with its own options and the volume of another, with its size.
func withVolumeOf(drive, other string) string {
	isSize := func(part string) bool { return strings.HasPrefix(part, "size=") }
	parts, its := strings.Split(drive, ","), strings.Split(other, ",")
	parts = slices.DeleteFunc(slices.Concat(its[:1], parts[1:]), isSize)
	if at := slices.IndexFunc(its, isSize); at > 0 {
		parts = append(parts, its[at])
	}
	return strings.Join(parts, ",")
}
