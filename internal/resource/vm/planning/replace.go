package planning

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// replaceDestroyed plans the replacement of a VM that a destroy has removed, though not all that it had: there is
// nothing to update. What is left is tried again by the destroy that begins the replacement.
func (p *Planning) replaceDestroyed(ctx context.Context) {
	p.Value = plan.Edit(p.Value, map[string]bool{"uuid": true}, nil) // else Terraform sees no difference to replace it for
	p.replace = path.Paths{path.Root("uuid")}
	p.diags.Append(model.WriteReplaced(ctx, p.out, p.Prior)...)
}

// planReplacement lists what cannot change in place: the id, and the sources. A source that was not known before is
// only recorded, as is one that is no longer said, and one that differs from what another provider's state said: how
// that is written here is a translation, and a slip in it is no reason to destroy a VM.
func (p *Planning) planReplacement() {
	prior, planned := p.Prior, p.Plan
	if vmid := plan.At(p.Value, "vmid"); prior.VMID != nil && (!vmid.IsKnown() || planned.VMID != nil &&
		*planned.VMID != *prior.VMID) {
		p.replace.Append(path.Root("vmid"))
	}
	// PVE has no way back
	if model.Value(prior.Template) && !model.Value(planned.Template) && plan.At(p.Value, "template").IsKnown() {
		p.replace.Append(path.Root("template"))
	}
	if was, is := prior.Clone, planned.Clone; was != nil && is != nil && p.managed("clone") {
		p.replace.Append(changedSource(was, is)...)
		if was.SourceVMID != nil && !plan.At(p.Value, "clone", "vmid").IsKnown() { // the source is replaced itself
			p.replace.Append(path.Root("clone").AtName("vmid"))
		}
	}
	if was, is := prior.Restore, planned.Restore; was != nil && is != nil && p.managed("restore") &&
		model.Differ(was.Archive, is.Archive) {
		p.replace.Append(path.Root("restore").AtName("archive"))
	}
	p.planNewImages()
}

// planNewImages lists the disks whose image is another one.
func (p *Planning) planNewImages() {
	prior, plan := p.Prior, p.Plan
	for _, slot := range model.SortedSlots(plan.Disks) {
		if was, ok := prior.Disks[slot]; ok && model.Differ(was.ImportFrom, plan.Disks[slot].ImportFrom) &&
			p.managed("disks."+slot+".import_from") {
			p.replace.Append(path.Root("disks").AtMapKey(slot).AtName("import_from"))
		}
	}
	if was, is := prior.EFIDisk, plan.EFIDisk; was != nil && is != nil && model.Differ(was.ImportFrom, is.ImportFrom) {
		p.replace.Append(path.Root("efi_disk").AtName("import_from"))
	}
	if was, is := prior.TPMState, plan.TPMState; was != nil && is != nil && model.Differ(was.ImportFrom, is.ImportFrom) {
		p.replace.Append(path.Root("tpm_state").AtName("import_from"))
	}
}

// changedSource compares two sources of a clone. Another way to name the VM that was really cloned is no other source.
func changedSource(was, is *model.Clone) path.Paths {
	var all path.Paths
	at := path.Root("clone")
	source := was.SourceVMID
	if source == nil {
		source = was.VMID
	}
	if is.VMID != nil && source != nil && *is.VMID != *source {
		all.Append(at.AtName("vmid"))
	}
	if model.Differ(was.Name, is.Name) {
		all.Append(at.AtName("name"))
	}
	if len(was.Tags) > 0 && len(is.Tags) > 0 && !slices.Equal(model.Lowered(was.Tags), model.Lowered(is.Tags)) {
		all.Append(at.AtName("tags"))
	}
	if model.Differ(was.Snapshot, is.Snapshot) {
		all.Append(at.AtName("snapshot"))
	}
	if was.Full != nil && is.Full != nil && *was.Full != *is.Full {
		all.Append(at.AtName("full"))
	}
	return all
}

// refuseReplacingAdopted refuses to make a VM of volumes that the VM which it replaces has: they go with that one.
func (p *Planning) refuseReplacingAdopted() {
	for _, a := range p.Plan.Adopts() {
		if held := p.Run.heldBy(int(model.Value(p.Plan.VMID))); slices.Contains(held, a.Volume) {
			p.diags.AddAttributeError(path.Root("disks").AtMapKey(a.Slot).AtName("imported_disk"),
				"Cannot replace "+p.Plan.Thing(),
				fmt.Sprintf("%s is a disk of the VM that is to be replaced, and PVE would destroy it with that VM. If its "+
					"create failed, `terraform untaint` with the VM's address keeps it, and the next apply does what is missing. "+
					"To begin with an empty disk instead, give %s a storage and a size in the place of "+
					"imported_disk.", a.Volume, a.Slot))
		}
	}
}
