package kit

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/service"
)

// Session is one configured provider: one cluster, one identity. Sessions of several provider aliases share nothing.
type Session struct {
	// API only reads: writes go through VMs. It is zero while the provider's configuration has unknown values.
	API pve.Reader
	VMs *service.Service
	// Release closes the idle connections to the API; nil for none.
	Release func()
	// Shell is nil without SSH. It is here to be closed.
	Shell io.Closer
	// Range bounds automatic VMIDs, inclusive; zero is PVE's own range.
	Range [2]int
	// Defaults are what VMs are made with where their configuration says nothing.
	Defaults Defaults

	begin sync.Once
	told  *told // since begin
	// leaves: a plan within an apply has left the server's findings to the create.
	leaves atomic.Bool
	fates  fates
}

// Defaults are values for new objects; an empty value is no default.
type Defaults struct {
	Tags                        []string
	Node, Storage, Bridge, Pool string
	// Unknown are the names of those that are not known yet: node, storage, bridge, pool, tags.
	Unknown map[string]bool
}

// IsZero reports whether there are no defaults.
func (d Defaults) IsZero() bool {
	return len(d.Tags) == 0 && d.Node == "" && d.Storage == "" && d.Bridge == "" && d.Pool == "" &&
		len(d.Unknown) == 0
}

// Known reports whether the server can be asked.
func (s *Session) Known() bool { return s != nil && s.API != (pve.Reader{}) }

// Identity returns the identity by which the server knows the provider; it has no name while there is no server.
func (s *Session) Identity() Identity {
	if !s.Known() {
		return Identity{}
	}
	s.begin.Do(func() { s.told = &told{by: map[string]string{}} })
	return Identity{Name: s.API.Identity().User, Endpoint: s.API.Endpoint(), told: s.told}
}

// Close closes idle connections. A provider process ends without it; tests do not.
func (s *Session) Close() error {
	if s == nil {
		return nil
	}
	if s.Release != nil {
		s.Release()
	}
	if s.Shell != nil {
		return s.Shell.Close()
	}
	return nil
}

// ResourceBase is embedded by every resource. It holds the Session.
type ResourceBase struct{ Session *Session }

// Configure takes the Session of the configured provider. Terraform also calls it before that, without one.
func (r *ResourceBase) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	session, ok := req.ProviderData.(*Session)
	r.Session = session
	if !ok && req.ProviderData != nil {
		resp.Diagnostics.Append(wrongSession(fmt.Sprintf("%T", req.ProviderData)))
	}
}

// Do carries out a create, an update, a destroy or an import within its time limit: requests asks the server and sets
// the state. Do does not call it if there is an error already, or if the server is not known yet. Its error becomes a
// diagnostic of the attempt.
func (r *ResourceBase) Do(ctx context.Context, diags *diag.Diagnostics, within time.Duration, a Attempt,
	requests func(context.Context) error,
) {
	r.Session.do(ctx, diags, within, a, requests)
}

// Refresh carries out a read within its time limit: look asks the server and sets the state. If the server is not known
// yet, or cannot tell, the state stays as it is, with a warning. A server that does not answer or refuses the login is
// an error.
func (r *ResourceBase) Refresh(ctx context.Context, diags *diag.Diagnostics, within time.Duration, a Attempt,
	look func(context.Context) error,
) {
	if !diags.HasError() && !r.Session.Known() {
		diags.Append(NotYetRefreshed(a))
		return
	}
	r.Session.do(ctx, diags, within, a, func(ctx context.Context) error {
		err := look(ctx)
		if err == nil || LoginRefused(err) || Unreachable(err) {
			return err
		}
		diags.Append(NotRefreshed(a, err)...)
		return nil
	})
}

// DataSourceBase is embedded by every data source. It holds the Session.
type DataSourceBase struct{ Session *Session }

// Configure takes the Session of the configured provider. Terraform also calls it before that, without one.
func (d *DataSourceBase) Configure(_ context.Context, req datasource.ConfigureRequest,
	resp *datasource.ConfigureResponse) {
	session, ok := req.ProviderData.(*Session)
	d.Session = session
	if !ok && req.ProviderData != nil {
		resp.Diagnostics.Append(wrongSession(fmt.Sprintf("%T", req.ProviderData)))
	}
}

// Ask carries out the read of a data source within its time limit: requests asks the server and sets the state. Ask
// does not call it if the configuration has an error, or if the server is not known yet. Its error becomes a diagnostic
// of the attempt.
func (d *DataSourceBase) Ask(ctx context.Context, resp *datasource.ReadResponse, within time.Duration, a Attempt,
	requests func(context.Context) error,
) {
	d.Session.do(ctx, &resp.Diagnostics, within, a, requests)
}

// do calls requests within a time limit, unless there is an error already or the server is not known yet, and reports
// its error.
func (s *Session) do(ctx context.Context, diags *diag.Diagnostics, within time.Duration, a Attempt,
	requests func(context.Context) error,
) {
	if diags.HasError() {
		return
	}
	if !s.Known() {
		diags.Append(NotConfigured(a.Verb, a.Thing))
		return
	}
	a.As = s.Identity()
	oplog.From(ctx).Thing(a.Thing)
	oplog.From(ctx).About(a.VMID, "")
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	diags.Append(Diagnose(a, requests(ctx))...)
}

func wrongSession(got string) diag.Diagnostic {
	return diag.NewErrorDiagnostic("Provider data of an unexpected type",
		"This is a bug in the provider: it handed "+got+" to a resource instead of a session. Please report it.")
}

// NotConfigured is the diagnostic of an operation that needs the server while the provider's configuration is unknown.
func NotConfigured(verb, thing string) diag.Diagnostic {
	return diag.NewErrorDiagnostic("Cannot "+verb+" "+thing,
		"The provider's configuration depends on values that are not known yet, so the server cannot be asked. "+
			"Apply the resources that the provider block refers to first, for example with -target.")
}

// Planned reads a plan and the state before it; prior is the zero value if there is none. ok is false for a destroy,
// and if an error says that the plan cannot be read.
func Planned[M any](ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) (m, prior M,
	ok bool) {
	if req.Plan.Raw.IsNull() {
		return m, prior, false
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	}
	return m, prior, !resp.Diagnostics.HasError()
}
