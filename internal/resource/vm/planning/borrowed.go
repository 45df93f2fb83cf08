package planning

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
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
		v.diags.AddAttributeError(at, volume+" is on another node", fmt.Sprintf("%s. The VM is to be on node %s. Next step: "+
			"set node = %q for the VM, or have the disk on node %s or on a storage that the nodes share (node and storage of "+
			"its proxmox_disk).", elsewhere.Error(), elsewhere.Node, elsewhere.On, elsewhere.Node))
		return nil
	}
	var taken *volumeuse.BorrowedError
	if errors.As(err, &taken) { // what could not be looked at the apply looks at again
		v.diags.AddAttributeWarning(at, volume+" belongs to another user now",
			taken.Error()+". Two guests on one disk destroy what is on it, so the apply attaches it only if it is free by "+
				"then: where the same apply takes it from the other VM, let this one depend on that one (depends_on).")
	}
	return nil
}

// nodeOfAttach is the node of the VM when the apply attaches disks, after a migration; "" if it is not known yet.
func (v *volumeNames) nodeOfAttach() string {
	if node := v.Config.At("node"); !node.IsKnown() || v.Config.IsSet("node") || v.creating() {
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
			v.diags.Append(errTaken(t))
			return true
		}
	}
	return false
}

// refuseTaken refuses to destroy such data with their VM.
func (p refusals) refuseTaken(taken []volumeuse.Taken) {
	for _, t := range taken {
		p.diags.Append(errTaken(t))
	}
}

func errTaken(t volumeuse.Taken) diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(path.Root("disks").AtMapKey(t.Slot).AtName("imported_disk"), t.Summary(),
		t.Detail("Nothing was touched")+".")
}

// RefuseTaken refuses an update that would exchange such data, or destroy them since their slot leaves the
// configuration. It also refuses one after which they could not be told from the VM's own any more.
func RefuseTaken(prior, planned model.Model) diag.Diagnostics {
	diags := refuseUnnamed(prior, planned)
	for _, t := range prior.Taken() {
		now, stays := planned.Disks[t.Slot]
		exchanged := now.Imported != nil && model.Value(now.Imported.Volume) != t.Own
		for _, disk := range planned.Disks { // in another slot
			exchanged = exchanged || disk.Imported != nil && model.Value(disk.Imported.Volume) == t.Held
		}
		if exchanged || !stays && model.Value(planned.RemovedDisks) == "destroy" {
			diags.Append(errTaken(t))
		}
	}
	return diags
}

// refuseUnnamed refuses that a slot keeps the disk of another VM and stops naming it: only the name in state shows that
// data which are moved in this VM later are that disk's.
func refuseUnnamed(prior, planned model.Model) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, slot := range model.SortedSlots(prior.Disks) {
		was, has := prior.Disks[slot].Imported, model.Value(prior.Disks[slot].Volume)
		now, stays := planned.Disks[slot]
		if !stays || now.Imported != nil || was == nil || !prior.Borrows(model.Value(was.Volume)) || !prior.Borrows(has) {
			continue
		}
		diags.AddAttributeError(path.Root("disks").AtMapKey(slot), "Cannot change "+prior.Thing(),
			fmt.Sprintf("%s has %s, which carries the id of another VM, and imported_disk is not set any more. Without it "+
				"nothing would show whose data they are once the disk is moved in this VM, and they would be destroyed with "+
				"it. Nothing was touched. Keep imported_disk, and leave out storage and size. To have another disk in %s, take "+
				"the slot out of disks in one apply, and give it the new disk in the next.", slot, has, slot))
	}
	return diags
}

// warnExchanged tells of the disks that make room for another volume in their slots, or may, since it is not known yet.
// A running guest loses such a disk at once where it lets go of it.
func (p warnings) warnExchanged() {
	for _, slot := range model.SortedSlots(p.Plan.Disks) {
		was := model.Value(p.Prior.Disks[slot].Volume)
		_, attached := p.volumes.attached[slot]
		isOpen := !p.Config.At("disks." + slot + ".imported_disk.volume").IsKnown()
		if was == "" || !isOpen && (!attached || model.Value(p.Plan.Disks[slot].Volume) == was) || p.volumes.attaches(was) {
			continue
		}
		gets, when, stays := "gets", "", "with the VM as an unused disk, and is destroyed with the VM"
		if isOpen {
			gets, when = "may get", "Which one it gets is not known yet. If it is another one: "
		}
		switch {
		case volid.IsDevice(was):
			stays = "on its node"
		case p.Prior.Borrows(was):
			stays = "on its storage: it carries the id of another VM"
		}
		p.diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot).AtName("imported_disk"),
			fmt.Sprintf("%s of %s %s another volume", slot, p.Prior.Thing(), gets),
			fmt.Sprintf("%s%s is detached for it and stays %s.%s", when, was, stays, p.unplugged(slot)))
	}
}

// unplugged says what a running guest loses at once where a disk leaves one of some slots, "" where it loses nothing:
// PVE does not ask whether it is mounted (qemu-server QemuServer.pm vmconfig_hotplug_pending, vm_deviceunplug).
func (p warnings) unplugged(slots ...string) string {
	if p.runs() && slices.ContainsFunc(slots, func(slot string) bool { return vm.TakesDisk(slot, p.Prior.Hotplug) }) {
		return " PVE takes it from the running guest, mounted or not. Unmount it in the guest first."
	}
	return ""
}

// inForce asks once whether the guest runs and, where something waits for its restart, with which values.
func (v *volumeNames) inForce(ctx context.Context) (preflight.InForce, error) {
	if v.now != nil {
		return *v.now, nil
	}
	waits := len(v.Prior.PendingChanges) > 0
	now, err := v.Machines.InForce(ctx, model.Value(v.Prior.Node), int(model.Value(v.Prior.VMID)), waits)
	if err == nil {
		v.now = &now
	}
	return now, err
}

// warnReplugged tells of the devices that leave a running guest for good, or come back with other values, or may, since
// a value is not known yet.
func (p restart) warnReplugged(unknown []string, before, after vm.Spec) {
	if !p.runs() {
		return
	}
	told, open := vm.Replugged(before, after), map[string][]string{}
	warn := func(slot, is, why string) {
		p.diags.AddAttributeWarning(p.attributeOf(slot), fmt.Sprintf("%s of %s %s unplugged while the guest runs", slot,
			p.Prior.Thing(), is), why)
	}
	say := func(slot, is, first string) {
		warn(slot, is, first+"PVE takes it from the running guest, and plugs it in again with the new values. That cuts off "+
			"its use, and the guest may know it by another name then. Set power_state = \"stopped\" to change it while the VM "+
			"is off.")
	}
	for _, slot := range vm.Unplugged(before, after) {
		a, _ := vm.AttributeOf(slot)
		warn(slot, "is", "It leaves the configuration, and PVE takes it from the running guest at once."+
			howToStay(p.Plan, a.In(slot)))
	}
	for _, slot := range told {
		say(slot, "is", "")
	}
	for _, at := range unknown {
		for _, slot := range vm.MayReplug(at, before) {
			open[slot] = append(open[slot], at)
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(open)) {
		if !slices.Contains(told, slot) {
			say(slot, "may be", fmt.Sprintf("%s %s not known yet. If that changes the device: ",
				strings.Join(open[slot], ", "), are(open[slot])))
		}
	}
}

// are is the verb of attributes.
func are(paths []string) string {
	if len(paths) == 1 {
		return "is"
	}
	return "are"
}

// howToStay says how a device that leaves the configuration stays. Once one was configured, no configuration leaves it
// alone again, not even that which a clone has from its template.
func howToStay(plan model.Model, at string) string {
	if plan.Clone != nil {
		return " To keep it, write " + at + " again, also where the clone has it from its template."
	}
	return " To keep it, write " + at + " again."
}
