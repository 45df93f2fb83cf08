package planning

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// replaceDestroyed plans the replacement of a VM that a destroy has removed, though not all that it had: there is
// nothing to update. The rest is tried again by the destroy that begins the replacement.
func (p *Planning) replaceDestroyed(ctx context.Context) {
	p.Value = plan.Edit(p.Value, map[string]bool{"uuid": true}, nil) // else Terraform sees no difference to replace it for
	p.replace = path.Paths{path.Root("uuid")}
	p.Diags.Append(model.WriteReplaced(ctx, p.out, p.Prior)...)
}

// planReplacement lists what cannot change in place: the id, and the sources. A source that was not known before is
// only recorded, as is one that is no longer said, and one that differs from what another provider's state said: how
// that is written here is a translation, and a slip in it is no reason to destroy a VM. A value that is not known yet
// may be another: an update cannot become a replacement in the apply.
func (p *Planning) planReplacement() {
	p.replaceFor(true, path.Root("vmid"), "vmid")
	switch {
	case !model.Value(p.Prior.Template) || model.Value(p.Plan.Template):
	case p.Private.Frozen && p.Config.At("template").IsKnown():
		p.Refuse(path.Root("template"), "A third party made the VM a template, and PVE has no way back: another VM would "+
			"take its place, with empty disks or those of its source, and the template would be destroyed. To keep the "+
			"template, write template = true. To have another VM in its place all the same, use \"terraform apply "+
			"-replace\".")
	default: // PVE has no way back
		p.replace.Append(path.Root("template"))
	}
	p.planNewSource()
	for _, slot := range model.SortedSlots(p.Prior.Disks) {
		at := "disks." + slot + ".import_from"
		p.replaceFor(p.Managed(at), path.Root("disks").AtMapKey(slot).AtName("import_from"), at)
	}
	p.replaceFor(true, path.Root("efi_disk").AtName("import_from"), "efi_disk.import_from")
	p.replaceFor(true, path.Root("tpm_state").AtName("import_from"), "tpm_state.import_from")
}

// refuseImported refuses to replace a VM that was just imported, or moved from another provider.
func refuseImported(ctx context.Context, p *Planning, prior kit.PrivateReader) {
	if p.Private.Proof != nil {
		return
	}
	wants := "another VM (see " + p.replace[0].String() + ")"
	if id := model.Value(p.Plan.VMID); id != 0 && id != model.Value(p.Prior.VMID) {
		wants = fmt.Sprintf("VM %d", id)
	}
	p.Diags.Append(kit.RefuseImported(ctx, prior, p.Prior.Thing(), wants)...)
}

// meetOthers holds what becomes of a VM in state against the other plans of the run: the VM may be in state twice, and
// a replacement may want the VMID of a VM that stays. The rest of a failed create is not that VM.
func meetOthers(p *Planning) {
	if p.State.IsNull() || p.Diags.HasError() || p.Private.Proof != nil {
		return
	}
	was, goes := model.Value(p.Prior.VMID), p.Value.IsNull() || len(p.replace) > 0
	uuid := cmp.Or(strings.ToLower(model.Value(p.Prior.UUID)), p.Private.Identity.CTime)
	one := fmt.Sprintf("VM %d %s", was, uuid)
	p.Diags.Append(kit.RefuseSplit(p.Session, one, p.Prior.Thing(), p.Plan.Thing(), goes)...)
	const taken = "VMID %d is taken by a VM that stays"
	id := func(vmid int64) string { return fmt.Sprintf("VMID %d", vmid) }
	const why = "%s is replaced by a VM with this id, which %s has. The old VM would be destroyed, and the new one " +
		"could not be made. Nothing was changed. Choose another vmid, or leave it out."
	if wants := model.Value(p.Plan.VMID); goes && wants != 0 && wants != was {
		for _, other := range kit.Meet(p.Session, id(wants), p.Prior.Thing(), kit.Comes, kit.Stays) {
			p.Diags.AddAttributeError(path.Root("vmid"), fmt.Sprintf(taken, wants), fmt.Sprintf(why, p.Prior.Thing(), other))
		}
	} else if !goes {
		for _, other := range kit.Meet(p.Session, id(was), p.Prior.Thing(), kit.Stays, kit.Comes) {
			p.Diags.AddAttributeError(path.Root("vmid"), fmt.Sprintf(taken, was), fmt.Sprintf(why, other, p.Prior.Thing()))
		}
	}
}

// replaceFor replaces the VM for a value in the place of another one.
func (p *Planning) replaceFor(applies bool, where path.Path, at string) {
	if applies && p.Swaps(at) != change.Same {
		p.replace.Append(where)
	}
}

// planNewSource compares the VM or the backup that a copy was made of with that of the plan. Another way to name the VM
// that was really cloned is no other source.
func (p *Planning) planNewSource() {
	p.replaceFor(p.Managed("restore"), path.Root("restore").AtName("archive"), "restore.archive")
	if !p.Managed("clone") || !p.Stays("clone") {
		return
	}
	at := path.Root("clone")
	for _, key := range []string{"name", "snapshot", "full"} {
		p.replaceFor(true, at.AtName(key), "clone."+key)
	}
	was, is := p.Prior.Clone, p.Plan.Clone
	source := was.SourceVMID
	if source == nil {
		source = was.VMID
	}
	if p.Compare("clone.vmid") == change.Open && source != nil ||
		is != nil && is.VMID != nil && source != nil && *is.VMID != *source {
		p.replace.Append(at.AtName("vmid"))
	}
	sameTags := is != nil && slices.Equal(model.Lowered(was.Tags), model.Lowered(is.Tags))
	if len(was.Tags) > 0 && (p.Compare("clone.tags") == change.Open || is != nil && len(is.Tags) > 0 && !sameTags) {
		p.replace.Append(at.AtName("tags"))
	}
}

// refuseReplacingAdopted refuses to make a VM of volumes that the VM which it replaces has, or has under another name:
// they go with that one. Terraform tells the plan of a new VM neither whether it replaces one nor which, and with
// -refresh=false nothing has read that. So the server is asked for the VM with the id that the volumes carry.
func (p *Planning) refuseReplacingAdopted(ctx context.Context) {
	if p.Machines == nil || p.Acting { // in the apply, the VM is gone by now
		return
	}
	owners, known := adoptable(p), p.Plan.VMID != nil
	for _, vmid := range slices.Sorted(maps.Keys(owners)) {
		replaces := p.Run.Seen(vmid).InState || p.Private.Replaces == vmid
		if !replaces && !known { // such as the VM that holds a proxmox_disk
			continue
		}
		held, there, err := p.Machines.HoldingsListed(ctx, vmid, model.Value(p.Plan.Node),
			slices.Collect(maps.Values(owners[vmid])))
		var places volumeuse.Places
		if there && err == nil {
			places, err = p.Machines.Places(ctx)
		}
		if err == nil && !there || err != nil && !replaces { // else the create looks
			continue
		}
		summary, otherwise := "Cannot replace "+p.Plan.Thing(), ""
		if !replaces {
			summary = fmt.Sprintf("VMID %d is taken", vmid)
			otherwise = " A VM that is not in the state is taken over with `terraform import`."
		}
		for _, slot := range slices.Sorted(maps.Keys(owners[vmid])) {
			why := whyNotAdopted(vmid, owners[vmid][slot], held, places, err)
			if why == "" && slices.Contains(p.Run.Seen(vmid).Former, owners[vmid][slot]) {
				why = fmt.Sprintf("A disk of VM %d was given %s, and has another volume by now: what has that name is an old copy",
					vmid, owners[vmid][slot])
			}
			if why != "" {
				p.Diags.AddAttributeError(path.Root("disks").AtMapKey(slot).AtName("imported_disk"), summary,
					fmt.Sprintf("%s. A replacement destroys the VM, and PVE its disks with it. If its create failed, `terraform "+
						"untaint` with the VM's address keeps it, and the next apply does what is missing.%s To begin with an "+
						"empty disk instead, give %s a storage and a size in the place of imported_disk.", why, otherwise, slot))
			}
		}
	}
}

// adoptable are the volumes that a new VM adopts by slot, by the VMID that they carry. An id that is not known yet may
// be that.
func adoptable(p *Planning) map[int]map[string]string {
	all := map[int]map[string]string{}
	for slot, volume := range p.Attached {
		owner, ok := volid.Owner(volume)
		if !ok || p.volumes.borrowed[volume] || p.Plan.VMID != nil && p.Plan.Borrows(volume) {
			continue
		}
		if all[owner] == nil {
			all[owner] = map[string]string{}
		}
		all[owner][slot] = volume
	}
	return all
}

// whyNotAdopted says why a volume cannot be adopted from beside a VM that is there; "": it is free. Two storages may be
// one place, so the VM may have it under another name. unread is why it is not known what the VM has.
func whyNotAdopted(vmid int, volume string, held guest.Holdings, places volumeuse.Places, unread error) string {
	if unread != nil {
		return fmt.Sprintf("%s may be a disk of VM %d, which cannot be told (%v)", volume, vmid, unread)
	}
	if has, how := places.Likest(volume, slices.Values(held.All())); how != volumeuse.Apart {
		return fmt.Sprintf("%s is a disk of VM %d", has, vmid)
	}
	if _, isFree := held.Loose[volume]; isFree {
		return ""
	}
	return fmt.Sprintf("VM %d is there, and %s was not found: it may have moved, and be a disk of the VM under another "+
		"name", vmid, volume)
}
