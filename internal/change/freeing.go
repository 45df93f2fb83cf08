package change

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// This file sends all that an update destroys, or cuts off.

// moveDisks moves disks to other storages or formats, and has PVE free where they were.
func (u *update) moveDisks(ctx context.Context, moves []vm.Move) error {
	if len(moves) == 0 {
		return nil
	}
	err := u.view.Shape(ctx, vm.Change{Moves: moves})
	if pve.RefusesIOUring(err) {
		return &guest.FieldError{Path: "disks", Summary: fmt.Sprintf("A disk of running VM %d cannot be moved with aio = \"io_uring\"", u.vmid),
			Detail: "That is what a disk without aio has. Set aio = \"native\" or \"threads\" on it as well: then the VM is restarted first, and moved after that. " +
				"Or stop the VM for the move, with power_state = \"stopped\"", Err: err}
	}
	return err
}

// destroyEntry destroys a detached volume: deleting its entry does so at once (qemu-server API2/Qemu.pm update_vm_api). It is a
// task, since a large volume takes its time.
func (u *update) destroyEntry(ctx context.Context, config pve.PendingConfig, entry string) error {
	node, params, volume := u.view.node, pve.Params{"delete": entry, "digest": config.Digest}, config.Current()[entry]
	_, err := u.view.Perform(ctx, job.Request{Type: "qmconfig",
		Send: func(ctx context.Context) (pve.UPID, error) {
			return u.s.api.UpdateConfigTask(ctx, node, u.vmid, params)
		},
		Done: func(ctx context.Context) (bool, error) {
			now, err := u.s.api.CurrentConfig(ctx, node, u.vmid)
			return err == nil && now.Values[entry] != volume, err
		}})
	return err
}

// freeVolume removes a volume that no configuration of the VM names any more.
func (u *update) freeVolume(ctx context.Context, volume string) error {
	node := u.view.node
	_, err := u.view.Perform(ctx, job.Request{Type: "imgdel",
		Send: func(ctx context.Context) (pve.UPID, error) { return u.s.api.DeleteVolume(ctx, node, volume) }})
	return err
}

// stopHard cuts the guest off.
func (u *update) stopHard(ctx context.Context) error {
	node := u.view.node
	_, err := u.view.Power(ctx, job.Request{Type: "qmstop", Done: u.s.guests.IsStopped(node, u.vmid),
		Send: func(ctx context.Context) (pve.UPID, error) { return u.s.api.StopVM(ctx, node, u.vmid, pve.Params{}) }})
	if err == nil {
		err = u.s.guests.AwaitStop(ctx, node, u.vmid, time.Minute)
	}
	return err
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
// (QemuServer.pm vmconfig_update_cloudinit_drive). So what is left is freed, or named.
func (u *update) freeMoved(ctx context.Context, moved map[string]string) {
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
		if err := u.freeVolume(ctx, volume); err != nil {
			u.warn(fmt.Sprintf("Volume %s of VM %d is left over", volume, u.vmid),
				fmt.Sprintf("Its disk was moved away, and PVE did not free it: %s\n\nOnce the VM was stopped, `pvesm free %s` on node %s removes it.",
					err, volume, u.view.node))
		}
	}
}

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
