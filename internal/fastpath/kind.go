package fastpath

import (
	"bytes"
	"context"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// full is a resource that does just what is known here.
type full interface {
	resource.ResourceWithConfigure
	resource.ResourceWithImportState
	resource.ResourceWithModifyPlan
	resource.ResourceWithValidateConfig
}

// fullOf is a resource as one that the fast path can serve. Those that do less or more are the framework's alone.
func fullOf(r resource.Resource) (full, bool) {
	switch r.(type) {
	case resource.ResourceWithConfigValidators, resource.ResourceWithIdentity, resource.ResourceWithMoveState,
		resource.ResourceWithUpgradeState, resource.ResourceWithUpgradeIdentity:
		return nil, false
	}
	f, ok := r.(full)
	return f, ok
}

// kind is a type of resource.
type kind struct {
	make       func() resource.Resource
	schema     schema.Schema
	place      *place // of the whole resource
	attributes []attribute
}

// newKind describes a type of resource. ok is false if the framework does more for it than the fast path knows.
func newKind(ctx context.Context, construct func() resource.Resource) (*kind, bool) {
	r := construct()
	if _, ok := fullOf(r); !ok {
		return nil, false
	}
	var resp resource.SchemaResponse
	r.Schema(ctx, resource.SchemaRequest{}, &resp)
	k := &kind{make: construct, schema: resp.Schema}
	if len(resp.Diagnostics) > 0 || len(k.schema.Blocks) > 0 || k.schema.DeprecationMessage != "" {
		return nil, false
	}
	if k.place = newPlace(ctx, k.schema.Type()); k.place == nil {
		return nil, false
	}
	var ok bool
	k.attributes, ok = newAttributes(k.schema.Attributes, k.place, true)
	return k, ok
}

// configured makes a resource for a request; nil if it does not like what it is configured with.
func (k *kind) configured(ctx context.Context, req resource.ConfigureRequest) full {
	r, ok := fullOf(k.make())
	var resp resource.ConfigureResponse
	if ok {
		r.Configure(ctx, req, &resp)
	}
	if !ok || len(resp.Diagnostics) > 0 {
		return nil
	}
	return r
}

// unpack reads a value of a message that is not null and fits.
func (k *kind) unpack(packed *tfprotov6.DynamicValue) (tftypes.Value, bool) {
	if packed == nil || packed.JSON != nil {
		return tftypes.Value{}, false
	}
	v, err := packed.Unmarshal(k.place.wire)
	return v, err == nil && !v.IsNull() && k.place.fits(v)
}

// isState reports whether a value may stand in state: what is write-only does not.
func (k *kind) isState(v tftypes.Value) bool {
	values := map[string]tftypes.Value{}
	if v.As(&values) != nil {
		return false
	}
	for i := range k.attributes {
		if k.attributes[i].writeOnly && !values[k.attributes[i].name].IsNull() {
			return false
		}
	}
	return true
}

// is reports whether a value is what a message has. It compares with the bytes, so nothing that a resource does to a value it was
// given goes unnoticed.
func (k *kind) is(packed *tfprotov6.DynamicValue, v tftypes.Value) bool {
	return k.place.fits(v) && bytes.Equal(packed.MsgPack, k.place.pack(make([]byte, 0, len(packed.MsgPack)), v))
}

// accepts reports whether the framework would take a configuration without a word.
func (k *kind) accepts(ctx context.Context, r full, req *tfprotov6.ValidateResourceConfigRequest) bool {
	raw, ok := k.unpack(req.Config)
	if !ok {
		return false
	}
	config := tfsdk.Config{Raw: raw, Schema: k.schema}
	at := call{config: config, path: path.Empty()}
	ask := resource.ValidateConfigRequest{Config: config}
	if c := req.ClientCapabilities; c != nil {
		ask.ClientCapabilities.WriteOnlyAttributesAllowed = c.WriteOnlyAttributesAllowed
		at.capabilities.WriteOnlyAttributesAllowed = c.WriteOnlyAttributesAllowed
	}
	var resp resource.ValidateConfigResponse
	if r.ValidateConfig(ctx, ask, &resp); len(resp.Diagnostics) > 0 {
		return false
	}
	values := map[string]tftypes.Value{}
	return raw.As(&values) == nil && accepts(ctx, k.attributes, values, at)
}

// read has the resource refresh a state, and reports whether nothing came of it. resp is nil if the resource was not asked.
func (k *kind) read(ctx context.Context, r full, req *tfprotov6.ReadResourceRequest) (resp *resource.ReadResponse, unchanged bool) {
	noted, ok := parsePrivate(req.Private)
	state, fits := k.unpack(req.CurrentState)
	if !ok || !fits || !k.isState(state) || req.CurrentIdentity != nil || req.ProviderMeta != nil {
		return nil, false
	}
	ask := resource.ReadRequest{State: tfsdk.State{Raw: state, Schema: k.schema}}
	if c := req.ClientCapabilities; c != nil {
		ask.ClientCapabilities.DeferralAllowed = c.DeferralAllowed
	}
	before, ok := storeIn(ctx, ask.Private, noted)
	if ask.Private, fits = storeIn(ctx, ask.Private, noted); !ok || !fits {
		return nil, false
	}
	resp = &resource.ReadResponse{State: ask.State, Private: ask.Private}
	r.Read(ctx, ask, resp)
	return resp, len(resp.Diagnostics) == 0 && resp.Deferred == nil && resp.Identity == nil &&
		resp.Private.Equal(before) && k.is(req.CurrentState, resp.State.Raw)
}

// plan has the resource plan, where Terraform proposes to leave everything as it is, and reports whether it is so. resp is nil if
// the resource was not asked.
func (k *kind) plan(ctx context.Context, r full, req *tfprotov6.PlanResourceChangeRequest) (resp *resource.ModifyPlanResponse, unchanged bool) {
	if req.PriorState == nil || req.ProposedNewState == nil || !bytes.Equal(req.PriorState.MsgPack, req.ProposedNewState.MsgPack) {
		return nil, false
	}
	noted, ok := parsePrivate(req.PriorPrivate)
	state, fits := k.unpack(req.PriorState)
	if !ok || !fits || !k.isState(state) || req.ProposedNewState.JSON != nil || req.PriorIdentity != nil || req.ProviderMeta != nil {
		return nil, false
	}
	config, fits := k.unpack(req.Config)
	if !fits {
		return nil, false
	}
	ask := resource.ModifyPlanRequest{Config: tfsdk.Config{Raw: config, Schema: k.schema}, State: tfsdk.State{Raw: state, Schema: k.schema},
		Plan: tfsdk.Plan{Raw: state, Schema: k.schema}}
	if c := req.ClientCapabilities; c != nil {
		ask.ClientCapabilities.DeferralAllowed = c.DeferralAllowed
	}
	before, ok := storeIn(ctx, ask.Private, noted)
	if ask.Private, fits = storeIn(ctx, ask.Private, noted); !ok || !fits {
		return nil, false
	}
	resp = &resource.ModifyPlanResponse{Plan: ask.Plan, Private: ask.Private, RequiresReplace: path.Paths{}}
	r.ModifyPlan(ctx, ask, resp)
	return resp, len(resp.Diagnostics) == 0 && resp.Deferred == nil && resp.Identity == nil && len(resp.RequiresReplace) == 0 &&
		resp.Private.Equal(before) && k.is(req.PriorState, resp.Plan.Raw)
}
