package plan_test

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/fastpath"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm"
)

// twin asks the server with the fast path and a framework's server without it the same, compares the answers, and gives the first.
type twin struct {
	tfprotov6.ProviderServer // with the fast path
	plain                    tfprotov6.ProviderServer
	found                    *comparison
}

// comparison is what twins found.
type comparison struct {
	typ tftypes.Type // of a VM

	mu      sync.Mutex
	silent  map[string]int // RPCs that the framework answered with a state and no more
	reached map[string]int // of those the ones that reached the framework behind the fast path
	differ  []string
}

func newComparison(t *testing.T) *comparison {
	t.Helper()
	var schema resource.SchemaResponse
	vm.New(nil).Schema(t.Context(), resource.SchemaRequest{}, &schema)
	return &comparison{typ: schema.Schema.Type().TerraformType(t.Context()), silent: map[string]int{}, reached: map[string]int{}}
}

// serve makes twins.
func (c *comparison) serve(newProvider func() provider.Provider) tfprotov6.ProviderServer {
	fast := fastpath.New(repeating{newProvider()}, new(fastpath.Types), func(p provider.Provider) func() tfprotov6.ProviderServer {
		return func() tfprotov6.ProviderServer {
			whole, ok := providerserver.NewProtocol6(p)().(framework)
			if !ok {
				return nil // another version of the framework; the fast path is off then, and the test fails
			}
			return reachable{whole}
		}
	})
	return &twin{ProviderServer: fast, plain: providerserver.NewProtocol6(repeating{newProvider()})(), found: c}
}

// agree fails a test if an answer differed.
func (c *comparison) agree(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, difference := range c.differ[:min(len(c.differ), 10)] {
		t.Error(difference)
	}
	for rpc, n := range c.silent {
		t.Logf("%s: no more than a state %d times, of which the fast path answered %d", rpc, n, n-c.reached[rpc])
	}
}

// report is agree, and also fails a test if the fast path answered too few of the requests without a change.
func (c *comparison) report(t *testing.T, atLeast int) {
	t.Helper()
	c.agree(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rpc := range []string{"UpgradeResourceState", "ValidateResourceConfig", "ReadResource", "PlanResourceChange", "ApplyResourceChange"} {
		if n, slow := c.silent[rpc], c.reached[rpc]; n < atLeast || slow*20 > n {
			t.Errorf("%s: no more than a state %d times, of which %d reached the framework; want at least %d, and at most one in twenty", rpc, n, slow, atLeast)
		}
	}
}

// repeating is a provider whose resources do nothing twice: what one did for the first server it tells the second. Those that the fast
// path knows nothing of are as they are.
type repeating struct{ provider.Provider }

func (p repeating) Resources(ctx context.Context) []func() resource.Resource {
	all := p.Provider.Resources(ctx)
	for i, construct := range all {
		all[i] = func() resource.Resource {
			made := construct()
			if planned, ok := made.(whole); ok {
				return repeated{planned}
			}
			return made
		}
	}
	return all
}

// whole is all that the resource is.
type whole interface {
	resource.ResourceWithConfigure
	resource.ResourceWithIdentity
	resource.ResourceWithImportState
	resource.ResourceWithValidateConfig
	fastpath.Planner
	fastpath.Keeper
}

type repeated struct{ whole }

type doneKey struct{}

// done holds the results of one apply.
type done struct {
	created *resource.CreateResponse
	updated *resource.UpdateResponse
	deleted *resource.DeleteResponse
}

// once does something, or returns its previous answer.
func once[R any](ctx context.Context, resp *R, of func(*done) **R, do func()) {
	d, ok := ctx.Value(doneKey{}).(*done)
	if !ok {
		do()
		return
	}
	if before := of(d); *before != nil {
		*resp = **before
		return
	}
	do()
	kept := *resp
	*of(d) = &kept
}

func (r repeated) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	once(ctx, resp, func(d *done) **resource.CreateResponse { return &d.created }, func() { r.whole.Create(ctx, req, resp) })
}

func (r repeated) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	once(ctx, resp, func(d *done) **resource.UpdateResponse { return &d.updated }, func() { r.whole.Update(ctx, req, resp) })
}

func (r repeated) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	once(ctx, resp, func(d *done) **resource.DeleteResponse { return &d.deleted }, func() { r.whole.Delete(ctx, req, resp) })
}

type reachedKey struct{}

// framework is all that the framework's server answers.
type framework interface {
	tfprotov6.ProviderServer
	tfprotov6.ListResourceServer
	tfprotov6.ActionServer
}

// reachable is the framework's server; it notes that it was asked.
type reachable struct{ framework }

func reach(ctx context.Context) {
	if reached, ok := ctx.Value(reachedKey{}).(*bool); ok {
		*reached = true
	}
}

func (r reachable) UpgradeResourceState(ctx context.Context, req *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	reach(ctx)
	return r.framework.UpgradeResourceState(ctx, req)
}

func (r reachable) ValidateResourceConfig(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	reach(ctx)
	return r.framework.ValidateResourceConfig(ctx, req)
}

func (r reachable) ReadResource(ctx context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	reach(ctx)
	return r.framework.ReadResource(ctx, req)
}

func (r reachable) ApplyResourceChange(ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	reach(ctx)
	return r.framework.ApplyResourceChange(ctx, req)
}

func (r reachable) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	reach(ctx)
	return r.framework.PlanResourceChange(ctx, req)
}

// nothingBeside is the rest of an answer without replacements and deferral.
const nothingBeside = "[] <nil>"

// answer is the common part of the four answers.
type answer struct {
	state       *tfprotov6.DynamicValue
	identity    *tfprotov6.ResourceIdentityData
	private     []byte
	diagnostics []*tfprotov6.Diagnostic
	rest        string
}

// both sends a request to both servers.
func both[Q, R any](ctx context.Context, w *twin, rpc string, req Q, fast, plain func(context.Context, Q) (R, error), of func(R) answer, silent func(answer) bool) (R, error) {
	reached := false
	one, err := fast(context.WithValue(ctx, reachedKey{}, &reached), req)
	other, errPlain := plain(ctx, req)
	if err != nil || errPlain != nil {
		return one, fmt.Errorf("%w, %w", err, errPlain)
	}
	is, want := of(one), of(other)
	w.found.mu.Lock()
	defer w.found.mu.Unlock()
	if difference := w.found.difference(is, want); difference != "" {
		w.found.differ = append(w.found.differ, fmt.Sprintf("%s (reached the framework: %t): %s", rpc, reached, difference))
	}
	if silent(want) {
		w.found.silent[rpc]++
		if reached {
			w.found.reached[rpc]++
		}
	}
	return one, nil
}

// difference compares two answers byte by byte, but for the order of keys and of diagnostics, which the framework draws.
func (c *comparison) difference(is, want answer) string {
	switch {
	case !bytes.Equal(is.private, want.private):
		return fmt.Sprintf("private state %s, want %s", is.private, want.private)
	case is.rest != want.rest:
		return fmt.Sprintf("%s, want %s", is.rest, want.rest)
	case !slices.Equal(sorted(is.diagnostics), sorted(want.diagnostics)):
		return fmt.Sprintf("diagnostics %q, want %q", sorted(is.diagnostics), sorted(want.diagnostics))
	case (is.state == nil) != (want.state == nil):
		return fmt.Sprintf("state %v, want %v", is.state, want.state)
	case !reflect.DeepEqual(is.identity, want.identity):
		return fmt.Sprintf("identity %v, want %v", is.identity, want.identity)
	case is.state == nil:
		return ""
	}
	v, err := is.state.Unmarshal(c.typ)
	wanted, errPlain := want.state.Unmarshal(c.typ)
	switch {
	case err != nil || errPlain != nil:
		return fmt.Sprintf("%v, %v", err, errPlain)
	case !v.Equal(wanted) || len(is.state.MsgPack) != len(want.state.MsgPack):
		diffs, _ := v.Diff(wanted)
		return fmt.Sprintf("state: %s", diffs)
	}
	return ""
}

func sorted(diagnostics []*tfprotov6.Diagnostic) []string {
	var all []string
	for _, d := range diagnostics {
		all = append(all, fmt.Sprintf("%s %s %s %s", d.Severity, d.Attribute, d.Summary, d.Detail))
	}
	slices.Sort(all)
	return all
}

func (w *twin) ConfigureProvider(ctx context.Context, req *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	if resp, err := w.plain.ConfigureProvider(ctx, req); err != nil {
		return resp, err
	}
	return w.ProviderServer.ConfigureProvider(ctx, req)
}

func (w *twin) StopProvider(ctx context.Context, req *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	if resp, err := w.plain.StopProvider(ctx, req); err != nil {
		return resp, err
	}
	return w.ProviderServer.StopProvider(ctx, req)
}

func (w *twin) UpgradeResourceState(ctx context.Context, req *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	return both(ctx, w, "UpgradeResourceState", req, w.ProviderServer.UpgradeResourceState, w.plain.UpgradeResourceState,
		func(r *tfprotov6.UpgradeResourceStateResponse) answer {
			return answer{state: r.UpgradedState, diagnostics: r.Diagnostics}
		},
		func(a answer) bool { return len(a.diagnostics) == 0 })
}

func (w *twin) ValidateResourceConfig(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return both(ctx, w, "ValidateResourceConfig", req, w.ProviderServer.ValidateResourceConfig, w.plain.ValidateResourceConfig,
		func(r *tfprotov6.ValidateResourceConfigResponse) answer { return answer{diagnostics: r.Diagnostics} },
		func(a answer) bool { return len(a.diagnostics) == 0 })
}

func (w *twin) ReadResource(ctx context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	return both(ctx, w, "ReadResource", req, w.ProviderServer.ReadResource, w.plain.ReadResource,
		func(r *tfprotov6.ReadResourceResponse) answer {
			return answer{state: r.NewState, identity: r.NewIdentity, private: r.Private, diagnostics: r.Diagnostics, rest: fmt.Sprint([]*tftypes.AttributePath(nil), r.Deferred)}
		},
		func(a answer) bool { return a.silent(req.Private) })
}

func (w *twin) ApplyResourceChange(ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	return both(context.WithValue(ctx, doneKey{}, &done{}), w, "ApplyResourceChange", req, w.ProviderServer.ApplyResourceChange, w.plain.ApplyResourceChange,
		func(r *tfprotov6.ApplyResourceChangeResponse) answer {
			return answer{state: r.NewState, identity: r.NewIdentity, private: r.Private, diagnostics: r.Diagnostics,
				rest: fmt.Sprint([]*tftypes.AttributePath(nil), (*tfprotov6.Deferred)(nil))}
		},
		func(a answer) bool { return len(a.diagnostics) == 0 })
}

func (w *twin) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	return both(ctx, w, "PlanResourceChange", req, w.ProviderServer.PlanResourceChange, w.plain.PlanResourceChange,
		func(r *tfprotov6.PlanResourceChangeResponse) answer {
			return answer{state: r.PlannedState, identity: r.PlannedIdentity, private: r.PlannedPrivate, diagnostics: r.Diagnostics,
				rest: fmt.Sprint(r.RequiresReplace, r.Deferred)}
		},
		func(a answer) bool { return a.silent(req.PriorPrivate) })
}

// silent reports whether an answer is a state alone: no diagnostics, nothing noted, nothing beside.
func (a answer) silent(private []byte) bool {
	return a.state != nil && !bytes.Equal(a.state.MsgPack, []byte{0xc0}) && len(a.diagnostics) == 0 && bytes.Equal(a.private, private) && a.rest == nothingBeside
}
