package change

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// onExisting is the part of a change that moves and grows disks which are there already, and stay in their slots.
func (u *update) onExisting() vm.Change {
	early, attached := vm.Change{Moves: u.change.Moves}, u.attached()
	for _, g := range u.change.Grow {
		if !absent(u.prior.Disks, g.Slot) && attached[g.Slot] == "" {
			early.Grow = append(early.Grow, g)
		}
	}
	return early
}

// reshape moves and grows disks before their options change. A move writes the active configuration only: an option of
// the disk that waits for a restart stands in a pending line with the old volume, which the next boot would put back in
// its place (qemu-server API2/Qemu.pm move_vm_disk). So what waits there is dropped first, and is written anew afterwards.
func (u *update) reshape(ctx context.Context) error {
	early := u.onExisting()
	early.Grow, u.late = u.growable(early.Grow)
	if len(early.Moves)+len(early.Grow) == 0 {
		return nil
	}
	slots := shapedSlots(early)
	var waiting []string
	for slot := range slots {
		if slices.Contains(u.config.Waiting(), slot) {
			waiting = append(waiting, slot)
		}
	}
	u.stale = true
	if len(waiting) > 0 {
		slices.Sort(waiting)
		if err := u.s.jobs.Revert(ctx, u.node, u.vmid, waiting); err != nil {
			return fmt.Errorf("drop what waits for a restart before a disk changes: %w", err)
		}
	}
	u.redrawn = slots[u.prior.CloudInit.Slot]
	if err := u.s.jobs.Shape(ctx, &u.ledger, u.node, u.vmid, early); err != nil {
		return err
	}
	return u.again(ctx, func(slot string) bool { return slots[slot] })
}

// again compares anew after a step has changed disks: where they are now is what the rest of the change begins with.
func (u *update) again(ctx context.Context, changed func(slot string) bool) error {
	if err := u.look(ctx); err != nil {
		return err
	}
	u.r.Planned = unnamed(u.r.Prior, u.r.Planned)
	u.r.Prior = rebased(u.r.Prior, vm.Decode(u.config.Merged()), changed)
	return u.compare()
}

// unnamed is a plan that says of no drive which volume it has, where that is the one from before: it may have another name
// by now, and to name the old one would be to attach it again.
func unnamed(prior, planned vm.Spec) vm.Spec {
	planned.Disks = maps.Clone(planned.Disks)
	for slot, disk := range planned.Disks {
		if was, ok := prior.Disks[slot]; ok && disk.Volume == was.Volume {
			disk.Volume = ""
			planned.Disks[slot] = disk
		}
	}
	if was, is := prior.EFIDisk, planned.EFIDisk; was != nil && is != nil && is.Volume == was.Volume {
		disk := *is
		disk.Volume, planned.EFIDisk = "", &disk
	}
	if was, is := prior.TPMState, planned.TPMState; was != nil && is != nil && is.Volume == was.Volume {
		disk := *is
		disk.Volume, planned.TPMState = "", &disk
	}
	if planned.CloudInit.Volume == prior.CloudInit.Volume {
		planned.CloudInit.Volume = ""
	}
	return planned
}

func shapedSlots(early vm.Change) map[string]bool {
	slots := map[string]bool{}
	for _, m := range early.Moves {
		slots[m.Slot] = true
	}
	for _, g := range early.Grow {
		slots[g.Slot] = true
	}
	return slots
}

// rebased is what is known of a VM, with the drives that have changed as the server has them now.
func rebased(prior, server vm.Spec, changed func(slot string) bool) vm.Spec {
	prior.Disks = maps.Clone(prior.Disks)
	for slot := range prior.Disks {
		if has, ok := server.Disks[slot]; ok && changed(slot) {
			prior.Disks[slot] = has
		}
	}
	if prior.EFIDisk != nil && server.EFIDisk != nil && changed("efidisk0") {
		prior.EFIDisk = server.EFIDisk
	}
	if prior.TPMState != nil && server.TPMState != nil && changed("tpmstate0") {
		prior.TPMState = server.TPMState
	}
	if slot := prior.CloudInit.Slot; slot != "" && slot == server.CloudInit.Slot && changed(slot) {
		prior.CloudInit.Storage, prior.CloudInit.Volume, prior.CloudInit.Format = server.CloudInit.Storage, server.CloudInit.Volume, server.CloudInit.Format
	}
	return prior
}

// vacate empties the slots that must be empty before the rest of a change is sent. What a running guest does not let go of
// would leave at its next stop, long after the error that follows here: it is taken back.
func (u *update) vacate(ctx context.Context) error {
	keepDrive(&u.change, u.config.Current())
	if err := u.unseat(ctx); err != nil {
		return err
	}
	slots := u.change.DeleteFirst
	if len(slots) == 0 {
		return nil
	}
	before := u.config
	u.stale = true
	if err := u.bound(ctx, vm.Change{DeleteFirst: slots}); err != nil {
		return u.s.takeBack(ctx, u.node, u.vmid, u.change, before, err)
	}
	if err := u.look(ctx); err != nil {
		return err
	}
	for _, slot := range slots {
		if !slices.Contains(u.config.Waiting(), slot) {
			continue
		}
		refusal := u.twoDrives(slot)
		late := slices.DeleteFunc(u.config.Waiting(), func(option string) bool { return slices.Contains(before.Waiting(), option) })
		if err := u.s.jobs.Revert(context.WithoutCancel(ctx), u.node, u.vmid, late); err != nil {
			refusal.Detail += ". The change could not be taken back either and happens at the next stop"
			refusal.Err = err
		}
		return refusal
	}
	u.change.DeleteFirst = nil
	return nil
}
