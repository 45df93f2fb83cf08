package planning

import (
	"context"
	"errors"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// A disk of proxmox_disk carries the id of the VM that holds it. Its size, storage and format are that resource's; a VM
// attaches it, with options of its own, and lets go of it.

// refuseOwnership refuses to say of such a disk what its own resource says.
func (v *volumeNames) refuseOwnership(slot, volume string) bool {
	switch at := "disks." + slot; {
	case v.Config.IsSet(at + ".size"):
		v.refuseVolume(slot, "size", "%s carries the id of another VM: it is the disk of a proxmox_disk, which says how "+
			"large it is. Leave size out here, and grow it there.", volume)
	case v.contradiction(slot, volume) != "":
		v.refuseVolume(slot, v.contradiction(slot, volume), "%s carries the id of another VM: it is the disk of a "+
			"proxmox_disk, which says where it is. Leave storage and format out here. It is moved there, while no VM has "+
			"it.", volume)
	case v.Config.IsTrue("template"):
		v.refuseVolume(slot, "imported_disk.volume", "%s carries the id of another VM, which would lose it: PVE renames "+
			"the disks of a template.",
			volume)
	default:
		return false
	}
	return true
}

// borrow asks whether another VM holds a volume for others. An error says that none does, and why. Which other guests
// have it only the apply asks: that takes a request for each guest of the cluster.
func (v *volumeNames) borrow(ctx context.Context, slot, volume, node string) error {
	if v.Machines == nil || v.left { // the apply looks
		return nil
	}
	err := v.Machines.IsHeld(ctx, node, int(model.Value(v.Prior.VMID)), volume)
	if errors.Is(err, volumeuse.ErrNotHeld) {
		return err
	}
	var taken *volumeuse.BorrowedError
	if errors.As(err, &taken) { // what could not be looked at the apply looks at again
		at, _ := model.Locator{}.Attribute("disks." + slot + ".imported_disk.volume")
		v.diags.AddAttributeWarning(at, volume+" belongs to another user now",
			taken.Error()+". Two guests on one disk destroy what is on it, so the apply attaches it only if it is free by "+
				"then: where the same apply takes it from the other VM, let this one depend on that one (depends_on).")
	}
	return nil
}
