package change

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/validation"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// refusals are the errors of a plan that the state and the configuration show.
type refusals struct{ *Change }

// RefuseRemoval refuses to destroy or replace a VM that is protected, as PVE would, or that has data of others.
func (p *Change) RefuseRemoval(verb string) {
	if model.Value(p.Prior.Protection) {
		p.RefuseToRemove(model.Value(p.Prior.VMID), p.Prior.Thing(), verb)
	}
	for _, t := range p.Prior.Taken() {
		p.Diags.Append(ErrTaken(t))
	}
}

// RefuseToRemove refuses it of a protected VM. It names an attribute for a replacement alone: the block of a VM that is
// destroyed may be gone, or have protection = false already.
func (p *Change) RefuseToRemove(vmid int64, thing, verb string) {
	summary, block := "Cannot "+verb+" "+thing+": it is protected", ""
	if verb == "destroy" {
		block = ", in its block, which is put back for that if it was removed"
	}
	detail := fmt.Sprintf("PVE refuses to remove a protected VM. Apply protection = false first%s, and %s it then. Or "+
		"lift it on a node of the cluster: %s.", block, verb,
		shell.Or(shell.VM("qm set {vmid} --protection 0", int(vmid)), shell.ByHand))
	if verb == "destroy" {
		p.Diags.AddError(summary, detail)
	} else {
		p.Diags.AddAttributeError(path.Root("protection"), summary, detail)
	}
}

// RefuseInPlace refuses what cannot be changed in place and is no reason to replace the VM either.
func (p *Change) RefuseInPlace(ctx context.Context) {
	refusals{p}.refuseChanges()
	refusals{p}.refuseSlotChanges(ctx)
}

func (p refusals) refuseChanges() {
	p.refuseTemplate()
	p.refuseProtectedDrives()
	p.refuseDisksWithoutStorage()
	p.RefuseLimits()
	p.refuseDisplacing()
	p.refuseOverCloudInit()
	if p.Swaps("smbios.uuid") == Other && model.Value(p.Prior.Status) == "running" {
		p.Refuse(path.Root("smbios").AtName("uuid"),
			"By its uuid the provider knows the VM again, and PVE changes that of a running VM at its next start only. "+
				"Stop the VM first, with power_state = \"stopped\" in an apply of its own.")
	}
	if p.Runs() {
		p.refuseRemovingBootDisk()
		p.refuseGrowthOfImport()
		p.refuseColdSlots()
	}
	if p.Diags.HasError() || !p.Config.Raw.IsFullyKnown() {
		return
	}
	p.refuseBootOrder()
	p.refuseOtherMedia()
	p.RefuseCombinations()
	if is, was := p.Plan.CPU, p.Prior.CPU; is != nil && is.Type == nil && (was == nil || was.Type == nil) &&
		model.NeedsCPUType(is) {
		p.Refuse(path.Root("cpu").AtName("type"), validation.CPUNeedsType)
	}
	p.refuseDifferences()
}

// refuseTemplate refuses to convert a running VM, or one that gets a disk by a name which the conversion changes
// (qemu-server QemuServer.pm template_create).
func (p refusals) refuseTemplate() {
	if model.Value(p.Prior.Template) && model.Value(p.Plan.Template) &&
		model.Value(p.Plan.PowerState) == "running" {
		p.Refuse(path.Root("power_state"), "The VM is a template, which PVE does not start. A third party may have made it "+
			"one. Write template = true, and leave power_state out.")
	}
	if !model.Value(p.Plan.Template) || model.Value(p.Prior.Template) {
		return
	}
	if p.Runs() {
		p.Refuse(path.Root("template"),
			"The VM runs, and PVE makes templates of stopped VMs only. Set power_state = \"stopped\" as well: the VM is then "+
				"shut down first.")
	}
	for _, slot := range model.SortedSlots(p.Attached) {
		volume := p.Attached[slot]
		if volid.IsDevice(volume) {
			continue
		}
		at, _ := model.Locator{}.Attribute("disks." + slot + ".imported_disk.volume")
		p.Refuse(at, fmt.Sprintf("PVE gives the disks of a VM that becomes a template new names, %s too. Make two applies: "+
			"first put the disk into %s, then set template = true.", volume, slot))
	}
}

// refuseProtectedDrives refuses to take a drive from a protected VM, unless the plan is known to end that: the update
// ends it before a drive leaves.
func (p refusals) refuseProtectedDrives() {
	if !model.Value(p.Prior.Protection) || p.Config.At("protection").IsKnown() && !model.Value(p.After.Protection) {
		return
	}
	refuse := func(leaves bool, at path.Path, drive, otherwise string) {
		if leaves {
			p.Refuse(at, "The VM is protected: PVE refuses to take a "+drive+" from it. Set protection = false as well"+
				otherwise+".")
		}
	}
	for _, slot := range model.SortedSlots(p.Prior.Disks) {
		refuse(p.Leaves(slot), path.Root("disks").AtMapKey(slot), "disk", "")
	}
	for _, slot := range model.SortedSlots(p.Prior.CDROMs) {
		_, stays := p.Plan.CDROMs[slot]
		refuse(!stays && p.Managed("cdroms."+slot), path.Root("cdroms").AtMapKey(slot), "drive",
			"; file = \"none\" empties it without that")
	}
	cloudInit := p.Was("cloud_init.slot") && (p.Goes("cloud_init") || p.Goes("cloud_init.storage"))
	refuse(cloudInit, path.Root("cloud_init"), "drive", "")
	refuse(p.Goes("efi_disk"), path.Root("efi_disk"), "drive", "")
	refuse(p.Goes("tpm_state"), path.Root("tpm_state"), "drive", "")
}

// refuseDisksWithoutStorage refuses new disks that nothing says the storage of.
func (p refusals) refuseDisksWithoutStorage() {
	for _, slot := range model.SortedSlots(p.Plan.Disks) {
		at := "disks." + slot
		if _, existed := p.Prior.Disks[slot]; existed || p.Plan.Copies() || p.Plan.Disks[slot].Storage != nil {
			continue
		}
		if p.Config.At(at+".storage").IsNull() && p.Config.At(at+".imported_disk").IsNull() {
			p.Refuse(path.Root("disks").AtMapKey(slot).AtName("storage"), "A new disk needs a storage.")
		}
	}
	for _, group := range []string{"efi_disk", "tpm_state"} {
		storage := plan.At(p.Value, group, "storage")
		if !p.Plan.Copies() && p.Config.IsSet(group) && storage.IsKnown() && storage.IsNull() {
			p.Refuse(path.Root(group).AtName("storage"), validation.Fill("%s needs a storage.", []string{group}))
		}
	}
}

// RefuseLimits refuses limits against those that a disk has from the source of its VM, or from another tool.
func (p *Change) RefuseLimits() {
	planned := &validation.Validation{Configuration: model.Configuration{Raw: p.Value}}
	slots, _ := p.Config.Keys("disks")
	for _, slot := range slots {
		planned.Limits("disks."+slot+".throttle", p.Config, false)
	}
	p.Diags.Append(planned.Diags...)
}

// refuseRemovingBootDisk refuses to take a drive from the running VM that it boots from: PVE refuses it.
func (p refusals) refuseRemovingBootDisk() {
	for _, slot := range model.SortedSlots(p.Prior.Disks) {
		if moves := p.Plan.HasVolume(p.Prior.Disks[slot].Volume); p.Leaves(slot) && !moves {
			p.refuseUnplugging(path.Root("disks").AtMapKey(slot), slot, howToStay(p.Plan, "disks."+slot))
		}
	}
	stays, known := p.opticalDrives(p.Plan), p.Config.At("cdroms").IsKnown() && p.Config.At("cloud_init").IsKnown()
	for _, slot := range model.SortedSlots(p.Prior.CDROMs) {
		if _, found := stays[slot]; !found && known && p.Managed("cdroms."+slot) {
			p.refuseUnplugging(path.Root("cdroms").AtMapKey(slot), slot, howToStay(p.Plan, "cdroms."+slot))
		}
	}
	p.refuseRemovingCloudInit()
}

// refuseRemovingCloudInit refuses to take the cloud-init drive from a slot of the running VM that PVE empties at the
// next stop only, if it is to be in another slot: PVE takes no second one (qemu-server API2/Qemu.pm create_disks).
func (p refusals) refuseRemovingCloudInit() {
	had := p.Prior.CloudInit
	moves := p.Swaps("cloud_init.slot") == Other
	if had == nil || had.Slot == nil || !moves && !p.Goes("cloud_init") && !p.Goes("cloud_init.storage") {
		return
	}
	slot, at := *had.Slot, path.Root("cloud_init")
	if moves {
		at = at.AtName("slot")
	}
	if _, medium := p.Plan.CDROMs[slot]; medium && !moves {
		return
	}
	if moves && !vm.TakesDisk(slot, p.Prior.Hotplug) {
		p.Refuse(at, fmt.Sprintf("The VM runs, and PVE detaches the cloud-init drive from %s at the next stop only, and "+
			"takes no second one before. Set power_state = \"stopped\" as well, or stop the VM first.", slot))
		return
	}
	p.refuseUnplugging(at, slot, "")
}

// refuseUnplugging refuses that a drive leaves the running VM if it boots from it.
func (p refusals) refuseUnplugging(at path.Path, slot, keep string) {
	if slices.Contains(p.Prior.BootOrder, slot) && vm.TakesDisk(slot, p.Prior.Hotplug) {
		p.Refuse(at, fmt.Sprintf("The VM runs and boots from %s, and PVE takes no such drive from a running VM.%s To take "+
			"it out, set power_state = \"stopped\" as well, or stop the VM first.", slot, keep))
	}
}

// refuseGrowthOfImport refuses to grow a new disk that is made of an image, where its slot waits for a restart
// that the user is to make.
func (p refusals) refuseGrowthOfImport() {
	if model.Value(p.Plan.RebootPolicy) != "never" {
		return
	}
	waiting := vm.NeedsRestart(p.Before.Spec(false), p.After.Spec(false))
	for _, slot := range model.SortedSlots(p.Plan.Disks) {
		if slices.Contains(p.Prior.PendingChanges, slot) { // it may be the disk that waits there; the update looks
			continue
		}
		d := p.Plan.Disks[slot]
		if _, existed := p.Prior.Disks[slot]; !existed && d.ImportFrom != nil && d.Size != nil &&
			slices.Contains(waiting, slot) {
			p.Refuse(path.Root("disks").AtMapKey(slot).AtName("size"),
				fmt.Sprintf("PVE imports a disk with the size of its image and grows what is attached, and it attaches %s at "+
					"the next stop and start, which reboot_policy = \"never\" leaves to you. Stop the VM, or leave size out until "+
					"then.", slot))
		}
	}
}

// refuseDifferences refuses the differences of which package vm knows no way to carry them out in place.
func (p refusals) refuseDifferences() {
	for _, problem := range vm.Diff(p.Before.Spec(false), p.After.Spec(false)).Problems {
		_, planned := p.Plan.Disks[problem.Option]
		if _, existed := p.Prior.Disks[problem.Option]; planned && !existed && p.Plan.Copies() {
			continue // the clone may have it from its template; the update looks
		}
		at, _ := p.Plan.Locator().Attribute(problem.At)
		p.Refuse(at, problem.Text+p.wayOut(problem.Option))
	}
}

// wayOut is what helps where PVE changes no drive in place.
func (p refusals) wayOut(option string) string {
	const out = ". To have another one, take %s out of the configuration, apply, and put it back: it is replaced, and %s"
	switch option {
	case "efidisk0":
		return fmt.Sprintf(out, "efi_disk", "what the firmware has stored on it, such as boot entries and keys, is gone")
	case "tpmstate0":
		return fmt.Sprintf(out, "tpm_state", "the keys in it, such as BitLocker's, are gone")
	}
	was, is := model.Value(p.Prior.Disks[option].Size), model.Value(p.Plan.Disks[option].Size)
	if !model.IsLarger(was, is) {
		return ""
	}
	return ". " + waysToKeepSize(option, was)
}

// refuseTPMMove refuses to move the state of a running VM's TPM. A migration takes it along, to the storage to which it
// takes the first drive of its own (vm.StorageMap), unless that is shared (qemu-server QemuMigrate.pm
// scan_local_volumes). One by HA leaves all where they are.
func (p refusals) refuseTPMMove(ctx context.Context) {
	was, is := p.Prior.TPMState, p.Plan.TPMState
	if was == nil || is == nil || was.Storage == nil || is.Storage == nil {
		return
	}
	arrives, why := *was.Storage, ""
	if model.Differ(p.Prior.Node, p.Plan.Node) && p.Prior.HA == nil && p.Facts != nil {
		isShared, err := p.Facts.IsShared(ctx, *was.Storage)
		if err != nil { // the apply finds out
			return
		}
		why = " The migration leaves it on its storage, which is shared."
		if before := p.Prior.Spec(false); !isShared {
			arrives = cmp.Or(vm.StorageMap(before, before, p.Plan.Spec(false))[*was.Storage], arrives)
			why = fmt.Sprintf(" The migration takes it to %s, with the other drives on its storage.", arrives)
		}
	}
	if arrives != *is.Storage {
		p.Refuse(path.Root("tpm_state").AtName("storage"), "The VM runs, and PVE moves the state of a TPM with a stopped VM "+
			"only."+why+" Stop the VM for it, with power_state = \"stopped\".")
	}
}

// refuseSlotChanges refuses what a running VM does not let go of: disks that are to change their slots, the disk that
// it boots from, where its slot gets another (qemu-server QemuServer.pm vmconfig_update_disk), and the state of its TPM
// (clone_disk). It tells of the disks that it lets go of at once.
func (p refusals) refuseSlotChanges(ctx context.Context) {
	if !p.Runs() {
		return
	}
	p.refuseTPMMove(ctx)
	for _, slot := range model.SortedSlots(p.Plan.Disks) {
		volume := p.Attached[slot]
		if was := model.Value(p.Prior.Disks[slot].Volume); volume != "" && was != "" && was != volume {
			p.refuseUnplugging(path.Root("disks").AtMapKey(slot).AtName("imported_disk"), slot, "")
		}
		for _, old := range model.SortedSlots(p.Prior.Disks) {
			if volume == "" || old == slot || model.Value(p.Prior.Disks[old].Volume) != volume {
				continue
			}
			at := path.Root("disks").AtMapKey(slot).AtName("imported_disk")
			if why := p.whyNotUnplugged(old, slot); why != "" {
				p.Refuse(at, fmt.Sprintf("The VM runs, and %s does not change its slot then: %s. Stop the VM for it, with "+
					"power_state = \"stopped\".", volume, why))
			} else if loses := warnings(p).unplugged(old); loses != "" {
				p.Diags.AddAttributeWarning(at, fmt.Sprintf("%s of %s is unplugged while the guest runs", old, p.Prior.Thing()),
					fmt.Sprintf("%s changes its slot.%s The guest gets it back in %s. With power_state = \"stopped\" the disk "+
						"changes its slot while the VM is off.", volume, loses, slot))
			}
		}
	}
}

// whyNotUnplugged says why a disk of the running VM cannot go from one slot to another, "" if it can.
func (p refusals) whyNotUnplugged(old, slot string) string {
	from, to := vm.TakesDisk(old, p.Prior.Hotplug), vm.TakesDisk(slot, p.Prior.Hotplug)
	switch {
	case !from && to:
		return fmt.Sprintf("PVE takes it out of %s at the next stop only, and puts it into %s at once", old, slot)
	case from && !to:
		return fmt.Sprintf("PVE takes it out of %s at once, and puts it into %s at the next start only, so that the guest "+
			"would run without it", old, slot)
	case from && slices.Contains(p.Prior.BootOrder, old):
		return fmt.Sprintf("%s is in the boot order, and PVE unplugs no such disk", old)
	}
	return ""
}
