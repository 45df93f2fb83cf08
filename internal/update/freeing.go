package update

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// This file has all requests of an update that destroy something or stop the guest hard.

// moveDisks moves disks to other storages or formats, and has PVE free the old volumes, from. It returns the volumes
// that they have then, as arrived does; nil where the moves have failed.
func (u *update) moveDisks(ctx context.Context, moves []vm.Move, from map[string]string) (map[string]string, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	before := u.view.Last()
	var err error
	for i := 0; i < len(moves) && err == nil; i++ {
		m, drive := moves[i], ""
		if volid.IsCloudInit(from[m.Slot]) {
			drive = m.Storage
		}
		move := func(ctx context.Context) error {
			return u.changer.destroyer.MoveInState(ctx, &u.view.Tasks, u.inState(), []vm.Move{m}, from)
		}
		var freed bool
		if freed, err = (volumes{u}).freedForDrive(ctx, drive, u.view.Send(ctx, move)); freed {
			err = u.view.Send(ctx, move)
		}
	}
	if fault.RefusesIOUring(err) {
		return nil, &guest.FieldError{Path: "disks",
			Summary: fmt.Sprintf("A disk of running VM %d cannot be moved with aio = \"io_uring\"", u.vmid),
			Detail: "That is what a disk without aio has. Set aio = \"native\" or \"threads\" on it as well: then the VM is " +
				"restarted first, and moved after that, unless reboot_policy or the state of its HA entry forbids a restart. " +
				"Or stop the VM for the move, with power_state = \"stopped\"",
			Err: err}
	}
	if fault.KeptBySnapshot(err) {
		return nil, keptBySnapshot(ctx, u, movedFrom(before.Current(), moves), err)
	}
	if err != nil {
		return nil, err
	}
	return disks{u}.stillMoved(ctx, before, moves)
}

// apply sends a change of the configuration as it was read. look, if it is not nil, runs before each try.
func (u *update) apply(ctx context.Context, c vm.Change, read pve.PendingConfig, look guest.Look) error {
	if err := u.checkCloudInitDrives(ctx, c, read); err != nil {
		return err
	}
	look = notCopied(u, c, look)
	err := u.view.Apply(ctx, c, read, look)
	if freed, cause := (volumes{u}).freedForDrive(ctx, newDriveOn(c), err); !freed {
		return cause
	}
	now, err := u.view.Fresh(ctx) // PVE has noted options that came before the drive (API2/Qemu.pm update_vm_api)
	if err == nil {
		next := maps.Clone(c.Set)
		next["delete"] = strings.Join(c.Delete, ",")
		err = guest.CheckUndisturbed(u.vmid, read, now, c, next)
	}
	if err != nil {
		return err
	}
	return u.view.Apply(ctx, withoutDone(c, read.Merged(), now.Merged()), now, look)
}

// withoutDone is a change without the drives that PVE has made of it by now: sent again, they would be made twice.
func withoutDone(c vm.Change, was, is map[string]string) vm.Change {
	set := maps.Clone(c.Set)
	maps.DeleteFunc(set, func(option, _ string) bool {
		return vm.IsSlot(option) && is[option] != "" && is[option] != was[option]
	})
	c.Set = set
	return c
}

// revert drops pending values as they were read. PVE does so by setting what is in force (qemu-server API2/Qemu.pm
// update_vm_api).
func (u *update) revert(ctx context.Context, options []string, read pve.PendingConfig) error {
	current, back := read.Current(), vm.Change{Set: map[string]string{}}
	for _, option := range options {
		back.Set[option] = current[option]
	}
	if err := u.checkCloudInitDrives(ctx, back, read); err != nil {
		return err
	}
	return u.view.Revert(ctx, options, read)
}

// checkCloudInitDrives refuses a change that would take a cloud-init drive away from another guest. PVE frees one that
// leaves a slot without checking for other users, nor whose id it carries. An identity that does not see all guests
// frees none of another VM's id.
func (u *update) checkCloudInitDrives(ctx context.Context, c vm.Change, read pve.PendingConfig) error {
	for _, drive := range droppedCloudInit(read, c) {
		var err error
		if owner, _ := volid.Owner(drive); owner == u.vmid {
			err = u.changer.destroyer.CheckTaken(ctx, u.inState(), []string{drive})
		} else {
			_, err = u.changer.destroyer.ProveInState(ctx, u.inState(), []string{drive})
		}
		if err != nil {
			return fmt.Errorf("the cloud-init drive of VM %d was not removed: %w", u.vmid, err)
		}
	}
	return nil
}

// droppedCloudInit are the cloud-init volumes that a change removes: those in force (qemu-server QemuServer.pm
// vmconfig_register_unused_drive), and those that a slot waits for (API2/Qemu.pm update_vm_api calls the same).
func droppedCloudInit(read pve.PendingConfig, c vm.Change) []string {
	dropped := slices.Concat(c.DeleteFirst, c.Delete, slices.Collect(maps.Keys(c.Set)))
	var drives []string
	for _, values := range []map[string]string{read.Current(), read.Merged()} {
		for _, slot := range dropped {
			volume := guest.VolumeOf(values[slot])
			if vm.IsSlot(slot) && volid.IsCloudInit(volume) && guest.VolumeOf(c.Set[slot]) != volume &&
				!slices.Contains(drives, volume) {
				drives = append(drives, volume)
			}
		}
	}
	return drives
}

// ownVolumes are the volumes with the VM's VMID that its configuration names now, detached ones too.
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
		owner, ok := volid.Owner(volume)
		return !ok || owner != u.vmid
	})
	return slices.Sorted(maps.Keys(own)), nil
}

// destroyEntry destroys a detached volume that no other guest uses.
func (u *update) destroyEntry(ctx context.Context, config pve.PendingConfig, entry string) error {
	return u.destroyEntries(ctx, config, []string{entry}, func(ctx context.Context) (guard.Evidence, error) {
		return u.changer.destroyer.ProveInState(ctx, u.inState(), []string{guest.VolumeOf(config.Current()[entry])})
	})
}

// destroyEntries destroys detached volumes, with evidence that is fresh for each try.
func (u *update) destroyEntries(ctx context.Context, config pve.PendingConfig, entries []string,
	prove func(context.Context) (guard.Evidence, error)) error {
	return u.view.Send(ctx, func(ctx context.Context) error {
		return u.changer.jobs.Contend(ctx, u.view.Node(), u.vmid, func(ctx context.Context) error {
			e, err := prove(ctx)
			if err != nil {
				return err
			}
			return u.changer.destroyer.DestroyUnused(ctx, &u.view.Tasks, e, config, entries)
		})
	})
}

// destroyMade destroys detached volumes that this update has made.
func (u *update) destroyMade(ctx context.Context, config pve.PendingConfig, made, entries []string) error {
	return u.destroyEntries(ctx, config, entries, func(ctx context.Context) (guard.Evidence, error) {
		return u.changer.destroyer.ProveMade(ctx, u.inState(), made)
	})
}

// freeVolume removes a volume that the VM's configuration no longer names.
func (u *update) freeVolume(ctx context.Context, volume string) error {
	return u.view.Send(ctx, func(ctx context.Context) error {
		return u.changer.destroyer.FreeInState(ctx, &u.view.Tasks, u.inState(), volume)
	})
}

// stopHard stops the guest without asking it. look runs before each try.
func (u *update) stopHard(ctx context.Context, look func(context.Context) error) error {
	u.view.Powered = true
	return u.view.Send(ctx, func(ctx context.Context) error {
		return u.changer.destroyer.StopHard(ctx, &u.view.Tasks, u.view.Node(), u.vmid,
			func(ctx context.Context) (guard.Evidence, error) {
				if err := look(ctx); err != nil {
					return guard.Evidence{}, err
				}
				return u.changer.destroyer.ProveInState(ctx, u.inState(), nil)
			})
	})
}

// movedFrom are the volumes that moved disks have left, by slot.
func movedFrom(current map[string]string, moves []vm.Move) map[string]string {
	all := map[string]string{}
	for _, m := range moves {
		if volume := guest.VolumeOf(current[m.Slot]); volid.Valid(volume) {
			all[m.Slot] = volume
		}
	}
	return all
}

// freeMoved frees the volumes that disks have moved away from, or names them. PVE frees them at the end of a move. If
// it cannot, since QEMU still has a cloud-init drive open or a storage is busy, it only logs that and ends with OK
// (qemu-server API2/Qemu.pm move_vm_disk). By now the guest has let go: PVE gives it the new cloud-init drive when that
// is regenerated (QemuServer.pm vmconfig_update_cloudinit_drive). Only the task's log proves that the volume is the one
// that was left: a third party may have made a volume of that name since. The node is that of the move.
func (v volumes) freeMoved(ctx context.Context, moved map[string]string,
	isLeft func(context.Context, string) (bool, error)) {
	if len(moved) == 0 {
		return
	}
	left, err := v.stillThere(ctx, moved)
	if err != nil {
		had, drives := slices.Sorted(maps.Values(moved)), "" // as where a third party has migrated the VM since
		for _, volume := range had {
			if volid.IsCloudInit(volume) {
				drives += fmt.Sprintf(" PVE leaves a cloud-init drive that is moved while the guest runs: %s removes it.",
					v.freeCommand(ctx, volume, v.view.Node()))
			}
		}
		v.warn(fmt.Sprintf("Whether disks of VM %d have left volumes is unknown", v.vmid),
			fmt.Sprintf("They have left %s on node %s: %s.%s", listed(had), v.view.Node(), err, drives))
		return
	}
	for _, volume := range left {
		ours, err := isLeft(ctx, volume)
		if ours {
			err = v.freeVolume(ctx, volume)
		}
		var inUse *guard.InUseError
		switch {
		case !ours:
			v.warn(fmt.Sprintf("Volume %s was left as it is", volume),
				fmt.Sprintf("A disk of VM %d was moved away from a volume of that name. PVE has not reported a failure to free "+
					"that one, so this volume may be a third party's. Find out whose it is.%s",
					v.vmid, reason(err)))
		case errors.As(err, &inUse):
			v.warn(fmt.Sprintf("Volume %s of VM %d was not removed", volume, v.vmid),
				fmt.Sprintf("Its disk has left it, and PVE left it where it was: %s.", err))
		case err != nil:
			v.nameLeft(ctx, volume, err)
		}
	}
}

// nameLeft names a volume that was not freed, if it still exists: a third party may have destroyed the VM meanwhile.
func (v volumes) nameLeft(ctx context.Context, volume string, cause error) {
	left, err := v.stillThere(ctx, map[string]string{"": volume})
	switch {
	case err != nil:
		v.warn(fmt.Sprintf("Whether a disk of VM %d has left a volume is unknown", v.vmid),
			fmt.Sprintf("It has left %s: %s. Then: %s.", volume, cause, err))
	case len(left) > 0:
		v.warn(fmt.Sprintf("Volume %s of VM %d is left over", volume, v.vmid),
			fmt.Sprintf("Its disk has left it, and PVE did not free it: %s\n\nAfter a stop of the VM, %s removes it.",
				cause, v.freeCommand(ctx, volume, v.view.Node())))
	}
}

// reason is the cause of a failed look, as one more sentence.
func reason(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" (%s)", err)
}

// isLeft reports whether the log of a move of this update says that it could not free a volume.
func (v volumes) isLeft(ctx context.Context, volume string) (bool, error) {
	for _, upid := range v.view.Tasks.UPIDs {
		if upid.Type() != "qmmove" {
			continue
		}
		log, err := v.changer.api.Tasks().Log(ctx, upid, logLines)
		if err != nil || task.TellsNotFreed(log, volume) {
			return err == nil, err
		}
	}
	return false, nil
}

// logLines is enough of the end of a move's log: it frees volumes last.
const logLines = 20

// isListed reports whether a volume that a disk has moved from is on its storage. PVE lists none of a storage that is
// not configured for disk images any more (pve-storage 9.1.7 Storage.pm volume_list); there the log of the move tells.
func (v volumes) isListed(ctx context.Context, volume string) (bool, error) {
	node, storage := v.view.Node(), volid.Storage(volume)
	resources, _, err := v.changer.api.Listing().Recent(ctx)
	if err != nil {
		return false, err
	}
	if at, ok := resources.Storage(node, storage); ok && !guest.HoldsImages(at) {
		return v.isLeft(ctx, volume)
	}
	content, err := v.changer.api.Storage(node, storage).Content(ctx, "images", v.vmid)
	return slices.ContainsFunc(content, func(found pve.Volume) bool { return found.ID == volume }), err
}

// stillThere returns those volumes that carry the VM's VMID, exist, and are named neither by its configuration nor by a
// snapshot.
func (v volumes) stillThere(ctx context.Context, moved map[string]string) ([]string, error) {
	var left []string
	for _, volume := range slices.Sorted(maps.Values(moved)) {
		if owner, ok := volid.Owner(volume); !ok || owner != v.vmid {
			continue
		}
		is, err := v.isListed(ctx, volume)
		if err != nil {
			return nil, err
		}
		if is {
			left = append(left, volume)
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	v.view.Forget() // something is about to be freed
	config, err := v.view.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	named, err := v.namedVolumes(ctx, config)
	if err != nil {
		return nil, err
	}
	places, err := v.changer.destroyer.Places(ctx)
	return slices.DeleteFunc(left, func(volume string) bool {
		return places.MayBe(volume, slices.Collect(maps.Keys(named)))
	}), err
}
