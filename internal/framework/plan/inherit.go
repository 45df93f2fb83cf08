package plan

import "github.com/hashicorp/terraform-plugin-go/tftypes"

// Inherit returns the plan of a copy with the values of its source in the place of those that are not known since the
// configuration leaves them out. Values that the source leaves open stay open.
func (s Shape) Inherit(planned, config, source tftypes.Value) tftypes.Value {
	return s.root.inherit(planned, config, source)
}

func (n *node) inherit(planned, config, source tftypes.Value) tftypes.Value {
	switch {
	case !config.IsKnown():
		return planned
	case !planned.IsKnown():
		return source
	case planned.IsNull(), n.kind == leaf, source.Type() != nil && !source.IsKnown():
		return planned
	}
	wanted, copied := fields(config), fields(source)
	return n.each(planned, func(name string, child *node, v tftypes.Value) tftypes.Value {
		c := valueOr(wanted, name, null(v.Type()))
		if from, there := copied[name]; there && (child.kind == leaf || !from.IsKnown() || !from.IsNull() || !v.IsKnown()) {
			return child.inherit(v, c, from)
		}
		return child.start(v, c)
	})
}

// start is a part of the plan of a copy that its source does not have: what the configuration leaves out is null,
// unless the server chooses it.
func (n *node) start(planned, config tftypes.Value) tftypes.Value {
	switch {
	case !config.IsKnown():
		return planned
	case n.kind == leaf && planned.IsKnown():
		return planned
	case planned.IsKnown():
		wanted := fields(config)
		return n.each(planned, func(name string, child *node, v tftypes.Value) tftypes.Value {
			return child.start(v, valueOr(wanted, name, null(v.Type())))
		})
	case n.kind == leaf && (!n.optional || n.rule.ServerChooses):
		return planned
	}
	return null(planned.Type())
}
