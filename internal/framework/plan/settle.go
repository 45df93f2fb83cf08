package plan

import (
	"maps"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Settle returns the state after a create or an update: the known values of the plan, and the server's values for the
// rest. No value is unknown: one that the server does not have is null.
func (s Shape) Settle(planned, server tftypes.Value) tftypes.Value {
	return s.root.settle(planned, server)
}

func (n *node) settle(planned, server tftypes.Value) tftypes.Value {
	typ := planned.Type()
	switch {
	case n.writeOnly:
		return null(typ)
	case !planned.IsKnown():
		if server.Type() == nil || !server.IsKnown() {
			return null(typ)
		}
		return server
	case planned.IsNull(), n.kind == leaf:
		return Known(planned)
	}
	seen := fields(server)
	return n.each(planned, func(name string, child *node, v tftypes.Value) tftypes.Value {
		return child.settle(v,
			seen[name])
	})
}

// Refresh returns the state after a read: the server's values, in the notation of the prior state if that means the
// same. Slots that are not in state stay out of it.
func (s Shape) Refresh(prior, server tftypes.Value) tftypes.Value {
	return s.root.refresh(prior, server, false)
}

// Fill is Refresh for a state without values of the server: it takes every slot and every value.
func (s Shape) Fill(prior, server tftypes.Value) tftypes.Value {
	return s.root.refresh(prior, server, true)
}

func (n *node) refresh(prior, server tftypes.Value, all bool) tftypes.Value {
	typ := prior.Type()
	switch {
	case n.writeOnly:
		return null(typ)
	case n.rule.OnlyInState:
		return prior
	case server.Type() == nil || server.IsNull():
		if n.rule.MayBeUnreported || n.isDefault(prior) {
			return prior
		}
		return null(typ)
	case n.kind == leaf:
		if n.same(prior, server) || !all && (!n.computed || n.rule.NullStays) && prior.IsNull() {
			return prior
		}
		return server
	case prior.IsNull():
		if n.computed || all {
			return server
		}
		return prior
	case n.kind == slots:
		return n.refreshSlots(prior, server, all)
	}
	seen := fields(server)
	return n.each(prior, func(name string, child *node, v tftypes.Value) tftypes.Value {
		return child.refresh(v, seen[name], all)
	})
}

// isDefault reports whether a value in state equals an absent value on the server: the default, or an empty list, map
// or group.
func (n *node) isDefault(prior tftypes.Value) bool {
	if !has(prior) {
		return false
	}
	if n.same(prior, n.rule.Default) {
		return true
	}
	switch n.kind {
	case slots:
		return len(fields(prior)) == 0
	case group:
		return n.rule.MayBeAbsent && n.isDefaultInside(prior)
	case leaf:
	}
	var elements []tftypes.Value
	if n.kind != leaf || prior.Type().Is(tftypes.Map{}) || prior.As(&elements) != nil {
		return false
	}
	return len(elements) == 0 || n.same(prior, tftypes.NewValue(prior.Type(), []tftypes.Value{}))
}

// isDefaultInside reports whether all values of a group equal absent values on the server.
func (n *node) isDefaultInside(value tftypes.Value) bool {
	values := fields(value)
	for name, child := range n.children {
		if child.optional && !values[name].IsNull() && !child.isDefault(values[name]) {
			return false
		}
	}
	return true
}

func (n *node) refreshSlots(prior, server tftypes.Value, all bool) tftypes.Value {
	values, before := map[string]tftypes.Value{}, fields(prior)
	for key, now := range fields(server) {
		if was, ok := before[key]; ok {
			values[key] = n.slot().refresh(was, now, all)
		} else if all {
			values[key] = now
		}
	}
	return tftypes.NewValue(prior.Type(), values)
}

// Between returns the state after an update that failed in the middle: the server's values, with the slots of both the
// prior state and the plan, since each may or may not exist.
func (s Shape) Between(prior, planned, server tftypes.Value) tftypes.Value {
	return s.root.refresh(s.root.union(prior, planned), server, false)
}

func (n *node) union(prior, planned tftypes.Value) tftypes.Value {
	switch {
	case n.rule.OnlyInState || !planned.IsKnown() || planned.IsNull():
		return prior
	case n.kind == leaf || !has(prior):
		return Known(planned)
	}
	after := fields(planned)
	if n.kind != slots {
		return n.each(prior, func(name string, child *node, was tftypes.Value) tftypes.Value {
			return child.union(was,
				after[name])
		})
	}
	values := maps.Clone(fields(prior))
	for key, value := range after {
		if was, ok := values[key]; ok {
			values[key] = n.slot().union(was, value)
		} else {
			values[key] = Known(value)
		}
	}
	return tftypes.NewValue(prior.Type(), values)
}
