package planning

import (
	"context"
	"errors"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/change"
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
func (v *volumeNames) borrow(ctx context.Context, slot, volume string) error {
	if v.Machines == nil || v.left { // the apply looks
		return nil
	}
	err := v.Machines.IsHeld(ctx, v.nodeOfAttach(), int(model.Value(v.Prior.VMID)), volume)
	if errors.Is(err, volumeuse.ErrNotHeld) {
		return err
	}
	at, _ := model.Locator{}.Attribute("disks." + slot + ".imported_disk.volume")
	var elsewhere *volumeuse.ElsewhereError
	if errors.As(err, &elsewhere) {
		v.Diags.AddAttributeError(at, volume+" is on another node", fmt.Sprintf("%s. The VM is to be on node %s. Next step: "+
			"set node = %q for the VM, or have the disk on node %s or on a storage that the nodes share (node and storage of "+
			"its proxmox_disk).", elsewhere.Error(), elsewhere.Node, elsewhere.On, elsewhere.Node))
		return nil
	}
	var taken *volumeuse.BorrowedError
	if errors.As(err, &taken) { // what could not be looked at the apply looks at again
		v.Diags.AddAttributeWarning(at, volume+" belongs to another user now",
			taken.Error()+". Two guests on one disk destroy what is on it, so the apply attaches it only if it is free by "+
				"then: where the same apply takes it from the other VM, let this one depend on that one (depends_on).")
	}
	return nil
}

// nodeOfAttach is the node of the VM when the apply attaches disks, after a migration; "" if it is not known yet.
func (v *volumeNames) nodeOfAttach() string {
	if node := v.Config.At("node"); !node.IsKnown() || v.Config.IsSet("node") || v.Creating() {
		return v.Config.Text("node")
	}
	return model.Value(v.Prior.Node)
}

// isTaken refuses to exchange such data for the volume that a configuration names, which may not be known yet. The
// configuration may name the volume that has them.
func (v *volumeNames) isTaken(slot string, taken []volumeuse.Taken) bool {
	named := v.Config.At("disks." + slot + ".imported_disk.volume")
	for _, t := range taken {
		if t.Slot == slot && !(named.IsKnown() && (named.IsNull() || model.StringOf(named) == t.Own)) {
			v.Diags.Append(change.ErrTaken(t))
			return true
		}
	}
	return false
}
