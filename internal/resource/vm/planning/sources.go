package planning

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/source"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// refuseRecordedSources refuses to name a disk that the same apply destroys as the source of one that is there already:
// nothing is copied of it.
func refuseRecordedSources(ctx context.Context, p *Planning) {
	for _, slot := range model.SortedSlots(p.Plan.Disks) {
		was, is := p.Prior.Disks[slot], model.Value(p.Plan.Disks[slot].ImportFrom)
		if was.Volume == nil || is == "" || is == model.Value(was.ImportFrom) || !p.MayDestroyRemoved() {
			continue
		}
		for _, other := range model.SortedSlots(p.Prior.Disks) {
			volume := model.Value(p.Prior.Disks[other].Volume)
			if p.Leaves(other) && !p.Attaches(volume) && areOne(ctx, p, volume, is) {
				named := is
				if !volid.Same(volume, is) {
					named = fmt.Sprintf("%s (which is, or may be, %s)", is, volume)
				}
				p.Refuse(path.Root("disks").AtMapKey(slot).AtName("import_from"), fmt.Sprintf("%s has a disk already, so nothing "+
					"is copied into it: import_from is only recorded. %s leaves %s and is destroyed, since removed_disks is "+
					"\"destroy\". Give the copy a slot that is free, and apply that alone first. Or leave import_from out.",
					slot, named, other))
			}
		}
	}
}

// areOne reports whether two names are, or may be, of one volume; without a server, by the names alone.
func areOne(ctx context.Context, p *Planning, a, b string) bool {
	if p.Machines == nil {
		return volid.Same(a, b)
	}
	return volumeuse.AreOne(a, b, func() (volumeuse.Places, error) { return p.Machines.Places(ctx) })
}

// noteSources passes on what a new VM is copied of to the destroy of the VM that it replaces, if it does. Terraform
// tells no plan whether the new VM is made first. But it hands a destroy the private state of the new VM's plan only
// where the destroy comes first; with create_before_destroy it plans the destroy by itself, with the private state of
// the old VM (terraform internal/terraform, node_resource_destroy.go and node_resource_destroy_deposed.go). So every
// other plan drops the note, and so does the one within the apply.
func noteSources(ctx context.Context, p *Planning, prior kit.PrivateReader) diag.Diagnostics {
	was, diags := source.Noted.Read(ctx, prior)
	var is []source.Source
	if p.Creating() && !p.Acting && !p.left {
		is = append([]source.Source{}, source.Of(p.Plan)...)
		noteFound(ctx, p, is)
		if r := p.Plan.Restore.Request(); r != nil && r.Archive != "" && p.Plan.Node != nil {
			is = append(is, source.Source{At: "restore.archive", Backup: r.Archive, Node: *p.Plan.Node})
		}
	}
	if was != nil || is != nil {
		diags.Append(source.Noted.Write(ctx, p.out, is)...)
	}
	return diags
}

// noteFound notes which VM the plan found for a clone, so that the destroy that begins a replacement can look again.
func noteFound(ctx context.Context, p *Planning, all []source.Source) {
	_, isPlanned := serverCheck{p}.plannedSource()
	for i, s := range all {
		if s.Clone == nil || isPlanned || p.Machines == nil || !p.Config.At("clone").IsFullyKnown() || p.Diags.HasError() {
			continue
		}
		if found, values, err := p.Run.Source(ctx, s.Clone, p.Machines.CloneSource); err == nil {
			all[i].Found = found.Listed.VMID
			if isPromised := (model.Configuration{Raw: p.Value}); isPromised.IsSet("clone.source_vmid") {
				all[i].Values = values
			}
		}
	}
}

// newSources are those that a plan names for the first time. One for a disk that is there is only recorded.
func newSources(p *Planning) (c source.Copy) {
	if p.Value.IsNull() {
		return c
	}
	old := source.Of(p.Prior)
	for _, s := range source.Of(p.Plan) {
		isOld := func(o source.Source) bool { return o.At == s.At && o.Volume == s.Volume }
		if !p.Creating() && (s.Clone != nil || slices.ContainsFunc(old, isOld)) {
			continue
		}
		s.Filled = !p.Creating() && p.Was(strings.TrimSuffix(s.At, "import_from")+"volume")
		c.Sources = append(c.Sources, s)
	}
	c.Thing = p.Plan.Thing()
	if p.Creating() && !(cloning{p}).replaces() {
		c.VMID, c.Name = int(model.Value(p.Plan.VMID)), model.Value(p.Plan.Name)
	}
	return c
}

// leavingBy is the VM of a plan that destroys it, or disks of it, or moves some; nil: it does not.
func leavingBy(p *Planning) *source.Leaving {
	l := source.Leaving{Resource: source.Listed(p.Prior)}
	switch {
	case p.Creating():
		return nil
	case p.Value.IsNull():
		return &l
	}
	was := p.Before.Spec(false)
	change, has := vm.Diff(was, p.After.Spec(false)), vm.Encode(was)
	for _, m := range change.Moves {
		l.Disks = append(l.Disks, source.LeavingDisk{Slot: m.Slot, Volume: guest.VolumeOf(has[m.Slot]), Moves: true})
	}
	for _, slot := range change.Delete {
		volume := guest.VolumeOf(has[slot])
		owner, _ := volid.Owner(volume)
		if p.MayDestroyRemoved() && vm.IsSlot(slot) && owner == l.VMID && !p.Attaches(volume) {
			l.Disks = append(l.Disks, source.LeavingDisk{Slot: slot, Volume: volume})
		}
	}
	if len(l.Disks) == 0 {
		return nil
	}
	return &l
}

// warnLeavingSources holds the sources of the plan against the VMs that leave by the other plans of the run.
func warnLeavingSources(ctx context.Context, p *Planning) {
	if p.Acting || p.left {
		return
	}
	mine, goes := newSources(p), leavingBy(p)
	copies, leave := p.Run.NoteCopies(mine, goes)
	p.Diags.Append(source.Meet(mine, goes, copies, leave, func(a, b string) bool { return areOne(ctx, p, a, b) })...)
}
