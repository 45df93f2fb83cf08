package provision

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// onExisting is the part of a change that moves and grows disks which are there already.
func onExisting(change vm.Change, prior vm.Spec) vm.Change {
	early := vm.Change{Moves: change.Moves}
	for _, g := range change.Grow {
		if !absent(prior.Disks, g.Slot) {
			early.Grow = append(early.Grow, g)
		}
	}
	return early
}

// reshape moves and grows disks before their options change. A move writes the active configuration only: an option of
// the disk that waits for a restart stands in a pending line with the old volume, which the next boot would put back in
// its place (qemu-server API2/Qemu.pm move_vm_disk). So what waits there is dropped first, and is written anew afterwards.
func (s *Service) reshape(ctx context.Context, l *ledger, node string, vmid int, early vm.Change, config pve.PendingConfig) (pve.PendingConfig, error) {
	var waiting []string
	for slot := range shapedSlots(early) {
		if slices.Contains(config.Waiting(), slot) {
			waiting = append(waiting, slot)
		}
	}
	if len(waiting) > 0 {
		slices.Sort(waiting)
		if err := s.revert(ctx, node, vmid, waiting); err != nil {
			return config, fmt.Errorf("drop what waits for a restart before a disk changes: %w", err)
		}
	}
	if err := s.shape(ctx, l, node, vmid, early); err != nil {
		return config, err
	}
	config, err := s.api.PendingConfig(ctx, node, vmid)
	if err != nil {
		return config, fmt.Errorf("read VM %d after its disks were changed: %w", vmid, err)
	}
	return config, nil
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

// reshaped is what is known before a change, with the disks that were just moved or grown as the server has them now.
func reshaped(prior, server vm.Spec, early vm.Change) vm.Spec {
	slots := shapedSlots(early)
	prior.Disks = maps.Clone(prior.Disks)
	for slot := range prior.Disks {
		if slots[slot] {
			prior.Disks[slot] = server.Disks[slot]
		}
	}
	if slots["efidisk0"] {
		prior.EFIDisk = server.EFIDisk
	}
	if slots["tpmstate0"] {
		prior.TPMState = server.TPMState
	}
	if slots[prior.CloudInit.Slot] {
		prior.CloudInit.Storage, prior.CloudInit.Volume, prior.CloudInit.Format = server.CloudInit.Storage, server.CloudInit.Volume, server.CloudInit.Format
	}
	return prior
}

// vacate empties the slots that must be empty before the rest of a change is sent. What a running guest does not let go of
// would leave at its next stop, long after the error that follows here: it is taken back.
func (s *Service) vacate(ctx context.Context, node string, vmid int, change *vm.Change, before pve.PendingConfig) (pve.PendingConfig, error) {
	if len(change.DeleteFirst) == 0 {
		return before, nil
	}
	if err := s.apply(ctx, &ledger{}, node, vmid, vm.Change{DeleteFirst: change.DeleteFirst}, before.Digest); err != nil {
		return before, s.takeBack(ctx, node, vmid, *change, before, err)
	}
	now, err := s.api.PendingConfig(ctx, node, vmid)
	if err != nil {
		return before, fmt.Errorf("read VM %d after a device was detached: %w", vmid, err)
	}
	for _, slot := range change.DeleteFirst {
		if !slices.Contains(now.Waiting(), slot) {
			continue
		}
		refusal := &FieldError{Path: "cloud_init.slot", Summary: fmt.Sprintf("The cloud-init drive of VM %d cannot leave %s while the VM runs", vmid, slot),
			Detail: "PVE detaches it at the next stop only, and takes no second cloud-init drive before. Stop the VM, then apply"}
		late := slices.DeleteFunc(now.Waiting(), func(option string) bool { return slices.Contains(before.Waiting(), option) })
		if err := s.revert(context.WithoutCancel(ctx), node, vmid, late); err != nil {
			refusal.Detail += ". The change could not be taken back either and happens at the next stop"
			refusal.Err = err
		}
		return before, refusal
	}
	change.DeleteFirst = nil
	return now, nil
}
