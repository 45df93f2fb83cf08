package terraformtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// Import brings the object with an id under an address of the configuration: terraform import.
func (s *Session) Import(ctx context.Context, address, id string) error {
	return s.importObject(ctx, address, tfprotov6.ImportResourceStateRequest{ID: id})
}

// ImportIdentity is Import of the object with an identity, as an import block may name it since Terraform 1.12.
func (s *Session) ImportIdentity(ctx context.Context, address string, identity map[string]cty.Value) error {
	p, err := s.start(ctx)
	if err != nil {
		return err
	}
	resp, err := p.server.GetResourceIdentitySchemas(ctx, &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		return fmt.Errorf("get the identities' schemas: %w", err)
	}
	typ, _, _ := strings.Cut(address, ".")
	schema := resp.IdentitySchemas[typ]
	if schema == nil {
		return s.finish(failure("import", address, "Resource has no identity", errors.New("import it by its id")))
	}
	packed, err := encodeIdentity(schema, identity)
	if err != nil {
		return s.finish(failure("import", address, "Invalid identity", err))
	}
	return s.importObject(ctx, address, tfprotov6.ImportResourceStateRequest{Identity: packed})
}

// Identity is the identity of an instance in state, null while it has none.
func (s *Session) Identity(ctx context.Context, address string) (cty.Value, error) {
	i := s.state[address]
	if i == nil {
		return cty.NilVal, fmt.Errorf("%s is not in state", address)
	}
	p, err := s.start(ctx)
	if err != nil {
		return cty.NilVal, err
	}
	typ, err := p.identityType(ctx, i.typ)
	if err != nil || i.identity == nil {
		return cty.NullVal(typ), err
	}
	return decode(i.identity.IdentityData, typ)
}

// encodeIdentity completes an identity that a configuration names, and holds it to its schema.
func encodeIdentity(schema *tfprotov6.ResourceIdentitySchema, identity map[string]cty.Value) (*tfprotov6.ResourceIdentityData, error) {
	all, types := map[string]cty.Value{}, map[string]cty.Type{}
	for _, a := range schema.IdentityAttributes {
		typ, err := objchange.CtyType(a.Type)
		if err != nil {
			return nil, err
		}
		v, named := identity[a.Name]
		if !named && a.RequiredForImport {
			return nil, fmt.Errorf("%s is required", a.Name)
		}
		if !named {
			v = cty.NullVal(typ)
		}
		all[a.Name], types[a.Name] = v, typ
	}
	for name := range identity {
		if _, known := types[name]; !known {
			return nil, fmt.Errorf("there is no %s", name)
		}
	}
	packed, err := encode(cty.ObjectVal(all), cty.Object(types))
	return &tfprotov6.ResourceIdentityData{IdentityData: packed}, err
}

func (s *Session) importObject(ctx context.Context, address string, asked tfprotov6.ImportResourceStateRequest) error {
	b, missing := s.module.target("import", address)
	if missing != nil {
		return s.finish(missing)
	}
	w, err := s.newWalk(ctx, s.state)
	if err != nil {
		return err
	}
	if w.configureProvider(ctx); w.diags.err() != nil {
		return s.finish(w.diags)
	}
	for _, other := range sortedKeys(w.state) { // Terraform reads what it has, too
		if other != address {
			_, ds := w.load(ctx, w.state[other])
			w.report(ds)
		}
	}
	if s.state[address] != nil {
		return s.finish(append(w.diags, failure("import", address, "Resource already managed by Terraform", errors.New("it is in state"))...))
	}
	asked.TypeName = b.typ
	i, ds := w.importState(ctx, address, asked)
	return w.take(b, i, ds)
}

// target is the block of an address that something is to come under.
func (m *module) target(rpc, address string) (*block, Diagnostics) {
	b := m.blocks[strings.SplitN(address, "[", 2)[0]]
	if b == nil || b.data {
		return nil, failure(rpc, address, "Resource is not in the configuration", errors.New("write its block first"))
	}
	return b, nil
}

// take keeps what came under the address of a block, if anything did.
func (w *walk) take(b *block, i *instance, ds Diagnostics) error {
	if i != nil {
		i.block, i.deps = b.addr, b.deps
		w.keep(i.address, i)
		w.s.state = w.state
	}
	return w.s.finish(append(w.diags, ds...))
}

// importState asks for the object behind an id or an identity and reads it.
func (p *process) importState(ctx context.Context, address string, asked tfprotov6.ImportResourceStateRequest) (*instance, Diagnostics) {
	const rpc = "ImportResourceState"
	typ := asked.TypeName
	asked.ClientCapabilities = &tfprotov6.ImportResourceStateClientCapabilities{}
	var resp *tfprotov6.ImportResourceStateResponse
	err := p.call(ctx, rpc, address, func(ctx context.Context) (err error) {
		resp, err = p.server.ImportResourceState(ctx, &asked)
		return err
	})
	if err != nil {
		return nil, failure(rpc, address, "The call failed", err)
	}
	out := wireDiagnostics(rpc, address, resp.Diagnostics)
	if out.err() != nil {
		return nil, out
	}
	if len(resp.ImportedResources) == 0 {
		return nil, out // Terraform, too, takes that for a success
	}
	if len(resp.ImportedResources) != 1 || resp.ImportedResources[0].TypeName != typ {
		ps := objchange.Broken("not exactly one resource of the type")
		return nil, append(out, violation(rpc, address, "Provider produced an invalid import", ps)...)
	}
	got, schema := resp.ImportedResources[0], p.resources[typ]
	if asked.Identity != nil && got.Identity == nil {
		ps := objchange.Broken("an import by identity brought none")
		return nil, append(out, violation(rpc, address, "Provider produced an invalid import", ps)...)
	}
	v, err := decode(got.State, schema.Typ())
	if err != nil {
		return nil, append(out, failure(rpc, address, "Provider produced invalid object", err)...)
	}
	i := &instance{address: address, typ: typ, block: address, identity: got.Identity, private: got.Private}
	next, v, more := p.readFrom(ctx, i, v)
	out = append(out, more...)
	if out.err() == nil && v.IsNull() {
		nothing := errors.New("the refresh after the import found nothing")
		out = append(out, failure(rpc, address, "Cannot import non-existent remote object", nothing)...)
	}
	if out.err() != nil {
		return nil, out
	}
	return next, out
}
