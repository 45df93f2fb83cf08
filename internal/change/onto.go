package change

import (
	"context"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// onto is vm.Onto, with what PVE needs for the devices that are new.
func onto(server, prior, planned vm.Spec) (before, after vm.Spec) {
	before, after = vm.Onto(server, prior, planned)
	for slot, disk := range after.Disks {
		_, taken := server.Disks[slot]
		if from := vm.SlotOf(server.Disks, disk.Volume); from != "" && !taken && absent(prior.Disks, slot) { // it brings its options
			after.Disks[slot] = vm.FitDisk(slot, vm.MergeDisk(server.Disks[from], disk))
		}
	}
	vm.Complete(&after)
	return before, after
}

func absent[V vm.Disk | vm.CDROM | vm.NIC](devices map[string]V, slot string) bool {
	_, ok := devices[slot]
	return !ok
}

// retake takes back the removal of disks that waits for the guest's stop, where the same disk is wanted in its slot again:
// it is still attached, with its data.
func (u *update) retake(ctx context.Context) error {
	if err := u.look(ctx); err != nil {
		return err
	}
	current, merged := vm.Decode(u.config.Current()), vm.Decode(u.config.Merged())
	var slots []string
	for slot, wanted := range u.r.Planned.Disks {
		has, there := current.Disks[slot]
		if there && absent(u.r.Prior.Disks, slot) && absent(merged.Disks, slot) && isSame(has, wanted) {
			slots = append(slots, slot)
		}
	}
	if len(slots) == 0 {
		return nil
	}
	slices.Sort(slots)
	if waits := slices.Contains(u.config.Waiting(), "boot"); waits && slices.Equal(u.r.Prior.BootOrder, u.r.Planned.BootOrder) {
		slots = append(slots, "boot") // PVE takes a drive that goes out of the boot order
	}
	u.stale = true
	if err := u.s.jobs.Revert(ctx, u.node, u.vmid, slots); err != nil {
		return fmt.Errorf("keep disks that were about to leave VM %d: %w", u.vmid, err)
	}
	if err := u.look(ctx); err != nil {
		return err
	}
	return u.compare()
}

// isSame tells whether a disk can become what is wanted without being moved or made anew.
func isSame(has, wanted vm.Disk) bool {
	return (wanted.Storage == "" || wanted.Storage == has.Storage) &&
		(wanted.Volume == "" || wanted.Volume == has.Volume) &&
		(wanted.Format == nil || has.Format != nil && *wanted.Format == *has.Format) &&
		(wanted.Size == nil || has.Size != nil && *wanted.Size >= *has.Size)
}

// growable splits disks that are to grow by whether the guest has them already. PVE grows what is attached and nothing
// else; what waits for the guest's stop comes later (qemu-server API2/Qemu.pm resize_vm).
func (u *update) growable(grow []vm.Growth) (now, later []vm.Growth) {
	current, merged := vm.Decode(u.config.Current()), vm.Decode(u.config.Merged())
	for _, g := range grow {
		if has, there := current.Disks[g.Slot]; there && has.Volume == merged.Disks[g.Slot].Volume {
			now = append(now, g)
		} else {
			later = append(later, g)
		}
	}
	return now, later
}

// tooLate refuses a disk to import and to grow whose slot a running guest has not let go of, where nobody is to restart it.
func (u *update) tooLate() error {
	_, later := u.growable(u.change.Grow)
	for _, g := range later {
		if u.r.Restart == RestartNever && slices.Contains(u.config.Waiting(), g.Slot) {
			return &guest.FieldError{Path: "disks." + g.Slot, Summary: fmt.Sprintf("VM %d still has another disk in %s", u.vmid, g.Slot),
				Detail: "Its removal waits for the next stop of the running VM, and a disk that is imported in its place can be grown only then. Stop the VM, then apply"}
		}
	}
	return nil
}

// place grows the disks that were just made, since an import takes no size, and those that were attached.
func (u *update) place(ctx context.Context) error {
	if err := u.measure(ctx); err != nil {
		return err
	}
	if len(u.change.Moves)+len(u.change.Grow) == 0 {
		return nil
	}
	if err := u.look(ctx); err != nil {
		return err
	}
	now := vm.Change{Moves: u.change.Moves}
	now.Grow, u.late = u.growable(u.change.Grow)
	if len(now.Moves)+len(now.Grow) == 0 {
		return nil
	}
	u.stale = true
	return u.s.jobs.Shape(ctx, &u.ledger, u.node, u.vmid, now)
}

// stretch grows the disks that the guest has since its restart.
func (u *update) stretch(ctx context.Context) error {
	if len(u.late) == 0 {
		return nil
	}
	u.stale = true
	if err := u.look(ctx); err != nil {
		return err
	}
	now, later := u.growable(u.late)
	if len(later) > 0 {
		return &guest.FieldError{Path: "disks." + later[0].Slot + ".size", Summary: fmt.Sprintf("%s of VM %d cannot be grown yet", later[0].Slot, u.vmid),
			Detail: "The disk is attached at the next stop and start of the running VM, and PVE grows a disk only then. Stop the VM, and apply again"}
	}
	u.stale = true
	return u.s.jobs.Shape(ctx, &u.ledger, u.node, u.vmid, vm.Change{Grow: now})
}
