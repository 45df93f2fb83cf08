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

// attached are the disks of a change that get a volume which is there already, by slot.
func (u *update) attached() map[string]string {
	all := map[string]string{}
	for slot, disk := range vm.Decode(u.change.Set).Disks {
		if disk.Volume != "" && disk.Volume != u.prior.Disks[slot].Volume {
			all[slot] = disk.Volume
		}
	}
	return all
}

// entitled refuses volumes that are not this VM's to attach: PVE itself attaches any volume of any guest without a word
// (qemu-server API2/Qemu.pm create_disks). A slot that somebody else has filled since is not emptied for one either.
func (u *update) entitled(server vm.Spec) error {
	var held guest.Holdings
	for _, slot := range slices.Sorted(maps.Keys(u.r.Planned.Disks)) {
		volume := u.r.Planned.Disks[slot].Volume
		was, known := u.r.Prior.Disks[slot]
		if volume == "" || volume == was.Volume || server.Disks[slot].Volume == volume {
			continue
		}
		if held.Slots == nil {
			held = guest.HoldingsOf(u.config)
		}
		refuse := func(why string) error {
			return &guest.FieldError{Path: "disks." + slot + ".volume", Summary: fmt.Sprintf("%s of VM %d cannot get volume %s", slot, u.vmid, volume), Detail: why}
		}
		if owner, ok := vm.VolumeOwner(volume); !ok || owner != u.vmid {
			return refuse("A VM attaches only volumes that carry its own id")
		}
		if other := held.Slots[slot]; other != "" && !known {
			return refuse("The slot is not empty: " + other + " is in it, which this configuration has not put there")
		}
		if _, unused := held.Unused[volume]; !unused && held.SlotOf(volume) == "" {
			return refuse("The VM has no such volume; detached it has " + listed(slices.Sorted(maps.Keys(held.Unused))))
		}
	}
	return nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// unseat prepares disks to change their slots. No volume is ever in two slots of a running guest, so there the old slots are
// emptied first, by hotplug; a stopped guest takes all in one request. What cannot work is refused before anything is sent.
func (u *update) unseat(ctx context.Context) error {
	from, err := u.seats()
	if err != nil || len(from) == 0 {
		return err
	}
	status, err := u.s.api.GuestStatus(ctx, u.node, u.vmid)
	if err != nil || status.Status != "running" {
		return err
	}
	current := u.config.Current()
	var slots []string
	for _, old := range slices.Sorted(maps.Keys(from)) {
		slot := from[old]
		switch cold := vm.IsCold(old) || !hotplugs(current); {
		case cold && (vm.IsCold(slot) || !hotplugs(current)): // both wait for the restart
			continue
		case cold:
			return u.stays(slot, fmt.Sprintf("it is in %s, which PVE empties at the next stop only, while %s takes it at once. Stop the VM first", old, slot))
		case boots(current, old):
			return u.stays(slot, fmt.Sprintf("it is in %s, which is in the boot order, and PVE unplugs no such disk while the VM runs. Stop the VM first", old))
		}
		slots = append(slots, old)
	}
	if len(slots) == 0 {
		return nil
	}
	return u.unplug(ctx, slots)
}

// unplug empties slots of a running guest by hotplug, or leaves all of them as they were.
func (u *update) unplug(ctx context.Context, slots []string) error {
	before := u.config
	u.stale, u.unseated = true, map[string]string{}
	for _, slot := range slots {
		u.unseated[slot] = before.Current()[slot]
	}
	if err := u.bound(ctx, vm.Change{DeleteFirst: slots}); err != nil {
		return u.reseat(ctx, u.s.takeBack(ctx, u.node, u.vmid, vm.Change{DeleteFirst: slots}, before, err))
	}
	if err := u.look(ctx); err != nil {
		return err
	}
	u.change.Delete = slices.DeleteFunc(u.change.Delete, func(option string) bool { return slices.Contains(slots, option) })
	return nil
}

// seats are the slots whose volume is to be in another one, with that one.
func (u *update) seats() (map[string]string, error) {
	from, current := map[string]string{}, u.config.Current()
	attached := u.attached()
	for _, slot := range slices.Sorted(maps.Keys(attached)) {
		for _, old := range vm.Slots(current) {
			if old == slot || guest.VolumeOf(current[old]) != attached[slot] {
				continue
			}
			next, stays := u.change.Set[old]
			if leaves := slices.Contains(u.change.Delete, old) || stays && guest.VolumeOf(next) != attached[slot]; !leaves {
				return nil, u.stays(slot, fmt.Sprintf("it is in %s, which this change leaves as it is", old))
			}
			from[old] = slot
		}
	}
	return from, nil
}

func (u *update) stays(slot, why string) error {
	return &guest.FieldError{Path: "disks." + slot + ".volume", Summary: fmt.Sprintf("The volume cannot come into %s of VM %d", slot, u.vmid), Detail: "Nothing was changed: " + why}
}

// hotplugs tells whether a running guest takes and gives disks (qemu-server QemuServer.pm parse_hotplug_features).
func hotplugs(config map[string]string) bool {
	features, set := config["hotplug"]
	return !set || features == "1" || slices.Contains(strings.FieldsFunc(features, func(r rune) bool { return strings.ContainsRune(",; ", r) }), "disk")
}

// boots tells whether a device is in the boot order (qemu-server QemuServer/Drive.pm get_bootdisks).
func boots(config map[string]string, device string) bool {
	order := vm.Decode(map[string]string{"boot": config["boot"]}).BootOrder
	return slices.Contains(order, device)
}

// reseat puts the disks that were unplugged to change their slots back where they were, after a failure.
func (u *update) reseat(ctx context.Context, cause error) error {
	if cause == nil || len(u.unseated) == 0 {
		return cause
	}
	ctx = context.WithoutCancel(ctx)
	u.stale = true
	if err := u.look(ctx); err != nil {
		return errors.Join(cause, err)
	}
	held, back := guest.HoldingsOf(u.config), pve.Params{}
	for slot, value := range u.unseated {
		if held.Slots[slot] == "" && held.SlotOf(guest.VolumeOf(value)) == "" {
			back[slot] = value
		}
	}
	u.unseated = nil
	if len(back) == 0 {
		return cause
	}
	u.stale = true
	if err := u.s.jobs.Set(ctx, u.node, u.vmid, back); err != nil {
		return errors.Join(cause, fmt.Errorf("put %s back where they were: %w", strings.Join(slices.Sorted(maps.Keys(back)), ", "), err))
	}
	return cause
}

// measure compares attached volumes with the sizes that the plan wants: that of a detached one is told by PVE only when it is
// in a slot.
func (u *update) measure(ctx context.Context) error {
	if len(u.seated) == 0 {
		return nil
	}
	u.stale = true
	if err := u.look(ctx); err != nil {
		return err
	}
	server := vm.Decode(u.config.Merged())
	for _, slot := range slices.Sorted(maps.Keys(u.seated)) {
		want, has := u.r.Planned.Disks[slot].Size, server.Disks[slot].Size
		switch {
		case want == nil || has == nil || *want == *has:
		case *want < *has:
			return &guest.FieldError{Path: "disks." + slot + ".size", Summary: fmt.Sprintf("Volume %s of VM %d is larger", u.seated[slot], u.vmid),
				Detail: fmt.Sprintf("It is in %s now, has %s, and cannot be shrunk to %s", slot, vm.FormatSize(*has), vm.FormatSize(*want))}
		case !slices.ContainsFunc(u.change.Grow, func(g vm.Growth) bool { return g.Slot == slot }):
			u.change.Grow = append(u.change.Grow, vm.Growth{Slot: slot, Size: *want})
		}
	}
	return nil
}
