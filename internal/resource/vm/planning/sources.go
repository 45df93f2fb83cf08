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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// source is what a new VM is copied of: a volume, or another VM.
type source struct {
	At     string       // the attribute that names it
	Volume string       `json:",omitempty"`
	Clone  *guest.Clone `json:",omitempty"`
	Found  int          `json:",omitempty"` // the VM that the plan found for Clone; 0 if it found none
	Values string       `json:",omitempty"` // a hash of its configuration, if the plan promises the values of the copy
	Backup string       `json:",omitempty"` // the archive that is restored, on Node
	Node   string       `json:",omitempty"`
	filled bool         // the disk that it is for is there, so nothing is copied
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
func refuseRecordedSources(ctx context.Context, p *Planning) {
	for _, slot := range model.SortedSlots(p.Plan.Disks) {
		was, is := p.Prior.Disks[slot], model.Value(p.Plan.Disks[slot].ImportFrom)
		if was.Volume == nil || is == "" || is == model.Value(was.ImportFrom) || !mayDestroyRemoved(p) {
			continue
		}
		for _, other := range model.SortedSlots(p.Prior.Disks) {
			volume := model.Value(p.Prior.Disks[other].Volume)
			if p.leaves(other) && !p.volumes.attaches(volume) && areOne(ctx, p, volume, is) {
				named := is
				if !volid.Same(volume, is) {
					named = fmt.Sprintf("%s (which is, or may be, %s)", is, volume)
				}
				p.refuse(path.Root("disks").AtMapKey(slot).AtName("import_from"), fmt.Sprintf("%s has a disk already, so nothing "+
					"is copied into it: import_from is only recorded. %s leaves %s and is destroyed, since removed_disks is "+
					"\"destroy\". Give the copy a slot that is free, and apply that alone first. Or leave import_from out.",
					slot, named, other))
			}
		}
	}
}

// mayDestroyRemoved reports whether removed_disks is "destroy", or not known yet.
func mayDestroyRemoved(p *Planning) bool {
	return !p.Config.At("removed_disks").IsKnown() || model.Value(p.Plan.RemovedDisks) == "destroy"
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
		noteFound(ctx, p, is)
		if r := p.Plan.Restore.Request(); r != nil && r.Archive != "" && p.Plan.Node != nil {
			is = append(is, source{At: "restore.archive", Backup: r.Archive, Node: *p.Plan.Node})
		}
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

// newCopy is a VM of a plan, with the sources that are new.
type newCopy struct {
	thing   string
	sources []source
	// vmid and name are those of a VM that is made, and takes the place of no VM at its address; zero if not known.
	vmid int
	name string
}

// leaving is a VM that a plan destroys or, with disks, one that loses these or moves them.
type leaving struct {
	pve.Resource
	disks []leavingDisk
}

type leavingDisk struct {
	slot, volume string
	moves        bool
}

// noteCopies notes the sources of one plan and the VM that leaves by it, and returns those of all plans of the run
// before it.
func (r *Run) noteCopies(c newCopy, l *leaving) ([]newCopy, []leaving) {
	r.mu.Lock()
	defer r.mu.Unlock()
	copies, leave := slices.Clip(r.copies), slices.Clip(r.leaving) // no copies: they are only appended to
	if len(c.sources) > 0 || c.vmid != 0 || c.name != "" {
		r.copies = append(r.copies, c)
	}
	if l != nil {
		r.leaving = append(r.leaving, *l)
	}
	return copies, leave
}

// newSources are those that a plan names for the first time. One for a disk that is there is only recorded.
func newSources(p *Planning) (c newCopy) {
	if p.Value.IsNull() {
		return c
	}
	old := sourcesOf(p.Prior)
	for _, s := range sourcesOf(p.Plan) {
		isOld := func(o source) bool { return o.At == s.At && o.Volume == s.Volume }
		if !p.creating() && (s.Clone != nil || slices.ContainsFunc(old, isOld)) {
			continue
		}
		s.filled = !p.creating() && p.delta().was(strings.TrimSuffix(s.At, "import_from")+"volume")
		c.sources = append(c.sources, s)
	}
	c.thing = p.Plan.Thing()
	if p.creating() && !(cloning{p}).replaces() {
		c.vmid, c.name = int(model.Value(p.Plan.VMID)), model.Value(p.Plan.Name)
	}
	return c
}

// leavingBy is the VM of a plan that destroys it, or disks of it, or moves some; nil: it does not.
func leavingBy(p *Planning) *leaving {
	l := leaving{Resource: listed(p.Prior)}
	switch {
	case p.creating():
		return nil
	case p.Value.IsNull():
		return &l
	}
	was := p.before.Spec(false)
	change, has := vm.Diff(was, p.after.Spec(false)), vm.Encode(was)
	for _, m := range change.Moves {
		l.disks = append(l.disks, leavingDisk{m.Slot, guest.VolumeOf(has[m.Slot]), true})
	}
	for _, slot := range change.Delete {
		volume := guest.VolumeOf(has[slot])
		owner, _ := volid.Owner(volume)
		if mayDestroyRemoved(p) && vm.IsSlot(slot) && owner == l.VMID && !p.volumes.attaches(volume) {
			l.disks = append(l.disks, leavingDisk{slot, volume, false})
		}
	}
	if len(l.disks) == 0 {
		return nil
	}
	return &l
}

// warnLeavingSources warns of a source that goes with a VM which the same configuration has no more, or that is a disk
// which another VM loses or moves. Terraform orders neither of them first, and shows one plan after the other: the
// later one warns. A VM that is replaced stays in the configuration, where the new one may refer to it.
func (p warnings) warnLeavingSources(ctx context.Context) {
	if p.Run.acts() || p.left {
		return
	}
	mine, goes := newSources(p.Planning), leavingBy(p.Planning)
	copies, leave := p.Run.noteCopies(mine, goes)
	if goes == nil { // as in the create of each of a thousand copies
		copies = nil
	}
	for _, c := range copies {
		for _, s := range c.sources {
			if summary, detail := s.lost(ctx, p.Planning, c.thing, goes); summary != "" {
				p.diags.AddWarning(summary, detail)
			}
		}
	}
	for i := range leave {
		for _, s := range mine.sources {
			if summary, detail := s.lost(ctx, p.Planning, mine.thing, &leave[i]); summary != "" {
				where, _ := model.Locator{}.Attribute(s.At)
				p.diags.AddAttributeWarning(where, summary, detail)
			}
		}
	}
	p.warnRenamed(copies, goes, mine, leave)
}

// lost says that nothing may be left of a source of some VM to copy, or another disk under its name; "": it stays.
func (s source) lost(ctx context.Context, p *Planning, thing string, l *leaving) (summary, detail string) {
	var of, does string
	then, i := "nothing would be left to copy", l.diskOf(ctx, p, s)
	switch {
	case l.disks == nil && s.goesWith(l.Resource):
		of, does = "a VM that is destroyed", "destroys that VM"
	case i < 0 || s.filled && l.disks[i].moves:
		return "", ""
	case l.disks[i].moves:
		of, does = "a disk that moves", fmt.Sprintf("moves that disk, which is in %s", l.disks[i].slot)
		then = "another disk may have got the name"
	case s.Clone != nil:
		of, does = "a VM that loses a disk", fmt.Sprintf("destroys %s of it (%s)", l.disks[i].slot, l.disks[i].volume)
		then = "the copy would be made without that disk"
	default:
		of, does = "a disk that is destroyed", fmt.Sprintf("destroys that disk, which is in %s", l.disks[i].slot)
	}
	summary, why := fmt.Sprintf("%s is copied of %s", thing, of), "Terraform may do that first, and "+then
	if s.filled {
		summary = fmt.Sprintf("%s gets no copy of %s", thing, of)
		why = "But nothing is copied into a disk that is there: import_from is only recorded. Name it for a new disk"
	}
	return summary, fmt.Sprintf("%s of %s names %s, and the same plan %s. %s. Let the copy be made in an apply of its "+
		"own, while VM %d stays as it is.", s.At, thing, s.named(l.Resource), does, why, l.VMID)
}

// diskOf is the place of the disk that takes a source with it, -1 if there is none. A clone finds a disk that has
// moved, and those of a snapshot are not destroyed.
func (l *leaving) diskOf(ctx context.Context, p *Planning, s source) int {
	return slices.IndexFunc(l.disks, func(d leavingDisk) bool {
		if s.Clone != nil {
			return !d.moves && s.Clone.Snapshot == "" && s.goesWith(l.Resource)
		}
		return areOne(ctx, p, d.volume, s.Volume)
	})
}

// areOne reports whether two names are, or may be, of one volume; without a server, by the names alone.
func areOne(ctx context.Context, p *Planning, a, b string) bool {
	if p.Machines == nil {
		return volid.Same(a, b)
	}
	return volumeuse.AreOne(a, b, func() (volumeuse.Places, error) { return p.Machines.Places(ctx) })
}

// copyFirst is how a copy is made before its source is destroyed.
func copyFirst(m model.Model) string {
	return fmt.Sprintf("Let the copy be made first: with lifecycle { create_before_destroy = true }, and with another "+
		"vmid than %d, or none. Or in two applies: in the first a resource of its own makes the copy, while this one stays "+
		"as it is; in the second this one leaves the configuration.", model.Value(m.VMID))
}
