package update

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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// secondCloudInitDrive refuses a second cloud-init drive beside one that a running guest has not let go of.
func (u *update) secondCloudInitDrive(slot string) *guest.FieldError {
	return &guest.FieldError{Path: "cloud_init.slot",
		Summary: fmt.Sprintf("The cloud-init drive of VM %d cannot leave %s while the VM runs", u.vmid, slot),
		Detail: "PVE detaches it at the next stop only, and takes no second cloud-init drive before. Stop the VM, " +
			"then apply"}
}

// checkCloudInitDrive refuses a cloud-init drive in another slot while the removal of the old one waits for the guest's
// stop.
func (u *update) checkCloudInitDrive(config pve.PendingConfig, t todo, c vm.Change) error {
	wanted := t.planned.CloudInit.Slot
	if _, made := c.Set[wanted]; !made {
		return nil
	}
	if is := vm.Decode(config.Current()).CloudInit.Slot; is != "" && is != wanted &&
		slices.Contains(config.Waiting(), is) {
		return u.secondCloudInitDrive(is)
	}
	return nil
}

// keepCloudInitDrive takes back the removal of a cloud-init drive that waits for the guest's stop, if a drive on the
// same storage is wanted in the same slot again. Its volume still exists and has the one name that a new one would get
// (qemu-server API2/Qemu.pm create_disks).
func keepCloudInitDrive(c vm.Change, current map[string]string) vm.Change {
	for slot, value := range c.Set {
		file, _, _ := strings.Cut(value, ",")
		storage, isNew := strings.CutSuffix(file, ":cloudinit")
		if !isNew {
			continue
		}
		has := vm.Decode(map[string]string{slot: current[slot]}).CloudInit
		if has.Slot == slot && has.Storage == storage && has.Volume != "" {
			c.Set = maps.Clone(c.Set)
			c.Set[slot] = current[slot]
			return c // PVE takes one only
		}
	}
	return c
}

// remakeWaitingCloudInit makes a cloud-init drive that only waits for the next start where it is to be, in the place of
// a move: PVE moves what is in force alone (qemu-server API2/Qemu.pm move_vm_disk), and frees a drive that waits when
// its slot gets another value (update_vm_api). The content of the drive is generated.
func remakeWaitingCloudInit(c vm.Change, config pve.PendingConfig) vm.Change {
	current, merged := config.Current(), config.Merged()
	for _, m := range c.Moves {
		waits := guest.VolumeOf(merged[m.Slot])
		if !volid.IsCloudInit(waits) || waits == guest.VolumeOf(current[m.Slot]) {
			continue
		}
		drive := vm.CloudInit{Slot: m.Slot, Storage: m.Storage}
		if m.Format != "" {
			drive.Format = &m.Format
		}
		set := vm.Encode(vm.Spec{CloudInit: drive})
		maps.Copy(set, c.Set)
		c.Set = set
		c.Moves = slices.DeleteFunc(slices.Clone(c.Moves), func(other vm.Move) bool { return other == m })
		return c // PVE takes one only
	}
	return c
}

// ejectedCloudInit are the cloud-init volumes in force whose slots get another medium. PVE frees such a volume of a
// running guest only if that medium is "none", and only logs it if it cannot (qemu-server QemuServer.pm
// vmconfig_update_disk, vmconfig_register_unused_drive).
func ejectedCloudInit(read pve.PendingConfig, c vm.Change) map[string]string {
	all, current := map[string]string{}, read.Current()
	for slot, next := range c.Set {
		if volume := guest.VolumeOf(current[slot]); volid.IsCloudInit(volume) && guest.VolumeOf(next) != volume {
			all[slot] = volume
		}
	}
	return all
}

// newDriveOn is the storage on which a change makes a cloud-init drive, "" for none.
func newDriveOn(c vm.Change) string {
	for _, value := range c.Set {
		file, _, _ := strings.Cut(value, ",")
		if storage, isNew := strings.CutSuffix(file, ":cloudinit"); isNew {
			return storage
		}
	}
	return ""
}

// freedForDrive frees a volume that was in the way of the VM's cloud-init drive on a storage, "" for no drive, such as
// the one that a move of a killed apply has left: PVE gives that drive one name (qemu-server API2/Qemu.pm create_disks,
// QemuServer.pm clone_disk). err is the answer to the request that makes the drive, and is returned where nothing was
// freed. Else the request can be sent again: a storage that refuses the name has made nothing.
func (v volumes) freedForDrive(ctx context.Context, storage string, err error) (bool, error) {
	if storage == "" || !pve.IsKind(err, pve.Leftover) {
		return false, err
	}
	left, lookErr := v.leftDrives(ctx, storage)
	for _, volume := range left {
		if cause := v.freeLeftDrive(ctx, volume); cause != nil {
			return false, &guest.FieldError{Path: "cloud_init.storage",
				Summary: fmt.Sprintf("%s is in the way of the cloud-init drive of VM %d", volume, v.vmid),
				Detail: fmt.Sprintf("Each cloud-init drive of a VM with this id has that name on the storage. Neither the VM "+
					"nor a snapshot of it names this one. It was not removed: %s. If it is not needed, %s removes it. Then "+
					"apply again", cause, v.freeCommand(ctx, volume, v.view.Node())), Err: err}
		}
	}
	if lookErr != nil || len(left) == 0 {
		return false, errors.Join(err, lookErr)
	}
	return true, nil
}

// leftDrives are cloud-init volumes of the VM's id on a storage that no configuration of the VM names.
func (v volumes) leftDrives(ctx context.Context, storage string) ([]string, error) {
	content, err := v.changer.api.Storage(v.view.Node(), storage).Content(ctx, "images", v.vmid)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, volume := range content {
		if volid.IsCloudInit(volume.ID) {
			found[volume.ID] = volume.ID
		}
	}
	return v.stillThere(ctx, found)
}

// freeLeftDrive frees a cloud-init volume that no configuration of the VM names: its content is generated, and the VM
// is the only one that makes it. On a shared storage another cluster may have a VM of the same id. QEMU may have the
// volume open until the guest is given the new drive.
func (v volumes) freeLeftDrive(ctx context.Context, volume string) error {
	resources, _, err := v.changer.api.Listing().Recent(ctx)
	if err != nil {
		return err
	}
	if at, ok := resources.Storage(v.view.Node(), volid.Storage(volume)); !ok || at.Shared {
		return errors.New("the storage is shared, so it may be the drive of another cluster's VM")
	}
	if err := v.regenerateCloudInit(ctx, true); err != nil {
		return err
	}
	return v.freeVolume(ctx, volume)
}

// regenerateCloudInit rewrites the cloud-init drive of a running guest. PVE takes changed options at once, but the
// drive keeps the old data until the next start (qemu-server QemuServer/Cloudinit.pm).
func (u *update) regenerateCloudInit(ctx context.Context, isOld bool) error {
	if !isOld {
		return nil
	}
	status, err := u.view.Status(ctx)
	if err != nil || !status.IsRunning() {
		return err
	}
	config, err := u.view.Fresh(ctx)
	if err != nil || vm.Decode(config.Current()).CloudInit.Volume == "" {
		return err
	}
	var another *guest.IdentityError
	err = u.view.Contend(ctx, u.view.Node(), u.view.IsThere, func(ctx context.Context) error {
		return u.changer.api.QEMU(u.view.Node(), u.vmid).RegenerateCloudInit(ctx)
	})
	switch {
	case errors.As(err, &another):
		return err
	case err != nil:
		u.warnOfOldData(err)
	}
	return nil
}

// regenerateAfterFailure does so after a failed step, as far as the server lets it.
func (u *update) regenerateAfterFailure(ctx context.Context, r *results) {
	if err := u.regenerateCloudInit(ctx, r.hasOldCloudInit(false)); err != nil {
		u.warnOfOldData(err)
	}
}

func (u *update) warnOfOldData(cause error) {
	u.warn(fmt.Sprintf("The cloud-init drive of VM %d may have old data", u.vmid),
		fmt.Sprintf("PVE says: %v\n\nThe guest gets the new data at its next stop and start, or by "+
			"`qm cloudinit update %d` as root on node %s.", cause, u.vmid, u.view.Node()))
}
