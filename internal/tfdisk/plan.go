package tfdisk

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// ModifyPlan says what a change makes of a disk that is there. It never plans another one in its place: that would be an empty one.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	keepUnconfigured(&plan, state)
	refuse := func(at, text string) {
		resp.Diagnostics.AddAttributeError(path.Root(at), "Cannot change "+state.thing(), text)
	}
	switch {
	case state.Volume.IsNull():
		refuse("storage", fmt.Sprintf("VM %d does not have it in scsi0 any more: somebody has detached or moved it. It was not touched. Put it "+
			"back, or take the resource out of the state (terraform state rm) and of the configuration.", state.vmid()))
	case !plan.VMID.Equal(state.VMID):
		refuse("vmid", "The VM that holds it keeps its id. Another proxmox_disk is another, empty disk: take this one out of the configuration, "+
			"or leave vmid as it is.")
	case !plan.Size.IsUnknown() && bytes(plan.Size) < bytes(state.Size):
		refuse("size", fmt.Sprintf("It has %s, and PVE shrinks no disk. Write size = %q.", state.Size.ValueString(), state.Size.ValueString()))
	}
	moves := !plan.Node.Equal(state.Node) || !plan.Storage.Equal(state.Storage) || !plan.Format.Equal(state.Format)
	plan.UUID, plan.Volume = state.UUID, state.Volume
	if moves {
		plan.Volume = types.StringUnknown()
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
	known := !plan.Node.IsUnknown() && !plan.Storage.IsUnknown() && !plan.Format.IsUnknown()
	if moves && known && !resp.Diagnostics.HasError() && r.Session.Known() {
		err := r.Session.VMs.Disks.CheckMove(ctx, state.known(), plan.wanted())
		resp.Diagnostics.Append(tfkit.Diagnose(r.attempt("move", &state), err)...)
	}
}

// keepUnconfigured plans what the configuration does not say as it is. Another storage may have another format.
func keepUnconfigured(plan *model, state model) {
	if plan.VMID.IsUnknown() {
		plan.VMID = state.VMID
	}
	if plan.Node.IsUnknown() {
		plan.Node = state.Node
	}
	if plan.Format.IsUnknown() && plan.Storage.Equal(state.Storage) {
		plan.Format = state.Format
	}
}
