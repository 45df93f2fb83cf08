// Package provider is the composition root: the provider's own schema, the session that its configuration opens, and
// the list of resources, list resources, data sources, actions and functions.
package provider

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	actions "github.com/terraform-proxmox/terraform-provider-proxmox/internal/action"
	datasources "github.com/terraform-proxmox/terraform-provider-proxmox/internal/datasource"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/fastpath"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog/interceptor"
	functions "github.com/terraform-proxmox/terraform-provider-proxmox/internal/function"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/disk"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/file"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/harule"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/snapshot"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/run"
)

// TypeName is the prefix of all types of the provider.
const TypeName = "proxmox"

// Dialer opens a network connection, like net.Dialer.DialContext.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Options replace the provider's connections to the world; tests set them. The zero value is the real world.
type Options struct {
	// DialContext opens the connections to the API.
	DialContext Dialer
	// DialTLSContext opens them without encryption, to a cluster in memory.
	DialTLSContext Dialer
	// SSHDial opens the connections to the nodes.
	SSHDial Dialer
	// Clock is the clock of the API client; nil is the real one.
	Clock pve.Clock
	// Tracer receives the spans of every operation; nil for none. Keeps: the trace or the log is kept, so errors name
	// their operation.
	Tracer oplog.Tracer
	Keeps  bool
	// Silent: the log has no reader.
	Silent bool
	// Lines: diagnostics stand where Terraform can show a line, and not on attributes within attributes.
	Lines bool
	// StillEvery is the interval of the lines that say what an operation waits for; zero for half a minute.
	StillEvery time.Duration
	// Ended receives the summary of each operation.
	Ended func(oplog.Summary)
	// Opened receives each session that a configuration opened, so that a test can close it.
	Opened func(*kit.Session)
}

// Proxmox is the provider.
type Proxmox struct {
	version string
	options Options
	vms     *run.Notes // begins with the configuration
}

var (
	_ provider.Provider                  = &Proxmox{}
	_ provider.ProviderWithFunctions     = &Proxmox{}
	_ provider.ProviderWithListResources = &Proxmox{}
	_ provider.ProviderWithActions       = &Proxmox{}
	_ fastpath.Planner                   = &vm.Resource{}
	_ fastpath.Keeper                    = &vm.Resource{}
	_ fastpath.Generator                 = &vm.Resource{}
	_ fastpath.Witness                   = &vm.Resource{}
	_ fastpath.Witness                   = &harule.Resource{}
)

// New makes the provider of a version.
func New(version string) func() provider.Provider { return NewWith(version, Options{}) }

// NewWith makes the provider with other connections to the world.
func NewWith(version string, options Options) func() provider.Provider {
	return func() provider.Provider { return &Proxmox{version: version, options: options, vms: run.New()} }
}

// Metadata names the provider.
func (p *Proxmox) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = TypeName, p.version
}

// Schema returns the arguments of the provider block.
func (p *Proxmox) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = providerSchema()
}

// Configure opens the session, without a request to the server. A configuration with unknown values gives a session
// without a server, so that a plan can go on with the defaults that are known.
func (p *Proxmox) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	p.vms = run.New()
	if !req.Config.Raw.IsFullyKnown() {
		p.hand(resp, &kit.Session{Defaults: knownDefaults(ctx, req.Config)})
		return
	}
	var configured arguments
	resp.Diagnostics.Append(req.Config.Get(ctx, &configured)...)
	if resp.Diagnostics.HasError() {
		return
	}
	settled, err := settle(configured)
	if err == nil {
		var session *kit.Session
		if session, err = p.open(settled); err == nil {
			resp.Diagnostics.Append(onlyPlans(session.API.Identity())...)
			p.hand(resp, session)
			return
		}
	}
	if at := where(err); at != "" {
		resp.Diagnostics.AddAttributeError(path.Root(at), "The provider cannot be configured", sentence(err))
		return
	}
	resp.Diagnostics.AddError("The provider cannot be configured", sentence(err))
}

// onlyPlans says what a plan leaves out if another identity applies.
func onlyPlans(as pve.Identity) (said diag.Diagnostics) {
	if as.PlanOnly {
		said.AddWarning("Privileges are not checked", "The provider is set to plan_only (PROXMOX_VE_PLAN_ONLY): "+as.User+
			" plans, and another identity applies. So the plan does not say whether that one has the privileges, the SSH "+
			"access and the login of root that the apply takes. All else is checked, as far as "+as.User+" may look. "+
			"An apply with this setting is refused.")
	}
	return said
}

func (p *Proxmox) hand(resp *provider.ConfigureResponse, session *kit.Session) {
	resp.ResourceData, resp.DataSourceData, resp.ListResourceData, resp.ActionData = session, session, session, session
	if p.options.Opened != nil {
		p.options.Opened(session)
	}
}

// Resources returns the constructors of all resources.
func (p *Proxmox) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return vm.New(p.vms) },
		func() resource.Resource { return snapshot.New(p.vms) }, file.NewImage,
		file.NewCloudInitISO, file.NewSnippet,
		func() resource.Resource { return disk.New(p.vms) },
		func() resource.Resource { return harule.New(p.vms) }}
}

// DataSources returns the constructors of all data sources.
func (p *Proxmox) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{datasources.NewNode, datasources.NewNodes, datasources.NewVersion,
		datasources.NewVM,
		datasources.NewVMs, datasources.NewStorages, datasources.NewFiles, datasources.NewImportMetadata,
		datasources.NewOrphans}
}

// ListResources returns the constructors of all list resources, for terraform query.
func (p *Proxmox) ListResources(context.Context) []func() list.ListResource {
	return []func() list.ListResource{func() list.ListResource { return vm.NewList(vm.New(p.vms)) }}
}

// Functions returns the constructors of all functions.
func (p *Proxmox) Functions(context.Context) []func() function.Function { return functions.All() }

// Actions returns the constructors of all actions.
func (p *Proxmox) Actions(context.Context) []func() action.Action { return actions.All() }

// NewServer returns a constructor of servers that speak Terraform's protocol for a provider.
func NewServer(newProvider func() provider.Provider) func() tfprotov6.ProviderServer {
	known := &fastpath.Types{}
	return func() tfprotov6.ProviderServer {
		p := newProvider()
		return interceptor.New(fastpath.New(p, known, providerserver.NewProtocol6), oplogs(p))
	}
}

// oplogs returns the options of a provider's operation logs.
func oplogs(p provider.Provider) interceptor.Options {
	own, ok := p.(*Proxmox)
	if !ok {
		return interceptor.Options{}
	}
	o := interceptor.Options{Tracer: own.options.Tracer, Kept: own.options.Keeps, Silent: own.options.Silent,
		Lines: own.options.Lines, Every: own.options.StillEvery, Ended: own.options.Ended}
	if own.options.Clock != nil {
		o.Now = own.options.Clock.Now
	}
	return o
}
