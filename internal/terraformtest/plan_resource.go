package terraformtest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// planResource refreshes and plans one instance.
func (w *walk) planResource(ctx context.Context, b *block, address string, config cty.Value, o planOptions) (*Change, Diagnostics) {
	prior, ds := w.refresh(ctx, address, o)
	if ds.err() != nil {
		return nil, ds
	}
	c, more := w.change(ctx, b, address, prior, config, slices.Contains(o.replace, address))
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
	if ds.err() == nil && v.IsNull() {
		w.lose(address, next.private)
		return cty.NilVal, ds
	}
	w.keep(address, next)
	return v, ds
}

// change validates and plans one instance from its prior value (NilVal for none) to its configuration.
func (w *walk) change(ctx context.Context, b *block, address string, prior, config cty.Value, replace bool) (*Change, Diagnostics) {
	ds := w.validateResource(ctx, address, b.typ, config)
	if ds.err() != nil {
		return nil, ds
	}
	c, more := w.changeFrom(ctx, b, address, prior, config, replace)
	return c, append(ds, more...)
}

// With replace the object is replaced although its provider would keep it (terraform internal/terraform,
// node_resource_abstract_instance.go, getAction).
func (w *walk) changeFrom(ctx context.Context, b *block, address string, prior, config cty.Value, replace bool) (*Change, Diagnostics) {
	null := cty.NullVal(w.resources[b.typ].Typ())
	i := w.instance(address)
	c := &Change{Address: address, Type: b.typ, block: b.addr, Config: config, Prior: prior}
	if i == nil || prior == cty.NilVal {
		c.Action, c.Prior = Create, null
		pl, ds := w.plan(ctx, address, b.typ, null, config, w.leftOf(address), nil)
		c.take(pl)
		return c, ds
	}
	if i.tainted {
		pl, ds := w.plan(ctx, address, b.typ, null, config, nil, nil)
		c.Action, c.CreateFirst = Replace, b.createFirst
		c.take(pl)
		return c, ds
	}
	config, err := ignoreChanges(b.ignore, prior, config) // which the apply does not see
	if err != nil {
		return nil, failure("configuration", address, "Invalid ignore_changes", err)
	}
	pl, ds := w.plan(ctx, address, b.typ, prior, config, i.private, i.identity)
	if ds.err() != nil {
		return nil, ds
	}
	switch {
	case replace || len(pl.replace) > 0:
		c.Action, c.CreateFirst = Replace, b.createFirst
		for _, path := range pl.replace {
			c.RequiresReplace = append(c.RequiresReplace, objchange.PathString(path))
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

// planOrphans plans the destruction of objects that are in state and not wanted.
func (w *walk) planOrphans(ctx context.Context, o planOptions, pl *Plan, wanted map[string]bool) {
	order := sortedKeys(w.state)
	if o.destroy {
		order = usersFirst(w.state)
	}
	for _, address := range order {
		i := w.state[address]
		if wanted[address] || w.failed[i.block] {
			continue
		}
		w.report(w.planOrphan(ctx, address, i, o, pl))
	}
}

// usersFirst is the order of a plan to destroy: an object after those that depend on it (terraform internal/terraform,
// graph_builder_plan.go, DestroyEdgeTransformer).
func usersFirst(state map[string]*instance) (order []string) {
	users, seen := map[string][]string{}, map[string]bool{}
	for _, address := range sortedKeys(state) {
		for _, block := range state[address].deps {
			users[block] = append(users[block], address)
		}
	}
	var visit func(address string)
	visit = func(address string) {
		if !seen[address] {
			seen[address] = true
			for _, user := range users[state[address].block] {
				visit(user)
			}
			order = append(order, address)
		}
	}
	for _, address := range sortedKeys(state) {
		visit(address)
	}
	return order
}

// planOrphan plans a destroy, as Terraform does before it refreshes; an object that the refresh misses needs none. A deposed
// object is refreshed first (terraform internal/terraform, node_resource_destroy_deposed.go).
func (w *walk) planOrphan(ctx context.Context, address string, i *instance, o planOptions, pl *Plan) Diagnostics {
	prior, ds := w.load(ctx, i)
	if ds.err() != nil {
		return ds
	}
	var more Diagnostics
	refreshed := o.noRefresh
	if !refreshed && strings.Contains(address, deposed) {
		refreshed = true
		i, prior, more = w.readFrom(ctx, i, prior)
		if ds = append(ds, more...); ds.err() != nil {
			return ds
		}
		if prior.IsNull() {
			w.keep(address, nil)
			return ds
		}
		w.keep(address, i)
	}
	null := cty.NullVal(w.resources[i.typ].Typ())
	res, more := w.plan(ctx, address, i.typ, prior, null, i.private, i.identity)
	if ds = append(ds, more...); ds.err() != nil {
		return ds
	}
	if !refreshed {
		var next *instance
		next, prior, more = w.readFrom(ctx, i, prior)
		if ds = append(ds, more...); ds.err() == nil && prior.IsNull() {
			w.lose(address, next.private)
			return ds
		}
		w.keep(address, next)
	}
	c := &Change{Address: address, Type: i.typ, Action: Delete, Prior: prior, Config: null, block: i.block, Diagnostics: ds}
	c.take(res)
	pl.Changes = append(pl.Changes, c)
	return ds
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
