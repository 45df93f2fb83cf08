package terraformtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// Foreign is a resource in a state as another provider has left it.
type Foreign struct {
	Provider string // address
	Type     string
	Version  int64 // of its schema
	JSON     []byte
	Private  []byte
}

// Move takes a resource over from another provider, as a moved block to an address of the configuration does. Terraform asks
// before it plans, and a provider that it has not configured.
func (s *Session) Move(ctx context.Context, address string, from Foreign) error {
	b, missing := s.module.target("move", address)
	switch {
	case missing != nil:
		return s.finish(missing)
	case s.state[address] != nil:
		return s.finish(failure("move", address, "Resource already exists", errors.New("it is in state")))
	}
	w, err := s.newWalk(ctx, s.state)
	if err != nil {
		return err
	}
	i, ds := w.moveState(ctx, address, b.typ, from)
	return w.take(b, i, ds)
}

// Put writes an instance into the state as another provider of the same type may have left it: terraform state replace-provider.
func (s *Session) Put(address string, json, private []byte) {
	block := strings.SplitN(address, "[", 2)[0]
	typ, _, _ := strings.Cut(block, ".")
	state := maps.Clone(s.state)
	state[address] = &instance{address: address, typ: typ, block: block, json: json, private: private}
	s.state = state
}

// Raw is an instance as a state file has it, with its private data.
func (s *Session) Raw(address string) (json, private []byte) {
	if i := s.state[address]; i != nil {
		return i.json, i.private
	}
	return nil, nil
}

// moveState asks for the state of a resource that another provider had.
func (p *process) moveState(ctx context.Context, address, typ string, from Foreign) (*instance, Diagnostics) {
	const rpc = "MoveResourceState"
	schema, ok := p.resources[typ]
	if !ok {
		return nil, failure(rpc, address, "No such resource type", errors.New(typ))
	}
	var resp *tfprotov6.MoveResourceStateResponse
	err := p.call(ctx, rpc, address, func(ctx context.Context) (err error) {
		resp, err = p.server.MoveResourceState(ctx, &tfprotov6.MoveResourceStateRequest{
			SourceProviderAddress: from.Provider, SourceTypeName: from.Type, SourceSchemaVersion: from.Version,
			SourceState: &tfprotov6.RawState{JSON: from.JSON}, SourcePrivate: from.Private, TargetTypeName: typ,
		})
		return err
	})
	if err != nil {
		return nil, failure(rpc, address, "The call failed", err)
	}
	out := wireDiagnostics(rpc, address, resp.Diagnostics)
	if out.err() != nil {
		return nil, out
	}
	v, err := decode(resp.TargetState, schema.Typ())
	if err != nil {
		return nil, append(out, failure(rpc, address, "Provider produced invalid object", err)...)
	}
	if v.IsNull() {
		return nil, append(out, violation(rpc, address, "Provider returned invalid value", objchange.Broken("null"))...)
	}
	ps := objchange.CheckWriteOnly(schema.Object, v)
	for _, path := range objchange.UnknownPaths(v) {
		ps.Add(path, "is unknown after a move")
	}
	if out = append(out, violation(rpc, address, "Provider produced invalid object", ps)...); out.err() != nil {
		return nil, out
	}
	i := &instance{address: address, typ: typ, identity: resp.TargetIdentity}
	if err := i.store(schema, v, resp.TargetPrivate); err != nil {
		return nil, append(out, failure(rpc, address, "Cannot keep the state", fmt.Errorf("after the move: %w", err))...)
	}
	return i, out
}
