package tfvm

import (
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// refuseProtected refuses what PVE would refuse at apply.
func (p *planning) refuseProtected(verb string) {
	if value(p.prior.Protection) {
		p.diags.AddAttributeError(path.Root("protection"), "Cannot "+verb+" "+p.prior.thing(),
			"The VM is protected: PVE refuses to remove it. Set protection = false and apply, then "+verb+" it.")
	}
}

// runs reports whether the VM runs, and goes on running as far as the plan says.
func (p *planning) runs() bool {
	return value(p.prior.Status) == "running" && value(p.plan.PowerState) != string(guest.Stopped)
}

// refuseChanges refuses what cannot be changed in place and is no reason to replace the VM either.
func (p *planning) refuseChanges() {
	p.refuseTemplate()
	p.refuseProtectedDisks()
	p.refuseProtectedDrives()
	p.refuseDisksWithoutStorage()
	if p.changesUUID() && value(p.prior.Status) == "running" {
		p.refuse(path.Root("smbios").AtName("uuid"),
			"By its uuid the provider knows the VM again, and PVE changes that of a running VM at its next start only. "+
				"Stop the VM first, with power_state = \"stopped\" in an apply of its own.")
	}
	if p.runs() {
		p.refuseRemovingBootDisk()
		p.refuseGrowthOfImport()
	}
	if p.diags.HasError() || !p.config.raw.IsFullyKnown() {
		return
	}
	if is, was := p.plan.CPU, p.prior.CPU; is != nil && is.Type == nil && (was == nil || was.Type == nil) && needsCPUType(is) {
		p.refuse(path.Root("cpu").AtName("type"), cpuNeedsType)
	}
	p.refuseDifferences()
}

// refuseTemplate refuses to convert a running VM.
func (p *planning) refuseTemplate() {
	if value(p.plan.Template) && !value(p.prior.Template) && p.runs() {
		p.refuse(path.Root("template"),
			"The VM runs, and PVE makes templates of stopped VMs only. Set power_state = \"stopped\" as well: the VM is then shut down first.")
	}
}

// refuseProtectedDisks refuses to take a disk or a CD-ROM drive from a protected VM.
func (p *planning) refuseProtectedDisks() {
	if !value(p.prior.Protection) {
		return
	}
	for _, slot := range sortedSlots(p.prior.Disks) {
		if p.leaves(slot) {
			p.refuse(path.Root("disks").AtMapKey(slot),
				"The VM is protected: PVE refuses to take a disk from it. Set protection = false and apply, then remove the disk.")
		}
	}
	for _, slot := range sortedSlots(p.prior.CDROMs) {
		if _, stays := p.plan.CDROMs[slot]; !stays && p.managed("cdroms."+slot) {
			p.refuse(path.Root("cdroms").AtMapKey(slot),
				"The VM is protected: PVE refuses to take a drive from it. Set protection = false and apply, then remove the drive; "+
					"file = \"none\" empties it at once.")
		}
	}
}

// refuseProtectedDrives refuses to take a drive from a protected VM that has no slot in the configuration.
func (p *planning) refuseProtectedDrives() {
	if !value(p.prior.Protection) {
		return
	}
	drive := p.prior.CloudInit != nil && p.prior.CloudInit.Slot != nil
	for _, group := range []struct {
		name   string
		leaves bool
	}{
		{"cloud_init", drive && (p.plan.CloudInit == nil || p.plan.CloudInit.Storage == nil)},
		{"efi_disk", p.prior.EFIDisk != nil && p.plan.EFIDisk == nil},
		{"tpm_state", p.prior.TPMState != nil && p.plan.TPMState == nil},
	} {
		if group.leaves {
			p.refuse(path.Root(group.name),
				"The VM is protected: PVE refuses to take a drive from it. Set protection = false and apply, then remove "+group.name+".")
		}
	}
}

// refuseDisksWithoutStorage refuses new disks that nothing says the storage of.
func (p *planning) refuseDisksWithoutStorage() {
	for _, slot := range sortedSlots(p.plan.Disks) {
		at := "disks." + slot
		if _, existed := p.prior.Disks[slot]; existed || p.plan.copies() || p.plan.Disks[slot].Storage != nil {
			continue
		}
		if p.config.at(at+".storage").IsNull() && p.config.at(at+".imported_disk").IsNull() {
			p.refuse(path.Root("disks").AtMapKey(slot).AtName("storage"), "A new disk needs a storage.")
		}
	}
	for _, group := range []string{"efi_disk", "tpm_state"} {
		storage := tfplan.At(p.value, group, "storage")
		if !p.plan.copies() && p.config.isSet(group) && storage.IsKnown() && storage.IsNull() {
			p.refuse(path.Root(group).AtName("storage"), fill("%s needs a storage.", []string{group}))
		}
	}
}

// refuseRemovingBootDisk refuses to take a disk from the running VM that it boots from: PVE refuses it.
func (p *planning) refuseRemovingBootDisk() {
	for _, slot := range sortedSlots(p.prior.Disks) {
		if moves := p.plan.hasVolume(p.prior.Disks[slot].Volume); p.leaves(slot) && !moves &&
			slices.Contains(p.prior.BootOrder, slot) && vm.TakesDisk(slot, p.prior.Hotplug) {
			p.refuse(path.Root("disks").AtMapKey(slot), fmt.Sprintf("The VM runs and boots from %s, and PVE takes no such disk from a running VM. "+
				"Set power_state = \"stopped\" as well, or stop the VM first.", slot))
		}
	}
}

// refuseGrowthOfImport refuses to grow a new disk that is made of an image, where its slot waits for a restart that nobody
// is to make.
func (p *planning) refuseGrowthOfImport() {
	if value(p.plan.RebootPolicy) != "never" {
		return
	}
	waiting := vm.NeedsRestart(p.before.spec(false), p.after.spec(false))
	for _, slot := range sortedSlots(p.plan.Disks) {
		if slices.Contains(p.prior.PendingChanges, slot) { // it may be the disk that waits there; the update looks
			continue
		}
		d := p.plan.Disks[slot]
		if _, existed := p.prior.Disks[slot]; !existed && d.ImportFrom != nil && d.Size != nil && slices.Contains(waiting, slot) {
			p.refuse(path.Root("disks").AtMapKey(slot).AtName("size"),
				fmt.Sprintf("PVE imports a disk with the size of its image and grows what is attached, and it attaches %s at the next stop and start, "+
					"which reboot_policy = \"never\" leaves to you. Stop the VM, or leave size out until then.", slot))
		}
	}
}

// refuseDifferences refuses the differences of which package vm knows no way to carry them out in place.
func (p *planning) refuseDifferences() {
	for _, problem := range vm.Diff(p.before.spec(false), p.after.spec(false)).Problems {
		_, planned := p.plan.Disks[problem.Option]
		if _, existed := p.prior.Disks[problem.Option]; planned && !existed && p.plan.copies() {
			continue // the clone may have it from its template; the update looks
		}
		if at, ok := p.plan.locator().Parameter(problem.Option); ok {
			p.refuse(at, problem.Text+p.wayOut(problem.Option))
		} else {
			p.diags.AddError("Cannot change "+p.prior.thing(), problem.Option+": "+problem.Text)
		}
	}
}

// wayOut is what helps where PVE changes no drive in place.
func (p *planning) wayOut(option string) string {
	switch option {
	case "efidisk0":
		return ". To have another one, take efi_disk out of the configuration, apply, and put it back: " +
			"it is made anew, and what the firmware has stored on it, such as boot entries and keys, is gone"
	case "tpmstate0":
		return ". To have another one, take tpm_state out of the configuration, apply, and put it back: " +
			"it is made anew, and the keys in it, such as BitLocker's, are gone"
	}
	was, is := value(p.prior.Disks[option].Size), value(p.plan.Disks[option].Size)
	if !isLarger(was, is) {
		return ""
	}
	return ". " + waysToKeepSize(option, was)
}

// refuseSlotChanges refuses what a running VM does not let go of: disks that are to change their slots, and the state of its
// TPM (qemu-server QemuServer.pm clone_disk).
func (p *planning) refuseSlotChanges() {
	if !p.runs() {
		return
	}
	was, is := p.prior.TPMState, p.plan.TPMState
	if was != nil && is != nil && differ(was.Storage, is.Storage) && !differ(p.prior.Node, p.plan.Node) {
		p.refuse(path.Root("tpm_state").AtName("storage"),
			"The VM runs, and PVE moves the state of a TPM with a stopped VM only. Stop the VM for it, with power_state = \"stopped\".")
	}
	for _, slot := range sortedSlots(p.plan.Disks) {
		volume := p.volumes.attached[slot]
		for _, old := range sortedSlots(p.prior.Disks) {
			if volume == "" || old == slot || value(p.prior.Disks[old].Volume) != volume {
				continue
			}
			if why := p.whyNotUnplugged(old, slot); why != "" {
				p.refuse(path.Root("disks").AtMapKey(slot).AtName("imported_disk"), fmt.Sprintf("The VM runs, and %s does not change its slot "+
					"then: %s. Stop the VM for it, with power_state = \"stopped\".", volume, why))
			}
		}
	}
}

// whyNotUnplugged says why a disk of the running VM cannot go from one slot to another, "" if it can.
func (p *planning) whyNotUnplugged(old, slot string) string {
	from, to := vm.TakesDisk(old, p.prior.Hotplug), vm.TakesDisk(slot, p.prior.Hotplug)
	switch {
	case !from && to:
		return fmt.Sprintf("PVE takes it out of %s at the next stop only, and puts it into %s at once", old, slot)
	case from && slices.Contains(p.prior.BootOrder, old):
		return fmt.Sprintf("%s is in the boot order, and PVE unplugs no such disk", old)
	}
	return ""
}
