package terraformtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Depose puts the object that a saved state has at an address beside the present one, as a CLI leaves it that was killed before
// the last destroys.
func Depose(s *Session, saved SavedState, address string) {
	s.state[address+deposed+")"] = saved.instances[address]
}

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

// The order of an apply, as Terraform core's graph has it (internal/terraform, transform_destroy_edge.go,
// transform_destroy_cbd.go): destroys come first, that of an object after those of its dependents; then creates and updates, an
// object after those that it depends on; last the destroys of objects with create_before_destroy. Where Terraform leaves the order
// open, as between a dependent that is destroyed first and a new object that is made before the old one goes, this one is the
// one that has less to go back to.

// end is the plan of the destroy that a change is or begins with: as Terraform does, a replacement's has the private data of the
// plan of the new object, and no plan of its own.
func (c *Change) end() planned {
	if c.Action == Replace {
		return planned{private: c.PlannedPrivate}
	}
	return c.plan
}

// first are the destroys that come before all other changes, by address. A replacement that no other change is linked with
// destroys in its own turn.
func (p *Plan) first() map[string]planned {
	todo := map[string]planned{}
	for _, c := range p.Changes {
		i := p.state[c.Address]
		isDelete := c.Action == Delete && (p.destroy || i == nil || !i.last || IsDeposed(c.Address))
		if isDelete || c.Action == Replace && !c.CreateFirst && i != nil && p.isLinked(c, i) {
			todo[c.Address] = c.end()
		}
	}
	return todo
}

// isLinked reports whether another block that is changed depends on an object, or the other way round.
func (p *Plan) isLinked(c *Change, i *instance) bool {
	return slices.ContainsFunc(p.Changes, func(o *Change) bool {
		if o.Action == NoOp || o.Action == Read || o.block == c.block {
			return false
		}
		other := p.state[o.Address]
		return slices.Contains(i.deps, o.block) || other != nil && slices.Contains(other.deps, c.block)
	})
}

// last are the destroys that come after all other changes: of what this apply has deposed, and of objects whose blocks had
// create_before_destroy, which the state remembers. They stay if a new object or a dependent has failed.
func (w *walk) last(pl *Plan) map[string]planned {
	todo := map[string]planned{}
	for key, i := range w.state {
		address, _, isDeposed := strings.Cut(key, deposed)
		c := pl.Change(address)
		if c == nil || w.isNeeded(i.block, pl) {
			continue
		}
		if isDeposed && c.CreateFirst || !isDeposed && c.Action == Delete && i.last {
			todo[key] = c.end()
		}
	}
	return todo
}

// isNeeded reports whether the change of a block or of one that depends on it has failed.
func (w *walk) isNeeded(block string, pl *Plan) bool {
	for _, i := range pl.state {
		if w.failed[i.block] && slices.Contains(i.deps, block) {
			return true
		}
	}
	for name, b := range w.s.module.blocks {
		if w.failed[name] && (name == block || slices.Contains(b.deps, block)) {
			return true
		}
	}
	return false
}

// destroyAll carries out destroys, dependents first.
func (w *walk) destroyAll(ctx context.Context, todo map[string]planned, pl *Plan) {
	for len(todo) > 0 {
		ready := slices.DeleteFunc(sortedKeys(todo), func(address string) bool { return w.hasDependent(address, todo) })
		if len(ready) == 0 { // a circle through renamed blocks: any order will do
			ready = sortedKeys(todo)
		}
		w.each(len(ready), func(n int) {
			i := w.instance(ready[n])
			if w.isStuck(ready[n]) {
				w.holdUp(i, pl)
				return
			}
			var ds Diagnostics
			if err := ctx.Err(); err != nil {
				ds = failure("walk", ready[n], "Interrupted", err)
			} else {
				ds = w.destroy(ctx, ready[n], todo[ready[n]])
			}
			w.report(ds)
			if ds.err() != nil {
				w.holdUp(i, pl)
			}
		})
		for _, address := range ready {
			delete(todo, address)
		}
	}
}

// hasDependent reports whether one of the objects to destroy depends on that of an address.
func (w *walk) hasDependent(address string, todo map[string]planned) bool {
	block := w.state[address].block
	return slices.ContainsFunc(sortedKeys(todo), func(o string) bool { return o != address && slices.Contains(w.state[o].deps, block) })
}

// holdUp stops what comes after a destroy that has failed: the new object, the changes of dependents, and both the destroys and
// the changes of what the object depends on.
func (w *walk) holdUp(i *instance, pl *Plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := maps.Clone(pl.state)
	maps.Copy(all, w.state)
	for key, o := range all {
		c := pl.Change(key)
		if c == nil {
			c = pl.Change(o.address)
		}
		isLinked := o.address == i.address || slices.Contains(i.deps, o.block) || slices.Contains(o.deps, i.block)
		w.stuck[key] = w.stuck[key] || isLinked && c != nil && c.Action != NoOp
	}
}

// isStuck reports whether a failed destroy keeps a change from coming.
func (w *walk) isStuck(address string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stuck[address]
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
