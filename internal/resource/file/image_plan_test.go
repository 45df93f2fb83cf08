package file

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// TestImagePlanOfAnUnconfiguredProvider: the provider's configuration can depend on a resource that does not exist yet.
// An upload that is configured as in state is not replaced then; a different one is.
func TestImagePlanOfAnUnconfiguredProvider(t *testing.T) {
	ctx := t.Context()
	schema := (&imageModel{}).schema(ctx)
	state := imageModel{Node: types.StringValue("pve1"), Storage: types.StringValue("local"),
		Content:    types.StringValue("iso"),
		SourceFile: types.StringValue("disc.iso"), VerifyCertificates: types.BoolValue(true),
		OnDestroy: types.StringValue("delete"),
		Volume:    types.StringValue("local:iso/disc-0123456789ab.iso"), Size: types.Int64Value(1 << 20),
		Owned: types.BoolValue(true)}
	for name, alter := range map[string]func(*imageModel){
		"":            func(*imageModel) {},
		"on_destroy":  func(m *imageModel) { m.OnDestroy = types.StringValue("keep") },
		"source_file": func(m *imageModel) { m.SourceFile = types.StringValue("other.iso") },
		"checksum":    func(m *imageModel) { m.Checksum = types.StringValue("00000000000000000000000000000000") },
		"file_name":   func(m *imageModel) { m.FileName = types.StringValue("other.iso") },
		"node":        func(m *imageModel) { m.Node = types.StringValue("pve2") },
	} {
		wanted := state
		alter(&wanted)
		prior, plan := tfsdk.State{Schema: schema}, tfsdk.Plan{Schema: schema}
		diags := prior.Set(ctx, state)
		diags.Append(plan.Set(ctx, wanted)...)
		resp := resource.ModifyPlanResponse{Plan: plan}
		NewImage().(resource.ResourceWithModifyPlan).ModifyPlan(ctx, resource.ModifyPlanRequest{State: prior, Plan: plan},
			&resp)
		if diags.Append(resp.Diagnostics...); diags.HasError() {
			t.Fatalf("%s: %v", name, diags)
		}
		if replaced, want := len(resp.RequiresReplace) > 0, name != "" && name != "on_destroy"; replaced != want {
			t.Errorf("%q is changed: replaced because of %v", name, resp.RequiresReplace)
		}
	}
}
