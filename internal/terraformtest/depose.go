package terraformtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// A replacement with create_before_destroy, as Terraform core does it (internal/terraform, node_resource_apply_instance.go,
// managedResourceExecute): the object is deposed before the create is planned once more. If that plan fails, it stays
// deposed. If the create fails and leaves nothing, it is restored. The deposed objects are destroyed last, each with a plan of
// its own (node_resource_destroy_deposed.go).

const deposed = " (deposed"

// IsDeposed reports whether an address in state is that of a deposed object.
func IsDeposed(address string) bool { return strings.Contains(address, deposed) }

// depose puts the object of an address aside and returns its key in state.
func (w *walk) depose(address string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := address + deposed + ")"
	for n := 2; w.state[key] != nil; n++ {
		key = fmt.Sprintf("%s%s %d)", address, deposed, n)
	}
	w.state[key] = w.state[address]
	delete(w.state, address)
	return key
}

// restore takes an object back to its address if nothing has its place.
func (w *walk) restore(key, address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state[address] == nil {
		w.state[address] = w.state[key]
		delete(w.state, key)
	}
}

// replaceFirst makes the new object while the old one exists.
func (w *walk) replaceFirst(ctx context.Context, b *block, address string, config cty.Value, c *Change) (cty.Value, Diagnostics) {
	key := w.depose(address)
	again, ds := w.change(ctx, b, address, cty.NilVal, config, false)
	if ds.err() == nil {
		ds = append(ds, samePlan(w.resources[b.typ], c, again)...)
	}
	if ds.err() != nil {
		return cty.DynamicVal, ds
	}
	v, more := w.carryOut(ctx, b, again)
	if ds = append(ds, more...); more.err() != nil {
		w.restore(key, address)
	}
	return v, ds
}

// destroyReplaced destroys what this apply has deposed, unless a new object or what depends on it has failed.
func (w *walk) destroyReplaced(ctx context.Context, pl *Plan) {
	for _, key := range sortedKeys(w.state) {
		address, _, isDeposed := strings.Cut(key, deposed)
		i := w.state[key]
		if c := pl.Change(address); !isDeposed || c == nil || !c.CreateFirst || w.hasFailed(i.block) {
			continue
		}
		w.report(w.destroy(ctx, key, planned{}))
	}
}

// deletes are the planned deletes: those that come before all changes, and those of objects whose blocks had
// create_before_destroy, which the state remembers: what depended on them is changed first (internal/terraform,
// transform_destroy_edge.go, transform_destroy_cbd.go, node_resource_destroy.go CreateBeforeDestroy).
func (p *Plan) deletes() (now, last []*Change) {
	for _, c := range p.Changes {
		switch i := p.state[c.Address]; {
		case c.Action != Delete:
		case i != nil && i.last && !p.destroy && !IsDeposed(c.Address):
			last = append(last, c)
		default:
			now = append(now, c)
		}
	}
	return now, last
}

// holdUp has the changes fail that come after a destroy which has failed: those of what depends on the object in state.
func (w *walk) holdUp(block string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.state {
		w.failed[i.block] = w.failed[i.block] || slices.Contains(i.deps, block) && !w.unchanged[i.block]
	}
}

// isWaitedFor reports whether the change of something that depends on an object has failed, so that it stays.
func (w *walk) isWaitedFor(c *Change, pl *Plan) bool {
	for _, i := range pl.state {
		if slices.Contains(i.deps, c.block) && w.hasFailed(i.block) {
			return true
		}
	}
	return false
}

// hasFailed reports whether a block or one that depends on it has failed.
func (w *walk) hasFailed(addr string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, b := range w.s.module.blocks {
		if w.failed[name] && (name == addr || slices.Contains(b.deps, addr)) {
			return true
		}
	}
	return false
}

// destroy deletes one instance. The destroy of a deposed one is planned once more.
func (w *walk) destroy(ctx context.Context, address string, pl planned) Diagnostics {
	i := w.instance(address)
	prior, ds := w.load(ctx, i)
	if current, _, isDeposed := strings.Cut(address, deposed); ds.err() == nil && isDeposed {
		var more Diagnostics
		pl, more = w.plan(ctx, current, i.typ, prior, cty.NullVal(w.resources[i.typ].Typ()), i.private, i.identity)
		ds = append(ds, more...)
	}
	if ds.err() != nil {
		return ds
	}
	schema := w.resources[i.typ]
	null := cty.NullVal(schema.Typ())
	pl.value = null
	v, resp, more := w.apply(ctx, address, i.typ, prior, null, pl)
	ds = append(ds, more...)
	if v.IsNull() {
		w.keep(address, nil)
		return ds
	}
	next := i.clone()
	private := i.private
	if resp != nil {
		private = resp.Private
	}
	if err := next.store(schema, v, private); err != nil {
		return append(ds, failure("ApplyResourceChange", address, "Cannot keep the state", err)...)
	}
	w.keep(address, next)
	return ds
}

// lifecycle reads the block of that name.
func (b *block) lifecycle(body *hclsyntax.Body) error {
	for _, inner := range body.Blocks {
		actions := inner.Body.Attributes["actions"]
		if inner.Type != "action_trigger" || actions == nil {
			return fmt.Errorf("the driver does not know this %s block in lifecycle", inner.Type)
		}
		ts, err := traversals(actions.Expr)
		if err != nil {
			return err
		}
		b.triggers = append(b.triggers, ts...)
	}
	for name, a := range body.Attributes {
		switch name {
		case "ignore_changes":
			ts, err := traversals(a.Expr)
			if err != nil {
				return err
			}
			b.ignore = ts
		case "prevent_destroy", "create_before_destroy":
			v, diags := a.Expr.Value(nil)
			if diags.HasErrors() {
				return diags
			}
			b.preventDestroy = b.preventDestroy || v.True() && name == "prevent_destroy"
			b.createFirst = b.createFirst || v.True() && name == "create_before_destroy"
		default:
			return fmt.Errorf("the driver does not know lifecycle argument %s", name)
		}
	}
	return nil
}
