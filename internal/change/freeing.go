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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// This file sends all that an update destroys, or cuts off.

// moveDisks moves disks to other storages or formats, and has PVE free where they were.
func (u *update) moveDisks(ctx context.Context, moves []vm.Move) error {
	if len(moves) == 0 {
		return nil
	}
	err := u.view.Send(ctx, func(ctx context.Context) error {
		return u.s.remover.MoveInState(ctx, &u.view.tasks, u.view.inState(), moves)
	})
	if pve.RefusesIOUring(err) {
		return &guest.FieldError{Path: "disks", Summary: fmt.Sprintf("A disk of running VM %d cannot be moved with aio = \"io_uring\"", u.vmid),
			Detail: "That is what a disk without aio has. Set aio = \"native\" or \"threads\" on it as well: then the VM is restarted " +
				"first, and moved after that. " +
				"Or stop the VM for the move, with power_state = \"stopped\"", Err: err}
	}
	return err
}

// apply sends a change of the configuration as it was read. PVE frees a cloud-init drive that the change takes away, without looking
// who else uses it.
func (u *update) apply(ctx context.Context, c vm.Change, read pve.PendingConfig) error {
	if drives := droppedCloudInit(read.Current(), c, u.vmid); len(drives) > 0 {
		if err := u.s.remover.CheckTaken(ctx, u.view.inState(), drives); err != nil {
			return fmt.Errorf("the cloud-init drive of VM %d was not removed: %w", u.vmid, err)
		}
	}
	return u.view.Apply(ctx, c, read)
}

// droppedCloudInit are the cloud-init volumes of a VM that a change takes away.
func droppedCloudInit(current map[string]string, c vm.Change, vmid int) []string {
	dropped := slices.Concat(c.DeleteFirst, c.Delete, slices.Collect(maps.Keys(c.Set)))
	var drives []string
	for _, slot := range dropped {
		volume := guest.VolumeOf(current[slot])
		owner, ok := vm.VolumeOwner(volume)
		if ok && owner == vmid && strings.Contains(volume, "-cloudinit") && guest.VolumeOf(c.Set[slot]) != volume {
			drives = append(drives, volume)
		}
	}
	return drives
}

// ownVolumes are the volumes of the VM's id that its configuration names now, detached ones too.
func (u *update) ownVolumes(ctx context.Context) ([]string, error) {
	config, err := u.view.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	held, own := guest.HoldingsOf(config), map[string]bool{}
	for volume := range held.Unused {
		own[volume] = true
	}
	for _, volume := range held.Slots {
		own[volume] = true
	}
	maps.DeleteFunc(own, func(volume string, _ bool) bool {
		owner, ok := vm.VolumeOwner(volume)
		return !ok || owner != u.vmid
	})
	return slices.Sorted(maps.Keys(own)), nil
}

// destroyEntry destroys a detached volume that nobody else uses.
func (u *update) destroyEntry(ctx context.Context, config pve.PendingConfig, entry string) error {
	return u.destroyEntries(ctx, config, []string{entry}, func(ctx context.Context) (remove.Evidence, error) {
		return u.s.remover.ProveInState(ctx, u.view.inState(), []string{guest.VolumeOf(config.Current()[entry])})
	})
}

// destroyEntries destroys detached volumes, with evidence that is made before each try.
func (u *update) destroyEntries(ctx context.Context, config pve.PendingConfig, entries []string,
	prove func(context.Context) (remove.Evidence, error)) error {
	return u.view.Send(ctx, func(ctx context.Context) error {
		return u.s.jobs.Contend(ctx, u.view.node, u.vmid, func(ctx context.Context) error {
			e, err := prove(ctx)
			if err != nil {
				return err
			}
			return u.s.remover.DestroyUnused(ctx, &u.view.tasks, e, config, entries)
		})
	})
}

// destroyMade destroys detached volumes that this update has made.
func (u *update) destroyMade(ctx context.Context, config pve.PendingConfig, made, entries []string) error {
	return u.destroyEntries(ctx, config, entries, func(ctx context.Context) (remove.Evidence, error) {
		return u.s.remover.ProveMade(ctx, u.view.inState(), made)
	})
}

// freeVolume removes a volume that no configuration of the VM names any more.
func (u *update) freeVolume(ctx context.Context, volume string) error {
	return u.view.Send(ctx, func(ctx context.Context) error {
		return u.s.remover.FreeInState(ctx, &u.view.tasks, u.view.inState(), volume)
	})
}

// stopHard cuts the guest off.
func (u *update) stopHard(ctx context.Context) error {
	u.view.powered = true
	return u.view.Send(ctx, func(ctx context.Context) error {
		return u.s.remover.StopHard(ctx, &u.view.tasks, u.view.node, u.vmid, func(ctx context.Context) (remove.Evidence, error) {
			return u.s.remover.ProveInState(ctx, u.view.inState(), nil)
		})
	})
}

// movedFrom are the volumes that moved disks have left, by slot.
func movedFrom(current map[string]string, moves []vm.Move) map[string]string {
	all := map[string]string{}
	for _, m := range moves {
		if volume := guest.VolumeOf(current[m.Slot]); vm.IsVolume(volume) {
			all[m.Slot] = volume
		}
	}
	return all
}

// freeMoved looks whether what disks have moved away from is gone. PVE frees it at the end of a move, and where that fails, since
// QEMU still has a cloud-init drive open or a storage is busy, it only logs that and ends with OK (qemu-server API2/Qemu.pm
// move_vm_disk). By now the guest has let go: PVE gives it the new cloud-init drive when that is generated anew
// (QemuServer.pm vmconfig_update_cloudinit_drive). So what is left is freed, or named. That it was left is told by the task's log
// alone: by now somebody may have made a volume of that name.
func (u *update) freeMoved(ctx context.Context, moved map[string]string, isLeft func(context.Context, string) (bool, error)) {
	if len(moved) == 0 {
		return
	}
	left, err := u.stillThere(ctx, moved)
	if err != nil {
		u.warn(fmt.Sprintf("Whether moved disks of VM %d have left volumes behind was not seen", u.vmid),
			fmt.Sprintf("They were moved away from %s: %s.", listed(slices.Sorted(maps.Values(moved))), err))
		return
	}
	for _, volume := range left {
		ours, err := isLeft(ctx, volume)
		if ours {
			err = u.freeVolume(ctx, volume)
		}
		var inUse *remove.InUseError
		switch {
		case !ours:
			u.warn(fmt.Sprintf("Volume %s was left as it is", volume), fmt.Sprintf("A disk of VM %d was moved away from a volume of that "+
				"name. PVE has not said that it could not free that, so the one that is there may be somebody else's. See whose it is.%s",
				u.vmid, reason(err)))
		case errors.As(err, &inUse):
			u.warn(fmt.Sprintf("Volume %s of VM %d was not removed", volume, u.vmid),
				fmt.Sprintf("Its disk was moved away, and PVE left it where it was: %s.", err))
		case err != nil:
			u.nameLeft(ctx, volume, err)
		}
	}
}

// nameLeft names a volume that was not freed, if it is still there: somebody may have destroyed the VM meanwhile.
func (u *update) nameLeft(ctx context.Context, volume string, cause error) {
	left, err := u.stillThere(ctx, map[string]string{"": volume})
	switch {
	case err != nil:
		u.warn(fmt.Sprintf("Whether a moved disk of VM %d has left a volume behind was not seen", u.vmid),
			fmt.Sprintf("It was moved away from %s: %s. Then: %s.", volume, cause, err))
	case len(left) > 0:
		u.warn(fmt.Sprintf("Volume %s of VM %d is left over", volume, u.vmid),
			fmt.Sprintf("Its disk was moved away, and PVE did not free it: %s\n\nOnce the VM was stopped, %s removes it.",
				cause, u.freeCommand(ctx, volume, u.view.node)))
	}
}

// reason is why something is not known, as one more sentence.
func reason(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" (%s)", err)
}

// isLeft tells whether a move of this update says in its log that it could not free a volume.
func (u *update) isLeft(ctx context.Context, volume string) (bool, error) {
	for _, upid := range u.view.tasks.UPIDs {
		if upid.Type() != "qmmove" {
			continue
		}
		log, err := u.s.api.TaskLog(ctx, upid, logLines)
		if err != nil || pve.TellsNotFreed(log, volume) {
			return err == nil, err
		}
	}
	return false, nil
}

// logLines are enough of the end of a move's log: it frees last of all.
const logLines = 20

// stillThere are volumes that are there and that the VM names nowhere, snapshots included, of those that carry its id.
func (u *update) stillThere(ctx context.Context, moved map[string]string) ([]string, error) {
	var left []string
	for _, volume := range slices.Sorted(maps.Values(moved)) {
		if owner, ok := vm.VolumeOwner(volume); !ok || owner != u.vmid {
			continue
		}
		content, err := u.s.api.Content(ctx, u.view.node, vm.VolumeStorage(volume), "images", u.vmid)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(content, func(v pve.Volume) bool { return v.ID == volume }) {
			left = append(left, volume)
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	u.view.Forget() // something is about to be freed
	config, err := u.view.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	named, err := u.namedVolumes(ctx, config)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(left, func(volume string) bool { return named[volume] }), nil
}
