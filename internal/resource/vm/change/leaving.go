package change

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// warnOfLostDisks names the disks that a waiting change of their slots takes from the VM with this apply, where another
// disk has the slot by the state, or a third party has it removed. PVE carries out all that waits at the stop of the
// guest, and with the first request to a VM that is off, or its start (qemu-server QemuServer.pm vm_stop_cleanup,
// vm_start_nolock, API2/Qemu.pm update_vm_api).
func (p restart) warnOfLostDisks(ctx context.Context) {
	isKnown := p.Facts != nil && p.Prior.Node != nil && p.Prior.VMID != nil
	if !isKnown || p.Acting || !slices.ContainsFunc(p.Prior.PendingChanges, vm.IsSlot) {
		return
	}
	before, after := p.Before.Spec(false), p.After.Spec(false)
	writes := p.IsStarted() || p.Plan.HA.Starts() || !vm.Diff(before, after).Empty()
	is, err := p.Facts.InForce(ctx)
	if err != nil {
		return
	}
	is.Removed = maps.Clone(is.Removed)
	maps.DeleteFunc(is.Removed, func(slot, _ string) bool { return p.warnOfLeaving(slot, is) || p.warnOfBoth(slot, is) })
	p.warnNotYet(is, before, vm.Diff(before, after))
	if is.Running && !p.Plan.EndsStopped() || !is.Running && !writes {
		return
	}
	when := "with the first request to the VM, which is off, or with its start"
	if is.Running {
		when = "at the stop of the guest"
	}
	has, known, gets := vm.Encode(is.Spec), vm.Encode(before), vm.Encode(after)
	for _, slot := range slices.Sorted(maps.Keys(is.Removed)) {
		loses := known[slot] != "" && guest.VolumeOf(gets[slot]) != guest.VolumeOf(has[slot])
		if gets[slot] == "" {
			loses = slices.Contains(p.Private.Foreign(p.Prior), slot)
		}
		if !loses {
			continue
		}
		keep := shell.Or(shell.VM("qm set {vmid} --revert {}", int(*p.Prior.VMID), slot), shell.ByHand)
		p.Diags.AddAttributeWarning(p.attributeOf(slot), slot+" of "+p.Prior.Thing()+" loses a disk",
			fmt.Sprintf("A change of the slot waits, and PVE carries it out %s: %s. To keep that disk in %s, take the change "+
				"back before this apply: %s on node %s.", when, is.Removed[slot], slot, keep, *p.Prior.Node))
	}
}

// warnNotYet tells of disks that the plan moves or grows while they wait for a restart of the guest, where none is to
// come: PVE would move or grow the disk that is in force until then (qemu-server API2/Qemu.pm move_vm_disk, resize_vm).
func (p restart) warnNotYet(is preflight.InForce, before vm.Spec, change vm.Change) {
	if !is.Running || p.Restarts || p.Plan.EndsStopped() {
		return
	}
	shaped := map[string]string{}
	for _, m := range change.Moves {
		shaped[m.Slot] = "moved"
	}
	for _, g := range change.Grow {
		shaped[g.Slot] = "grown"
	}
	for _, slot := range slices.Sorted(maps.Keys(shaped)) {
		waits, has := before.Disks[slot].Volume, is.Spec.Disks[slot].Volume
		if waits == "" || waits == has {
			continue
		}
		p.Diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot), fmt.Sprintf("%s of %s cannot be %s yet", slot,
			p.Prior.Thing(), shaped[slot]), fmt.Sprintf("%s waits for the next stop and start of the VM, which has %s in it "+
			"until then: the apply will be refused. Stop and start the VM first.", waits, cmp.Or(has, "nothing")))
	}
}

// warnOfLeaving tells of a disk that waits to leave a slot in which the plan makes one, since the state does not have
// it any more: the update keeps one that was the VM's, refuses to make another disk in its place, and lets one go that
// a third party had given the VM. It returns whether the slot has such a disk.
func (p restart) warnOfLeaving(slot string, is preflight.InForce) bool {
	if !p.isInPlaceOf(slot, is) {
		return false
	}
	has := is.Spec.EveryDisk()[slot]
	keep := fmt.Sprintf("To keep that disk, take its removal back before this apply: %s on node %s.",
		shell.Or(shell.VM("qm set {vmid} --revert {}", int(*p.Prior.VMID), slot), shell.ByHand), *p.Prior.Node)
	disk := has.Named() + " is in it, and waits to leave."
	at, of := p.attributeOf(slot), slot+" of "+p.Prior.Thing()
	switch {
	case p.keepsLeaving(slot, is) && p.isOpen(slot):
		p.Diags.AddAttributeWarning(at, of+" may keep its disk", disk+" Whether another volume is named for the slot is not "+
			"known yet. If one is, the apply is refused. Else it takes that back, makes no new disk, and goes on with this "+
			"one and its content.")
	case p.keepsLeaving(slot, is):
		p.Diags.AddAttributeWarning(at, of+" keeps its disk", disk+" The apply takes that back. It makes no new disk, but "+
			"goes on with this one and its content.")
	case p.isOwnLeaving(slot, is):
		p.Diags.AddAttributeWarning(at, of+" cannot be as planned", disk+" It is larger than the planned disk or of "+
			"another type, or has another size than it had. The apply makes no new disk in its place: it will be refused. "+
			keep)
	case p.Runs() && vm.IsBusSlot(slot) && vm.IsCold(slot) && vm.TakesDisk("scsi0", p.Prior.Hotplug):
		p.Diags.AddAttributeWarning(at, of+" cannot be as planned", disk+" PVE takes no disk out of IDE or SATA while "+
			"the VM runs, to put another in its place: the apply will be refused. Stop the VM first, or choose another slot.")
	default:
		p.Diags.AddAttributeWarning(at, of+" loses a disk", fmt.Sprintf("%s Another disk takes its place: %s. %s", disk,
			is.Removed[slot], keep))
	}
	return true
}

// warnOfBoth tells of the disk in force in a slot that leaves the configuration, where another one waits for its place,
// which is all that the state knows: the update lets go of both, and destroys only that of the state.
func (p restart) warnOfBoth(slot string, is preflight.InForce) bool {
	has, waits := is.Spec.EveryDisk()[slot], p.Before.Spec(false).EveryDisk()[slot]
	stay := p.After.Spec(false).EveryDisk()
	_, stays := stay[slot]
	if stays || waits.Volume == "" || waits.Volume == has.Volume || vm.SlotOf(stay, has.Volume) != "" {
		return false
	}
	p.Diags.AddAttributeWarning(p.attributeOf(slot), slot+" of "+p.Prior.Thing()+" has another disk as well",
		fmt.Sprintf("%s is in it until the guest stops, and %s waits for its place. The apply takes that back, and lets "+
			"go of both. The first one is detached when the guest stops, and stays with the VM: removed_disks does not "+
			"destroy it.", has.Named(), waits.Volume))
	return true
}

// attributeOf is the attribute of a disk in a slot.
func (p restart) attributeOf(slot string) path.Path {
	a, _ := vm.AttributeOf(slot)
	at, _ := p.Plan.Locator().Attribute(a.In(slot))
	return at
}

// isInPlaceOf reports whether a plan makes a disk in a slot that has one which waits to leave.
func (p restart) isInPlaceOf(slot string, is preflight.InForce) bool {
	_, known := p.Before.Spec(false).EveryDisk()[slot]
	_, isPlanned := p.After.Spec(false).EveryDisk()[slot]
	return isPlanned && !known && is.Removed[slot] != ""
}

// isOwnLeaving reports whether a disk that waits to leave its slot was the VM's in state, and is no other than planned.
func (p restart) isOwnLeaving(slot string, is preflight.InForce) bool {
	has, wanted := is.Spec.EveryDisk()[slot], p.After.Spec(false).EveryDisk()[slot]
	return slices.Contains(p.Private.Detached, has.Volume) && (wanted.Volume == "" || wanted.Volume == has.Volume)
}

// keepsLeaving reports whether the update takes back the removal of a disk, since it can be the planned one.
func (p restart) keepsLeaving(slot string, is preflight.InForce) bool {
	noted := p.Private.Sizes[is.Spec.EveryDisk()[slot].Volume]
	return p.isInPlaceOf(slot, is) && p.isOwnLeaving(slot, is) && vm.CanStay(slot, noted, is.Spec, p.After.Spec(false))
}

// isOpen reports whether it is not known yet if a disk is a certain volume.
func (p restart) isOpen(slot string) bool {
	return !p.Config.At("disks." + slot + ".imported_disk.volume").IsKnown()
}

// WarnNotDestroyed names the own disks that have left their slots since the state was written, where the configuration
// destroys removed disks and does not have the slots: a run was cut off between the two, or a third party has detached
// them. The state has none of them any more, so no later plan would name them.
func WarnNotDestroyed(p *Change) {
	if model.Value(p.Plan.RemovedDisks) != "destroy" || !p.Config.At("disks").IsKnown() {
		return
	}
	for _, slot := range model.SortedSlots(p.Lost) {
		gone, entry := p.Lost[slot], ""
		for unused, volume := range p.Prior.UnusedVolumes {
			if volume == gone.Volume {
				entry = unused
			}
		}
		_, stays := p.Plan.Disks[slot]
		isOwn := slices.Contains(p.Private.Detached, gone.Volume)
		if stays || !isOwn || entry == "" && !gone.Leaves || p.Attaches(gone.Volume) {
			continue
		}
		until := ""
		if entry == "" {
			entry, until = "unusedN", fmt.Sprintf(" PVE takes it out of %s at the next stop, and it is unusedN then.", slot)
		}
		p.Diags.AddAttributeWarning(path.Root("removed_disks"), fmt.Sprintf("%s of %s is detached and not destroyed",
			slot, p.Prior.Thing()),
			fmt.Sprintf("An apply that was cut off, or a third party, has detached volume %s. removed_disks = \"destroy\" "+
				"destroys only the disks that an apply detaches, and no later plan names this one.%s If its data is not needed, "+
				"%s as root on node %s destroys it.", gone.Volume, until, shell.Or(shell.VM("qm unlink {vmid} --idlist {}",
				int(model.Value(p.Prior.VMID)), entry), "its removal"), model.Value(p.Prior.Node)))
	}
}
