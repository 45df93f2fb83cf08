package model

import (
	"context"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	valuepkg "github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/value"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/vmschema"
)

// Values converts between raw values and models.
type Values struct {
	Schema schema.Schema
	Typ    tftypes.Type
	Shape  plan.Shape
	Codec  valuepkg.Codec[Model]
}

// SchemaValues is the schema and what is derived from it, built at its first use. It must not be changed.
func SchemaValues() Values { return schemaValues() }

var schemaValues = sync.OnceValue(func() Values {
	ctx := context.Background()
	s := vmschema.New(ctx)
	v := Values{Schema: s, Typ: s.Type().TerraformType(ctx), Shape: plan.NewShape(ctx, s, Rules())}
	v.Codec, _ = valuepkg.NewCodec[Model](v.Typ) // a test sees to it that it can be made
	return v
})

// Model reads a configuration, a plan or a state. Unknown becomes nil, and no state an empty model.
func (v Values) Model(ctx context.Context, raw tftypes.Value) (Model, diag.Diagnostics) {
	var m Model
	if raw.IsNull() {
		return m, nil
	}
	raw = plan.Known(raw)
	m, err := v.Codec.Decode(raw)
	if err == nil {
		return m, nil
	}
	m = Model{}
	plan := tfsdk.Plan{Raw: raw, Schema: v.Schema} // it says where and why
	diags := plan.Get(ctx, &m)
	return m, diags
}

// Raw writes a model.
func (v Values) Raw(ctx context.Context, m Model) (tftypes.Value, diag.Diagnostics) {
	if raw, err := v.Codec.Encode(m); err == nil {
		return raw, nil
	}
	state := tfsdk.State{Raw: tftypes.NewValue(v.Typ, nil), Schema: v.Schema} // it says where and why
	diags := state.Set(ctx, &m)
	return state.Raw, diags
}

// Server is what the server says about a guest, as a raw value.
func (v Values) Server(ctx context.Context, g guest.Guest) (tftypes.Value, diag.Diagnostics) {
	return v.Raw(ctx, FromGuest(g))
}
