package planning

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/validation"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// resolveVolumes reads the volumes in the configuration.
func (p *Planning) resolveVolumes(ctx context.Context) *volumeNames {
	v := &volumeNames{Planning: p, borrowed: map[string]bool{}}
	p.Attached = map[string]string{}
	slots, _ := p.Config.Keys("disks")
	taken := p.Prior.Taken()
	for _, slot := range slots {
		if v.isTaken(slot, taken) {
			continue
		}
		volume := p.Config.Text("disks." + slot + ".imported_disk.volume")
		has := model.Value(p.Prior.Disks[slot].Volume)
		if volume != "" && p.Prior.Borrows(volume) && v.refuseOwnership(slot, volume) {
			continue
		}
		switch {
		case volume == "", volume == has, has != "" && volid.Same(volume, has): // it is there, if under another name by now
		case v.isFormer(slot, volume) && !(volid.IsDevice(volume) && volid.IsDevice(has)): // a device keeps its path
			v.warnOtherVolume(ctx, slot, volume)
		case volid.IsDevice(volume): // no VM owns it, and PVE looks whether it is there
			v.exchange(slot, volume)
		default:
			v.resolve(ctx, slot, volume)
		}
	}
	return v
}

// volumesOfNewVM reads the volumes in the configuration of a VM that is not there yet.
func (p *Planning) volumesOfNewVM(ctx context.Context) *volumeNames {
	v := &volumeNames{Planning: p, borrowed: map[string]bool{}}
	p.Attached = map[string]string{}
	slots, _ := p.Config.Keys("disks")
	for _, slot := range slots {
		volume := p.Config.Text("disks." + slot + ".imported_disk.volume")
		if volume == "" {
			continue
		}
		v.Attached[slot] = volume
		owner, ok := volid.Owner(volume)
		other := p.Config.IsNull("vmid") || p.Config.IsSet("vmid") && int(p.Config.Number("vmid")) != owner
		if !ok || !other || v.refuseOwnership(slot, volume) {
			continue
		}
		if err := v.borrow(ctx, slot, volume); err != nil {
			at, _ := model.Locator{}.Attribute("disks." + slot + ".imported_disk.volume")
			v.Diags.AddAttributeError(at, validation.Invalid, fmt.Sprintf("%s carries the id %d, and PVE destroys a volume "+
				"with the VM whose id it carries: a VM adopts only its own, and disks of proxmox_disk, which this is not: %v. %s",
				volume, owner, err, validation.WaysToTake(owner)))
		}
		v.borrowed[volume] = true
	}
	return v
}

// isFormer reports whether a configuration names the volume that it has named for the disk in a slot before: the disk
// is that one, wherever it is by now. "Move Storage" leaves the source with the VM unless told otherwise (pve-manager
// HDMove.js, qemu-server API2/Qemu.pm move_vm_disk), a name that came free goes to another disk, and a restore names
// the disks in the order of their slots. None of that is a reason to exchange the disk.
// The name of a proxmox_disk is that of today.
func (v *volumeNames) isFormer(slot, volume string) bool {
	was := v.Prior.Disks[slot].Imported
	return was != nil && model.Value(was.Volume) == volume && !v.Prior.Borrows(volume)
}

// formerOf is the slot whose disk was attached by the name of a volume, and has another one by now; "": there is none.
func (v *volumeNames) formerOf(volume string) string {
	for _, slot := range model.SortedSlots(v.Prior.Disks) {
		if v.isFormer(slot, volume) && model.Value(v.Prior.Disks[slot].Volume) != volume {
			return slot
		}
	}
	return ""
}

// warnOtherVolume says that a configuration names another volume of the VM than that in the slot, which stays.
func (v *volumeNames) warnOtherVolume(ctx context.Context, slot, volume string) {
	has, held := model.Value(v.Prior.Disks[slot].Volume), v.holdings(ctx)
	if has == "" || held == nil {
		return
	}
	_, loose := held.Loose[volume]
	if !loose && !slices.Contains(held.All(), volume) || v.aliasOf(ctx, volume, *held) != nil {
		return
	}
	at, _ := model.Locator{}.Attribute("disks." + slot + ".imported_disk.volume")
	v.Diags.AddAttributeWarning(at, fmt.Sprintf("%s of %s has another volume than the one that it is named by", slot,
		v.Prior.Thing()),
		fmt.Sprintf("%s has %s, and was given %s. If the disk was moved, or the VM restored, it is that disk still, and a "+
			"volume of that name is an old copy or another disk. If the VM was rolled back, it may be the right one. Nothing "+
			"is changed. Give %s its size in the place of imported_disk, and this warning goes. To put the other volume into "+
			"%s, detach %s first (in PVE's interface: Hardware, Detach).", slot, has, volume, slot, slot, has))
}

// exchange has a slot get another volume of the VM. After an import it is not known which disk the configuration means.
func (v *volumeNames) exchange(slot, volume string) {
	if was, exists := v.Prior.Disks[slot]; exists && was.Imported == nil && !v.Managed("disks."+slot) {
		v.refuseVolume(slot, "imported_disk.volume", "%s has %s, and nothing shows whether that was made of %s, which may "+
			"be an old copy by now. Give the slot its size in the place of imported_disk. To exchange the volumes, detach %s "+
			"first (in PVE's interface: Hardware, Detach).", slot, model.Value(was.Volume), volume, model.Value(was.Volume))
		return
	}
	v.Attached[slot] = volume
}

// resolve decides about one volume that is not the one in its slot.
func (v *volumeNames) resolve(ctx context.Context, slot, volume string) {
	_, exists := v.Prior.Disks[slot]
	contradiction, other := v.contradiction(slot, volume), v.otherSlotOf(volume, slot)
	_, owned := volid.Owner(volume)
	borrows := v.Prior.Borrows(volume) && other == ""
	err := volumeuse.ErrNotHeld
	if owned && borrows {
		err = v.borrow(ctx, slot, volume)
	}
	if !owned || borrows && err != nil {
		v.refuseVolume(slot, "imported_disk.volume", "%s does not carry the id of this VM, and a VM attaches only volumes "+
			"of its own, and disks of proxmox_disk: PVE destroys a volume with the VM whose id it carries. import_from "+
			"copies a volume of another VM. (%s)",
			volume, err.Error())
		return
	}
	if borrows {
		v.Attached[slot] = volume
		return
	}
	former := v.formerOf(volume)
	switch {
	case former != "":
		v.refuseVolume(slot, "imported_disk.volume", "The disk in %s was given %s, and has %s by now: it was moved, or the "+
			"VM restored. Name that volume. To have the other one in %s, give %s its size in the place of imported_disk first.",
			former, volume, model.Value(v.Prior.Disks[former].Volume), slot, former)
	case other != "" && v.keeps(other, volume):
		v.refuseVolume(slot, "imported_disk.volume", "%s is in %s, which keeps it. Take %s out of disks, or name another "+
			"volume for it.",
			volume, other, other)
	case other == "" && exists && contradiction != "": // it is where the disk was
	case contradiction != "":
		v.refuseVolume(slot, contradiction, "%s is not there. Attach the volume as it is first, with the storage and the "+
			"format that it has; a move is a change of its own.", volume)
	case other != "" && exists:
		v.exchange(slot, volume)
	default:
		v.askServer(ctx, slot, volume, other)
	}
}

// otherSlotOf is the slot that has a volume in state, except one.
func (v *volumeNames) otherSlotOf(volume, except string) string {
	for _, slot := range slices.Backward(model.SortedSlots(v.Prior.Disks)) {
		if slot != except && model.Value(v.Prior.Disks[slot].Volume) == volume {
			return slot
		}
	}
	return ""
}

// contradiction is the attribute that says another storage or format than a volume has.
func (v *volumeNames) contradiction(slot, volume string) string {
	if storage := v.Config.Text("disks." + slot + ".storage"); storage != "" && storage != volid.Storage(volume) {
		return "storage"
	}
	if format := v.Config.Text("disks." + slot + ".format"); format != "" && format != volid.Format(volume) {
		return "format"
	}
	return ""
}

// keeps reports whether a slot stays with the volume that it has.
func (v *volumeNames) keeps(slot, volume string) bool {
	if v.Config.IsNull("disks." + slot) {
		return false
	}
	named := v.Config.At("disks." + slot + ".imported_disk.volume")
	name := model.StringOf(named)
	return named.IsKnown() && (named.IsNull() || name == volume || v.isFormer(slot, name))
}

// askServer asks about a volume that the state does not know, or a slot that it does not know.
func (v *volumeNames) askServer(ctx context.Context, slot, volume, other string) {
	was, exists := v.Prior.Disks[slot]
	held := v.holdings(ctx)
	if held == nil { // it cannot be told now; the update looks again
		v.Attached[slot] = volume
		return
	}
	occupant, there := held.Slots[slot], held.SlotOf(volume)
	if alias := v.aliasOf(ctx, volume, *held); alias != nil {
		v.refuseVolume(slot, "imported_disk.volume", "%s. %s.", alias.Error(), alias.Next())
		return
	}
	size, unused := held.Unused[volume]
	if bytes, loose := held.Loose[volume]; loose {
		size, unused = bytes, true
	}
	wanted, err := property.ParseSize(v.Config.Text("disks." + slot + ".size"))
	detached := validation.List(slices.Sorted(maps.Keys(held.Unused)))
	switch {
	case !exists && volid.Same(occupant, volume): // it is there already, by hand or before a kill
		v.Attached[slot] = occupant
	case !exists && occupant != "":
		v.refuseVolume(slot, "imported_disk.volume", "The slot is not empty: %s is in it, which the state does not know. "+
			"Choose another slot.",
			occupant)
	case unused && err == nil && size > wanted:
		v.refuseVolume(slot, "size", "%s has %s and cannot be shrunk to %s. Write its size, or leave size out. Where "+
			"ignore_changes has the size, that is the one in state: take it out of ignore_changes for this apply.", volume,
			property.FormatSize(size), property.FormatSize(wanted))
	case exists && occupant == volume: // the one in state waits in its place, and the update takes that back
		v.Attached[slot] = volume
	case unused, other != "":
		v.exchange(slot, volume)
	case there != "":
		v.refuseVolume(slot, "imported_disk.volume", "%s is in %s, which the state does not know. Take it out there first.",
			volume, there)
	case exists && was.Imported == nil && !v.Managed("disks."+slot): // an import, or a moved state
		at, _ := model.Locator{}.Attribute("disks." + slot + ".imported_disk.volume")
		v.Diags.AddAttributeWarning(at, v.Prior.Thing()+" has no volume "+volume,
			fmt.Sprintf("%s has %s, and nothing is changed: the name is taken for one that the volume had before. Leave "+
				"imported_disk out, or name one that the VM has; detached it has %s.", slot, model.Value(was.Volume),
				detached))
	default:
		v.refuseVolume(slot, "imported_disk.volume", "The VM has no volume %s. Detached it has %s.", volume, detached)
	}
}

// aliasOf is the other name by which the VM has a volume, or another slot is to get it. Nil: there is none, or that
// cannot be told now; the update looks again.
func (v *volumeNames) aliasOf(ctx context.Context, volume string, held guest.Holdings) (alias *guard.AliasError) {
	held.Next = slices.Concat(held.Next, slices.Sorted(maps.Values(v.Attached)))
	node, vmid := model.Value(v.Prior.Node), int(model.Value(v.Prior.VMID))
	errors.As(v.Machines.CheckAlias(ctx, node, vmid, volume, held), &alias)
	return alias
}

// holdings asks once. Nil: the server cannot be asked.
func (v *volumeNames) holdings(ctx context.Context) *guest.Holdings {
	if v.asked || v.Machines == nil {
		return v.held
	}
	v.asked = true
	var sized, named []string
	slots, _ := v.Config.Keys("disks")
	for _, slot := range slots {
		if volume := v.Config.Text("disks." + slot + ".imported_disk.volume"); volume != "" {
			named = append(named, volume)
		}
		if v.Config.IsSet("disks." + slot + ".size") {
			sized = append(sized, v.Config.Text("disks."+slot+".imported_disk.volume"))
		}
	}
	if held, err := v.Machines.Holdings(ctx, v.Prior.Ref(v.Private), sized, named); err == nil {
		v.held = &held
	}
	return v.held
}

func (v *volumeNames) refuseVolume(slot, key, format string, args ...string) {
	at, _ := model.Locator{}.Attribute("disks." + slot + "." + key)
	v.Refuse(at, validation.Fill(format, args))
}

// withAttached is the configuration with the volumes of the slots that get others. One that is not known yet may be
// another: what follows from a change of the VM is open by then, not only once the volume is known.
func (v *volumeNames) withAttached(config tftypes.Value) tftypes.Value {
	return model.EachDisk(config, func(slot string, disk map[string]tftypes.Value) {
		if volume, attached := v.Attached[slot]; attached {
			disk["volume"] = model.Text(volume)
		} else if !v.Config.At("disks." + slot + ".imported_disk.volume").IsKnown() {
			disk["volume"] = tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
		}
	})
}

// withUnknowns is the plan with unknown values for what follows from another volume in a slot.
func (v *volumeNames) withUnknowns(planned tftypes.Value) tftypes.Value {
	return model.EachDisk(planned, func(slot string, disk map[string]tftypes.Value) {
		if _, attached := v.Attached[slot]; !attached && v.Config.At("disks."+slot+".imported_disk.volume").IsKnown() {
			return
		}
		// Another resource makes an unknown one: the apply learns which it is, and its size and format.
		for _, key := range []string{"storage", "format", "size"} {
			if v.Config.IsNull("disks." + slot + "." + key) {
				disk[key] = tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
			}
		}
	})
}
