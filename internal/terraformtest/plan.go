package terraformtest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// Validate checks the configuration without state and without configuring the provider, as terraform validate does.
func (s *Session) Validate(ctx context.Context) error {
	w, err := s.newWalk(ctx, nil)
	if err != nil {
		return err
	}
	w.eachBlock(ctx, func(b *block) Diagnostics {
		schema, ok := w.schemaOf(b)
		if !ok {
			return failure("configuration", b.addr, "No such type", errors.New(b.typ))
		}
		extra := map[string]cty.Value{"each": cty.DynamicVal, "count": cty.DynamicVal}
		v, ds := w.scope.object(schema.Object, b.attrs, extra)
		ds = withAddress(b.addr, ds)
		if ds.err() != nil {
			return ds
		}
		if b.data {
			return append(ds, w.validateData(ctx, b.addr, b.typ, v)...)
		}
		return append(ds, w.validateResource(ctx, b.addr, b.typ, v)...)
	})
	return s.finish(w.diags)
}

func withAddress(address string, ds Diagnostics) Diagnostics {
	for i := range ds {
		ds[i].Address = address
	}
	return ds
}

func (p *process) schemaOf(b *block) (objchange.ResourceSchema, bool) {
	if b.data {
		s, ok := p.data[b.typ]
		return s, ok
	}
	s, ok := p.resources[b.typ]
	return s, ok
}

// Plan refreshes and plans. Neither configuration nor state of the session change. With an error the plan, if there is
// one, holds what was found out.
//
// As in Terraform a plan to destroy begins with an ordinary plan, which refreshes, and whose errors end it.
func (s *Session) Plan(ctx context.Context, opts ...PlanOption) (*Plan, error) {
	valid, err := s.validated(ctx)
	if err != nil {
		return nil, err
	}
	var o planOptions
	for _, opt := range opts {
		opt(&o)
	}
	state := s.state
	if o.destroy && !o.noRefresh && len(state) > 0 {
		pl, err := s.planOnce(ctx, state, planOptions{}, valid)
		if err != nil {
			return pl, err
		}
		state, o.noRefresh = pl.state, true
	}
	return s.planOnce(ctx, state, o, valid)
}

// validated returns the diagnostics of a validation before a plan.
func (s *Session) validated(ctx context.Context) (Diagnostics, error) {
	if s.TrustPlans {
		return nil, nil
	}
	err := s.Validate(ctx)
	return s.last, err
}

// planOnce is one walk of a plan over a state.
func (s *Session) planOnce(ctx context.Context, state map[string]*instance, o planOptions, before Diagnostics) (*Plan, error) {
	w, err := s.newWalk(ctx, state)
	if err != nil {
		return nil, err
	}
	w.diags = slices.Clone(before)
	pl := &Plan{destroy: o.destroy, data: map[string]cty.Value{}}
	w.configureProvider(ctx)
	if w.diags.err() == nil {
		wanted := map[string]bool{}
		if !o.destroy {
			w.eachBlock(ctx, func(b *block) Diagnostics { return w.planBlock(ctx, b, o, pl, wanted) })
		}
		w.planOrphans(ctx, o, pl, wanted)
	}
	slices.SortFunc(pl.Changes, func(a, b *Change) int { return strings.Compare(a.Address, b.Address) })
	pl.Diagnostics, pl.state = w.diags, w.state
	return pl, s.finish(w.diags)
}

// planBlock plans all instances of a block and makes them known to the others.
func (w *walk) planBlock(ctx context.Context, b *block, o planOptions, pl *Plan, wanted map[string]bool) Diagnostics {
	keys, err := w.scope.instances(b)
	if err != nil {
		return failure("configuration", b.addr, "Invalid configuration", err)
	}
	schema, _ := w.schemaOf(b)
	vals := make([]cty.Value, len(keys))
	results := make([]Diagnostics, len(keys))
	w.each(len(keys), func(n int) {
		address := b.addr + keys[n].suffix
		w.mu.Lock()
		wanted[address] = true
		w.mu.Unlock()
		config, ds := w.scope.object(schema.Object, b.attrs, keys[n].variables())
		ds = withAddress(address, ds)
		vals[n] = cty.UnknownVal(schema.Typ())
		if ds.err() == nil {
			var c *Change
			var more Diagnostics
			if b.data {
				c, vals[n], more = w.planData(ctx, b, address, config)
			} else {
				c, more = w.planResource(ctx, b, address, config, o)
			}
			ds = append(ds, more...)
			w.mu.Lock()
			switch {
			case c != nil:
				c.Diagnostics = ds
				pl.Changes = append(pl.Changes, c)
				w.pending[b.addr] = w.pending[b.addr] || c.Action != NoOp
				vals[n] = c.Planned
			case b.data && ds.err() == nil:
				pl.data[address] = vals[n]
			}
			w.mu.Unlock()
		}
		results[n] = ds
	})
	byKey := map[string]cty.Value{}
	for n, k := range keys {
		byKey[k.suffix] = vals[n]
	}
	w.scope.set(b, keys, byKey)
	return slices.Concat(results...)
}

// isPending says whether a plan changes a resource that a data source refers to.
func (w *walk) isPending(b *block) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(b.deps, func(addr string) bool { return w.pending[addr] && !w.s.module.blocks[addr].data })
}

// planData reads a data source whose configuration is known and depends on nothing that changes, else it leaves it to the apply.
func (w *walk) planData(ctx context.Context, b *block, address string, config cty.Value) (*Change, cty.Value, Diagnostics) {
	schema := w.data[b.typ]
	ds := w.validateData(ctx, address, b.typ, config)
	if ds.err() != nil {
		return nil, cty.UnknownVal(schema.Typ()), ds
	}
	if !config.IsWhollyKnown() || w.isPending(b) {
		v := objchange.UnknownComputed(schema.Object, config)
		return &Change{Address: address, Type: b.typ, Action: Read, Config: config, Planned: v, block: b.addr}, v, ds
	}
	v, more := w.readData(ctx, address, b.typ, config)
	return nil, v, append(ds, more...)
}
