package terraformtest

import (
	"context"
	"errors"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// Listed is an object that a list block of a query has found.
type Listed struct {
	// Block is the address of the list block, list.proxmox_vm.all; Type the type of the resource.
	Block, Type, DisplayName string
	// Identity is the identity that an import block names. Resource is null unless it was asked for.
	Identity, Resource cty.Value
}

// defaultLimit is Terraform's for a list block that names none (internal/terraform/eval_query.go).
const defaultLimit = 100

// Query finds objects by the list blocks in the text of a .tfquery.hcl file, beside the configuration: terraform query. generating asks for
// the resources as -generate-config-out does. The messages of a result stand in Diagnostics; results before an error are given with it.
func (s *Session) Query(ctx context.Context, text string, generating bool) ([]Listed, error) {
	blocks, err := parseQuery(text)
	if err != nil {
		return nil, err
	}
	w, err := s.newWalk(ctx, s.state)
	if err != nil {
		return nil, err
	}
	w.configureProvider(ctx)
	var all []Listed
	for _, b := range blocks {
		if w.diags.err() != nil {
			break
		}
		found, ds := w.list(ctx, b, generating)
		all = append(all, found...)
		w.report(withAddress(b.addr, ds))
	}
	return all, s.finish(w.diags)
}

// list carries a list block out.
func (w *walk) list(ctx context.Context, b listBlock, generating bool) ([]Listed, Diagnostics) {
	schema, ok := w.lists[b.typ]
	server, lists := w.server.(tfprotov6.ListResourceServer)
	if !ok || !lists {
		return nil, failure("configuration", b.addr, "Invalid list resource", errors.New("the provider has no "+b.typ+" to list"))
	}
	config, ds := w.scope.object(schema.Object, b.config, nil)
	limit, err := w.evalOr(b.limit, cty.NumberIntVal(defaultLimit))
	if err != nil {
		return nil, append(ds, failure("configuration", b.addr, "Invalid limit argument", err)...)
	}
	include, err := w.evalOr(b.include, cty.False)
	if err != nil {
		return nil, append(ds, failure("configuration", b.addr, "Invalid include_resource argument", err)...)
	}
	if ds.err() != nil {
		return nil, ds
	}
	if generating {
		include = cty.True
	}
	packed, err := encode(config, schema.Typ())
	if err != nil {
		return nil, failure("configuration", b.addr, "Cannot encode the configuration", err)
	}
	most, _ := limit.AsBigFloat().Int64()
	req := &tfprotov6.ListResourceRequest{TypeName: b.typ, Config: packed, IncludeResource: include.True(), Limit: most}
	if ds := w.validateList(ctx, server, b.addr, req); ds.err() != nil {
		return nil, ds
	}
	return w.stream(ctx, server, b, req)
}

func (w *walk) evalOr(e hcl.Expression, otherwise cty.Value) (cty.Value, error) {
	if e == nil {
		return otherwise, nil
	}
	v, err := w.scope.eval(e, nil)
	if err == nil {
		v, err = convert.Convert(v, otherwise.Type())
	}
	if err == nil && (v.IsNull() || !v.IsKnown()) {
		err = errors.New("it must be known")
	}
	return v, err
}

func (p *process) validateList(ctx context.Context, server tfprotov6.ListResourceServer, address string,
	of *tfprotov6.ListResourceRequest) Diagnostics {
	const rpc = "ValidateListResourceConfig"
	var out Diagnostics
	err := p.call(ctx, rpc, address, func(ctx context.Context) error {
		req := &tfprotov6.ValidateListResourceConfigRequest{TypeName: of.TypeName, Config: of.Config}
		resp, err := server.ValidateListResourceConfig(ctx, req)
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

// stream takes the results until there are enough, or until the first error, as Terraform does (internal/plugin6/grpc_provider.go).
func (p *process) stream(ctx context.Context, server tfprotov6.ListResourceServer, b listBlock, req *tfprotov6.ListResourceRequest) (
	found []Listed, out Diagnostics) {
	const rpc = "ListResource"
	identity, err := p.identityType(ctx, b.typ)
	if err != nil {
		return nil, failure(rpc, b.addr, "Identity schema not found", err)
	}
	err = p.call(ctx, rpc, b.addr, func(ctx context.Context) error {
		ctx, enough := context.WithCancel(ctx)
		defer enough()
		resp, err := server.ListResource(ctx, req)
		if err != nil || req.Limit <= 0 {
			return err
		}
		for event := range resp.Results {
			said := wireDiagnostics(rpc, b.addr, event.Diagnostics)
			out = append(out, said...)
			if said.err() != nil {
				return nil
			}
			if event.Identity == nil && len(said) > 0 {
				continue
			}
			one, ds := p.listed(b, event, identity)
			if out = append(out, ds...); ds.err() != nil {
				return nil
			}
			if found = append(found, one); int64(len(found)) >= req.Limit {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		out = append(out, failure(rpc, b.addr, "The call failed", err)...)
	}
	return found, out
}

// identityType is the type of a resource's identities.
func (p *process) identityType(ctx context.Context, typ string) (cty.Type, error) {
	resp, err := p.server.GetResourceIdentitySchemas(ctx, &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		return cty.NilType, err
	}
	schema := resp.IdentitySchemas[typ]
	if schema == nil {
		return cty.NilType, errors.New("what has no identity cannot be listed")
	}
	types := map[string]cty.Type{}
	for _, a := range schema.IdentityAttributes {
		if types[a.Name], err = objchange.CtyType(a.Type); err != nil {
			return cty.NilType, err
		}
	}
	return cty.Object(types), nil
}

// listed reads one result.
func (p *process) listed(b listBlock, event tfprotov6.ListResourceResult, identity cty.Type) (Listed, Diagnostics) {
	const rpc, summary = "ListResource", "Provider produced invalid object"
	one := Listed{Block: b.addr, Type: b.typ, DisplayName: event.DisplayName}
	if event.Identity == nil {
		return one, violation(rpc, b.addr, summary, objchange.Broken("a result without an identity"))
	}
	var err error
	if one.Identity, err = decode(event.Identity.IdentityData, identity); err == nil {
		one.Resource, err = decode(event.Resource, p.resources[b.typ].Typ())
	}
	if err != nil {
		return one, failure(rpc, b.addr, summary, err)
	}
	var ps objchange.Problems
	for _, path := range append(objchange.UnknownPaths(one.Identity), objchange.UnknownPaths(one.Resource)...) {
		ps.Add(path, "is unknown after it was listed")
	}
	return one, violation(rpc, b.addr, summary, ps)
}

// GenerateListed writes the configuration of a query's result, under an address.
func (s *Session) GenerateListed(ctx context.Context, found Listed, address string) (string, error) {
	p, err := s.start(ctx)
	if err != nil {
		return "", err
	}
	v, ds := p.generateConfig(ctx, address, found.Type, found.Resource)
	if ds.err() != nil {
		return "", s.finish(ds)
	}
	return p.write(address, found.Type, v), nil
}
