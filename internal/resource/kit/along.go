package kit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
)

// Snapshots is the note of the snapshots that the plan of a destroy has named, for the destroy: when each was taken, by
// name. Terraform hands a destroy the private state of its plan, and the first plan of a replacement hands it on by the
// second. No other plan may leave the note: the one of -replace names none.
const Snapshots Note[map[string]int64] = "snapshots"

// Noted is private state that is read and written.
type Noted interface {
	PrivateReader
	PrivateWriter
}

// TakeSnapshots returns that note, and drops it.
func TakeSnapshots(ctx context.Context, noted Noted) (map[string]int64, diag.Diagnostics) {
	seen, diags := Snapshots.Read(ctx, noted)
	if seen != nil {
		diags.Append(Snapshots.Write(ctx, noted, nil)...)
	}
	return seen, diags
}

// Going is a VM that a plan destroys, for the warnings about all that goes with it.
type Going struct {
	destroy.Along
	Thing string
	// Removed are snapshots that the same plan removes by themselves: when each was taken, by name.
	Removed map[string]int64
	// Replaced: a new VM takes its place.
	Replaced bool
	// MayKeep: on_destroy.purge can leave its entries.
	MayKeep bool
}

// Warn names the jobs, the HA entries and the snapshots that go with the VM, and notes the snapshots for the destroy.
func (g Going) Warn(ctx context.Context, out PrivateWriter) diag.Diagnostics {
	diags := Snapshots.Write(ctx, out, g.Snapshots)
	if len(g.Purged) > 0 {
		next := ""
		isRule := func(line string) bool { return strings.HasPrefix(line, "HA rule ") }
		if g.Replaced {
			next = " The VM that takes its place is in none of them until it is put there again."
		} else if slices.ContainsFunc(g.Purged, isRule) { // Terraform may refresh and plan a rule after the VM
			next = " A proxmox_ha_rule among them needs no note: Terraform has it in state."
		}
		if g.MayKeep {
			next += " on_destroy.purge = false, in an apply before this one, leaves backup jobs as they are, and refuses the " +
				"destroy for the others."
		}
		diags.AddWarning(g.Thing+" is taken out of jobs or HA", fmt.Sprintf("PVE does that with the destroy:\n  %s\nNote "+
			"them first.%s", strings.Join(g.Purged, "\n  "), next))
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(g.Snapshots)), func(name string) bool {
		taken, is := g.Removed[name]
		return is && taken == g.Snapshots[name]
	})
	if len(names) > 0 {
		next := " A proxmox_vm_snapshot among them that this plan removes goes by itself." // it may be planned after the VM
		if g.Replaced {
			next = " The VM that takes its place has none of them."
		}
		diags.AddWarning(g.Thing+" has snapshots, which are destroyed with it",
			fmt.Sprintf("They are: %s.%s", strings.Join(names, ", "), next))
	}
	if g.Unread != nil {
		diags.AddWarning(g.Thing+" may have snapshots, which would be destroyed with it",
			fmt.Sprintf("They could not be looked at: %v.", g.Unread))
	}
	return diags
}

// WarnUnshown names what goes with a VM that may be tainted, of which Terraform shows no plan the state.
func (g Going) WarnUnshown(vmid int) (diags diag.Diagnostics) {
	lines := slices.Concat(g.Purged, g.Settings)
	for _, name := range slices.Sorted(maps.Keys(g.Snapshots)) {
		lines = append(lines, fmt.Sprintf("snapshot %s, which is destroyed", name))
	}
	if g.Unread != nil {
		lines = append(lines, fmt.Sprintf("every snapshot, if there is one: %v", g.Unread))
	}
	if len(lines) > 0 {
		diags.AddWarning(g.Thing+" leaves jobs, settings or snapshots behind",
			fmt.Sprintf("Where the plan replaces this VM, since that is tainted, PVE takes it out of these jobs and HA rules, "+
				"removes these settings of its id, and destroys these snapshots:\n  %s\nNote them first "+
				"(/etc/pve/firewall/%d.fw, `ha-manager config`, `pveum acl list`). The VM that takes its place begins without "+
				"them, but for those that its configuration or its source gives it.", strings.Join(lines, "\n  "), vmid))
	}
	return diags
}
