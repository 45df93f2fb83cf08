package update

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// unplugged are slots whose disks were taken out of a running guest to go to other slots, and the configuration before
// that.
type unplugged struct {
	slots  []string
	before pve.PendingConfig
}

// emptySlots empties the slots that must be empty before the rest of a change is sent. They are those of disks that
// move to other slots of a running guest, which it returns, and that of a cloud-init drive that changes its slot. A
// removal that a running guest does not obey would take effect at its next stop, long after the error that follows
// here, so it is taken back.
func (s slots) emptySlots(ctx context.Context, t todo) (_ todo, out unplugged, err error) {
	config, err := s.view.Fresh(ctx)
	if err != nil {
		return t, unplugged{}, err
	}
	if t, err = (volumes(s)).dropWaiting(ctx, t, config); err != nil {
		return t, unplugged{}, err
	}
	if len(t.dropped) > 0 {
		config = t.read
	}
	t.change = keepCloudInitDrive(t.change, config.Current())
	if t, err = s.unprotect(ctx, t, config); err != nil {
		return t, unplugged{}, err
	}
	slots, err := s.unpluggable(ctx, t, config.Current())
	if err == nil && len(slots) > 0 {
		t, out, err = s.unplug(ctx, t, slots)
	}
	if first := t.change.DeleteFirst; err == nil && len(first) > 0 {
		t.change.DeleteFirst, t.emptied = nil, append(t.emptied, first...)
		err = s.emptyFirst(ctx, t.change, first)
	}
	return t, out, err
}

// unprotect ends the protection before a drive leaves, where both are planned: PVE looks at the protection that the VM
// has, also where the same request changes it (qemu-server API2/Qemu.pm update_vm_api).
func (s slots) unprotect(ctx context.Context, t todo, config pve.PendingConfig) (todo, error) {
	const option = "protection"
	c := t.change
	leaves := slices.ContainsFunc(slices.Concat(c.Delete, c.DeleteFirst), vm.IsSlot)
	if !leaves || config.Current()[option] != "1" || !sends(c, option) || c.Set[option] == "1" {
		return t, nil
	}
	t.change.Set = maps.Clone(c.Set)
	delete(t.change.Set, option)
	t.change.Delete = slices.DeleteFunc(slices.Clone(c.Delete), func(other string) bool { return other == option })
	t.emptied = append(t.emptied, option)
	return t, s.emptyFirst(ctx, t.change, []string{option})
}

// emptyFirst empties slots, and resets other options, in a request of its own.
func (s slots) emptyFirst(ctx context.Context, c vm.Change, slots []string) error {
	before, err := s.view.Fresh(ctx)
	if err != nil {
		return err
	}
	if err := s.apply(ctx, vm.Change{DeleteFirst: slots}, before, nil); err != nil {
		c.DeleteFirst = slots
		return s.takeBack(ctx, c, before, err)
	}
	now, err := s.view.Fresh(ctx)
	if err != nil {
		return err
	}
	waits := slices.IndexFunc(slots, func(slot string) bool {
		return vm.IsSlot(slot) && slices.Contains(now.Waiting(), slot)
	})
	if waits < 0 {
		return nil
	}
	refusal := s.secondCloudInitDrive(slots[waits])
	late := slices.DeleteFunc(now.Waiting(), func(option string) bool { return slices.Contains(before.Waiting(), option) })
	grace, cancel := s.changer.jobs.Grace(ctx)
	defer cancel()
	if err := s.revert(grace, late, now); err != nil {
		refusal.Detail += ". The change could not be taken back either and happens at the next stop"
		refusal.Err = err
	}
	return refusal
}

// unpluggable are the slots of a running guest whose disks go to other slots at once. No volume may be in two slots of
// a running guest, so the old slots are emptied first, by hotplug. A stopped guest takes everything in one request.
// Moves that cannot work are refused before anything is sent.
func (s slots) unpluggable(ctx context.Context, t todo, current map[string]string) ([]string, error) {
	targets, err := s.movesBetweenSlots(t, current)
	if err == nil {
		err = s.mayAttach(ctx, targets, current)
	}
	if err != nil || len(targets) == 0 {
		return nil, err
	}
	status, err := s.view.Status(ctx)
	if err != nil || !status.IsRunning() {
		return nil, err
	}
	hotplug, order := vm.Decode(current).Hotplug, vm.BootOrder(current)
	var slots []string
	for _, old := range slices.Sorted(maps.Keys(targets)) {
		slot := targets[old]
		switch gives, takes := vm.TakesDisk(old, hotplug), vm.TakesDisk(slot, hotplug); {
		case !gives && !takes: // both wait for the restart
			continue
		case !takes: // a restart may not come, or not be obeyed
			return nil, s.cannotAttach(slot, fmt.Sprintf("it is in %s, which PVE empties at once, while %s takes it at the "+
				"next start only. The guest would run without it. Stop the VM first", old, slot))
		case !gives:
			return nil, s.cannotAttach(slot, fmt.Sprintf("it is in %s, which PVE empties at the next stop only, while %s "+
				"takes it at once. Stop the VM first", old, slot))
		case slices.Contains(order, old): // qemu-server QemuServer/Drive.pm get_bootdisks
			return nil, s.cannotAttach(slot, fmt.Sprintf("it is in %s, which is in the boot order, and PVE unplugs no such "+
				"disk while the VM runs. Stop the VM first", old))
		}
		slots = append(slots, old)
	}
	return slots, nil
}

// checkCold refuses another disk for a slot of IDE or SATA in which a running guest has one. Where its hotplug setting
// has disks, PVE tries to unplug that one, which it cannot, and has the new one wait with an error. Without the setting
// it waits for the restart (qemu-server QemuServer.pm vmconfig_update_disk, vm_deviceunplug).
func (s slots) checkCold(ctx context.Context, t todo) error {
	if s.r.PowerState == guest.Stopped || !vm.TakesDisk("scsi0", vm.Decode(t.read.Current()).Hotplug) {
		return nil
	}
	for _, slot := range slices.Sorted(maps.Keys(t.change.Set)) {
		was, next := t.read.Current()[slot], t.change.Set[slot]
		if !vm.IsBusSlot(slot) || !vm.IsCold(slot) || !isDisk(was) || !isDisk(next) ||
			volid.Same(guest.VolumeOf(was), guest.VolumeOf(next)) {
			continue
		}
		status, err := s.view.Status(ctx)
		if err != nil || !status.IsRunning() {
			return err
		}
		return &guest.FieldError{Path: slotAttribute(slot), Summary: fmt.Sprintf("%s of VM %d cannot get another disk while "+
			"it runs", slot, s.vmid), Detail: fmt.Sprintf("%s is in it, and PVE takes no disk out of IDE or SATA while the VM "+
			"runs. Nothing else of the plan was done. Stop the VM first, with power_state = \"stopped\", or choose another slot",
			guest.VolumeOf(was))}
	}
	return nil
}

// movesBetweenSlots maps the slots whose volume is to be in another slot to that slot.
func (s slots) movesBetweenSlots(t todo, current map[string]string) (map[string]string, error) {
	targets, attached := map[string]string{}, t.attached()
	for _, slot := range slices.Sorted(maps.Keys(attached)) {
		for _, old := range vm.Slots(current) {
			if old == slot || guest.VolumeOf(current[old]) != attached[slot] {
				continue
			}
			next, stays := t.change.Set[old]
			if leaves := slices.Contains(t.change.Delete, old) || stays && guest.VolumeOf(next) != attached[slot]; !leaves {
				return nil, s.cannotAttach(slot, fmt.Sprintf("it is in %s, which this change leaves as it is", old))
			}
			targets[old] = slot
		}
	}
	return targets, nil
}

// mayAttach refuses to change the slot of a disk for an identity that could attach it neither to the new slot nor to
// the old one again. PVE takes the path of a device from root@pam with a password only, and another VM's disk by
// privileges (qemu-server API2/Qemu.pm $check_storage_access, pve-storage Storage.pm check_volume_access).
func (s slots) mayAttach(ctx context.Context, targets, current map[string]string) error {
	who := s.changer.api.Identity()
	if who.IsRootTicket() {
		return nil
	}
	for _, old := range slices.Sorted(maps.Keys(targets)) {
		volume := guest.VolumeOf(current[old])
		if volid.IsDevice(volume) {
			return s.cannotAttach(targets[old], fmt.Sprintf("it is device %s of the node in %s, where it stays. PVE lets only "+
				"root@pam with a password attach that; the provider acts as %s. Give the provider username = \"root@pam\" and a "+
				"password, or leave it in its slot", volume, old, who.User))
		}
		owner, owned := volid.Owner(volume)
		if !owned || owner == s.vmid {
			continue
		}
		may, err := s.mayUse(ctx, volume, owner)
		if err != nil {
			return fmt.Errorf("look up whether %s may attach %s: %w", who.User, volume, err)
		}
		if !may {
			return s.cannotAttach(targets[old], fmt.Sprintf("it is %s of VM %d in %s, where it stays. PVE attaches that with "+
				"Datastore.Audit on /storage/%s and VM.Config.Disk on /vms/%d, which %s does not have. Grant these, or leave it "+
				"in its slot", volume, owner, old, volid.Storage(volume), owner, who.User))
		}
	}
	return nil
}

// mayUse reports whether this identity may attach another VM's disk.
func (s slots) mayUse(ctx context.Context, volume string, owner int) (bool, error) {
	access := s.changer.api.Access()
	at, err := access.Privileges(ctx, "/storage/"+volid.Storage(volume))
	if err != nil || at["Datastore.Allocate"] || !at["Datastore.Audit"] {
		return at["Datastore.Allocate"], err
	}
	on, err := access.Privileges(ctx, fmt.Sprintf("/vms/%d", owner))
	return on["VM.Config.Disk"], err
}

func (s slots) cannotAttach(slot, why string) error {
	return &guest.FieldError{Path: "disks." + slot + ".imported_disk.volume",
		Summary: fmt.Sprintf("The volume cannot come into %s of VM %d", slot, s.vmid),
		Detail:  "It was not attached: " + why}
}

// unplug empties slots of a running guest by hotplug.
func (s slots) unplug(ctx context.Context, t todo, slots []string) (todo, unplugged, error) {
	before, err := s.view.Fresh(ctx)
	if err != nil {
		return t, unplugged{}, err
	}
	out, first := unplugged{slots, before}, vm.Change{DeleteFirst: slots}
	if err := s.apply(ctx, first, before, nil); err != nil {
		return t, out, s.takeBack(ctx, first, before, err)
	}
	t.emptied = append(t.emptied, slots...)
	t.change.Delete = slices.DeleteFunc(slices.Clone(t.change.Delete),
		func(option string) bool { return slices.Contains(slots, option) })
	return t, out, nil
}

// putBack puts the disks that were unplugged to change their slots back to their old slots, after a failure. It looks
// for other users: one that another guest is seen to have stays detached. A look that fails shows none, and the VM had
// the disk all along. A value that waited there for a restart waits again: PVE drops it with the removal
// (pve-guest-common AbstractConfig.pm add_to_pending_delete).
func (s slots) putBack(ctx context.Context, out unplugged, cause error) error {
	ctx, cancel := s.changer.jobs.Grace(ctx)
	defer cancel()
	was := out.before.Current()
	for _, slot := range out.slots {
		d := removedDisk{volume: guest.VolumeOf(was[slot]), drive: was[slot]}
		isSeen := false
		entry, err := s.reattach(ctx, slot, d, func(ctx context.Context, ownUse error) error {
			used := s.isFree(ctx, d.volume)
			isSeen = used == nil
			return cmp.Or(seenUse(ownUse), seenUse(used))
		})
		if err == nil {
			continue
		}
		kind, stays := "Volume", "It may be detached"
		if entry != "" {
			stays = "It stays detached, as " + entry
		}
		if volid.IsDevice(d.volume) {
			kind = "Device"
		}
		if vm.IsForeign(s.vmid, d.volume) {
			stays = s.staysOut(slot, d.drive, isSeen, err)
		}
		cause = errors.Join(cause, &guest.FieldError{Path: "disks",
			Summary: fmt.Sprintf("%s %s of VM %d was not put back into %s", kind, d.volume, s.vmid, slot),
			Detail: stays + ". It was taken out to change its slot, and another step of the change failed. If another guest " +
				"has got it meanwhile, detach it there; then apply again", Err: err})
	}
	waiting := slices.DeleteFunc(out.before.Waiting(), func(o string) bool { return !slices.Contains(out.slots, o) })
	return errors.Join(cause, disks(s).waitAgain(ctx, waiting, out.before, nil, nil))
}

// seenUse is the error of a look that has seen who uses a volume; nil: it has seen none, or failed.
func seenUse(err error) error {
	var own *guard.OwnUseError
	var used *guard.InUseError
	var taken *volumeuse.BorrowedError
	if errors.As(err, &own) || errors.As(err, &used) || errors.As(err, &taken) {
		return err
	}
	return nil
}

// staysOut says where a device, or another VM's disk, is that did not return to its slot: in no unusedN either
// (qemu-server QemuServer.pm vmconfig_register_unused_drive). It prints no command that would throw another disk out,
// or give the device to two guests: isFree says that no other guest was seen to have it.
func (s slots) staysOut(slot, drive string, isFree bool, err error) string {
	var own *guard.OwnUseError
	switch {
	case errors.Is(err, errFilled):
		return fmt.Sprintf("It is in no slot, and %s has another disk by now", slot)
	case errors.As(err, &own):
		return fmt.Sprintf("The VM has it in %s, under another name", own.Other)
	case seenUse(err) != nil:
		return "It is in no slot, and another guest has it by now"
	case !isFree:
		return "It may be in no slot, and whether another guest has it by now could not be seen"
	}
	return fmt.Sprintf("It may be in no slot. Then %s on node %s attaches it",
		shell.Or(shell.VM("qm set {vmid} --{} {}", s.vmid, slot, drive), "`qm set`"), s.view.Node())
}
