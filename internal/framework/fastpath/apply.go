package fastpath

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// change is what Terraform asks for, read.
type change struct {
	config, plan, prior tftypes.Value
	noted               map[string][]byte
	was, is             *tfsdk.ResourceIdentity // told, and to be answered
}

// apply has the resource create, change or destroy. answer is nil where the framework has to go on from what the
// resource has done, and done is empty where it was not asked.
//
// The framework is asked after the resource, so it must be certain to come as far as the resource: whatever it could
// object to in the request before is looked at here first.
func (k *kind) apply(ctx context.Context, r full, req *tfprotov6.ApplyResourceChangeRequest) (
	done answers, answer *tfprotov6.ApplyResourceChangeResponse) {
	c, ok := k.changeOf(req)
	if _, keeps := r.(Keeper); !ok || !keeps {
		return answers{}, nil
	}
	switch {
	case c.prior.IsNull():
		return k.create(ctx, r, c)
	case c.plan.IsNull():
		return k.delete(ctx, r, c, req.PlannedPrivate)
	}
	return k.update(ctx, r, c, req.PlannedPrivate)
}

// changeOf reads a request. ok is false where that is the framework's affair.
func (k *kind) changeOf(req *tfprotov6.ApplyResourceChangeRequest) (c change, ok bool) {
	var known, planned, configured, identified bool
	c.prior, known = k.unpack(req.PriorState, false)
	c.plan, planned = k.unpack(req.PlannedState, true)
	c.config, configured = k.unpack(req.Config, true)
	c.noted, ok = parsePrivate(req.PlannedPrivate)
	c.was, c.is, identified = k.identities.unpack(req.PlannedIdentity)
	switch {
	case !ok, !known, !planned, !configured, !identified, req.ProviderMeta != nil:
		return c, false
	case c.prior.IsNull() && c.plan.IsNull():
		return c, false
	}
	return c, true
}

func (k *kind) create(ctx context.Context, r full, c change) (answers, *tfprotov6.ApplyResourceChangeResponse) {
	ask := resource.CreateRequest{Config: tfsdk.Config{Raw: c.config, Schema: k.schema}, Plan: tfsdk.Plan{Raw: c.plan,
		Schema: k.schema},
		Identity: c.was}
	resp := &resource.CreateResponse{State: tfsdk.State{Raw: tftypes.NewValue(k.place.wire, nil), Schema: k.schema},
		Identity: c.is}
	before, _ := storeIn(ctx, resp.Private, nil)
	resp.Private, _ = storeIn(ctx, resp.Private, nil) // the framework hands a create nothing of the plan's
	r.Create(ctx, ask, resp)
	private, kept := privateOf(ctx, r, resp.Private, before, nil)
	identity, ok := k.identities.pack(c.was, resp.Identity, !resp.Diagnostics.HasError())
	if !kept || !ok {
		return answers{created: resp}, nil
	}
	return answers{created: resp}, k.applied(c.plan, resp.State.Raw, private, identity, resp.Diagnostics)
}

func (k *kind) update(ctx context.Context, r full, c change, came []byte) (answers,
	*tfprotov6.ApplyResourceChangeResponse) {
	ask := resource.UpdateRequest{Config: tfsdk.Config{Raw: c.config, Schema: k.schema}, Plan: tfsdk.Plan{Raw: c.plan,
		Schema: k.schema},
		State: tfsdk.State{Raw: c.prior, Schema: k.schema}, Identity: c.was}
	before, ok := storeIn(ctx, ask.Private, c.noted)
	ask.Private, _ = storeIn(ctx, ask.Private, c.noted)
	if !ok {
		return answers{}, nil
	}
	resp := &resource.UpdateResponse{State: ask.State, Private: ask.Private, Identity: c.is}
	r.Update(ctx, ask, resp)
	private, kept := privateOf(ctx, r, resp.Private, before, came)
	identity, same := k.identities.pack(c.was, resp.Identity, !resp.Diagnostics.HasError())
	if !kept || !same {
		return answers{updated: resp}, nil
	}
	return answers{updated: resp}, k.applied(c.plan, resp.State.Raw, private, identity, resp.Diagnostics)
}

func (k *kind) delete(ctx context.Context, r full, c change, came []byte) (answers,
	*tfprotov6.ApplyResourceChangeResponse) {
	ask := resource.DeleteRequest{State: tfsdk.State{Raw: c.prior, Schema: k.schema}, Identity: c.was}
	before, ok := storeIn(ctx, ask.Private, c.noted)
	ask.Private, _ = storeIn(ctx, ask.Private, c.noted)
	if !ok {
		return answers{}, nil
	}
	resp := &resource.DeleteResponse{State: ask.State, Private: ask.Private, Identity: c.is}
	r.Delete(ctx, ask, resp)
	if resp.Diagnostics.HasError() {
		private, kept := privateOf(ctx, r, resp.Private, before, came)
		identity, same := k.identities.pack(c.was, resp.Identity, false)
		if !kept || !same {
			return answers{deleted: resp}, nil
		}
		return answers{deleted: resp}, k.applied(c.prior, resp.State.Raw, private, identity, resp.Diagnostics)
	}
	diagnostics, ok := said(resp.Diagnostics)
	if !ok {
		return answers{deleted: resp}, nil
	}
	gone := tftypes.NewValue(k.place.wire, nil)
	return answers{deleted: resp}, &tfprotov6.ApplyResourceChangeResponse{Diagnostics: diagnostics,
		NewState: &tfprotov6.DynamicValue{MsgPack: k.place.pack(nil, gone)}, NewIdentity: k.identities.none()}
}

// applied is the answer with a state and what there is to say; nil where the framework does more. It does nothing to
// the state of a failure.
func (k *kind) applied(plan, state tftypes.Value, private []byte, identity *tfprotov6.ResourceIdentityData,
	diags diag.Diagnostics) *tfprotov6.ApplyResourceChangeResponse {
	diagnostics, ok := said(diags)
	if !ok || !k.isState(state) || !diags.HasError() && (state.IsNull() || !k.place.sameDecimals(plan, state)) {
		return nil
	}
	packed, ok := k.pack(state, false)
	if !ok {
		return nil
	}
	return &tfprotov6.ApplyResourceChangeResponse{NewState: packed, Private: private, NewIdentity: identity,
		Diagnostics: diagnostics}
}
