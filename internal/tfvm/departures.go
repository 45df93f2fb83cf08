package tfvm

import (
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// departures warns of every drive that leaves the VM, with what becomes of its volume.
func departures(prior, plan model, managed tfplan.Managed, seats *seating) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, slot := range slices.SortedFunc(mapKeys(prior.Disks), bySlot) {
		disk := prior.Disks[slot]
		if _, stays := plan.Disks[slot]; !stays && managed["disks."+slot] && !seats.seats(value(disk.Volume)) {
			departure(&diags, path.Root("disks").AtMapKey(slot), prior, plan, slot, disk.Volume, disk.Size)
		}
	}
	if prior.EFIDisk != nil && plan.EFIDisk == nil {
		departure(&diags, path.Root("efi_disk"), prior, plan, "efidisk0", prior.EFIDisk.Volume, nil)
	}
	if prior.TPMState != nil && plan.TPMState == nil {
		departure(&diags, path.Root("tpm_state"), prior, plan, "tpmstate0", prior.TPMState.Volume, nil)
	}
	for _, slot := range slices.Sorted(mapKeys(plan.Disks)) {
		now, was := value(plan.Disks[slot].Volume), value(prior.Disks[slot].Volume)
		if _, attached := seats.attach[slot]; attached && was != "" && now != was && !seats.seats(was) {
			diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot).AtName("volume"), fmt.Sprintf("%s of %s gets another volume", slot, prior.thing()),
				fmt.Sprintf("%s is detached for it and stays with the VM.", was))
		}
	}
	return diags
}

func departure(diags *diag.Diagnostics, at path.Path, prior, plan model, slot string, volume, size *string) {
	if volume == nil {
		return
	}
	name, large := *volume, ""
	if size != nil {
		large = " (" + *size + ")"
	}
	owner, _ := vm.VolumeOwner(name)
	switch {
	case int64(owner) != value(prior.VMID):
		diags.AddAttributeWarning(at, fmt.Sprintf("%s of %s is detached", slot, prior.thing()),
			fmt.Sprintf("Its volume %s%s carries the id of another VM. It is never destroyed: the VM lets go of it, and it stays on its storage.", name, large))
	case value(plan.RemovedDisks) == "destroy":
		diags.AddAttributeWarning(at, fmt.Sprintf("%s of %s is destroyed with its data", slot, prior.thing()),
			fmt.Sprintf("The slot leaves the configuration, and removed_disks = \"destroy\": volume %s%s is destroyed in the apply, for good.", name, large))
	default:
		diags.AddAttributeWarning(at, fmt.Sprintf("%s of %s is detached", slot, prior.thing()),
			fmt.Sprintf("Its volume %s%s stays with the VM as an unused disk, and is destroyed with the VM. To use it again name it in a slot: volume = %q. removed_disks = \"destroy\" destroys such volumes instead.", name, large, name))
	}
}

// confusions warns where a new, empty disk is to be made although one like it leaves another slot: most likely the disk was
// to be moved.
func confusions(config tftypes.Value, prior, plan model, managed tfplan.Managed, seats *seating) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, slot := range slices.SortedFunc(mapKeys(plan.Disks), bySlot) {
		if _, existed := prior.Disks[slot]; existed || !tfplan.At(config, "disks", slot, "volume").IsNull() || !tfplan.At(config, "disks", slot, "import_from").IsNull() {
			continue
		}
		is := plan.Disks[slot]
		for _, old := range slices.SortedFunc(mapKeys(prior.Disks), bySlot) {
			was := prior.Disks[old]
			_, stays := plan.Disks[old]
			if stays || !managed["disks."+old] || was.Volume == nil || seats.seats(*was.Volume) || value(was.Storage) != value(is.Storage) || !alikeInSize(was.Size, is.Size) {
				continue
			}
			diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot), fmt.Sprintf("%s of %s will be a new, empty disk", slot, prior.thing()),
				fmt.Sprintf("%s leaves the configuration, with %s on the same storage and of the same size. To move that disk with its data from %s to %s instead, name its volume: disks.%s.volume = %q.",
					old, *was.Volume, old, slot, slot, *was.Volume))
			break
		}
	}
	return diags
}

func alikeInSize(a, b *string) bool {
	return a != nil && b != nil && sameSize(text(*a), text(*b))
}

// unmovable refuses what a running VM does not let go of: disks, and the state of its TPM (qemu-server QemuServer.pm
// clone_disk).
func unmovable(prior, plan model, seats *seating) diag.Diagnostics {
	var diags diag.Diagnostics
	if value(prior.Status) != "running" || value(plan.PowerState) == string(provision.Stopped) {
		return diags
	}
	if was, is := prior.TPMState, plan.TPMState; was != nil && is != nil && moved(was.Storage, is.Storage) && !moved(prior.Node, plan.Node) {
		diags.AddAttributeError(path.Root("tpm_state").AtName("storage"), "Cannot change "+prior.thing(),
			"The VM runs, and PVE moves the state of a TPM with a stopped VM only. Stop the VM for it, with power_state = \"stopped\".")
	}
	for _, slot := range slices.Sorted(mapKeys(plan.Disks)) {
		for old, was := range prior.Disks {
			if was.Volume == nil || *was.Volume != seats.attach[slot] || old == slot {
				continue
			}
			var why string
			switch {
			case !vm.TakesDisk(old, prior.Hotplug) && vm.TakesDisk(slot, prior.Hotplug):
				why = fmt.Sprintf("PVE takes it out of %s at the next stop only, and puts it into %s at once", old, slot)
			case vm.TakesDisk(old, prior.Hotplug) && slices.Contains(prior.BootOrder, old):
				why = fmt.Sprintf("%s is in the boot order, and PVE unplugs no such disk", old)
			default:
				continue
			}
			diags.AddAttributeError(path.Root("disks").AtMapKey(slot).AtName("volume"), "Cannot change "+prior.thing(),
				fmt.Sprintf("The VM runs, and %s does not change its slot then: %s. Stop the VM for it, with power_state = \"stopped\".", *was.Volume, why))
		}
	}
	return diags
}
