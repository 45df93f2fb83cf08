package tfvm

import (
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// wayOut is what helps where PVE changes no drive in place.
func wayOut(option string) string {
	switch option {
	case "efidisk0":
		return ". To have another one, take efi_disk out of the configuration, apply, and put it back: it is made anew, and what the firmware has stored on it, such as boot entries and keys, is gone"
	case "tpmstate0":
		return ". To have another one, take tpm_state out of the configuration, apply, and put it back: it is made anew, and the keys in it, such as BitLocker's, are gone"
	}
	return ""
}

// held refuses what PVE refuses to change while the guest runs, as far as the state tells.
func held(prior, plan model, managed tfplan.Managed) diag.Diagnostics {
	var diags diag.Diagnostics
	if value(prior.Status) != "running" || value(plan.PowerState) == string(provision.Stopped) {
		return diags
	}
	summary := "Cannot change " + prior.thing()
	for slot, was := range prior.Disks {
		if vm.SlotOf(plan.spec(false).Disks, value(was.Volume)) != "" {
			continue // it changes its slot
		}
		if _, stays := plan.Disks[slot]; !stays && managed["disks."+slot] && slices.Contains(prior.BootOrder, slot) && vm.TakesDisk(slot, prior.Hotplug) {
			diags.AddAttributeError(path.Root("disks").AtMapKey(slot), summary,
				fmt.Sprintf("The VM runs and boots from %s, and PVE takes no such disk from a running VM. Set power_state = \"stopped\" as well, or stop the VM first.", slot))
		}
	}
	if value(plan.RebootPolicy) != "never" {
		return diags
	}
	before, after := alike(prior, plan, managed)
	waiting := vm.NeedsRestart(before.spec(false), after.spec(false))
	for slot, d := range plan.Disks {
		if slices.Contains(prior.PendingChanges, slot) { // it may be the disk that waits there; the update looks
			continue
		}
		if _, existed := prior.Disks[slot]; !existed && d.ImportFrom != nil && d.Size != nil && slices.Contains(waiting, slot) {
			diags.AddAttributeError(path.Root("disks").AtMapKey(slot).AtName("size"), summary,
				fmt.Sprintf("PVE imports a disk with the size of its image and grows what is attached, and it attaches %s at the next stop and start, which reboot_policy = \"never\" leaves to you. Stop the VM, or leave size out until then.", slot))
		}
	}
	return diags
}
