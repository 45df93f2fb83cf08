package drive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Action is what a plan does with an object.
type Action string

// The actions of a plan.
const (
	NoOp    Action = "no-op"
	Create  Action = "create"
	Update  Action = "update"
	Replace Action = "replace"
	Delete  Action = "delete"
	Read    Action = "read" // a data source that is read during the apply
)

// Change is what a plan does with one object.
type Change struct {
	Address, Type   string
	Action          Action
	Prior           cty.Value
	Config          cty.Value
	Planned         cty.Value
	PlannedPrivate  []byte
	RequiresReplace []string // attribute paths
	Diagnostics     Diagnostics

	block string
	plan  planned
}

// Plan is the outcome of a plan: the changes, and the refreshed state that an apply starts from.
type Plan struct {
	Changes     []*Change // sorted by address
	Diagnostics Diagnostics

	state map[string]*instance
}

// Empty says whether nothing would be changed.
func (p *Plan) Empty() bool {
	return !slices.ContainsFunc(p.Changes, func(c *Change) bool { return c.Action != NoOp && c.Action != Read })
}

// Change gives the change of an address, nil if the plan has none.
func (p *Plan) Change(address string) *Change {
	for _, c := range p.Changes {
		if c.Address == address {
			return c
		}
	}
	return nil
}

// String prints the changes with the attributes that differ.
func (p *Plan) String() string {
	var b strings.Builder
	for _, c := range p.Changes {
		if c.Action == NoOp {
			continue
		}
		fmt.Fprintf(&b, "%s %s\n", c.Action, c.Address)
		if c.Action == Update || c.Action == Replace {
			for _, line := range Differences(c.Prior, c.Planned) {
				fmt.Fprintf(&b, "  %s\n", line)
			}
		}
	}
	if b.Len() == 0 {
		return "no changes\n"
	}
	return b.String()
}

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
		v, ds := w.scope.object(schema.object, b.attrs, extra)
		ds = at(b.addr, ds)
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

func at(address string, ds Diagnostics) Diagnostics {
	for i := range ds {
		ds[i].Address = address
	}
	return ds
}

func (p *process) schemaOf(b *block) (resourceSchema, bool) {
	if b.data {
		s, ok := p.data[b.typ]
		return s, ok
	}
	s, ok := p.resources[b.typ]
	return s, ok
}

// PlanOption changes what a plan does.
type PlanOption func(*planOptions)

type planOptions struct{ destroy, noRefresh bool }

// ToDestroy plans the destruction of everything in state.
func ToDestroy() PlanOption { return func(o *planOptions) { o.destroy = true } }

// WithoutRefresh plans from the state as it is.
func WithoutRefresh() PlanOption { return func(o *planOptions) { o.noRefresh = true } }

// Plan refreshes and plans. Neither configuration nor state of the session change. With an error the plan, if there is
// one, holds what was found out.
//
// As in Terraform a plan to destroy begins with an ordinary plan, which refreshes, and whose errors end it.
func (s *Session) Plan(ctx context.Context, opts ...PlanOption) (*Plan, error) {
	if !s.TrustPlans {
		if err := s.Validate(ctx); err != nil {
			return nil, err
		}
	}
	var o planOptions
	for _, opt := range opts {
		opt(&o)
	}
	state := s.state
	if o.destroy && !o.noRefresh && len(state) > 0 {
		pl, err := s.planOnce(ctx, state, planOptions{})
		if err != nil {
			return pl, err
		}
		state, o.noRefresh = pl.state, true
	}
	return s.planOnce(ctx, state, o)
}

// planOnce is one walk of a plan over a state.
func (s *Session) planOnce(ctx context.Context, state map[string]*instance, o planOptions) (*Plan, error) {
	w, err := s.newWalk(ctx, state)
	if err != nil {
		return nil, err
	}
	pl := &Plan{}
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
		config, ds := w.scope.object(schema.object, b.attrs, keys[n].variables())
		ds = at(address, ds)
		vals[n] = cty.UnknownVal(schema.typ())
		if ds.err() == nil {
			var c *Change
			var more Diagnostics
			if b.data {
				c, vals[n], more = w.planData(ctx, b, address, config)
			} else {
				c, more = w.planResource(ctx, b, address, config, o)
			}
			ds = append(ds, more...)
			if c != nil {
				c.Diagnostics = ds
				w.mu.Lock()
				pl.Changes = append(pl.Changes, c)
				w.mu.Unlock()
				if !b.data {
					vals[n] = c.Planned
				}
			}
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

// planData reads a data source whose configuration is known, else it leaves it to the apply.
func (w *walk) planData(ctx context.Context, b *block, address string, config cty.Value) (*Change, cty.Value, Diagnostics) {
	schema := w.data[b.typ]
	ds := w.validateData(ctx, address, b.typ, config)
	if ds.err() != nil {
		return nil, cty.UnknownVal(schema.typ()), ds
	}
	if !config.IsWhollyKnown() {
		v := unknownComputed(schema.object, config)
		return &Change{Address: address, Type: b.typ, Action: Read, Config: config, Planned: v, block: b.addr}, v, ds
	}
	v, more := w.readData(ctx, address, b.typ, config)
	return nil, v, append(ds, more...)
}

// planResource refreshes and plans one instance.
func (w *walk) planResource(ctx context.Context, b *block, address string, config cty.Value, o planOptions) (*Change, Diagnostics) {
	ds := w.validateResource(ctx, address, b.typ, config)
	if ds.err() != nil {
		return nil, ds
	}
	prior, more := w.refresh(ctx, address, o)
	if ds = append(ds, more...); ds.err() != nil {
		return nil, ds
	}
	c, more := w.change(ctx, b, address, prior, config)
	ds = append(ds, more...)
	if c != nil && b.preventDestroy && (c.Action == Replace || c.Action == Delete) {
		ds = append(ds, failure("PlanResourceChange", address, "Instance cannot be destroyed", errors.New("lifecycle.prevent_destroy is set"))...)
	}
	return c, ds
}

// refresh gives the state of an address as the plan sees it, null if there is none.
func (w *walk) refresh(ctx context.Context, address string, o planOptions) (cty.Value, Diagnostics) {
	i := w.instance(address)
	if i == nil {
		return cty.NilVal, nil
	}
	if o.noRefresh {
		return w.load(ctx, i)
	}
	next, v, ds := w.read(ctx, i)
	w.keep(address, next)
	if next == nil {
		v = cty.NilVal
	}
	return v, ds
}

// change plans one instance from its prior value (NilVal for none) to its configuration.
func (w *walk) change(ctx context.Context, b *block, address string, prior, config cty.Value) (*Change, Diagnostics) {
	null := cty.NullVal(w.resources[b.typ].typ())
	i := w.instance(address)
	c := &Change{Address: address, Type: b.typ, block: b.addr, Config: config, Prior: prior}
	if i == nil || prior == cty.NilVal {
		c.Action, c.Prior = Create, null
		pl, ds := w.plan(ctx, address, b.typ, null, config, nil, nil)
		c.take(pl)
		return c, ds
	}
	if i.tainted {
		pl, ds := w.plan(ctx, address, b.typ, null, config, nil, nil)
		c.Action = Replace
		c.take(pl)
		return c, ds
	}
	config, err := ignoreChanges(b.ignore, prior, config)
	if err != nil {
		return nil, failure("configuration", address, "Invalid ignore_changes", err)
	}
	c.Config = config
	pl, ds := w.plan(ctx, address, b.typ, prior, config, i.private, i.identity)
	if ds.err() != nil {
		return nil, ds
	}
	switch {
	case len(pl.replace) > 0:
		c.Action = Replace
		for _, path := range pl.replace {
			c.RequiresReplace = append(c.RequiresReplace, pathString(path))
		}
		// The object that will be planned is a new one: nothing of the old state flows into it.
		again, more := w.plan(ctx, address, b.typ, null, config, pl.private, nil)
		if more.err() != nil {
			return nil, append(ds, more...)
		}
		pl = again
	case pl.value.RawEquals(prior):
		c.Action = NoOp
	default:
		c.Action = Update
	}
	c.take(pl)
	return c, ds
}

func (c *Change) take(pl planned) {
	c.plan, c.Planned, c.PlannedPrivate = pl, pl.value, pl.private
}

// planOrphans plans the destruction of what is in state and not wanted.
func (w *walk) planOrphans(ctx context.Context, o planOptions, pl *Plan, wanted map[string]bool) {
	for _, address := range sortedKeys(w.state) {
		i := w.state[address]
		if wanted[address] || w.failed[i.block] {
			continue
		}
		prior, ds := w.refresh(ctx, address, o)
		if ds.err() == nil && prior != cty.NilVal {
			i = w.instance(address)
			null := cty.NullVal(w.resources[i.typ].typ())
			res, more := w.plan(ctx, address, i.typ, prior, null, i.private, i.identity)
			ds = append(ds, more...)
			c := &Change{Address: address, Type: i.typ, Action: Delete, Prior: prior, Config: null, block: i.block, Diagnostics: ds}
			c.take(res)
			pl.Changes = append(pl.Changes, c)
		}
		w.report(ds)
	}
}

// ignoreChanges puts prior values in the place of configured ones.
func ignoreChanges(ignore []hcl.Traversal, prior, config cty.Value) (cty.Value, error) {
	for _, t := range ignore {
		path := cty.GetAttrPath(t.RootName())
		for _, step := range t[1:] {
			switch st := step.(type) {
			case hcl.TraverseAttr:
				path = path.GetAttr(st.Name)
			case hcl.TraverseIndex:
				path = path.Index(st.Key)
			}
		}
		old, err := path.Apply(prior)
		if err != nil {
			return config, err
		}
		config, err = cty.Transform(config, func(p cty.Path, v cty.Value) (cty.Value, error) {
			if p.Equals(path) {
				return convert.Convert(old, v.Type())
			}
			return v, nil
		})
		if err != nil {
			return config, err
		}
	}
	return config, nil
}
