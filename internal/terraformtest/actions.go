package terraformtest

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
)

// Invoke plans an action of the configuration, action.proxmox_vm_power.off, and carries it out, as terraform apply -invoke does: it sees
// the resources as they are in state. hcl is added to the configuration for this once. between, if not nil, is called when the plan is
// made. progress holds the provider's messages on the way.
func (s *Session) Invoke(ctx context.Context, address string, between func(), hcl ...string) (progress []string, err error) {
	m := newModule()
	m.provider, m.local, m.variables, m.locals = s.module.provider, s.module.local, s.module.variables, maps.Clone(s.module.locals)
	maps.Copy(m.blocks, s.module.blocks)
	maps.Copy(m.actions, s.module.actions)
	for _, src := range hcl {
		if err := m.parse("action.tf", src); err != nil {
			return nil, err
		}
	}
	side := &Session{Caller: s.Caller, Parallelism: 1, module: m, variables: s.variables, state: s.state}
	w, v, err := side.actionWalk(ctx, address)
	if err != nil {
		return nil, err
	}
	if w.diags.err() == nil {
		w.planAction(ctx, m.actions[address], v)
	}
	planned := w.diags
	if planned.err() != nil {
		return nil, s.finish(planned)
	}
	if between != nil {
		between()
	}
	if w, v, err = side.actionWalk(ctx, address); err != nil { // the apply is a process of its own
		return nil, err
	}
	if w.diags.err() == nil {
		progress = w.invoke(ctx, m.actions[address], v)
	}
	return progress, s.finish(append(planned, w.diags...))
}

// Actions lists the addresses of the actions of the configuration, sorted.
func (s *Session) Actions() []string { return sortedKeys(s.module.actions) }

// actionWalk starts a process for an action, with its configuration evaluated.
func (s *Session) actionWalk(ctx context.Context, address string) (*walk, cty.Value, error) {
	w, err := s.newWalk(ctx, s.state)
	if err != nil {
		return nil, cty.NilVal, err
	}
	a := s.module.actions[address]
	if a == nil {
		return nil, cty.NilVal, fmt.Errorf("no %s in the configuration", address)
	}
	schema, ok := w.actions[a.typ]
	if !ok {
		return nil, cty.NilVal, fmt.Errorf("no action %s", a.typ)
	}
	w.configureProvider(ctx)
	for address, i := range s.state { // of blocks without count and for_each
		if b := s.module.blocks[address]; b != nil {
			v, ds := w.load(ctx, i)
			w.report(ds)
			w.scope.set(b, nil, map[string]cty.Value{"": v})
		}
	}
	v, ds := w.scope.object(schema.Object, a.attrs, nil)
	w.report(withAddress(address, ds))
	return w, v, nil
}

// aboutIt asks for the diagnostics of an answer about an action.
type aboutIt func(context.Context, tfprotov6.ActionServer, *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error)

// planAction validates and plans an action.
func (w *walk) planAction(ctx context.Context, a *block, v cty.Value) {
	w.aboutAction(ctx, "ValidateActionConfig", a, v,
		func(ctx context.Context, server tfprotov6.ActionServer, dv *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			resp, err := server.ValidateActionConfig(ctx, &tfprotov6.ValidateActionConfigRequest{ActionType: a.typ, Config: dv})
			if err != nil {
				return nil, err
			}
			return resp.Diagnostics, nil
		})
	if w.diags.err() != nil {
		return
	}
	w.aboutAction(ctx, "PlanAction", a, v,
		func(ctx context.Context, server tfprotov6.ActionServer, dv *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			resp, err := server.PlanAction(ctx, &tfprotov6.PlanActionRequest{ActionType: a.typ, Config: dv,
				ClientCapabilities: &tfprotov6.PlanActionClientCapabilities{}})
			if err != nil {
				return nil, err
			}
			return resp.Diagnostics, nil
		})
}

// aboutAction asks something about an action that is answered with diagnostics alone.
func (w *walk) aboutAction(ctx context.Context, rpc string, a *block, config cty.Value, ask aboutIt) {
	address := a.addr
	server, ok := w.server.(tfprotov6.ActionServer)
	if !ok {
		w.report(failure(rpc, address, "The provider has no actions", errors.New("it does not implement "+rpc)))
		return
	}
	dv, err := encode(config, w.actions[a.typ].Typ())
	if err == nil {
		err = w.call(ctx, rpc, address, func(ctx context.Context) error {
			said, err := ask(ctx, server, dv)
			w.report(wireDiagnostics(rpc, address, said))
			return err
		})
	}
	if err != nil {
		w.report(failure(rpc, address, "The call failed", err))
	}
}

// invoke carries an action out.
func (w *walk) invoke(ctx context.Context, a *block, config cty.Value) (progress []string) {
	const rpc = "InvokeAction"
	w.aboutAction(ctx, rpc, a, config,
		func(ctx context.Context, server tfprotov6.ActionServer, dv *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			stream, err := server.InvokeAction(ctx, &tfprotov6.InvokeActionRequest{ActionType: a.typ, Config: dv,
				ClientCapabilities: &tfprotov6.InvokeActionClientCapabilities{}})
			if err != nil {
				return nil, err
			}
			for event := range stream.Events {
				switch e := event.Type.(type) {
				case tfprotov6.ProgressInvokeActionEventType:
					progress = append(progress, e.Message)
				case tfprotov6.CompletedInvokeActionEventType:
					return e.Diagnostics, nil
				}
			}
			return nil, errors.New("it ended without a word")
		})
	return progress
}
