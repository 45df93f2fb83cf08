package change

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// emptySlots empties the slots that must be empty before the rest of a change is sent: those whose disks go to other slots of
// a running guest, which are returned, and that of a cloud-init drive which changes its slot. What a running guest does not
// let go of would leave at its next stop, long after the error that follows here: it is taken back.
func (u *update) emptySlots(ctx context.Context, t todo) (_ todo, unplugged map[string]string, err error) {
	config, err := u.view.Fresh(ctx)
	if err != nil {
		return t, nil, err
	}
	t.change = keepCloudInitDrive(t.change, config.Current())
	slots, err := u.unpluggable(ctx, t, config.Current())
	if err == nil && len(slots) > 0 {
		t, unplugged, err = u.unplug(ctx, t, slots)
	}
	if first := t.change.DeleteFirst; err == nil && len(first) > 0 {
		t.change.DeleteFirst = nil
		err = u.emptyFirst(ctx, t.change, first)
	}
	return t, unplugged, err
}

// emptyFirst empties slots in a request of its own.
func (u *update) emptyFirst(ctx context.Context, c vm.Change, slots []string) error {
	before, err := u.view.Fresh(ctx)
	if err != nil {
		return err
	}
	if err := u.apply(ctx, vm.Change{DeleteFirst: slots}, before); err != nil {
		c.DeleteFirst = slots
		return u.takeBack(ctx, c, before, err)
	}
	now, err := u.view.Fresh(ctx)
	if err != nil {
		return err
	}
	waits := slices.IndexFunc(slots, func(slot string) bool { return slices.Contains(now.Waiting(), slot) })
	if waits < 0 {
		return nil
	}
	refusal := u.secondCloudInitDrive(slots[waits])
	late := slices.DeleteFunc(now.Waiting(), func(option string) bool { return slices.Contains(before.Waiting(), option) })
	grace, cancel := u.s.jobs.Grace(ctx)
	defer cancel()
	if err := u.view.Revert(grace, late); err != nil {
		refusal.Detail += ". The change could not be taken back either and happens at the next stop"
		refusal.Err = err
	}
	return refusal
}

// unpluggable are the slots of a running guest whose disks go to other slots at once. No volume is ever in two slots of a
// running guest, so there the old ones are emptied first, by hotplug; a stopped guest takes all in one request. What cannot
// work is refused before anything is sent.
func (u *update) unpluggable(ctx context.Context, t todo, current map[string]string) ([]string, error) {
	targets, err := u.movesBetweenSlots(t, current)
	if err != nil || len(targets) == 0 {
		return nil, err
	}
	status, err := u.view.Status(ctx)
	if err != nil || !status.IsRunning() {
		return nil, err
	}
	hotplug, order := vm.Decode(current).Hotplug, vm.BootOrder(current)
	var slots []string
	for _, old := range slices.Sorted(maps.Keys(targets)) {
		slot := targets[old]
		switch gives := vm.TakesDisk(old, hotplug); {
		case !gives && !vm.TakesDisk(slot, hotplug): // both wait for the restart
			continue
		case !gives:
			return nil, u.cannotAttach(slot, fmt.Sprintf("it is in %s, which PVE empties at the next stop only, while %s takes it at "+
				"once. Stop the VM first", old, slot))
		case slices.Contains(order, old): // qemu-server QemuServer/Drive.pm get_bootdisks
			return nil, u.cannotAttach(slot, fmt.Sprintf("it is in %s, which is in the boot order, and PVE unplugs no such disk while "+
				"the VM runs. Stop the VM first", old))
		}
		slots = append(slots, old)
	}
	return slots, nil
}

// movesBetweenSlots are the slots whose volume is to be in another one, with that one.
func (u *update) movesBetweenSlots(t todo, current map[string]string) (map[string]string, error) {
	targets, attached := map[string]string{}, t.attached()
	for _, slot := range slices.Sorted(maps.Keys(attached)) {
		for _, old := range vm.Slots(current) {
			if old == slot || guest.VolumeOf(current[old]) != attached[slot] {
				continue
			}
			next, stays := t.change.Set[old]
			if leaves := slices.Contains(t.change.Delete, old) || stays && guest.VolumeOf(next) != attached[slot]; !leaves {
				return nil, u.cannotAttach(slot, fmt.Sprintf("it is in %s, which this change leaves as it is", old))
			}
			targets[old] = slot
		}
	}
	return targets, nil
}

func (u *update) cannotAttach(slot, why string) error {
	return &guest.FieldError{Path: "disks." + slot + ".imported_disk.volume",
		Summary: fmt.Sprintf("The volume cannot come into %s of VM %d", slot, u.vmid),
		Detail:  "Nothing was changed: " + why}
}

// unplug empties slots of a running guest by hotplug. It returns what was in them.
func (u *update) unplug(ctx context.Context, t todo, slots []string) (_ todo, unplugged map[string]string, err error) {
	before, err := u.view.Fresh(ctx)
	if err != nil {
		return t, nil, err
	}
	unplugged = map[string]string{}
	for _, slot := range slots {
		unplugged[slot] = before.Current()[slot]
	}
	first := vm.Change{DeleteFirst: slots}
	if err := u.view.Apply(ctx, first, before); err != nil {
		return t, unplugged, u.takeBack(ctx, first, before, err)
	}
	t.change.Delete = slices.DeleteFunc(slices.Clone(t.change.Delete), func(option string) bool { return slices.Contains(slots, option) })
	return t, unplugged, nil
}

// putBack puts the disks that were unplugged to change their slots back where they were, after a failure.
func (u *update) putBack(ctx context.Context, unplugged map[string]string, cause error) error {
	if len(unplugged) == 0 {
		return cause
	}
	ctx, cancel := u.s.jobs.Grace(ctx)
	defer cancel()
	config, err := u.view.Fresh(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	held, back := guest.HoldingsOf(config), pve.Params{}
	for slot, value := range unplugged {
		if held.Slots[slot] == "" && held.SlotOf(guest.VolumeOf(value)) == "" {
			back[slot] = value
		}
	}
	if len(back) == 0 {
		return cause
	}
	if err := u.view.Set(ctx, back); err != nil {
		return errors.Join(cause, fmt.Errorf("put %s back where they were: %w", strings.Join(slices.Sorted(maps.Keys(back)), ", "), err))
	}
	return cause
}
