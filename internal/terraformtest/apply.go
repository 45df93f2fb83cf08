package terraformtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// Apply carries a plan out. Whatever happens, the session's state is then what a state file would hold.
func (s *Session) Apply(ctx context.Context, pl *Plan) error {
	w, err := s.newWalk(ctx, pl.state)
	if err != nil {
		return err
	}
	w.applying = !s.SilentApply
	w.configureProvider(ctx)
	if err := w.diags.err(); err != nil {
		return s.finish(w.diags)
	}
	w.unchanged = pl.unchanged()
	w.destroyAll(ctx, pl.first(), pl)
	if pl.destroy {
		clear(s.outputs)
	} else {
		w.eachBlock(ctx, func(b *block) Diagnostics { return w.applyBlock(ctx, b, pl) })
		w.destroyAll(ctx, w.last(pl), pl)
		w.keepOutputs()
	}
	s.state = w.state
	return s.finish(w.diags)
}

// unchanged are the blocks with nothing to do.
func (p *Plan) unchanged() map[string]bool {
	all := map[string]bool{}
	for _, c := range p.Changes {
		was, seen := all[c.block]
		all[c.block] = c.Action == NoOp && (was || !seen)
	}
	return all
}

// keepOutputs evaluates the outputs, but for those of what failed.
func (w *walk) keepOutputs() {
	m := w.s.module
	for name, e := range m.outputs {
		from := map[string]bool{}
		m.follow(e.Variables(), from, map[string]bool{})
		if slices.ContainsFunc(sortedKeys(from), func(addr string) bool { return w.failed[addr] }) {
			continue
		}
		v, err := w.scope.eval(e, nil)
		if err != nil {
			w.diags = append(w.diags, failure("configuration", "output."+name, "Invalid output", err)...)
			continue
		}
		w.s.outputs[name] = v
	}
}

// Run plans and applies: terraform apply.
func (s *Session) Run(ctx context.Context) error {
	_, err := planAndApply(ctx, s)
	return err
}

func planAndApply(ctx context.Context, s *Session) (*Plan, error) {
	pl, err := s.Plan(ctx)
	if err != nil {
		return nil, err
	}
	said := s.last
	err = s.Apply(ctx, pl)
	s.last = append(slices.Clone(said), s.last...)
	return pl, err
}

// Converge plans and applies, and wants the plan after that to be empty, and its refresh to find what the first plan
// promised: a provider that plans the same change twice has not told the truth the first time.
func (s *Session) Converge(ctx context.Context) error {
	made, err := planAndApply(ctx, s)
	if err != nil {
		return err
	}
	said := s.last
	pl, err := s.Plan(ctx)
	s.last = said
	if err != nil {
		return fmt.Errorf("plan after the apply: %w", err)
	}
	broken := append(promises(made, pl), settled(s.state, pl.state)...)
	if !pl.Empty() {
		broken = append(broken, Diagnostic{
			Error: true, Violation: true, Summary: "The plan after the apply is not empty", Detail: pl.String(), RPC: "PlanResourceChange",
		})
	}
	if len(broken) > 0 {
		return s.finish(append(said, broken...))
	}
	return nil
}

// Destroy destroys everything in state: terraform destroy.
func (s *Session) Destroy(ctx context.Context) error {
	pl, err := s.Plan(ctx, ToDestroy())
	if err != nil {
		return err
	}
	err = s.Apply(ctx, pl)
	s.last = append(slices.Clone(pl.Diagnostics), s.last...)
	return err
}

// Refresh reads everything in state again: terraform apply -refresh-only.
func (s *Session) Refresh(ctx context.Context) error {
	valid, err := s.validated(ctx)
	if err != nil {
		return err
	}
	w, err := s.newWalk(ctx, s.state)
	if err != nil {
		return err
	}
	w.diags = valid
	if w.configureProvider(ctx); w.diags.err() == nil {
		addresses := sortedKeys(w.state)
		w.each(len(addresses), func(n int) {
			_, ds := w.refresh(ctx, addresses[n], planOptions{})
			w.report(ds)
		})
		s.state = w.state
	}
	return s.finish(w.diags)
}

// ReadDataSource reads one data source with attributes given as the inside of an HCL block, beside the configuration.
func (s *Session) ReadDataSource(ctx context.Context, typ, body string) (cty.Value, error) {
	m := newModule()
	m.provider, m.variables, m.locals = s.module.provider, s.module.variables, maps.Clone(s.module.locals)
	if err := m.parse("data.tf", fmt.Sprintf("data %q \"it\" {\n%s\n}\n", typ, body)); err != nil {
		return cty.NilVal, err
	}
	side := &Session{Caller: s.Caller, Parallelism: 1, module: m, variables: s.variables}
	w, err := side.newWalk(ctx, nil)
	if err != nil {
		return cty.NilVal, err
	}
	v := cty.NilVal
	if w.configureProvider(ctx); w.diags.err() == nil {
		b := m.blocks["data."+typ+".it"]
		schema, ok := w.data[typ]
		if !ok {
			return v, fmt.Errorf("no data source %s", typ)
		}
		config, ds := w.scope.object(schema.Object, b.attrs, nil)
		if ds = withAddress(b.addr, ds); ds.err() == nil {
			var more Diagnostics
			_, v, more = w.planData(ctx, b, b.addr, config)
			ds = append(ds, more...)
		}
		w.report(ds)
	}
	return v, s.finish(w.diags)
}

// applyBlock carries out the plan for the instances of a block.
func (w *walk) applyBlock(ctx context.Context, b *block, pl *Plan) Diagnostics {
	keys, err := w.scope.instances(b)
	if err != nil {
		return failure("configuration", b.addr, "Invalid configuration", err)
	}
	schema, _ := w.schemaOf(b)
	vals := make([]cty.Value, len(keys))
	results := make([]Diagnostics, len(keys))
	w.each(len(keys), func(n int) {
		address := b.addr + keys[n].suffix
		if v, read := pl.data[address]; read {
			vals[n] = v
			return
		}
		vals[n] = cty.DynamicVal
		if w.isStuck(address) {
			w.fail(b)
			return
		}
		config, ds := w.scope.object(schema.Object, b.attrs, keys[n].variables())
		ds = withAddress(address, ds)
		if ds.err() == nil {
			var more Diagnostics
			if b.data {
				_, vals[n], more = w.planData(ctx, b, address, config)
			} else {
				vals[n], more = w.applyResource(ctx, b, address, config, pl.Change(address))
			}
			ds = append(ds, more...)
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

// applyResource carries out one change. As in Terraform, it asks for the plan again, which must only fill the first one's gaps.
func (w *walk) applyResource(ctx context.Context, b *block, address string, config cty.Value, c *Change) (cty.Value, Diagnostics) {
	if c == nil {
		return cty.DynamicVal, failure("ApplyResourceChange", address, "Not in the plan", errors.New("the plan has no such object"))
	}
	if c.Action == NoOp {
		if i := w.instance(address); i != nil && i.last != b.createFirst {
			next := i.clone()
			next.last = b.createFirst
			w.keep(address, next)
		}
		return c.Planned, nil
	}
	var ds Diagnostics
	if c.Action == Replace && c.CreateFirst {
		return w.replaceFirst(ctx, b, address, config, c)
	}
	if c.Action == Replace && w.instance(address) != nil {
		if ds = w.destroy(ctx, address, c.end()); ds.err() != nil {
			return cty.DynamicVal, ds
		}
	}
	if w.s.TrustPlans && (c.Action == Update || c.Action == Create) && c.Config.IsWhollyKnown() {
		return w.carryOut(ctx, b, c)
	}
	prior := cty.NilVal
	if i := w.instance(address); i != nil {
		var more Diagnostics
		prior, more = w.load(ctx, i)
		if ds = append(ds, more...); ds.err() != nil {
			return prior, ds
		}
	}
	again, more := w.change(ctx, b, address, prior, config, false)
	if ds = append(ds, more...); ds.err() != nil {
		return cty.DynamicVal, ds
	}
	ds = append(ds, samePlan(w.resources[b.typ], c, again)...)
	if ds.err() != nil {
		return cty.DynamicVal, ds
	}
	if again.Action == NoOp {
		return again.Planned, ds
	}
	v, more := w.carryOut(ctx, b, again)
	return v, append(ds, more...)
}

// samePlan compares a plan with its repetition during the apply.
func samePlan(schema objchange.ResourceSchema, first, again *Change) Diagnostics {
	const summary = "Provider produced inconsistent final plan"
	ps := objchange.CheckCompletes(schema.Object, first.Planned, again.Planned)
	want := first.Action
	if want == Replace {
		want = Create
	}
	if again.Action != want && (want != Update || again.Action != NoOp) {
		ps.Add(nil, "the planned action changed from %s to %s", string(want), string(again.Action))
	}
	return violation("PlanResourceChange", first.Address, summary, ps)
}

// carryOut applies a create or an update and keeps the result.
func (w *walk) carryOut(ctx context.Context, b *block, c *Change) (cty.Value, Diagnostics) {
	schema := w.resources[b.typ]
	v, resp, ds := w.apply(ctx, c.Address, b.typ, c.Prior, c.Config, c.plan)
	if v.IsNull() {
		if ds.err() == nil {
			const summary = "Provider returned invalid result object after apply"
			ds = append(ds, violation("ApplyResourceChange", c.Address, summary, objchange.Broken("nothing"))...)
		}
		return cty.DynamicVal, ds
	}
	next := w.instance(c.Address)
	if next == nil {
		next = &instance{address: c.Address, typ: b.typ}
	}
	next = next.clone()
	next.block, next.deps, next.last = b.addr, w.s.module.needs(b), b.createFirst
	private := next.private
	if resp != nil {
		private = resp.Private
		if resp.NewIdentity != nil {
			next.identity = resp.NewIdentity
		}
	}
	next.tainted = c.Action == Create && ds.err() != nil
	if err := next.store(schema, v, private); err != nil {
		return v, append(ds, failure("ApplyResourceChange", c.Address, "Cannot keep the state", err)...)
	}
	w.keep(c.Address, next)
	return v, ds
}
