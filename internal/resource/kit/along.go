package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
)

// Foretold is the note of all that the plan of a destroy has named, for the destroy: of snapshots when each was taken.
// Terraform hands a destroy the private state of its plan, and the first plan of a replacement hands it on by the
// second. No other plan may leave the note: the one of -replace names nothing.
const Foretold Note[*destroy.Along] = "foretold"

// Noted is private state that is read and written.
type Noted interface {
	PrivateReader
	PrivateWriter
}

// TakeForetold returns that note, and drops it.
func TakeForetold(ctx context.Context, noted Noted) (destroy.Along, diag.Diagnostics) {
	seen, diags := Foretold.Read(ctx, noted)
	if seen == nil {
		return destroy.Along{}, diags
	}
	return *seen, append(diags, Foretold.Write(ctx, noted, nil)...)
}

// NoteUnlooked notes that a plan has named nothing, since the provider's configuration is not known yet: the destroy of
// a VM with snapshots is refused then. An apply knows it, and so does the plan that Terraform makes within one.
func NoteUnlooked(ctx context.Context, noted Noted) diag.Diagnostics {
	return Foretold.Write(ctx, noted, &destroy.Along{Snapshots: map[string]int64{}})
}

// Going is a VM that a plan destroys, for the warnings about all that goes with it.
type Going struct {
	destroy.Along
	Thing string
	// Removed are snapshots that the same plan removes by themselves: when each was taken, by name.
	Removed map[string]int64
	// Replaced: a new VM takes its id.
	Replaced bool
	// MayKeep: on_destroy.purge can leave its entries.
	MayKeep bool
}

// Warn names the jobs, the HA entries and the snapshots that go with the VM, and notes them for the destroy. The
// settings are named by the plan of the VM itself.
func (g Going) Warn(ctx context.Context, out PrivateWriter) diag.Diagnostics {
	diags := Foretold.Write(ctx, out, &g.Along)
	along := g.Along
	along.Settings = nil
	lines := along.Lines(g.Removed)
	if len(lines) == 0 {
		return diags
	}
	next := "Note or copy them first."
	if g.Replaced {
		next += " The VM that takes its id is in none of the jobs and rules, and has none of the snapshots."
	} else if slices.ContainsFunc(g.Purged, destroy.Entry.IsRule) { // Terraform may refresh and plan a rule after the VM
		next += " A proxmox_ha_rule among them needs no note: Terraform has it in state."
	}
	if g.MayKeep && len(g.Purged) > 0 {
		next += " on_destroy.purge = false, in an apply before this one, leaves backup jobs as they are, and refuses the " +
			"destroy of a VM that HA or replication names."
	}
	diags.AddWarning(g.Thing+" goes with more than its disks", fmt.Sprintf("PVE removes these with it, or takes it out "+
		"of them:\n  %s\n%s", strings.Join(lines, "\n  "), next))
	return diags
}

// WarnUnshown names what goes with a VM that may be tainted, of which Terraform shows no plan the state.
func (g Going) WarnUnshown(vmid int) (diags diag.Diagnostics) {
	if lines := g.Lines(nil); len(lines) > 0 {
		diags.AddWarning("The replacement of "+g.Thing+" loses jobs, settings or snapshots",
			fmt.Sprintf("If the plan replaces this VM, since it is tainted, PVE removes these with it, or takes it out of "+
				"them:\n  %s\nNote or copy them first (/etc/pve/firewall/%d.fw, `ha-manager config`, `pveum acl list`). The "+
				"VM that takes its place has only those that its configuration or its source gives it.",
				strings.Join(lines, "\n  "), vmid))
	}
	return diags
}
