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

// adoptable returns the planned volumes that no configuration names and that the VM may attach. They carry the VM's
// VMID: a dead VM of that VMID left them, or a third party put them there. The VM may attach those that exist on their
// storages and that no guest uses, and devices of its node that no other guest has. Others are refused later. A volume
// that the VM has detached is refused if another guest is seen to use it.
func (s slots) adoptable(ctx context.Context) (map[string]bool, error) {
	loose, held := map[string]bool{}, guest.HoldingsOf(s.before)
	s.looked = s.changer.clock.Now()
	for _, slot := range slices.Sorted(maps.Keys(s.r.Planned.Disks)) {
		volume := s.r.Planned.Disks[slot].Volume
		_, unused := held.Unused[volume]
		foreign := vm.IsForeign(s.vmid, volume)
		if _, owned := volid.Owner(volume); volume == s.r.Prior.Disks[slot].Volume || held.SlotOf(volume) != "" ||
			!owned && !foreign {
			continue
		}
		if err := s.checkAlias(ctx, slot, volume, held); err != nil {
			return nil, err
		}
		held.Next = append(held.Next, volume)
		switch {
		case unused && !foreign:
			if err := s.changer.destroyer.CheckTaken(ctx, s.inState(), []string{volume}); err != nil {
				return nil, notAdopted(slot, volume, err)
			}
			continue
		case foreign:
			if err := s.mayBorrow(ctx, slot, volume); err != nil {
				return nil, err
			}
			loose[volume] = true
			continue
		}
		there, err := s.changer.api.Storage(s.view.Node(), volid.Storage(volume)).Content(ctx, "images", s.vmid)
		if err != nil {
			return nil, fmt.Errorf("look for volume %s: %w", volume, err)
		}
		if !slices.ContainsFunc(there, func(v pve.Volume) bool { return v.ID == volume }) {
			continue
		}
		if _, err := s.changer.destroyer.ProveInState(ctx, s.inState(), []string{volume}); err != nil {
			return nil, notAdopted(slot, volume, err)
		}
		loose[volume] = true
	}
	return loose, nil
}

// checkAlias refuses a volume that the VM has under another name, or that another slot gets.
func (s slots) checkAlias(ctx context.Context, slot, volume string, held guest.Holdings) error {
	err := guard.CheckAlias(ctx, s.changer.destroyer.Guard, s.view.Node(), s.vmid, volume, held)
	var alias *guard.AliasError
	if !errors.As(err, &alias) {
		return err
	}
	return &guest.FieldError{Path: "disks." + slot + ".imported_disk.volume", Summary: volume + " cannot be attached",
		Detail: fmt.Sprintf("It was not attached, and the options of VM %d were not changed. %s", s.vmid, alias.Next()),
		Err:    alias}
}

// isFree returns nil if no other guest has a volume that the VM is to get.
func (s slots) isFree(ctx context.Context, volume string) error {
	look := s.changer.destroyer
	if vm.IsForeign(s.vmid, volume) {
		return look.MayBorrow(ctx, look.Ask(), s.view.Node(), s.vmid, volume)
	}
	return look.CheckTaken(ctx, s.inState(), []string{volume})
}

// stillFree returns the look before each try to attach volumes: whether another guest has got one. PVE asks none, not
// even where it plugs the volume into a running guest (qemu-server QemuServer.pm vmconfig_update_disk), and the wait
// for a lock may last hours. A first try that follows the look of the beginning at once goes without; not so if a task
// or HA was awaited since. A volume that is in a slot by then was there before, or came by a request whose answer was
// lost.
func (s slots) stillFree(attached map[string]string) guest.Look {
	if len(attached) == 0 {
		return nil
	}
	atOnce := !s.view.Powered && len(s.view.Tasks.UPIDs) == 0
	return func(ctx context.Context, now pve.PendingConfig) error {
		seen := atOnce && pve.Elapsed(s.looked, s.changer.clock.Now()) < guest.Moment
		if atOnce = false; seen {
			return nil
		}
		held := guest.HoldingsOf(now)
		for _, slot := range slices.Sorted(maps.Keys(attached)) {
			volume := attached[slot]
			foreign := vm.IsForeign(s.vmid, volume)
			if _, owned := volid.Owner(volume); !owned && !foreign || held.SlotOf(volume) != "" {
				continue
			}
			if err := s.checkAlias(ctx, slot, volume, held); err != nil {
				return err
			}
			err := s.isFree(ctx, volume)
			if err == nil {
				continue
			}
			next := "Make sure that no other guest uses it, and apply again"
			if foreign {
				next = volumeuse.WhyNotBorrowed(err)
			}
			return &guest.FieldError{Path: "disks." + slot + ".imported_disk.volume",
				Summary: volume + " cannot be attached",
				Detail: fmt.Sprintf("It was not attached, and the options of VM %d were not changed. %s", s.vmid,
					next), Err: err}
		}
		return nil
	}
}

func notAdopted(slot, volume string, err error) error {
	return &guest.FieldError{Path: "disks." + slot + ".imported_disk.volume", Summary: volume + " cannot be adopted",
		Detail: "It was not touched, nor attached", Err: err}
}

// mayBorrow refuses a volume with the VMID of another VM, unless that VM holds it for others and no guest uses it. It
// refuses a device that another guest of the node has. PVE itself attaches one volume to two VMs without a word
// (qemu-server API2/Qemu.pm create_disks).
func (s slots) mayBorrow(ctx context.Context, slot, volume string) error {
	look := s.changer.destroyer
	err := look.MayBorrow(ctx, look.Ask(), cmp.Or(s.r.Node, s.view.Node()), s.vmid, volume)
	if err == nil {
		return nil
	}
	return &guest.FieldError{Path: "disks." + slot + ".imported_disk.volume", Summary: volume + " cannot be attached",
		Detail: volumeuse.WhyNotBorrowed(err) + ". It was not attached", Err: err}
}

// keepBorrowed looks again for guests that use the attached volumes, and gives back those that another operation has
// attached at the same time. The other operation does the same.
func (s slots) keepBorrowed(ctx context.Context, attached map[string]string) error {
	asked, offered := s.changer.destroyer.Ask(), s.view.IsFresh()
	for _, slot := range slices.Sorted(maps.Keys(attached)) {
		volume := attached[slot]
		if !vm.IsForeign(s.vmid, volume) {
			continue
		}
		if !offered { // the update reads it anyway, and the looks of others need not
			offered = true
			s.offer(ctx, asked)
		}
		err := s.changer.destroyer.MayBorrow(ctx, asked, s.view.Node(), s.vmid, volume)
		var taken *volumeuse.BorrowedError
		if !errors.As(err, &taken) {
			if err != nil {
				s.warn(volume+" was attached, and not looked at again",
					"Whether another guest was given it at the same time cannot be told: "+err.Error())
			}
			continue
		}
		back := s.giveBack(ctx, slot, volume)
		refused := &guest.FieldError{Path: "disks." + slot + ".imported_disk.volume", Summary: volume + " was given back",
			Detail: "It was attached to another guest at the same time, and two guests on one disk destroy what is on it",
			Err:    err}
		if back != nil {
			refused.Summary = volume + " is attached to two guests"
			refused.Detail = fmt.Sprintf("It was attached to another guest at the same time, and could not be given back: "+
				"%v. Two guests on "+
				"one disk destroy what is on it: start neither, and detach it from one (%s)", back,
				shell.Or(shell.VM("qm unlink {vmid} --idlist {}", s.vmid, slot), slot))
		}
		return refused
	}
	return nil
}

// offer reads the VM for itself and for the looks of others.
func (s slots) offer(ctx context.Context, asked uint64) {
	began := s.changer.jobs.Clock.Now()
	if config, err := s.view.Fresh(ctx); err == nil {
		s.changer.destroyer.Offer(asked, s.view.Node(), s.vmid, config, began)
	}
}

// giveBack detaches a volume that was attached a moment ago. The configuration tells whether that worked: an answer may
// be lost, and a slot without hotplug lets go at the next stop only.
func (s slots) giveBack(ctx context.Context, slot, volume string) error {
	ctx, cancel := s.changer.jobs.Grace(ctx)
	defer cancel()
	config, err := s.view.Fresh(ctx)
	if err != nil || guest.HoldingsOf(config).Slots[slot] != volume {
		return err
	}
	failed := s.apply(ctx, vm.Change{Delete: []string{slot}}, config, nil)
	switch config, err = s.view.Fresh(ctx); {
	case err != nil:
		return errors.Join(failed, err)
	case guest.HoldingsOf(config).Slots[slot] != volume:
		return nil
	case failed != nil:
		return failed
	}
	return fmt.Errorf("%s lets go of it at the next stop of VM %d", slot, s.vmid)
}

// keepPendingDisks takes back the removal of disks that waits for the guest's stop, if the slot is to have a disk
// again: the one that was the VM's in state is still attached, with its data. One that is to be elsewhere moves then.
// One that cannot be the planned disk is an error before anything is sent: no empty disk takes its place. The removal
// of a disk that was never in state stands: it is a third party's, and the slot gets the new disk of the plan when that
// one leaves it. Another disk that waits in the place of one is taken back, too, if the slot is to go back to that one:
// PVE makes an unused disk of it (qemu-server API2/Qemu.pm update_vm_api, revert).
func (d disks) keepPendingDisks(ctx context.Context, t todo) (todo, error) {
	current, merged, config, err := d.view.Spec(ctx)
	if err != nil {
		return t, err
	}
	var slots []string
	known, planned, has, next := t.prior.EveryDisk(), t.planned.EveryDisk(), current.EveryDisk(), merged.EveryDisk()
	if err := d.checkLeft(known, planned, has, next); err != nil {
		return t, err
	}
	for _, slot := range slices.Sorted(maps.Keys(planned)) {
		is, wanted := has[slot], planned[slot]
		ours := slices.Contains(d.r.Detached, is.Volume) || d.r.Others[slot] == is.Volume // the plan tells of the others
		isOther := wanted.Volume != "" && wanted.Volume != is.Volume
		stays := is.Volume != "" && ours && !isOther && !hasDisk(known, slot) && !hasDisk(next, slot)
		if !stays && !goesBack(is, wanted, known[slot], next[slot]) {
			continue
		}
		if !vm.CanStay(slot, d.r.Sizes[is.Volume], current, t.planned) {
			return t, d.cannotStay(slot, is, config)
		}
		slots = append(slots, slot)
	}
	if err := power(d).mayWrite(ctx, t, config, slots); err != nil || len(slots) == 0 {
		return t, err
	}
	slices.Sort(slots)
	if d.r.BootOrder == nil && lacksOnly(config, slots) {
		slots = append(slots, "boot")
	}
	if err := d.revert(ctx, slots, config); err != nil {
		return t, fmt.Errorf("keep disks that were about to leave VM %d: %w", d.vmid, err)
	}
	if config, err = d.view.Fresh(ctx); err != nil {
		return t, err
	}
	noteOthers(d.update, config, func(slot string) bool { return slices.Contains(slots, slot) })
	return compare(d.update, config, t.prior, t.planned, t.loose)
}

// goesBack reports whether a slot is to have the disk in force again, in whose place the one in state waits.
func goesBack(is, wanted, known, next vm.Disk) bool {
	return is.Volume != "" && wanted.Volume == is.Volume && known.Volume != is.Volume && known.Volume != "" &&
		known.Volume == next.Volume
}

// lacksOnly reports whether the boot order that waits is the one in force less disks that are about to leave, some of
// the given slots among them. PVE writes that one itself when it is asked to remove a drive (qemu-server API2/Qemu.pm
// update_vm_api). Any other was set.
func lacksOnly(config pve.PendingConfig, slots []string) bool {
	current, merged := config.Current(), config.Merged()
	if _, waits := merged["boot"]; !waits || vm.IsLegacyBoot(current) {
		return false
	}
	order, waiting := vm.BootOrder(current), vm.BootOrder(merged)
	isMissing := func(slot string) bool { return !slices.Contains(waiting, slot) }
	left := slices.DeleteFunc(slices.Clone(order), func(slot string) bool {
		return merged[slot] == "" && isMissing(slot)
	})
	return slices.Equal(left, waiting) && slices.ContainsFunc(slots, func(slot string) bool {
		return slices.Contains(order, slot) && isMissing(slot)
	})
}

// checkLeft refuses to make a new disk for one that has left its slot since the plan, which has said that it stays, or
// is taken over, with its content. One that waits to leave goes when the guest stops.
func (d disks) checkLeft(known, planned map[string]vm.Disk, has ...map[string]vm.Disk) error {
	for _, slot := range slices.Sorted(maps.Keys(planned)) {
		left := cmp.Or(d.r.Leaving[slot], d.r.Others[slot])
		there := slices.ContainsFunc(has, func(disks map[string]vm.Disk) bool { return hasDisk(disks, slot) })
		if left == "" || planned[slot].Volume != "" || hasDisk(known, slot) || there {
			continue
		}
		return &guest.FieldError{Path: slotAttribute(slot, d.r.Planned),
			Summary: fmt.Sprintf("%s of VM %d has lost its disk since the plan", slot, d.vmid),
			Detail: fmt.Sprintf("The plan has seen %s in it, and no new, empty disk takes its place: a third party has "+
				"taken it out since, or it waited to leave, and the guest has stopped. Nothing was changed. Make a new plan, "+
				"with a refresh: it names the disk if it is a detached one of the VM", left)}
	}
	return nil
}

// cannotStay is the error for a disk that waits to leave its slot and is not as the plan has it: a third party has
// grown it, or it is another one that has got its name.
func (d disks) cannotStay(slot string, is vm.Disk, config pve.PendingConfig) error {
	keep := shell.Or(shell.VM("qm set {vmid} --revert {}", d.vmid, slot), shell.ByHand)
	return &guest.FieldError{Path: slotAttribute(slot),
		Summary: fmt.Sprintf("%s of VM %d has another disk than the plan, which waits to leave", slot, d.vmid),
		Detail: fmt.Sprintf("It has %s, and PVE carries the removal out at the stop of the guest: %s. No new disk "+
			"takes its place, and nothing was changed. Keep the disk (%s on node %s) and make a new plan, or stop the VM to "+
			"have it removed, and apply again", is.Named(), guest.RemovedAtStart(config)[slot], keep, d.view.Node())}
}
