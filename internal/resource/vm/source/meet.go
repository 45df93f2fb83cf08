package source

import (
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// Copy is a VM of a plan, with the sources that are new.
type Copy struct {
	Thing   string
	Sources []Source
	// VMID and Name are those of a VM that is made, and takes the place of no VM at its address; zero if not known.
	VMID int
	Name string
}

// Leaving is a VM that a plan destroys or, with disks, one that loses these or moves them.
type Leaving struct {
	pve.Resource
	Disks []LeavingDisk
}

// LeavingDisk is a disk that is destroyed, or moves.
type LeavingDisk struct {
	Slot, Volume string
	Moves        bool
}

// Meet warns of a source that goes with a VM which the same configuration has no more, or that is a disk which another
// VM loses or moves. Terraform orders neither of them first, and shows one plan after the other: the later one warns.
// mine and goes are of this plan, the others of those before it. areOne reports whether two names are, or may be, of
// one volume. A VM that is replaced stays in the configuration, where the new one may refer to it.
func Meet(mine Copy, goes *Leaving, copies []Copy, leave []Leaving, areOne func(a, b string) bool) diag.Diagnostics {
	var diags diag.Diagnostics
	if goes == nil { // as in the create of each of a thousand copies
		copies = nil
	}
	for _, c := range copies {
		for _, s := range c.Sources {
			if summary, detail := s.lost(c.Thing, goes, areOne); summary != "" {
				diags.AddWarning(summary, detail)
			}
		}
	}
	for _, l := range leave {
		for _, s := range mine.Sources {
			if summary, detail := s.lost(mine.Thing, &l, areOne); summary != "" {
				where, _ := model.Locator{}.Attribute(s.At)
				diags.AddAttributeWarning(where, summary, detail)
			}
		}
	}
	if goes != nil {
		leave = []Leaving{*goes}
	} else {
		copies = []Copy{mine}
	}
	return append(diags, warnRenamed(copies, leave)...)
}

// warnRenamed warns of a VM that is destroyed, and made again under another address with its id or name: a block or key
// was renamed without a moved block. Each plan names one such VM, and Terraform may show the plans in either order.
func warnRenamed(copies []Copy, leave []Leaving) (diags diag.Diagnostics) {
	for _, l := range leave {
		for _, c := range copies {
			if has := c.sharesWith(l); has != "" {
				diags.AddWarning(guest.Named(l.Resource)+" is destroyed, and made again under another address",
					fmt.Sprintf("A new VM of the same plan has its %s. The disks of VM %d are destroyed with their data, and where "+
						"Terraform makes the new VM first, a vmid that both have is taken. If only the block or its key was renamed, "+
						"as from count to for_each, a block moved { from = OLD, to = NEW } keeps the VM. The plan has both addresses.",
						has, l.VMID))
				return diags
			}
		}
	}
	return diags
}

// sharesWith is what a new VM has of a VM that is destroyed, "" if nothing. One with another id of its own would be
// replaced under its old address, too.
func (c Copy) sharesWith(l Leaving) string {
	switch {
	case l.Disks != nil: // it only loses these
	case c.VMID != 0 && c.VMID == l.VMID:
		return "vmid"
	case c.VMID == 0 && c.Name != "" && c.Name == l.Name:
		return "name"
	}
	return ""
}

// lost says that nothing may be left of a source of some VM to copy, or another disk under its name; "": it stays.
func (s Source) lost(thing string, l *Leaving, areOne func(a, b string) bool) (summary, detail string) {
	var of, does string
	then, i := "nothing would be left to copy", l.diskOf(s, areOne)
	switch {
	case l.Disks == nil && s.goesWith(l.Resource):
		of, does = "a VM that is destroyed", "destroys that VM"
	case i < 0 || s.Filled && l.Disks[i].Moves:
		return "", ""
	case l.Disks[i].Moves:
		of, does = "a disk that moves", fmt.Sprintf("moves that disk, which is in %s", l.Disks[i].Slot)
		then = "another disk may have got the name"
	case s.Clone != nil:
		of, does = "a VM that loses a disk", fmt.Sprintf("destroys %s of it (%s)", l.Disks[i].Slot, l.Disks[i].Volume)
		then = "the copy would be made without that disk"
	default:
		of, does = "a disk that is destroyed", fmt.Sprintf("destroys that disk, which is in %s", l.Disks[i].Slot)
	}
	summary, why := fmt.Sprintf("%s is copied of %s", thing, of), "Terraform may do that first, and "+then
	if s.Filled {
		summary = fmt.Sprintf("%s gets no copy of %s", thing, of)
		why = "But nothing is copied into a disk that is there: import_from is only recorded. Name it for a new disk"
	}
	named := fmt.Sprintf("VM %d", l.VMID)
	if s.Volume != "" {
		named = s.Volume + " of " + named
	}
	return summary, fmt.Sprintf("%s of %s names %s, and the same plan %s. %s. Let the copy be made in an apply of its "+
		"own, while VM %d stays as it is.", s.At, thing, named, does, why, l.VMID)
}

// diskOf is the place of the disk that takes a source with it, -1 if there is none. A clone finds a disk that has
// moved, and those of a snapshot are not destroyed.
func (l *Leaving) diskOf(s Source, areOne func(a, b string) bool) int {
	return slices.IndexFunc(l.Disks, func(d LeavingDisk) bool {
		if s.Clone != nil {
			return !d.Moves && s.Clone.Snapshot == "" && s.goesWith(l.Resource)
		}
		return areOne(d.Volume, s.Volume)
	})
}
