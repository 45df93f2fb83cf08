package tfvm

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfvalue"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfvm/vmschema"
)

// values converts between raw values and models.
type values struct {
	schema schema.Schema
	typ    tftypes.Type
	shape  tfplan.Shape
	codec  tfvalue.Codec[model]
}

func newValues(ctx context.Context) values {
	s := vmschema.New(ctx)
	v := values{schema: s, typ: s.Type().TerraformType(ctx), shape: tfplan.NewShape(ctx, s, rules())}
	v.codec, _ = tfvalue.NewCodec[model](v.typ) // a test sees to it that it can be made
	return v
}

// model reads a configuration, a plan or a state. Unknown becomes nil, and no state an empty model.
func (v values) model(ctx context.Context, raw tftypes.Value) (model, diag.Diagnostics) {
	var m model
	if raw.IsNull() {
		return m, nil
	}
	raw = tfplan.Known(raw)
	m, err := v.codec.Decode(raw)
	if err == nil {
		return m, nil
	}
	m = model{}
	plan := tfsdk.Plan{Raw: raw, Schema: v.schema} // it says where and why
	diags := plan.Get(ctx, &m)
	return m, diags
}

// raw writes a model.
func (v values) raw(ctx context.Context, m model) (tftypes.Value, diag.Diagnostics) {
	if raw, err := v.codec.Encode(m); err == nil {
		return raw, nil
	}
	state := tfsdk.State{Raw: tftypes.NewValue(v.typ, nil), Schema: v.schema} // it says where and why
	diags := state.Set(ctx, &m)
	return state.Raw, diags
}

// server is what the server says about a guest, as a raw value.
func (v values) server(ctx context.Context, g guest.Guest) (tftypes.Value, diag.Diagnostics) {
	return v.raw(ctx, fromGuest(g))
}
