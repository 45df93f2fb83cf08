package fastpath

import (
	"bytes"
	"context"
	"maps"
	"sync"

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
	case resource.ResourceWithConfigValidators, resource.ResourceWithUpgradeIdentity:
		return nil, false
	}
	f, ok := r.(full)
	return f, ok
}

// Planner is a resource that computes its plan from configuration, state and private state alone. In the plan that it
// is handed it looks only whether the resource is to be destroyed; else the framework would have to work that plan out
// first.
type Planner interface {
	resource.ResourceWithModifyPlan
	// PlansAlone does nothing.
	PlansAlone()
}

// Types are descriptions of types of resources. Each type is described once, from its schema, which takes longer than
// most requests. The zero value is ready for use.
type Types struct {
	mu     sync.Mutex
	byName map[string]*typeOf
}

// describe is the description of a type; nil if the framework does more for it than the fast path knows.
func (t *Types) describe(ctx context.Context, name string, construct func() resource.Resource) *typeOf {
	t.mu.Lock()
	defer t.mu.Unlock()
	described, done := t.byName[name]
	if !done {
		described = newType(ctx, construct())
		if t.byName == nil {
			t.byName = map[string]*typeOf{}
		}
		t.byName[name] = described
	}
	return described
}

// kind is a type of resource as one provider has it.
type kind struct {
	*typeOf
	make func() resource.Resource
}

// typeOf describes a type of resource.
type typeOf struct {
	schema     schema.Schema
	place      *place // of the whole resource
	attributes []attribute
	identities *identities
}

// newType describes the type of a resource; nil if the framework does more for it than the fast path knows.
func newType(ctx context.Context, r resource.Resource) *typeOf {
	if _, ok := fullOf(r); !ok {
		return nil
	}
	var resp resource.SchemaResponse
	r.Schema(ctx, resource.SchemaRequest{}, &resp)
	t := &typeOf{schema: resp.Schema}
	if len(resp.Diagnostics) > 0 || len(t.schema.Blocks) > 0 || t.schema.DeprecationMessage != "" {
		return nil
	}
	if t.place = newPlace(ctx, t.schema.Type()); t.place == nil {
		return nil
	}
	var ok, identifies bool
	t.attributes, ok = newAttributes(t.schema.Attributes, t.place, true)
	t.identities, identifies = newIdentities(ctx, r)
	if !ok || !identifies {
		return nil
	}
	return t
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

// unpack reads a value of a message that fits.
func (k *kind) unpack(packed *tfprotov6.DynamicValue, unknowns bool) (tftypes.Value, bool) {
	if packed == nil || packed.JSON != nil {
		return tftypes.Value{}, false
	}
	v, err := packed.Unmarshal(k.place.wire)
	return v, err == nil && v.IsKnown() && k.place.fits(v, unknowns)
}

// pack writes a value that fits. ok is false for others.
func (k *kind) pack(v tftypes.Value, unknowns bool) (packed *tfprotov6.DynamicValue, ok bool) {
	if !v.IsKnown() || !k.place.fits(v, unknowns) {
		return nil, false
	}
	return &tfprotov6.DynamicValue{MsgPack: k.place.pack(nil, v)}, true
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

// accepts reports whether the framework would take a configuration without a word.
func (k *kind) accepts(ctx context.Context, r full, req *tfprotov6.ValidateResourceConfigRequest) bool {
	raw, ok := k.unpack(req.Config, true)
	if !ok || raw.IsNull() {
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

// read has the resource refresh a state. answer is nil where the framework has to go on from what the resource says,
// and resp where it was not asked.
func (k *kind) read(ctx context.Context, r full, req *tfprotov6.ReadResourceRequest) (
	resp *resource.ReadResponse, answer *tfprotov6.ReadResourceResponse) {
	came := afterImport(req.Private)
	noted, ok := parsePrivate(came)
	state, fits := k.unpack(req.CurrentState, false)
	was, is, known := k.identities.unpack(req.CurrentIdentity)
	if !ok || !fits || !known || state.IsNull() || !k.isState(state) || req.ProviderMeta != nil {
		return nil, nil
	}
	ask := resource.ReadRequest{State: tfsdk.State{Raw: state, Schema: k.schema}, Identity: was}
	if c := req.ClientCapabilities; c != nil {
		ask.ClientCapabilities.DeferralAllowed = c.DeferralAllowed
	}
	before, ok := storeIn(ctx, ask.Private, noted)
	if ask.Private, fits = storeIn(ctx, ask.Private, noted); !ok || !fits {
		return nil, nil
	}
	resp = &resource.ReadResponse{State: ask.State, Private: ask.Private, Identity: is}
	r.Read(ctx, ask, resp)
	private, kept := privateOf(ctx, r, resp.Private, before, came)
	identity, same := k.identities.pack(was, resp.Identity, !resp.Diagnostics.HasError())
	diagnostics, written := said(resp.Diagnostics)
	if !written || resp.Deferred != nil || !same || !kept || resp.State.Raw.IsNull() {
		return resp, nil
	}
	packed, ok := k.pack(resp.State.Raw, false)
	switch {
	case !ok:
		return resp, nil
	case bytes.Equal(packed.MsgPack, req.CurrentState.MsgPack):
	case !k.isState(resp.State.Raw), !k.place.sameDecimals(state, resp.State.Raw):
		return resp, nil
	}
	return resp, &tfprotov6.ReadResourceResponse{NewState: packed, Private: private, NewIdentity: identity,
		Diagnostics: diagnostics}
}

// plan has the resource plan, likewise. Where Terraform proposes a change, that is for resources that plan by
// themselves.
func (k *kind) plan(ctx context.Context, r full, req *tfprotov6.PlanResourceChangeRequest) (
	resp *resource.ModifyPlanResponse, answer *tfprotov6.PlanResourceChangeResponse) {
	ask, proposed, ok := k.planRequest(r, req)
	noted, fits := parsePrivate(req.PriorPrivate)
	was, is, known := k.identities.unpack(req.PriorIdentity)
	if !ok || !fits || !known || req.ProviderMeta != nil {
		return nil, nil
	}
	ask.Identity = was
	before, ok := storeIn(ctx, ask.Private, noted)
	if ask.Private, fits = storeIn(ctx, ask.Private, noted); !ok || !fits {
		return nil, nil
	}
	resp = &resource.ModifyPlanResponse{Plan: ask.Plan, Private: ask.Private, RequiresReplace: path.Paths{}, Identity: is}
	r.ModifyPlan(ctx, ask, resp)
	identity, same := k.identities.pack(was, resp.Identity, false)
	private, kept := privateOf(ctx, r, resp.Private, before, req.PriorPrivate)
	packed, ok := k.pack(resp.Plan.Raw, true)
	diagnostics, written := said(resp.Diagnostics)
	replaces, named := replacing(resp.RequiresReplace)
	switch {
	case !ok:
		return resp, nil
	case resp.Diagnostics.HasError() && bytes.Equal(packed.MsgPack, proposed.MsgPack):
		return nil, nil // it has not come to plan anything, so what the framework proposes stands
	case !written, !named, resp.Deferred != nil, !same, !kept, ask.Plan.Raw.IsNull() != resp.Plan.Raw.IsNull():
		return resp, nil
	}
	return resp, &tfprotov6.PlanResourceChangeResponse{PlannedState: packed, PlannedPrivate: private,
		PlannedIdentity: identity, RequiresReplace: replaces, Diagnostics: diagnostics}
}

// planRequest returns the request to a resource, and the framework's proposal. ok is false if both are left to the
// framework.
func (k *kind) planRequest(r full, req *tfprotov6.PlanResourceChangeRequest) (
	ask resource.ModifyPlanRequest, proposed *tfprotov6.DynamicValue, ok bool) {
	prior, ok := k.unpack(req.PriorState, false)
	plan, fits := k.unpack(req.ProposedNewState, true)
	config, known := k.unpack(req.Config, true)
	switch {
	case !ok, !fits, !known, !prior.IsNull() && !k.isState(prior):
		return ask, nil, false
	case !plan.IsNull() && config.IsNull(), plan.IsNull() && prior.IsNull():
		return ask, nil, false
	}
	plan = k.withoutSecrets(plan)
	proposed, ok = k.pack(plan, true)
	if _, alone := r.(Planner); !ok || !alone && !bytes.Equal(req.PriorState.MsgPack, proposed.MsgPack) {
		return ask, nil, false
	}
	ask = resource.ModifyPlanRequest{Config: tfsdk.Config{Raw: config, Schema: k.schema}, State: tfsdk.State{Raw: prior,
		Schema: k.schema},
		Plan: tfsdk.Plan{Raw: plan, Schema: k.schema}}
	if c := req.ClientCapabilities; c != nil {
		ask.ClientCapabilities.DeferralAllowed = c.DeferralAllowed
	}
	return ask, proposed, true
}

// withoutSecrets makes what is write-only null: Terraform proposes what is configured.
func (k *kind) withoutSecrets(v tftypes.Value) tftypes.Value {
	if v.IsNull() || k.isState(v) {
		return v
	}
	values := map[string]tftypes.Value{}
	if v.As(&values) != nil {
		return v
	}
	values = maps.Clone(values) // they are the value's own
	for i := range k.attributes {
		if a := &k.attributes[i]; a.writeOnly {
			values[a.name] = tftypes.NewValue(a.place.wire, nil)
		}
	}
	return tftypes.NewValue(v.Type(), values)
}
