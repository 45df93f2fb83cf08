package tfkit

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Planned is the outcome of Shape.Plan.
type Planned struct {
	Value tftypes.Value
	// Forgotten are the slots in state that are neither configured nor managed: they leave the state and stay on the
	// server as they are. Sorted.
	Forgotten []string
	// Changed reports whether Value differs from the prior state.
	Changed bool
}

// PlanInput is what a plan is made of.
type PlanInput struct {
	Config  tftypes.Value
	Prior   tftypes.Value // null: to be created
	Managed Managed
	// Inherits: what is created starts as a copy of something, so what is not configured is not known.
	Inherits bool
}

type planner struct {
	PlanInput
	creating  bool
	found     bool // in a slot that state does not know, but the server may: what is not configured stays as it is there
	forgotten []string
}

// Plan computes what the resource is to be. It looks at nothing but its input.
func (s Shape) Plan(in PlanInput) Planned {
	p := &planner{PlanInput: in, creating: !has(in.Prior)}
	value := p.attributes(s.root, "", s.typ, fields(in.Config), fields(in.Prior), p.creating, false)
	out := Planned{Value: value, Changed: p.creating || !value.Equal(in.Prior)}
	if out.Changed && !p.creating && s.root.touches(value, in.Prior) {
		out.Value = s.root.refreshed(value, in.Config)
	}
	slices.Sort(p.forgotten)
	out.Forgotten = p.forgotten
	return out
}

// attributes plans all attributes of one object. fresh: the object does not exist yet. removed: its group left the
// configuration.
func (p *planner) attributes(n *node, at string, typ tftypes.Type, config, prior map[string]tftypes.Value, fresh, removed bool) tftypes.Value {
	values := make(map[string]tftypes.Value, len(n.children))
	for name, child := range n.children {
		t := attributeType(typ, name)
		c, ok := config[name]
		if !ok {
			c = null(t)
		}
		before, ok := prior[name]
		if !ok {
			before = null(t)
		}
		values[name] = p.attribute(child, join(at, name), c, before, fresh, removed)
	}
	return tftypes.NewValue(typ, values)
}

func (p *planner) attribute(n *node, at string, config, prior tftypes.Value, fresh, removed bool) tftypes.Value {
	switch {
	case n.writeOnly:
		return null(config.Type())
	case !config.IsKnown():
		return config
	}
	switch n.kind {
	case group:
		return p.group(n, at, config, prior, fresh, removed)
	case slots:
		return p.slots(n, at, config, prior, fresh)
	default:
		return p.leaf(n, at, config, prior, fresh, removed)
	}
}

func (p *planner) leaf(n *node, at string, config, prior tftypes.Value, fresh, removed bool) tftypes.Value {
	typ := config.Type()
	switch {
	case !config.IsNull():
		if n.same(config, prior) {
			return prior
		}
		return config
	case !n.computed:
		return config
	case fresh && !n.optional:
		return unknown(typ)
	case fresh:
		if n.rule.Made || p.inherits() {
			return unknown(typ)
		}
		return null(typ)
	case n.optional && p.Managed[at] && (removed || !n.rule.Keep):
		return null(typ)
	default:
		return prior
	}
}

func (p *planner) inherits() bool { return p.creating && p.Inherits || p.found }

func (p *planner) group(n *node, at string, config, prior tftypes.Value, fresh, removed bool) tftypes.Value {
	typ := config.Type()
	if !config.IsNull() {
		return p.attributes(n, at, typ, fields(config), fields(prior), fresh || !has(prior), removed)
	}
	switch {
	case !n.computed:
		return config
	case fresh && p.inherits():
		return unknown(typ)
	case fresh && n.rule.Absent, !fresh && !has(prior):
		return null(typ)
	case fresh:
		return p.attributes(n, at, typ, nil, nil, true, removed)
	case n.rule.Whole && p.Managed[at]:
		return null(typ)
	}
	value := p.attributes(n, at, typ, nil, fields(prior), false, p.Managed[at])
	if n.rule.Absent && n.empty(value) {
		return null(typ)
	}
	return value
}

// empty reports whether nothing that can be configured is left in a group.
func (n *node) empty(value tftypes.Value) bool {
	values := fields(value)
	for name, child := range n.children {
		if child.optional && !values[name].IsNull() {
			return false
		}
	}
	return true
}

func (p *planner) slots(n *node, at string, config, prior tftypes.Value, fresh bool) tftypes.Value {
	typ := config.Type()
	if config.IsNull() && n.computed {
		return p.inheritedSlots(n, at, typ, prior, fresh)
	}
	before := fields(prior)
	wanted := fields(config)
	for key := range before {
		if _, ok := wanted[key]; !ok && !p.Managed[join(at, key)] {
			p.forgotten = append(p.forgotten, join(at, key))
		}
	}
	if config.IsNull() {
		return config
	}
	values := make(map[string]tftypes.Value, len(wanted))
	for key, element := range wanted {
		if !element.IsKnown() || element.IsNull() {
			values[key] = element
			continue
		}
		was, exists := before[key]
		p.found = !p.creating && !exists
		values[key] = p.attributes(n, join(at, key), elementType(typ), fields(element), fields(was), fresh || !exists, false)
	}
	p.found = false
	return tftypes.NewValue(typ, values)
}

// inheritedSlots plans a map that the configuration leaves out although it may be set: what is there stays, unless it
// was configured before.
func (p *planner) inheritedSlots(n *node, at string, typ tftypes.Type, prior tftypes.Value, fresh bool) tftypes.Value {
	switch {
	case fresh && p.inherits():
		return unknown(typ)
	case fresh, !has(prior):
		return null(typ)
	}
	values := map[string]tftypes.Value{}
	for key, was := range fields(prior) {
		if path := join(at, key); !p.Managed[path] {
			values[key] = p.attributes(n, path, elementType(typ), nil, fields(was), false, false)
		}
	}
	if len(values) == 0 {
		return null(typ)
	}
	return tftypes.NewValue(typ, values)
}

// touches reports whether a plan differs from the prior state in more than what the server does not know.
func (n *node) touches(planned, prior tftypes.Value) bool {
	if n.rule.Local || planned.Equal(prior) {
		return false
	}
	if n.kind == leaf || !has(planned) || !has(prior) {
		return true
	}
	after, before := fields(planned), fields(prior)
	if len(after) != len(before) {
		return true
	}
	for name, value := range after {
		child := n.children[name]
		if n.kind == slots {
			child = n.slot()
		}
		was, ok := before[name]
		if !ok || child.touches(value, was) {
			return true
		}
	}
	return false
}

// refreshed makes the volatile attributes of a plan that changes something unknown.
func (n *node) refreshed(value, config tftypes.Value) tftypes.Value {
	typ := value.Type()
	if n.rule.Volatile && !has(config) {
		return unknown(typ)
	}
	if n.kind == leaf || !has(value) {
		return value
	}
	wanted, values := fields(config), fields(value)
	for name, v := range values {
		child := n.children[name]
		if n.kind == slots {
			child = n.slot()
		}
		c, ok := wanted[name]
		if !ok {
			c = null(v.Type())
		}
		values[name] = child.refreshed(v, c)
	}
	return tftypes.NewValue(typ, values)
}

// same reports whether two known values mean the same to the server.
func (n *node) same(a, b tftypes.Value) bool {
	if !has(a) || !has(b) {
		return false
	}
	return a.Equal(b) || n.rule.Same != nil && a.IsFullyKnown() && b.IsFullyKnown() && n.rule.Same(a, b)
}
