package kit

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// LeavesToCreate reports whether Terraform plans a new object once more, within the apply. An error of that plan would
// leave the object that the new one replaces with create_before_destroy deposed, while Terraform restores it where the
// create fails (terraform internal/terraform, node_resource_apply_instance.go, managedResourceExecute). So the plan
// leaves the server's findings to the create. Terraform 1.9 and later tell the two plans apart: only within an apply a
// provider may defer a change (context_apply.go). OpenTofu and earlier versions do not.
func (s *Session) LeavesToCreate(req resource.ModifyPlanRequest) bool {
	if s == nil || !req.ClientCapabilities.DeferralAllowed || !req.State.Raw.IsNull() {
		return false
	}
	s.leaves.Store(true)
	return true
}

// CheckFirst makes the checks of a plan that LeavesToCreate has put off, before the create begins. ok is false if there
// is an error.
func (r *ResourceBase) CheckFirst(ctx context.Context, planner resource.ResourceWithModifyPlan,
	req resource.CreateRequest, resp *resource.CreateResponse) (ok bool) {
	if r.Session == nil || !r.Session.leaves.Load() {
		return true
	}
	nothing := tfsdk.State{Schema: req.Plan.Schema, Raw: tftypes.NewValue(req.Plan.Raw.Type(), nil)}
	plan := resource.ModifyPlanResponse{Plan: req.Plan, Private: resp.Private}
	planner.ModifyPlan(ctx, resource.ModifyPlanRequest{Config: req.Config, Plan: req.Plan, State: nothing,
		Private: resp.Private}, &plan)
	resp.Diagnostics.Append(plan.Diagnostics...)
	return !resp.Diagnostics.HasError()
}
