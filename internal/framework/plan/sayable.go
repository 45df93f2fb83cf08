package plan

import (
	"maps"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Configuration returns a state as a configuration would have it: without values that only the server sets.
func (s Shape) Configuration(state tftypes.Value) tftypes.Value { return s.root.configuration(state) }

func (n *node) configuration(state tftypes.Value) tftypes.Value {
	switch {
	case !n.optional || n.writeOnly:
		return null(state.Type())
	case n.kind == leaf:
		return state
	}
	return n.each(state, func(_ string, child *node, v tftypes.Value) tftypes.Value { return child.configuration(v) })
}

// Appears reports whether a state has a value that can be configured and that was null before.
func (s Shape) Appears(prior, state tftypes.Value) bool { return s.root.appears(prior, state) }

func (n *node) appears(prior, state tftypes.Value) bool {
	switch {
	case !n.optional || !has(state) || n.rule.OnlyInState:
		return false
	case !has(prior):
		return true
	case n.kind == leaf:
		return false
	}
	before := fields(prior)
	for name, v := range fields(state) {
		child := n.children[name]
		if n.kind == slots {
			child = n.slot()
		}
		if child.appears(before[name], v) {
			return true
		}
	}
	return false
}

// Without returns a state without the value at a path, or without the smallest part around it that can be omitted. A
// group or map that was null and has no other value becomes null again.
// Values that existed before stay, and so do values with a default: null would mean the default. False: nothing was
// omitted.
func (s Shape) Without(state, prior tftypes.Value, at *tftypes.AttributePath) (tftypes.Value, bool) {
	if at == nil {
		return state, false
	}
	out, done := s.root.without(state, prior, at.Steps())
	return out, done == leftOut
}

// omission is the progress of a walk that omits a value.
type omission int

const (
	open    omission = iota // nothing was left out below; the parent may leave all of it out
	leftOut                 // done
	stays                   // it must not be left out
)

func (n *node) without(v, prior tftypes.Value, steps []tftypes.AttributePathStep) (tftypes.Value, omission) {
	if len(steps) == 0 || n.kind == leaf {
		if has(n.rule.Default) || has(prior) && n.kind == leaf {
			return v, stays
		}
		return v, open
	}
	name := stepName(steps[0])
	child := n.children[name]
	if n.kind == slots {
		child = n.slot()
	}
	inside := fields(v)[name]
	if child == nil || !has(inside) {
		return v, open
	}
	was := fields(prior)[name]
	inside, done := child.without(inside, was, steps[1:])
	switch {
	case done == stays:
		return v, stays
	case done == open && (child.required || has(was)):
		return v, open
	case done == open && n.kind != slots && child.hasDefaultInside():
		return v, stays
	}
	values := maps.Clone(fields(v))
	switch {
	case n.kind != slots:
		values[name] = child.remains(inside, was, done)
	case done == leftOut:
		values[name] = inside
	default:
		delete(values, name)
	}
	return tftypes.NewValue(v.Type(), values), leftOut
}

// remains is what is left of a part of a group. One that becomes empty where it was null is null again, as a plan would
// say.
func (n *node) remains(inside, was tftypes.Value, done omission) tftypes.Value {
	if done == leftOut && (n.required || has(was) || !isEmpty(fields(inside))) {
		return inside
	}
	return null(inside.Type())
}

// isEmpty reports whether a group or a map has no value.
func isEmpty(values map[string]tftypes.Value) bool {
	for _, value := range values {
		if has(value) {
			return false
		}
	}
	return true
}

// stepName returns the name or the key of a step; "" for a position.
func stepName(step tftypes.AttributePathStep) string {
	switch s := step.(type) {
	case tftypes.AttributeName:
		return string(s)
	case tftypes.ElementKeyString:
		return string(s)
	}
	return ""
}

// hasDefaultInside reports whether the null of a group would mean defaults.
func (n *node) hasDefaultInside() bool {
	if n.kind != group {
		return false
	}
	for _, child := range n.children {
		if has(child.rule.Default) || child.hasDefaultInside() {
			return true
		}
	}
	return false
}
