// Package interceptor keeps the operation log of each call of Terraform, in front of the server that answers. Each
// create, refresh, plan, action and so on is an operation. It ends with one line in Terraform's log, with its cost and
// where its time went. One place does this for every resource, so none can be forgotten. The package also writes
// Terraform's log for the rest of the provider.
package interceptor

import (
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// Backend is a server that answers every call of Terraform. The library's own interface does not contain lists and
// actions yet.
type Backend interface {
	tfprotov6.ProviderServer
	tfprotov6.ListResourceServer
	tfprotov6.ActionServer
}

// Options are the listeners of operations, besides the log.
type Options struct {
	// Now is nil for the real time.
	Now func() time.Time
	// Tracer is nil for none.
	Tracer oplog.Tracer
	// Ended receives the summary of each operation; nil for none.
	Ended func(oplog.Summary)
	// Silent: the log has no reader, so nothing is written.
	Silent bool
	// Kept: the log or the trace is kept, so an error names its operation.
	Kept bool
	// Lines: diagnostics stand where Terraform can show a line.
	Lines bool
	// Every is the interval of the lines that say what is waited for; zero for oplog.StillEvery.
	Every time.Duration
}

// server keeps an operation log in front of another server.
type server struct {
	Backend
	options Options
}

// New returns a server that keeps operation logs for the calls of another, and cleans what it says. A server that is no
// Backend is returned unchanged.
func New(behind tfprotov6.ProviderServer, o Options) tfprotov6.ProviderServer {
	all, ok := behind.(Backend)
	if !ok {
		return behind
	}
	all = &server{Backend: all, options: o}
	if o.Lines {
		all = &lines{all}
	}
	return &screen{all}
}

func (s *server) begin(ctx context.Context, name, resource string) (context.Context, *oplog.Operation) {
	c := oplog.Config{Name: name, Type: resource, Now: s.options.Now, Tracer: s.options.Tracer, Every: s.options.Every}
	if !s.options.Silent {
		ctx, c.Log = WithSubsystems(ctx), Log
	}
	return oplog.Begin(ctx, c)
}

// close ends an operation and writes its summary. If the log is kept, it adds the operation's id to errors.
func (s *server) close(ctx context.Context, o *oplog.Operation, said []*tfprotov6.Diagnostic, err error) {
	result, first := outcome(ctx, said, err)
	sum := o.Close(result)
	if s.options.Ended != nil {
		s.options.Ended(sum)
	}
	if sum.Name == "plan" && !sum.HasWork() && result == "ok" {
		return // it has compared, without requests
	}
	if s.options.Kept {
		name(said, sum.ID)
	}
	if s.options.Silent {
		return
	}
	fields := Fields(sum)
	fields["outcome"] = result
	if first != "" {
		fields["error"] = first
	}
	Log(ctx, "", slog.LevelInfo, "Operation ended", fields)
}

// ask has a request answered as an operation. said returns the diagnostics of an answer.
func ask[Request, Response any](ctx context.Context, s *server, name, resource string, req *Request,
	answer func(context.Context, *Request) (*Response, error), said func(*Response) []*tfprotov6.Diagnostic) (*Response,
	error) {
	ctx, o := s.begin(ctx, name, resource)
	resp, err := answer(ctx, req)
	if resp == nil {
		s.close(ctx, o, nil, err)
		return resp, err
	}
	s.close(ctx, o, said(resp), err)
	return resp, err
}

// ReadResource refreshes a state.
func (s *server) ReadResource(ctx context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse,
	error) {
	return ask(ctx, s, "read", req.TypeName, req, s.Backend.ReadResource,
		func(resp *tfprotov6.ReadResourceResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// PlanResourceChange plans.
func (s *server) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (
	*tfprotov6.PlanResourceChangeResponse, error) {
	return ask(ctx, s, "plan", req.TypeName, req, s.Backend.PlanResourceChange,
		func(resp *tfprotov6.PlanResourceChangeResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// ApplyResourceChange creates, changes and destroys.
func (s *server) ApplyResourceChange(ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest) (
	*tfprotov6.ApplyResourceChangeResponse, error) {
	return ask(ctx, s, verb(req), req.TypeName, req, s.Backend.ApplyResourceChange,
		func(resp *tfprotov6.ApplyResourceChangeResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// verb is what an apply does.
func verb(req *tfprotov6.ApplyResourceChangeRequest) string {
	isNull := func(v *tfprotov6.DynamicValue) bool {
		if v == nil {
			return true
		}
		null, err := v.IsNull()
		return err == nil && null
	}
	switch {
	case isNull(req.PriorState):
		return "create"
	case isNull(req.PlannedState):
		return "delete"
	}
	return "update"
}

// ImportResourceState takes over what exists.
func (s *server) ImportResourceState(ctx context.Context, req *tfprotov6.ImportResourceStateRequest) (
	*tfprotov6.ImportResourceStateResponse, error) {
	return ask(ctx, s, "import", req.TypeName, req, s.Backend.ImportResourceState,
		func(resp *tfprotov6.ImportResourceStateResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// ReadDataSource reads a data source.
func (s *server) ReadDataSource(ctx context.Context,
	req *tfprotov6.ReadDataSourceRequest) (*tfprotov6.ReadDataSourceResponse, error) {
	return ask(ctx, s, "read", "data."+req.TypeName, req, s.Backend.ReadDataSource,
		func(resp *tfprotov6.ReadDataSourceResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// PlanAction plans an action.
func (s *server) PlanAction(ctx context.Context, req *tfprotov6.PlanActionRequest) (*tfprotov6.PlanActionResponse,
	error) {
	return ask(ctx, s, "plan", "action."+req.ActionType, req, s.Backend.PlanAction,
		func(resp *tfprotov6.PlanActionResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}
