package drive

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
)

// Invoke plans an action and carries it out, as terraform apply -invoke does with one of that configuration: attributes given as the
// inside of its config block, beside the configuration of the session, whose resources it sees as they are in state. between, if not
// nil, is called when the plan is made. progress is what the provider told on the way.
func (s *Session) Invoke(ctx context.Context, typ, config string, between func()) (progress []string, err error) {
	w, v, err := s.planAction(ctx, typ, config)
	if err != nil || w.diags.err() != nil {
		return nil, errors.Join(err, s.finish(w.diags))
	}
	if between != nil {
		between()
	}
	planned := w.diags
	if w, v, err = s.actionWalk(ctx, typ, config); err != nil { // the apply is a process of its own
		return nil, err
	}
	if w.diags.err() == nil {
		progress = w.invoke(ctx, typ, v)
	}
	return progress, s.finish(append(planned, w.diags...))
}

// planAction validates and plans an action.
func (s *Session) planAction(ctx context.Context, typ, config string) (*walk, cty.Value, error) {
	w, v, err := s.actionWalk(ctx, typ, config)
	if err != nil || w.diags.err() != nil {
		return w, v, err
	}
	for _, step := range []struct {
		rpc string
		ask func(context.Context, tfprotov6.ActionServer, *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error)
	}{
		{"ValidateActionConfig", func(ctx context.Context, server tfprotov6.ActionServer, dv *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			resp, err := server.ValidateActionConfig(ctx, &tfprotov6.ValidateActionConfigRequest{ActionType: typ, Config: dv})
			if err != nil {
				return nil, err
			}
			return resp.Diagnostics, nil
		}},
		{"PlanAction", func(ctx context.Context, server tfprotov6.ActionServer, dv *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			resp, err := server.PlanAction(ctx, &tfprotov6.PlanActionRequest{ActionType: typ, Config: dv,
				ClientCapabilities: &tfprotov6.PlanActionClientCapabilities{}})
			if err != nil {
				return nil, err
			}
			return resp.Diagnostics, nil
		}},
	} {
		w.aboutAction(ctx, step.rpc, typ, v, step.ask)
		if w.diags.err() != nil {
			break
		}
	}
	return w, v, nil
}

// actionWalk starts a process for an action, with its configuration evaluated.
func (s *Session) actionWalk(ctx context.Context, typ, config string) (*walk, cty.Value, error) {
	m := newModule()
	m.provider, m.local, m.variables, m.locals = s.module.provider, s.module.local, s.module.variables, maps.Clone(s.module.locals)
	maps.Copy(m.blocks, s.module.blocks)
	if err := m.parse("action.tf", fmt.Sprintf("resource %q \"it\" {\n%s\n}\n", typ, config)); err != nil {
		return nil, cty.NilVal, err
	}
	side := &Session{Caller: s.Caller, Parallelism: 1, module: m, variables: s.variables}
	w, err := side.newWalk(ctx, s.state)
	if err != nil {
		return nil, cty.NilVal, err
	}
	schema, ok := w.actions[typ]
	if !ok {
		return nil, cty.NilVal, fmt.Errorf("no action %s", typ)
	}
	if w.configureProvider(ctx); w.diags.err() != nil {
		return w, cty.NilVal, nil
	}
	for address, i := range s.state { // of blocks without count and for_each
		if b := m.blocks[address]; b != nil {
			v, ds := w.load(ctx, i)
			w.report(ds)
			w.scope.set(b, nil, map[string]cty.Value{"": v})
		}
	}
	v, ds := w.scope.object(schema.object, m.blocks[typ+".it"].attrs, nil)
	w.report(withAddress("action."+typ, ds))
	return w, v, nil
}

// aboutAction asks something about an action that is answered with diagnostics alone.
func (w *walk) aboutAction(ctx context.Context, rpc, typ string, config cty.Value,
	ask func(context.Context, tfprotov6.ActionServer, *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error)) {
	address := "action." + typ
	server, ok := w.server.(tfprotov6.ActionServer)
	if !ok {
		w.report(failure(rpc, address, "The provider has no actions", errors.New("it does not implement "+rpc)))
		return
	}
	dv, err := encode(config, w.actions[typ].typ())
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
func (w *walk) invoke(ctx context.Context, typ string, config cty.Value) (progress []string) {
	const rpc = "InvokeAction"
	w.aboutAction(ctx, rpc, typ, config,
		func(ctx context.Context, server tfprotov6.ActionServer, dv *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			stream, err := server.InvokeAction(ctx, &tfprotov6.InvokeActionRequest{ActionType: typ, Config: dv,
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
