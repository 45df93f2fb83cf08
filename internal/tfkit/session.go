package tfkit

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Session is one configured provider: one cluster, one identity. Several provider aliases are several Sessions that
// share nothing.
type Session struct {
	// API is nil while the provider's configuration holds values that are not known yet.
	API *pve.Client
	VMs *provision.Service
	// Shell is nil without SSH; it is here to be closed.
	Shell io.Closer
	// Range bounds automatic VMIDs, inclusive; zero leaves the choice to PVE's own range.
	Range [2]int
	// Defaults are what VMs are made with where their configuration says nothing.
	Defaults Defaults
}

// Defaults are values for what is made; empty is none.
type Defaults struct {
	Tags                        []string
	Node, Storage, Bridge, Pool string
}

// IsZero reports whether there are none.
func (d Defaults) IsZero() bool {
	return len(d.Tags) == 0 && d.Node == "" && d.Storage == "" && d.Bridge == "" && d.Pool == ""
}

// Known reports whether the server can be asked.
func (s *Session) Known() bool { return s != nil && s.API != nil }

// User is the identity that the server knows the provider by, "" while there is no server.
func (s *Session) User() string {
	if !s.Known() {
		return ""
	}
	return s.API.Identity().User
}

// Close lets go of connections that lie idle. A provider process ends without it; tests do not.
func (s *Session) Close() error {
	if s == nil {
		return nil
	}
	if s.API != nil {
		s.API.Close()
	}
	if s.Shell != nil {
		return s.Shell.Close()
	}
	return nil
}

// ResourceBase is embedded by every resource; it takes the Session.
type ResourceBase struct{ Session *Session }

// Configure takes the Session of the configured provider. Terraform also calls it before that, without one.
func (b *ResourceBase) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	session, ok := req.ProviderData.(*Session)
	b.Session = session
	if !ok && req.ProviderData != nil {
		resp.Diagnostics.Append(wrongSession(fmt.Sprintf("%T", req.ProviderData)))
	}
}

// Do does what a create, an update, a destroy or an import is about, within its time: requests asks the server and sets the state. It is
// not called where there is an error already or the server cannot be asked yet. Its error becomes a diagnostic of the attempt.
func (b *ResourceBase) Do(ctx context.Context, diags *diag.Diagnostics, within time.Duration, a Attempt,
	requests func(context.Context) error,
) {
	b.Session.do(ctx, diags, within, a, requests)
}

// Refresh does what a read is about, within its time: look asks the server and sets the state. Where the server cannot be asked yet, or
// cannot tell, the state stays as it is, with a warning; that it is not there or does not let the provider in is an error.
func (b *ResourceBase) Refresh(ctx context.Context, diags *diag.Diagnostics, within time.Duration, a Attempt,
	look func(context.Context) error,
) {
	if !diags.HasError() && !b.Session.Known() {
		diags.Append(NotYetRefreshed(a))
		return
	}
	b.Session.do(ctx, diags, within, a, func(ctx context.Context) error {
		err := look(ctx)
		if err == nil || LoginRefused(err) || Unreachable(err) {
			return err
		}
		diags.Append(NotRefreshed(a, err)...)
		return nil
	})
}

// DataSourceBase is embedded by every data source; it takes the Session.
type DataSourceBase struct{ Session *Session }

// Configure takes the Session of the configured provider. Terraform also calls it before that, without one.
func (b *DataSourceBase) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	session, ok := req.ProviderData.(*Session)
	b.Session = session
	if !ok && req.ProviderData != nil {
		resp.Diagnostics.Append(wrongSession(fmt.Sprintf("%T", req.ProviderData)))
	}
}

// Ask does what a data source's read is about, within its time: requests asks the server and sets the state. It is not called where the
// configuration has an error or the server cannot be asked yet. Its error becomes a diagnostic of the attempt.
func (b *DataSourceBase) Ask(ctx context.Context, resp *datasource.ReadResponse, within time.Duration, a Attempt,
	requests func(context.Context) error,
) {
	b.Session.do(ctx, &resp.Diagnostics, within, a, requests)
}

// do calls requests within a time, unless there is an error already or the server cannot be asked yet, and tells its error.
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
	a.As = s.User()
	account.From(ctx).Thing(a.Thing)
	account.From(ctx).About(a.VMID, "")
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	diags.Append(Diagnose(a, requests(ctx))...)
}

func wrongSession(got string) diag.Diagnostic {
	return diag.NewErrorDiagnostic("Provider data of an unexpected type",
		"This is a bug in the provider: it handed "+got+" to a resource instead of a session. Please report it.")
}

// NotConfigured is the diagnostic of an operation that needs the server while the provider's configuration is not known.
func NotConfigured(verb, thing string) diag.Diagnostic {
	return diag.NewErrorDiagnostic("Cannot "+verb+" "+thing,
		"The provider's configuration depends on values that are not known yet, so the server cannot be asked. "+
			"Apply the resources that the provider block refers to first, for example with -target.")
}

// Planned reads a plan and the state before it; prior has nothing in it where there is none. ok is false where nothing is planned, or an
// error says that it cannot be read.
func Planned[M any](ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) (m, prior M, ok bool) {
	if req.Plan.Raw.IsNull() {
		return m, prior, false
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	}
	return m, prior, !resp.Diagnostics.HasError()
}
