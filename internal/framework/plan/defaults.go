package plan

import "github.com/hashicorp/terraform-plugin-go/tftypes"

// For the server an absent option and one with the default are the same, and no reason for a request. Terraform
// distinguishes null from a value, so a state may have either.

// isUnsaid reports whether a value is null, or the default that an absent option stands for. An empty list is none: an
// empty boot order is an order.
func (n *node) isUnsaid(v tftypes.Value) bool {
	switch {
	case v.Type() == nil || v.IsNull():
		return true
	case !v.IsKnown():
		return false
	case n.kind == leaf:
		return n.same(v, n.rule.Default)
	case n.kind == slots:
		return len(fields(v)) == 0
	case !n.rule.MayBeAbsent:
		return false
	}
	values := fields(v)
	for name, child := range n.children {
		if child.optional && !child.isUnsaid(values[name]) {
			return false
		}
	}
	return true
}

// Defaults is a state with the server's defaults, or nothing as a list, in place of null, where its parents are there.
// An import says them, so that a configuration which names one is no change.
func (s Shape) Defaults(state tftypes.Value) tftypes.Value { return s.root.defaults(state) }

func (n *node) defaults(state tftypes.Value) tftypes.Value {
	switch {
	case n.kind == leaf && state.IsNull() && has(n.rule.Default):
		return n.rule.Default
	case n.kind == leaf && state.IsNull() && n.rule.EmptyIsAbsent:
		return tftypes.NewValue(state.Type(), []tftypes.Value{})
	case n.kind == leaf:
		return state
	}
	return n.each(state, func(_ string, child *node, v tftypes.Value) tftypes.Value { return child.defaults(v) })
}

// Said is a configuration without what says nothing: the server's defaults, and groups in which nothing is left.
func (s Shape) Said(config tftypes.Value) tftypes.Value { return s.root.said(config) }

func (n *node) said(config tftypes.Value) tftypes.Value {
	if n.kind == leaf {
		if has(n.rule.Default) && config.Equal(n.rule.Default) {
			return null(config.Type())
		}
		return config
	}
	return n.each(config, func(_ string, child *node, v tftypes.Value) tftypes.Value {
		v = child.said(v)
		if child.kind == group && !child.rule.MayBeAbsent && has(v) && child.isUnset(v) {
			return null(v.Type())
		}
		return v
	})
}

// Essence is a plan with the values of the prior state wherever both mean the same to the server because it says
// nothing.
func (s Shape) Essence(planned, prior tftypes.Value) tftypes.Value {
	return s.root.essence(planned, prior)
}

func (n *node) essence(planned, prior tftypes.Value) tftypes.Value {
	switch {
	case !planned.IsKnown():
		return planned
	case n.isUnsaid(planned) && n.isUnsaid(prior):
		if prior.Type() == nil {
			return null(planned.Type())
		}
		return prior
	case n.kind == leaf:
		return planned
	}
	before := fields(prior)
	return n.each(planned, func(name string, child *node, v tftypes.Value) tftypes.Value {
		return child.essence(v, valueOr(before, name, null(v.Type())))
	})
}

// each changes what is in a group or in slots.
func (n *node) each(object tftypes.Value, change func(name string, child *node,
	v tftypes.Value) tftypes.Value) tftypes.Value {
	if !has(object) {
		return object
	}
	before := fields(object)
	values := make(map[string]tftypes.Value, len(before))
	for name, v := range before {
		child := n.children[name]
		if n.kind == slots {
			child = n.slot()
		}
		values[name] = change(name, child, v)
	}
	return tftypes.NewValue(object.Type(), values)
}

// isUnset reports whether a group has no value left that can be configured.
func (n *node) isUnset(value tftypes.Value) bool {
	values := fields(value)
	for name, child := range n.children {
		if child.optional && !values[name].IsNull() {
			return false
		}
	}
	return true
}
