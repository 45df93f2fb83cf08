package fastpath

import (
	"context"
	"sync/atomic"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/function"
	tflist "github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
)

// watched is a provider that the framework serves, with what the fast path must know of it.
type watched struct {
	provider.Provider
	// configuration is what resources are configured with; nil before the provider is, and where the fast path has to
	// rest.
	configuration atomic.Pointer[resource.ConfigureRequest]
}

// hides reports whether watched would hide something that a provider can do.
func hides(p provider.Provider) bool {
	switch p.(type) {
	case provider.ProviderWithConfigValidators, provider.ProviderWithEphemeralResources,
		provider.ProviderWithMetaSchema,
		provider.ProviderWithValidateConfig, provider.ProviderWithStateStores:
		return true
	}
	return false
}

// Functions are the provider's, if it has any.
func (w *watched) Functions(ctx context.Context) []func() function.Function {
	if p, ok := w.Provider.(provider.ProviderWithFunctions); ok {
		return p.Functions(ctx)
	}
	return nil
}

// ListResources are the provider's, if it has any.
func (w *watched) ListResources(ctx context.Context) []func() tflist.ListResource {
	if p, ok := w.Provider.(provider.ProviderWithListResources); ok {
		return p.ListResources(ctx)
	}
	return nil
}

// Actions are the provider's, if it has any.
func (w *watched) Actions(ctx context.Context) []func() action.Action {
	if p, ok := w.Provider.(provider.ProviderWithActions); ok {
		return p.Actions(ctx)
	}
	return nil
}

// Configure notes what resources are configured with.
func (w *watched) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	w.configuration.Store(nil)
	w.Provider.Configure(ctx, req, resp)
	if !resp.Diagnostics.HasError() && resp.Deferred == nil {
		w.configuration.Store(&resource.ConfigureRequest{ProviderData: resp.ResourceData})
	}
}

// Resources lists the resources, so that they take over what the fast path has done already.
func (w *watched) Resources(ctx context.Context) []func() resource.Resource {
	all := w.Provider.Resources(ctx)
	for i, construct := range all {
		all[i] = func() resource.Resource {
			r := construct()
			f, ok := fullOf(r)
			if !ok {
				return r
			}
			of, identifies := r.(resource.ResourceWithIdentity)
			old, upgrades := r.(resource.ResourceWithUpgradeState)
			switch b := (begun{f}); {
			case identifies && upgrades:
				return struct {
					identified
					upgrading
				}{identified{b, of}, upgrading{old}}
			case identifies:
				return identified{b, of}
			case upgrades:
				return struct {
					begun
					upgrading
				}{b, upgrading{old}}
			default:
				return b
			}
		}
	}
	return all
}

// kinds are the types of resources that the fast path serves, by name.
func (w *watched) kinds(ctx context.Context, known *Types) map[string]*kind {
	var of provider.MetadataResponse
	w.Metadata(ctx, provider.MetadataRequest{}, &of)
	all := map[string]*kind{}
	for _, construct := range w.Provider.Resources(ctx) {
		var named resource.MetadataResponse
		construct().Metadata(ctx, resource.MetadataRequest{ProviderTypeName: of.TypeName}, &named)
		if described := known.describe(ctx, named.TypeName, construct); described != nil {
			all[named.TypeName] = &kind{typeOf: described, make: construct}
		}
	}
	return all
}

// answers are what a resource has answered already to the request that the framework is handed.
type answers struct {
	read    *resource.ReadResponse
	plan    *resource.ModifyPlanResponse
	created *resource.CreateResponse
	updated *resource.UpdateResponse
	deleted *resource.DeleteResponse
}

type answersKey struct{}

// handing takes answers to the framework.
func handing(ctx context.Context, a answers) context.Context {
	return context.WithValue(ctx, answersKey{}, a)
}

// begun is a resource that does nothing twice: what it answered to the fast path it answers to the framework.
type begun struct{ full }

// given is what was answered already.
func given(ctx context.Context) answers {
	a, _ := ctx.Value(answersKey{}).(answers)
	return a
}

// MoveState takes states of other types over, which the fast path leaves to the framework.
func (b begun) MoveState(ctx context.Context) []resource.StateMover {
	if m, ok := b.full.(resource.ResourceWithMoveState); ok {
		return m.MoveState(ctx)
	}
	return nil
}

// Read refreshes the state.
func (b begun) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	if a := given(ctx).read; a != nil {
		*resp = *a
		return
	}
	b.full.Read(ctx, req, resp)
}

// ModifyPlan plans.
func (b begun) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if a := given(ctx).plan; a != nil {
		before := resp.Diagnostics
		*resp = *a
		resp.Diagnostics = append(before, resp.Diagnostics...)
		return
	}
	b.full.ModifyPlan(ctx, req, resp)
}

// Create makes the resource.
func (b begun) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	if a := given(ctx).created; a != nil {
		*resp = *a
		return
	}
	b.full.Create(ctx, req, resp)
}

// Update changes it.
func (b begun) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if a := given(ctx).updated; a != nil {
		*resp = *a
		return
	}
	b.full.Update(ctx, req, resp)
}

// Delete removes it.
func (b begun) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	if a := given(ctx).deleted; a != nil {
		*resp = *a
		return
	}
	b.full.Delete(ctx, req, resp)
}

// identified is a begun resource that has an identity.
type identified struct {
	begun
	of resource.ResourceWithIdentity
}

// IdentitySchema is the shape of the identity.
func (i identified) IdentitySchema(ctx context.Context, req resource.IdentitySchemaRequest,
	resp *resource.IdentitySchemaResponse) {
	i.of.IdentitySchema(ctx, req, resp)
}

// upgrading is what a resource does that upgrades states of older versions, which the fast path leaves to the
// framework.
type upgrading struct {
	of resource.ResourceWithUpgradeState
}

// UpgradeState reads them.
func (u upgrading) UpgradeState(ctx context.Context) map[int64]resource.StateUpgrader {
	return u.of.UpgradeState(ctx)
}
