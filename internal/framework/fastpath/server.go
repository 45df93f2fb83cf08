// Package fastpath answers Terraform where the plugin framework's server would pass on what a resource says, in front
// of that server.
//
// Every plan asks four things of every resource in state: to read the state as it was stored, to validate the
// configuration, to refresh, to plan. Mostly nothing has changed, and the framework takes a hundred milliseconds to
// find that out, since it looks every attribute up in the schema at every step. The fast path has the resource itself
// do the same, with the same code, and answers with the state, the diagnostics and the replacements that it has;
// and so it does with what an apply has made. All else is handed to the framework, with what the resource has answered,
// so that nothing is done twice: a resource cannot tell which of the two asks it.
//
// It serves only resources for which the framework does nothing else: no defaults, no plan modifiers, no types of their
// own that compare or validate. It finds that out by itself.
package fastpath

import (
	"context"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-log/tfsdklog"
)

// backend is a server that answers all that Terraform may ask of what this provider has. Lists and actions have no
// place in the library's own interface yet.
type backend interface {
	tfprotov6.ProviderServer
	tfprotov6.ListResourceServer
	tfprotov6.ActionServer
}

// server is the framework's with the fast path before it.
type server struct {
	backend // the framework's
	watched *watched
	kinds   func() map[string]*kind
	schemas func() map[string]schema.Schema // of all resources

	witnesses func() map[string]func() resource.Resource

	mu      sync.Mutex
	running map[int]context.CancelFunc
	next    int
}

// New makes the server of a provider. framework makes that of the framework: providerserver.NewProtocol6. Servers of
// one known share the descriptions of their types.
func New(p provider.Provider, known *Types,
	framework func(provider.Provider) func() tfprotov6.ProviderServer) tfprotov6.ProviderServer {
	w := &watched{Provider: p}
	behind, ok := framework(w)().(backend)
	if !ok || hides(p) {
		return framework(p)()
	}
	return &server{backend: behind, watched: w, running: map[int]context.CancelFunc{},
		kinds:     sync.OnceValue(func() map[string]*kind { return w.kinds(context.Background(), known) }),
		schemas:   sync.OnceValue(func() map[string]schema.Schema { return w.schemas(context.Background()) }),
		witnesses: sync.OnceValue(func() map[string]func() resource.Resource { return w.witnesses(context.Background()) })}
}

// subsystem is the logger that the framework writes to, and the resource when it uses the framework.
const subsystem = "framework"

// begin gives a request a context that StopProvider ends, and the logger, as the framework does.
func (s *server) begin(ctx context.Context) (context.Context, func()) {
	ctx = tfsdklog.NewSubsystem(ctx, subsystem, tfsdklog.WithLevelFromEnv("TF_LOG_SDK_FRAMEWORK"),
		tfsdklog.WithRootFields())
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.next
	s.next++
	s.running[id] = cancel
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, id)
	}
}

// StopProvider ends what is under way.
func (s *server) StopProvider(ctx context.Context, req *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse,
	error) {
	s.mu.Lock()
	for _, cancel := range s.running {
		cancel()
	}
	s.mu.Unlock()
	return s.backend.StopProvider(ctx, req)
}

// UpgradeResourceState reads a state of the present version.
func (s *server) UpgradeResourceState(ctx context.Context, req *tfprotov6.UpgradeResourceStateRequest) (
	*tfprotov6.UpgradeResourceStateResponse, error) {
	s.tell(ctx, req)
	if k := s.kinds()[req.TypeName]; k != nil && req.Version == k.schema.Version && req.RawState != nil &&
		req.RawState.Flatmap == nil {
		if packed, ok := k.place.repack(req.RawState.JSON); ok && len(packed) > 1 { // a byte is null
			return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &tfprotov6.DynamicValue{MsgPack: packed}}, nil
		}
	}
	return s.backend.UpgradeResourceState(ctx, req)
}

// ValidateResourceConfig accepts a configuration with which nothing is wrong.
func (s *server) ValidateResourceConfig(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) (
	*tfprotov6.ValidateResourceConfigResponse, error) {
	k := s.kinds()[req.TypeName]
	if k != nil {
		within, end := s.begin(ctx)
		defer end()
		var configuration resource.ConfigureRequest // Terraform validates before it configures
		if known := s.watched.configuration.Load(); known != nil {
			configuration = *known
		}
		if r := k.configured(within, configuration); r != nil && k.accepts(within, r, req) {
			return &tfprotov6.ValidateResourceConfigResponse{}, nil
		}
	}
	resp, err := s.backend.ValidateResourceConfig(ctx, req)
	if err == nil && k != nil {
		resp.Diagnostics = withoutUnseen(req.Config, k.place.wire, resp.Diagnostics)
	}
	if err == nil {
		resp.Diagnostics = s.withUnset(ctx, req, s.withNumbers(ctx, req, resp.Diagnostics))
	}
	return resp, err
}

// ReadResource refreshes a state.
func (s *server) ReadResource(ctx context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse,
	error) {
	if k, configuration := s.kinds()[req.TypeName], s.watched.configuration.Load(); k != nil && configuration != nil {
		within, end := s.begin(ctx)
		defer end()
		if r := k.configured(within, *configuration); r != nil {
			resp, answer := k.read(within, r, req)
			if answer != nil {
				tfsdklog.SubsystemTrace(within, subsystem, "Answered on the fast path, without the framework")
				return answer, nil
			}
			ctx = handing(ctx, answers{read: resp})
		}
	}
	return s.backend.ReadResource(ctx, req)
}

// ApplyResourceChange creates, changes and destroys.
func (s *server) ApplyResourceChange(ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest) (
	*tfprotov6.ApplyResourceChangeResponse, error) {
	if k, configuration := s.kinds()[req.TypeName], s.watched.configuration.Load(); k != nil && configuration != nil {
		within, end := s.begin(ctx)
		defer end()
		if r := k.configured(within, *configuration); r != nil {
			done, answer := k.apply(within, r, req)
			if answer != nil {
				tfsdklog.SubsystemTrace(within, subsystem, "Answered on the fast path, without the framework")
				return answer, nil
			}
			ctx = handing(ctx, done)
		}
	}
	return s.backend.ApplyResourceChange(ctx, req)
}

// PlanResourceChange plans.
func (s *server) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (
	*tfprotov6.PlanResourceChangeResponse, error) {
	if k, configuration := s.kinds()[req.TypeName], s.watched.configuration.Load(); k != nil && configuration != nil {
		within, end := s.begin(ctx)
		defer end()
		if r := k.configured(within, *configuration); r != nil {
			resp, answer := k.plan(within, r, req)
			if answer != nil {
				tfsdklog.SubsystemTrace(within, subsystem, "Answered on the fast path, without the framework")
				return answer, nil
			}
			ctx = handing(ctx, answers{plan: resp})
		}
	}
	return s.backend.PlanResourceChange(ctx, req)
}
