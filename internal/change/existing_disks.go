package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove/usage"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// adoptable are the volumes that are planned, that carry the VM's id and are in no configuration: a dead VM of that id has left them,
// or somebody has put them there. They are the VM's to attach where they are on their storages and no guest uses them. What is not is
// left to be refused.
func (u *update) adoptable(ctx context.Context) (map[string]bool, error) {
	loose, held := map[string]bool{}, guest.HoldingsOf(u.before)
	for _, slot := range slices.Sorted(maps.Keys(u.r.Planned.Disks)) {
		volume := u.r.Planned.Disks[slot].Volume
		_, unused := held.Unused[volume]
		owner, owned := vm.VolumeOwner(volume)
		if volume == "" || volume == u.r.Prior.Disks[slot].Volume || held.SlotOf(volume) != "" || !owned {
			continue
		}
		if unused && owner == u.vmid {
			continue
		}
		if owner != u.vmid {
			if err := u.mayBorrow(ctx, slot, volume); err != nil {
				return nil, err
			}
			loose[volume] = true
			continue
		}
		there, err := u.s.api.Content(ctx, u.view.node, vm.VolumeStorage(volume), "images", u.vmid)
		if err != nil {
			return nil, fmt.Errorf("look for volume %s: %w", volume, err)
		}
		if !slices.ContainsFunc(there, func(v pve.Volume) bool { return v.ID == volume }) {
			continue
		}
		if _, err := u.s.remover.ProveInState(ctx, u.view.inState(), []string{volume}); err != nil {
			return nil, &guest.FieldError{Path: "disks." + slot + ".imported_disk.volume", Summary: volume + " cannot be adopted",
				Detail: "It was not touched, and nothing was changed", Err: err}
		}
		loose[volume] = true
	}
	return loose, nil
}

// mayBorrow refuses a volume that carries the id of another VM, unless that one holds it for others and nobody has it: PVE gives one volume
// to two VMs without a word (qemu-server API2/Qemu.pm create_disks).
func (u *update) mayBorrow(ctx context.Context, slot, volume string) error {
	err := u.s.remover.MayBorrow(ctx, cmp.Or(u.r.Node, u.view.node), u.vmid, volume)
	if err == nil {
		return nil
	}
	return &guest.FieldError{Path: "disks." + slot + ".imported_disk.volume", Summary: volume + " cannot be attached",
		Detail: usage.WhyNotBorrowed(err) + ". Nothing was changed", Err: err}
}

// keepBorrowed looks once more who has the volumes that were attached, and gives back those that somebody else has attached at the same
// time: he does the same.
func (u *update) keepBorrowed(ctx context.Context, attached map[string]string) error {
	for _, slot := range slices.Sorted(maps.Keys(attached)) {
		volume := attached[slot]
		if owner, ok := vm.VolumeOwner(volume); !ok || owner == u.vmid {
			continue
		}
		err := u.s.remover.MayBorrow(ctx, u.view.node, u.vmid, volume)
		var taken *usage.BorrowedError
		if !errors.As(err, &taken) {
			if err != nil {
				u.warn(volume+" was attached, and not looked at again",
					"Whether another guest was given it at the same time cannot be told: "+err.Error())
			}
			continue
		}
		back := u.giveBack(ctx, slot, volume)
		refused := &guest.FieldError{Path: "disks." + slot + ".imported_disk.volume", Summary: volume + " was given back",
			Detail: "It was attached to another guest at the same time, and two guests on one disk destroy what is on it", Err: err}
		if back != nil {
			refused.Summary = volume + " is attached to two guests"
			refused.Detail = fmt.Sprintf("It was attached to another guest at the same time, and could not be given back: %v. Two guests on "+
				"one disk destroy what is on it: start neither, and detach it from one (`qm unlink %d --idlist %s`)", back, u.vmid, slot)
		}
		return refused
	}
	return nil
}

// giveBack detaches a volume that was attached a moment ago. Where it is afterwards the configuration tells: an answer may be lost, and a
// slot without hotplug lets go at the next stop only.
func (u *update) giveBack(ctx context.Context, slot, volume string) error {
	ctx, cancel := u.s.jobs.Grace(ctx)
	defer cancel()
	config, err := u.view.Fresh(ctx)
	if err != nil || guest.HoldingsOf(config).Slots[slot] != volume {
		return err
	}
	failed := u.apply(ctx, vm.Change{Delete: []string{slot}}, config)
	switch config, err = u.view.Fresh(ctx); {
	case err != nil:
		return errors.Join(failed, err)
	case guest.HoldingsOf(config).Slots[slot] != volume:
		return nil
	case failed != nil:
		return failed
	}
	return fmt.Errorf("%s lets go of it at the next stop of VM %d", slot, u.vmid)
}

// keepPendingDisks takes back the removal of disks that waits for the guest's stop, where the same disk is wanted in its slot
// again: it is still attached, with its data.
func (u *update) keepPendingDisks(ctx context.Context, t todo) (todo, error) {
	current, merged, config, err := u.view.Spec(ctx)
	if err != nil {
		return t, err
	}
	var slots []string
	for slot, wanted := range t.planned.Disks {
		is, there := current.Disks[slot]
		if there && !hasDisk(t.prior.Disks, slot) && !hasDisk(merged.Disks, slot) && canBecome(is, wanted) {
			slots = append(slots, slot)
		}
	}
	if len(slots) == 0 {
		return t, nil
	}
	slices.Sort(slots)
	if slices.Contains(config.Waiting(), "boot") && slices.Equal(t.prior.BootOrder, t.planned.BootOrder) {
		slots = append(slots, "boot") // PVE takes a drive that goes out of the boot order
	}
	if err := u.view.Revert(ctx, slots); err != nil {
		return t, fmt.Errorf("keep disks that were about to leave VM %d: %w", u.vmid, err)
	}
	if config, err = u.view.Fresh(ctx); err != nil {
		return t, err
	}
	return compare(u.vmid, config, t.prior, t.planned, t.loose)
}

// canBecome tells whether a disk can become what is wanted without being moved or made anew.
func canBecome(is, wanted vm.Disk) bool {
	return (wanted.Storage == "" || wanted.Storage == is.Storage) &&
		(wanted.Volume == "" || wanted.Volume == is.Volume) &&
		(wanted.Format == nil || is.Format != nil && *wanted.Format == *is.Format) &&
		(wanted.Size == nil || is.Size != nil && *wanted.Size >= *is.Size)
}
