package kit

import (
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Settle gives the state after a successful create or update the known values of its plan. Terraform takes another
// value for a defect of the provider (terraform internal/plans/objchange, AssertObjectCompatible). A third party may
// have written one since the plan, and the next refresh shows it.
func Settle(state *tfsdk.State, planned tftypes.Value) diag.Diagnostics {
	var diags diag.Diagnostics
	is, goal := map[string]tftypes.Value{}, map[string]tftypes.Value{}
	for from, into := range map[*tftypes.Value]*map[string]tftypes.Value{&state.Raw: &is, &planned: &goal} {
		if err := from.As(into); err != nil {
			diags.AddError("Cannot write the state", err.Error())
			return diags
		}
	}
	for name, value := range goal {
		if value.IsFullyKnown() {
			is[name] = value
		}
	}
	state.Raw = tftypes.NewValue(state.Raw.Type(), is)
	return diags
}
