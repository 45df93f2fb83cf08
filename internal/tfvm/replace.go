package tfvm

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// anew plans the replacement of a VM that a destroy has removed, though not all that it had: there is nothing to update.
// What is left is tried again by the destroy that begins the replacement.
func anew(ctx context.Context, resp *resource.ModifyPlanResponse, planned tftypes.Value, prior model) diag.Diagnostics {
	resp.Plan.Raw = tfplan.Edit(planned, map[string]bool{"uuid": true}, nil) // else Terraform sees no difference to replace it for
	resp.RequiresReplace = path.Paths{path.Root("uuid")}
	return noteReplaced(ctx, resp.Private, prior)
}

// noteReplaced tells the second plan of a replacement, which knows no prior state, what is replaced.
func noteReplaced(ctx context.Context, private keyWriter, prior model) diag.Diagnostics {
	vmid, err := json.Marshal(value(prior.VMID))
	if err != nil {
		var diags diag.Diagnostics
		diags.AddError("Cannot note the VMID of a VM that is replaced", err.Error())
		return diags
	}
	return private.SetKey(ctx, keyReplaces, vmid)
}

// replacement lists what cannot change in place: the id, and the sources. A source that was not known before is only
// recorded, as is one that is no longer said.
func replacement(planned tftypes.Value, prior, plan model) path.Paths {
	var all path.Paths
	if vmid := tfplan.At(planned, "vmid"); prior.VMID != nil && (!vmid.IsKnown() || plan.VMID != nil && *plan.VMID != *prior.VMID) {
		all.Append(path.Root("vmid"))
	}
	if was, is := prior.Clone, plan.Clone; was != nil && is != nil {
		all.Append(otherSource(was, is)...)
		if was.SourceVMID != nil && !tfplan.At(planned, "clone", "vmid").IsKnown() { // the source is replaced itself
			all.Append(path.Root("clone").AtName("vmid"))
		}
	}
	for slot, d := range plan.Disks {
		if was, ok := prior.Disks[slot]; ok && moved(was.ImportFrom, d.ImportFrom) {
			all.Append(path.Root("disks").AtMapKey(slot).AtName("import_from"))
		}
	}
	if was, is := prior.EFIDisk, plan.EFIDisk; was != nil && is != nil && moved(was.ImportFrom, is.ImportFrom) {
		all.Append(path.Root("efi_disk").AtName("import_from"))
	}
	if was, is := prior.TPMState, plan.TPMState; was != nil && is != nil && moved(was.ImportFrom, is.ImportFrom) {
		all.Append(path.Root("tpm_state").AtName("import_from"))
	}
	return all
}

// otherSource compares two sources of a clone. Another way to name the VM that was really cloned is no other source.
func otherSource(was, is *cloneModel) path.Paths {
	var all path.Paths
	at := path.Root("clone")
	source := was.SourceVMID
	if source == nil {
		source = was.VMID
	}
	if is.VMID != nil && source != nil && *is.VMID != *source {
		all.Append(at.AtName("vmid"))
	}
	if moved(was.Name, is.Name) {
		all.Append(at.AtName("name"))
	}
	if len(was.Tags) > 0 && len(is.Tags) > 0 && !slices.Equal(lowered(was.Tags), lowered(is.Tags)) {
		all.Append(at.AtName("tags"))
	}
	if moved(was.Snapshot, is.Snapshot) {
		all.Append(at.AtName("snapshot"))
	}
	if was.Full != nil && is.Full != nil && *was.Full != *is.Full {
		all.Append(at.AtName("full"))
	}
	return all
}

// refused are changes that cannot be made in place and are no reason to replace the VM either.
func refused(config tftypes.Value, prior, plan model, managed tfplan.Managed) diag.Diagnostics {
	var diags diag.Diagnostics
	summary := "Cannot change " + prior.thing()
	if value(prior.Template) && !value(plan.Template) {
		diags.AddAttributeError(path.Root("template"), summary,
			"A template cannot become a VM again: PVE has no way back. Clone it, or set template = true.")
	}
	if stays := plan.PowerState == nil || *plan.PowerState == string(provision.Running); value(plan.Template) && !value(prior.Template) && stays && value(prior.Status) == "running" {
		diags.AddAttributeError(path.Root("template"), summary,
			"The VM runs, and PVE makes templates of stopped VMs only. Set power_state = \"stopped\" as well: the VM is then shut down first.")
	}
	for slot := range prior.Disks {
		if _, stays := plan.Disks[slot]; !stays && value(prior.Protection) && managed["disks."+slot] {
			diags.AddAttributeError(path.Root("disks").AtMapKey(slot), summary,
				"The VM is protected: PVE refuses to take a disk from it. Set protection = false and apply, then remove the disk.")
		}
	}
	for slot := range prior.CDROMs {
		if _, stays := plan.CDROMs[slot]; !stays && value(prior.Protection) && managed["cdroms."+slot] {
			diags.AddAttributeError(path.Root("cdroms").AtMapKey(slot), summary,
				"The VM is protected: PVE refuses to take a drive from it. Set protection = false and apply, then remove the drive; file = \"none\" empties it at once.")
		}
	}
	for group, leaves := range map[string]bool{
		"efi_disk":   prior.EFIDisk != nil && plan.EFIDisk == nil,
		"tpm_state":  prior.TPMState != nil && plan.TPMState == nil,
		"cloud_init": prior.CloudInit != nil && prior.CloudInit.Slot != nil && (plan.CloudInit == nil || plan.CloudInit.Storage == nil),
	} {
		if leaves && value(prior.Protection) {
			diags.AddAttributeError(path.Root(group), summary,
				"The VM is protected: PVE refuses to take a drive from it. Set protection = false and apply, then remove "+group+".")
		}
	}
	for slot, d := range plan.Disks {
		_, existed := prior.Disks[slot]
		if at := path.Root("disks").AtMapKey(slot); !existed && plan.Clone == nil && d.Storage == nil && tfplan.At(config, "disks", slot, "storage").IsNull() && tfplan.At(config, "disks", slot, "volume").IsNull() {
			diags.AddAttributeError(at.AtName("storage"), summary, "A new disk needs a storage.")
		}
	}
	if was, is := prior.SMBIOS, plan.SMBIOS; was != nil && is != nil && moved(was.UUID, is.UUID) && value(prior.Status) == "running" {
		diags.AddAttributeError(path.Root("smbios").AtName("uuid"), summary,
			"By its uuid the provider knows the VM again, and PVE changes that of a running VM at its next start only. Stop the VM first, with power_state = \"stopped\" in an apply of its own.")
	}
	diags.Append(held(prior, plan, managed)...)
	if diags.HasError() || !config.IsFullyKnown() {
		return diags
	}
	if is := plan.CPU; is != nil && is.Type == nil && (prior.CPU == nil || prior.CPU.Type == nil) && is.hasDetails() {
		diags.AddAttributeError(path.Root("cpu").AtName("type"), summary, cpuNeedsType)
	}
	before, after := alike(prior, plan, managed)
	for _, p := range vm.Diff(before.spec(false), after.spec(false)).Problems {
		_, planned := plan.Disks[p.Option]
		if _, existed := prior.Disks[p.Option]; planned && !existed && plan.Clone != nil {
			continue // the clone may have it from its template; the update looks
		}
		if at, ok := plan.locator().Parameter(p.Option); ok {
			diags.AddAttributeError(at, summary, p.Text+wayOut(p.Option))
		} else {
			diags.AddError(summary, p.Option+": "+p.Text)
		}
	}
	return diags
}
