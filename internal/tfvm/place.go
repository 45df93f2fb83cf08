package tfvm

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
)

// place adds to the plan of a VM what does not follow from its attributes one by one: the node, where the configuration names
// several and the VM is on none of them, and the restart that an earlier apply owes.
func (r *Resource) place(ctx context.Context, config tftypes.Value, planned tfplan.Planned, prior model, plan *model, managed tfplan.Managed) (tftypes.Value, bool) {
	value, changed := planned.Value, planned.Changed
	if to := r.placement(ctx, config, prior, *plan); to != "" {
		value, changed = tfplan.Replace(value, "node", tftypes.NewValue(tftypes.String, to)), true
		plan.Node = &to
	}
	if len(due(prior, *plan, managed)) > 0 {
		value, changed = tfplan.Edit(value, map[string]bool{"pending_changes": true}, nil), true
	}
	return value, changed
}

// placement is the node that a VM is to be moved to because it is on none of those that the configuration names; "" where
// it may stay, or where nothing can be said.
func (r *Resource) placement(ctx context.Context, config tftypes.Value, prior, plan model) string {
	if nodes := tfplan.At(config, "nodes"); !nodes.IsFullyKnown() || nodes.IsNull() || prior.Node == nil || slices.Contains(plan.Nodes, *prior.Node) || r.machines == nil {
		return ""
	}
	return r.machines.Place(ctx, plan.Nodes)
}

// leavesHA warns of a migration that HA may undo: the node of a guest under HA is HA's to choose.
func leavesHA(prior, plan model) diag.Diagnostics {
	var diags diag.Diagnostics
	if moved(prior.Node, plan.Node) && (prior.HA != nil && plan.HA != nil) {
		diags.AddAttributeWarning(path.Root("node"), prior.thing()+" is under HA",
			fmt.Sprintf("It is migrated to %s through the HA manager, which may move it elsewhere again: a group or a rule, a failed node, a rebalance. "+
				"Then the next plan migrates it back. Leave node out, or set nodes, to follow it instead.", *plan.Node))
	}
	return diags
}
