// Package provider is the composition root: the provider's own schema, the session that its configuration opens, and which resources,
// lists of resources, data sources and functions there are.
package provider

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/fastpath"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfaccount"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfaction"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfcloudinit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfdata"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfdisk"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tffunction"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfimage"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfnode"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfsnapshot"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfsnippet"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfvm"
)

// TypeName is the prefix of all types of the provider.
const TypeName = "proxmox"

// Dialer opens a network connection, like net.Dialer.DialContext.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Options replace what connects the provider to the world; tests set them. The zero value is the real world.
type Options struct {
	// DialContext opens the connections to the API.
	DialContext Dialer
	// SSHDial opens the connections to the nodes.
	SSHDial Dialer
	// Clock is the time that the API client lives in.
	Clock pve.Clock
	// Tracer is told what every operation does, and whether somebody Keeps that, or the log, so that errors may name an operation.
	Tracer account.Tracer
	Keeps  bool
	// Silent says that nobody reads the log.
	Silent bool
	// StillEvery is how often the log says what an operation waits for; zero for half a minute.
	StillEvery time.Duration
	// Opened is told of each session that a configuration opened, so that a test can close it.
	Opened func(*tfkit.Session)
}

// Proxmox is the provider.
type Proxmox struct {
	version string
	options Options
	vms     *tfvm.Run // begins with the configuration
	newVM   func(*tfvm.Run) *tfvm.Resource
}

var (
	_ provider.Provider                  = &Proxmox{}
	_ provider.ProviderWithFunctions     = &Proxmox{}
	_ provider.ProviderWithListResources = &Proxmox{}
	_ provider.ProviderWithActions       = &Proxmox{}
	_ fastpath.Planner                   = &tfvm.Resource{}
	_ fastpath.Keeper                    = &tfvm.Resource{}
	_ fastpath.Generator                 = &tfvm.Resource{}
)

// New makes the provider; version is what it calls itself.
func New(version string) func() provider.Provider { return NewWith(version, Options{}) }

// NewWith makes the provider with another world around it.
func NewWith(version string, options Options) func() provider.Provider {
	return func() provider.Provider { return &Proxmox{version: version, options: options, newVM: tfvm.Factory()} }
}

// Metadata names the provider.
func (p *Proxmox) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = TypeName, p.version
}

// Schema is the shape of the provider block.
func (p *Proxmox) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = providerSchema()
}

// Configure opens the session. It makes no request: the server is asked when something needs it. A configuration with
// values that are not known yet gives a session that knows no server, so that a plan can go on without it.
func (p *Proxmox) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	p.vms = tfvm.NewRun()
	if !req.Config.Raw.IsFullyKnown() {
		p.hand(resp, &tfkit.Session{})
		return
	}
	var configured arguments
	resp.Diagnostics.Append(req.Config.Get(ctx, &configured)...)
	if resp.Diagnostics.HasError() {
		return
	}
	settled, err := settle(configured)
	if err == nil {
		var session *tfkit.Session
		if session, err = p.open(settled); err == nil {
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

func (p *Proxmox) hand(resp *provider.ConfigureResponse, session *tfkit.Session) {
	resp.ResourceData, resp.DataSourceData, resp.ListResourceData, resp.ActionData = session, session, session, session
	if p.options.Opened != nil {
		p.options.Opened(session)
	}
}

// Resources lists the resources.
func (p *Proxmox) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return p.newVM(p.vms) }, tfsnapshot.New, tfimage.New,
		tfcloudinit.New, tfsnippet.New, tfdisk.New}
}

// DataSources lists the data sources.
func (p *Proxmox) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{tfnode.NewNode, tfnode.NewNodes, tfnode.NewVersion, tfdata.NewVM, tfdata.NewVMs, tfdata.NewStorages,
		tfdata.NewFiles, tfdata.NewImportMetadata, tfdata.NewOrphans}
}

// ListResources lists what can list resources: terraform query.
func (p *Proxmox) ListResources(context.Context) []func() list.ListResource {
	return []func() list.ListResource{func() list.ListResource { return tfvm.NewList(p.newVM(p.vms)) }}
}

// Functions lists the functions.
func (p *Proxmox) Functions(context.Context) []func() function.Function { return tffunction.All() }

// Actions lists the actions.
func (p *Proxmox) Actions(context.Context) []func() action.Action { return tfaction.All() }

// NewServer makes what speaks Terraform's protocol for a provider.
func NewServer(newProvider func() provider.Provider) func() tfprotov6.ProviderServer {
	return func() tfprotov6.ProviderServer {
		p := newProvider()
		return tfaccount.New(fastpath.New(p, providerserver.NewProtocol6), accounts(p))
	}
}

// accounts says how a provider's operations are accounted for.
func accounts(p provider.Provider) tfaccount.Options {
	own, ok := p.(*Proxmox)
	if !ok {
		return tfaccount.Options{}
	}
	o := tfaccount.Options{Tracer: own.options.Tracer, Kept: own.options.Keeps, Silent: own.options.Silent, Every: own.options.StillEvery}
	if own.options.Clock != nil {
		o.Now = own.options.Clock.Now
	}
	return o
}
