package planning

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// source is what a new VM is copied of: a volume, or another VM.
type source struct {
	At     string       // the attribute that names it
	Volume string       `json:",omitempty"`
	Clone  *guest.Clone `json:",omitempty"`
}

// sourcesOf are those of a VM, as far as they are known and may go with a VM.
func sourcesOf(m model.Model) []source {
	var all []source
	add := func(at string, volume *string) {
		if _, owned := volid.Owner(model.Value(volume)); owned {
			all = append(all, source{At: at + ".import_from", Volume: *volume})
		}
	}
	for _, slot := range model.SortedSlots(m.Disks) {
		add("disks."+slot, m.Disks[slot].ImportFrom)
	}
	if m.EFIDisk != nil {
		add("efi_disk", m.EFIDisk.ImportFrom)
	}
	if m.TPMState != nil {
		add("tpm_state", m.TPMState.ImportFrom)
	}
	if c := m.Clone.Request(); c != nil && (c.VMID != 0 || c.Name != "" || len(c.Tags) > 0) {
		all = append(all, source{At: c.Path(), Clone: c})
	}
	return all
}

// goesWith reports whether a source is gone once a VM is destroyed. A volume that carries the id of the VM counts under
// any name: the disk may have moved since.
func (s source) goesWith(leaves pve.Resource) bool {
	if s.Clone == nil {
		owner, owned := volid.Owner(s.Volume)
		return owned && owner == leaves.VMID
	}
	return s.Clone.Means(leaves)
}

// refuseRecordedSources refuses to name a disk that the same apply destroys as the source of one that is there already:
// nothing is copied of it.
func refuseRecordedSources(p *Planning) {
	mayDestroy := !p.Config.At("removed_disks").IsKnown() || model.Value(p.Plan.RemovedDisks) == "destroy"
	for _, slot := range model.SortedSlots(p.Plan.Disks) {
		was, is := p.Prior.Disks[slot], model.Value(p.Plan.Disks[slot].ImportFrom)
		if was.Volume == nil || is == "" || is == model.Value(was.ImportFrom) || !mayDestroy {
			continue
		}
		for _, other := range model.SortedSlots(p.Prior.Disks) {
			volume := model.Value(p.Prior.Disks[other].Volume)
			if volid.Same(volume, is) && p.leaves(other) && !p.volumes.attaches(volume) {
				p.refuse(path.Root("disks").AtMapKey(slot).AtName("import_from"), fmt.Sprintf("%s has a disk already, so nothing "+
					"is copied into it: import_from is only recorded. %s leaves %s and is destroyed, since removed_disks is "+
					"\"destroy\". Give the copy a slot that is free, and apply that alone first. Or leave import_from out.",
					slot, is, other))
			}
		}
	}
}

// listed is a VM in state as PVE's listing has it.
func listed(m model.Model) pve.Resource {
	return pve.Resource{Type: "qemu", VMID: int(model.Value(m.VMID)), Node: model.Value(m.Node),
		Name: model.Value(m.Name), Tags: strings.Join(m.AllTags(), ";"), Template: model.Value(m.Template)}
}

// noteSources passes on what a new VM is copied of to the destroy of the VM that it replaces, if it does. Terraform
// tells no plan whether the new VM is made first. But it hands a destroy the private state of the new VM's plan only
// where the destroy comes first; with create_before_destroy it plans the destroy by itself, with the private state of
// the old VM (terraform internal/terraform, node_resource_destroy.go and node_resource_destroy_deposed.go). So every
// other plan drops the note, and so does the one within the apply.
func noteSources(ctx context.Context, p *Planning, prior kit.PrivateReader) diag.Diagnostics {
	key := kit.Note[[]source](model.KeySources)
	was, diags := key.Read(ctx, prior)
	var is []source
	if p.creating() && !p.Run.acts() && !p.left {
		is = append([]source{}, sourcesOf(p.Plan)...)
	}
	if was != nil || is != nil {
		diags.Append(key.Write(ctx, p.out, is)...)
	}
	return diags
}

// IsReplaced reports whether a destroy makes room for a new VM: there is a note, though it may name nothing.
func IsReplaced(ctx context.Context, private kit.PrivateReader) bool {
	all, _ := kit.Note[[]source](model.KeySources).Read(ctx, private) // RefuseOwnSources tells why not
	return all != nil
}

// RefuseOwnSources refuses the destroy that begins the replacement of a VM by a copy of itself, or of a disk of it.
func RefuseOwnSources(ctx context.Context, private kit.PrivateReader, prior model.Model) diag.Diagnostics {
	all, diags := kit.Note[[]source](model.KeySources).Read(ctx, private)
	for _, s := range all {
		if s.goesWith(listed(prior)) {
			at, _ := model.Locator{}.Attribute(s.At)
			diags.AddAttributeError(at, "Cannot replace "+prior.Thing(), s.why(prior)+
				": nothing would be left to copy. Nothing was touched. "+copyFirst(prior))
		}
	}
	return diags
}

// warnOwnSources warns of such a replacement, and refuses it where the new VM is to have the id of this one.
func (p warnings) warnOwnSources() {
	for _, s := range sourcesOf(p.Plan) {
		if !s.goesWith(listed(p.Prior)) {
			continue
		}
		at, _ := model.Locator{}.Attribute(s.At)
		if id := p.Config; id.IsSet("vmid") && int64(id.Number("vmid")) == model.Value(p.Prior.VMID) {
			p.diags.AddAttributeError(at, "Cannot replace "+p.Prior.Thing(), s.why(p.Prior)+
				": nothing would be left to copy. "+copyFirst(p.Prior))
			continue
		}
		p.diags.AddAttributeWarning(at, p.Prior.Thing()+" is replaced by a copy of itself", s.why(p.Prior)+
			", unless create_before_destroy is set. Without that the apply refuses to destroy the VM, and leaves it as "+
			"it is. "+copyFirst(p.Prior))
	}
}

// why says that a source goes with a VM.
func (s source) why(m model.Model) string {
	what := "this VM"
	if s.Volume != "" {
		what = s.Volume + ", which goes with this VM"
	}
	return fmt.Sprintf("%s names %s, and a replacement destroys VM %d before the new VM is made", s.At, what,
		model.Value(m.VMID))
}

// named is a source that goes with a VM, for people.
func (s source) named(leaves pve.Resource) string {
	if s.Volume != "" {
		return fmt.Sprintf("%s of VM %d", s.Volume, leaves.VMID)
	}
	return fmt.Sprintf("VM %d", leaves.VMID)
}

// newCopy is a new VM of a plan, with its sources.
type newCopy struct {
	thing   string
	sources []source
}

// noteCopy notes a new VM that is copied of something, and returns the VMs that plans of the run have destroyed.
func (r *Run) noteCopy(c newCopy) []pve.Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.copies = append(r.copies, c)
	return slices.Clip(r.leaving) // no copy: it is only appended to
}

// noteLeaving notes a VM that a plan destroys, and returns the new ones that are copied of something.
func (r *Run) noteLeaving(leaves pve.Resource) []newCopy {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaving = append(r.leaving, leaves)
	return slices.Clip(r.copies)
}

// warnLeavingSources warns of a source that goes with a VM which the same configuration has no more. Terraform orders
// neither of them first. A VM that is replaced stays in the configuration, where the new one may refer to it.
func (p warnings) warnLeavingSources() {
	if p.Run.acts() || p.left {
		return
	}
	warn := func(c newCopy, leaves pve.Resource, put func(at string, summary, detail string)) {
		for _, s := range c.sources {
			if s.goesWith(leaves) {
				put(s.At, fmt.Sprintf("%s is copied of a VM that is destroyed", c.thing),
					fmt.Sprintf("%s of %s names %s, and the same plan destroys that VM. Terraform may do that first, and nothing "+
						"would be left to copy. Let the copy be made in an apply of its own, while VM %d stays as it is.", s.At, c.thing,
						s.named(leaves), leaves.VMID))
			}
		}
	}
	if !p.creating() {
		leaves := listed(p.Prior)
		for _, c := range p.Run.noteLeaving(leaves) {
			warn(c, leaves, func(_, summary, detail string) { p.diags.AddWarning(summary, detail) })
		}
		return
	}
	c := newCopy{p.Plan.Thing(), sourcesOf(p.Plan)}
	if len(c.sources) == 0 {
		return
	}
	for _, leaves := range p.Run.noteCopy(c) {
		warn(c, leaves, func(at, summary, detail string) {
			where, _ := model.Locator{}.Attribute(at)
			p.diags.AddAttributeWarning(where, summary, detail)
		})
	}
}

// copyFirst is how a copy is made before its source is destroyed.
func copyFirst(m model.Model) string {
	return fmt.Sprintf("Let the copy be made first: with lifecycle { create_before_destroy = true }, and with another "+
		"vmid than %d, or none. Or in two applies: in the first a resource of its own makes the copy, while this one stays "+
		"as it is; in the second this one leaves the configuration.", model.Value(m.VMID))
}
