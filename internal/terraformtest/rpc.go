package terraformtest

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// Factory starts a provider. Each walk over a configuration starts a new one.
type Factory func() (tfprotov6.ProviderServer, error)

// ServerOf makes a Factory of a framework provider.
func ServerOf(newProvider func() provider.Provider) Factory {
	return func() (tfprotov6.ProviderServer, error) { return providerserver.NewProtocol6WithError(newProvider())() }
}

// process is one provider process: Terraform starts a fresh one for each walk over the configuration, so a plan and its
// apply never share memory.
type process struct {
	*Schemas
	*Caller
	server tfprotov6.ProviderServer
	// applying: the walk is that of an apply, and says so.
	applying bool
}

// Schemas are a provider's description of itself.
type Schemas struct {
	provider  objchange.ResourceSchema
	resources map[string]objchange.ResourceSchema
	data      map[string]objchange.ResourceSchema
	lists     map[string]objchange.ResourceSchema // of the config blocks
	actions   map[string]objchange.ResourceSchema
	functions map[string]*tfprotov6.Function
	// planDestroy: the provider wants to be asked for the plan of a destroy.
	planDestroy bool
}

// Caller starts and calls providers. As Terraform does in one command, it asks for the schemas once.
type Caller struct {
	// TerraformVersion is the version that providers receive.
	TerraformVersion string
	// SilentApply leaves out what tells a provider that Terraform plans within an apply: that it may defer changes
	// (terraform internal/terraform/context_apply.go, since 1.9). OpenTofu tells nothing.
	SilentApply bool
	// Around is called before each RPC, and the function that it returns after it.
	Around func(rpc, address string) func()
	// Applying is called before each ApplyResourceChange with the state before and the plan, and the function that it returns after it.
	Applying func(typ string, prior, planned cty.Value) func()
	// Stopped is called when an interrupt has reached the provider; nil: no one.
	Stopped func()
	// LogContext prepares the context of each RPC, to capture the provider's log; nil drops it.
	LogContext func(context.Context) context.Context

	// Schemas are the provider's; nil: it is asked for them.
	Schemas *Schemas

	factory Factory
}

// start makes a process.
func (c *Caller) start(ctx context.Context) (*process, error) {
	server, err := c.factory()
	if err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	if c.Schemas == nil {
		if c.Schemas, err = fetchSchemas(ctx, server); err != nil {
			return nil, err
		}
	}
	return &process{Schemas: c.Schemas, Caller: c, server: server}, nil
}

// FetchSchemas asks a provider for its schemas, which sessions may share.
func FetchSchemas(ctx context.Context, factory Factory) (*Schemas, error) {
	server, err := factory()
	if err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	return fetchSchemas(ctx, server)
}

func fetchSchemas(ctx context.Context, server tfprotov6.ProviderServer) (*Schemas, error) {
	resp, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return nil, fmt.Errorf("get the provider's schema: %w", err)
	}
	if err := wireDiagnostics("GetProviderSchema", "provider", resp.Diagnostics).err(); err != nil {
		return nil, err
	}
	all := &Schemas{resources: map[string]objchange.ResourceSchema{}, data: map[string]objchange.ResourceSchema{},
		lists: map[string]objchange.ResourceSchema{}, actions: map[string]objchange.ResourceSchema{}, functions: resp.Functions,
		planDestroy: resp.ServerCapabilities != nil && resp.ServerCapabilities.PlanDestroy}
	if all.provider, err = objchange.NewResourceSchema(resp.Provider); err != nil {
		return nil, fmt.Errorf("schema of the provider: %w", err)
	}
	for name, sch := range resp.ResourceSchemas {
		if all.resources[name], err = objchange.NewResourceSchema(sch); err != nil {
			return nil, fmt.Errorf("schema of resource %s: %w", name, err)
		}
	}
	for name, sch := range resp.DataSourceSchemas {
		if all.data[name], err = objchange.NewResourceSchema(sch); err != nil {
			return nil, fmt.Errorf("schema of data source %s: %w", name, err)
		}
	}
	for name, sch := range resp.ListResourceSchemas {
		if all.lists[name], err = objchange.NewResourceSchema(sch); err != nil {
			return nil, fmt.Errorf("schema of list resource %s: %w", name, err)
		}
	}
	for name, sch := range resp.ActionSchemas {
		if all.actions[name], err = objchange.NewResourceSchema(sch.Schema); err != nil {
			return nil, fmt.Errorf("schema of action %s: %w", name, err)
		}
	}
	return all, nil
}

// call runs one RPC. As over the wire, a cancelled context stops the provider instead of reaching into the call.
func (p *process) call(ctx context.Context, rpc, address string, f func(context.Context) error) error {
	if p.Around != nil {
		defer p.Around(rpc, address)()
	}
	inner := context.WithoutCancel(ctx)
	if p.LogContext != nil {
		inner = p.LogContext(inner)
	}
	stop := context.AfterFunc(ctx, func() {
		_, _ = p.server.StopProvider(inner, &tfprotov6.StopProviderRequest{})
		if p.Stopped != nil {
			p.Stopped()
		}
	})
	defer stop()
	return f(inner)
}

func (p *process) configure(ctx context.Context, config cty.Value) Diagnostics {
	dv, err := encode(config, p.provider.Typ())
	if err != nil {
		return failure("ConfigureProvider", "provider", "Cannot encode the provider configuration", err)
	}
	var out Diagnostics
	err = p.call(ctx, "ValidateProviderConfig", "provider", func(ctx context.Context) error {
		resp, err := p.server.ValidateProviderConfig(ctx, &tfprotov6.ValidateProviderConfigRequest{Config: dv})
		if err == nil {
			out = append(out, wireDiagnostics("ValidateProviderConfig", "provider", resp.Diagnostics)...)
		}
		return err
	})
	if err != nil {
		return failure("ValidateProviderConfig", "provider", "The call failed", err)
	}
	if out.err() != nil {
		return out
	}
	err = p.call(ctx, "ConfigureProvider", "provider", func(ctx context.Context) error {
		resp, err := p.server.ConfigureProvider(ctx, &tfprotov6.ConfigureProviderRequest{
			TerraformVersion: p.TerraformVersion, Config: dv,
			ClientCapabilities: &tfprotov6.ConfigureProviderClientCapabilities{DeferralAllowed: p.applying},
		})
		if err == nil {
			out = append(out, wireDiagnostics("ConfigureProvider", "provider", resp.Diagnostics)...)
		}
		return err
	})
	if err != nil {
		return failure("ConfigureProvider", "provider", "The call failed", err)
	}
	return out
}

func (p *process) validateResource(ctx context.Context, address, typ string, config cty.Value) Diagnostics {
	const rpc = "ValidateResourceConfig"
	dv, err := encode(config, p.resources[typ].Typ())
	if err != nil {
		return failure(rpc, address, "Cannot encode the configuration", err)
	}
	var out Diagnostics
	err = p.call(ctx, rpc, address, func(ctx context.Context) error {
		resp, err := p.server.ValidateResourceConfig(ctx, &tfprotov6.ValidateResourceConfigRequest{
			TypeName: typ, Config: dv,
			ClientCapabilities: &tfprotov6.ValidateResourceConfigClientCapabilities{WriteOnlyAttributesAllowed: true},
		})
		if err == nil {
			out = wireDiagnostics(rpc, address, resp.Diagnostics)
		}
		return err
	})
	if err != nil {
		return failure(rpc, address, "The call failed", err)
	}
	return out
}

func (p *process) validateData(ctx context.Context, address, typ string, config cty.Value) Diagnostics {
	const rpc = "ValidateDataResourceConfig"
	dv, err := encode(config, p.data[typ].Typ())
	if err != nil {
		return failure(rpc, address, "Cannot encode the configuration", err)
	}
	var out Diagnostics
	err = p.call(ctx, rpc, address, func(ctx context.Context) error {
		resp, err := p.server.ValidateDataResourceConfig(ctx, &tfprotov6.ValidateDataResourceConfigRequest{TypeName: typ, Config: dv})
		if err == nil {
			out = wireDiagnostics(rpc, address, resp.Diagnostics)
		}
		return err
	})
	if err != nil {
		return failure(rpc, address, "The call failed", err)
	}
	return out
}

// readData reads a data source whose configuration is known.
func (p *process) readData(ctx context.Context, address, typ string, config cty.Value) (cty.Value, Diagnostics) {
	const rpc = "ReadDataSource"
	schema := p.data[typ]
	null := cty.NullVal(schema.Typ())
	dv, err := encode(config, schema.Typ())
	if err != nil {
		return null, failure(rpc, address, "Cannot encode the configuration", err)
	}
	var resp *tfprotov6.ReadDataSourceResponse
	err = p.call(ctx, rpc, address, func(ctx context.Context) (err error) {
		resp, err = p.server.ReadDataSource(ctx, &tfprotov6.ReadDataSourceRequest{
			TypeName: typ, Config: dv, ClientCapabilities: &tfprotov6.ReadDataSourceClientCapabilities{DeferralAllowed: p.applying},
		})
		return err
	})
	if err != nil {
		return null, failure(rpc, address, "The call failed", err)
	}
	out := wireDiagnostics(rpc, address, resp.Diagnostics)
	if out.err() != nil {
		return null, out
	}
	v, err := decode(resp.State, schema.Typ())
	if err != nil {
		return null, append(out, failure(rpc, address, "Provider produced invalid object", err)...)
	}
	ps := objchange.CheckPlanned(schema.Object, cty.NullVal(schema.Typ()), config, v)
	for _, path := range objchange.UnknownPaths(v) {
		ps.Add(path, "is unknown after it was read")
	}
	return v, append(out, violation(rpc, address, "Provider produced invalid object", ps)...)
}
