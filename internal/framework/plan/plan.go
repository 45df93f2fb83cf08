package plan

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/value"
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

// Input is the input of a plan.
type Input struct {
	Config  tftypes.Value
	Prior   tftypes.Value // null: to be created
	Managed Managed
	// Inherits: the new object starts as a copy, so attributes without configuration are unknown.
	Inherits bool
	// MayExist reports whether the server may have a slot that is new in state, such as "disks.scsi1". Its attributes
	// without configuration are unknown then. Nil: it may.
	MayExist func(slot string) bool
}

// planner walks over a schema. It records the slots that it forgets.
type planner struct {
	Input
	creating  bool
	forgotten []string
}

// spot is one attribute on the walk.
type spot struct {
	*node
	at            string // its path
	config, prior tftypes.Value
	surroundings
}

// surroundings are the effects of an attribute's parents on it.
type surroundings struct {
	fresh   bool // the object that it stands in does not exist yet
	removed bool // the group that it stands in left the configuration
	// what is not configured is not known: the server has it from a copy, or from a slot that the state does not know
	inherits bool
}

// Plan computes the planned resource. It is pure.
func (s Shape) Plan(in Input) Planned {
	p := &planner{Input: in, creating: !has(in.Prior)}
	root := spot{node: s.root, config: in.Config, prior: in.Prior}
	planned := p.attributes(root, s.typ, surroundings{fresh: p.creating, inherits: p.creating && in.Inherits})
	out := Planned{Value: planned, Changed: p.creating || !value.Equal(planned, in.Prior)}
	if out.Changed && !p.creating && s.root.changesServer(planned, in.Prior) {
		out.Value = s.root.withVolatileUnknown(planned, in.Config)
	}
	slices.Sort(p.forgotten)
	out.Forgotten = p.forgotten
	return out
}

// attributes plans all attributes of one object of type typ; in are their nodes.
func (p *planner) attributes(object spot, typ tftypes.Type, in surroundings) tftypes.Value {
	config, prior := fields(object.config), fields(object.prior)
	values := make(map[string]tftypes.Value, len(object.children))
	for name, child := range object.children {
		t := attributeType(typ, name)
		values[name] = p.attribute(spot{node: child, at: join(object.at, name), config: valueOr(config, name, null(t)),
			prior: valueOr(prior, name, null(t)), surroundings: in})
	}
	return tftypes.NewValue(typ, values)
}

func (p *planner) attribute(a spot) tftypes.Value {
	switch {
	case a.writeOnly:
		return null(a.config.Type())
	case !a.config.IsKnown():
		return a.config
	}
	switch a.kind {
	case group:
		return p.group(a)
	case slots:
		return p.slots(a)
	default:
		return p.leaf(a)
	}
}

func (p *planner) leaf(a spot) tftypes.Value {
	typ := a.config.Type()
	switch {
	case !a.config.IsNull():
		if a.same(a.config, a.prior) {
			return a.prior
		}
		return a.config
	case !a.computed:
		return a.config
	case a.fresh && (!a.optional || a.rule.ServerChooses || a.inherits):
		return unknown(typ)
	case a.fresh:
		return null(typ)
	case a.optional && p.Managed[a.at] && (a.removed || !a.rule.KeepOnRemoval) && !a.isUnsaid(a.prior):
		return null(typ)
	default:
		return a.prior
	}
}

func (p *planner) group(a spot) tftypes.Value {
	typ, inside := a.config.Type(), a.surroundings
	switch {
	case !a.config.IsNull():
		inside.fresh = a.fresh || !has(a.prior)
		return p.attributes(a, typ, inside)
	case !a.computed:
		return a.config
	case a.fresh && a.inherits:
		return unknown(typ)
	case a.fresh && a.rule.MayBeAbsent, !a.fresh && !has(a.prior):
		return null(typ)
	case a.fresh:
		a.prior = tftypes.Value{}
		return p.attributes(a, typ, inside)
	case a.rule.OneObject && p.Managed[a.at]:
		return null(typ)
	}
	inside.removed = p.Managed[a.at] && a.rule.MayBeAbsent
	value := p.attributes(a, typ, inside)
	if a.rule.MayBeAbsent && a.isUnset(value) || inside.removed && a.isUnsaid(value) {
		return null(typ)
	}
	return value
}

func (p *planner) slots(a spot) tftypes.Value {
	typ := a.config.Type()
	if a.config.IsNull() && a.computed {
		return p.inheritedSlots(a)
	}
	before, wanted := fields(a.prior), fields(a.config)
	for key := range before {
		if _, ok := wanted[key]; !ok && !p.Managed[join(a.at, key)] {
			p.forgotten = append(p.forgotten, join(a.at, key))
		}
	}
	if a.config.IsNull() {
		return a.config
	}
	values := make(map[string]tftypes.Value, len(wanted))
	for key, element := range wanted {
		if !element.IsKnown() || element.IsNull() {
			values[key] = element
			continue
		}
		was, exists := before[key]
		device := spot{node: a.node, at: join(a.at, key), config: element, prior: was}
		mayBeThere := p.creating && p.Inherits || !p.creating && !exists && p.mayExist(device.at)
		values[key] = p.attributes(device, elementType(typ),
			surroundings{fresh: a.fresh || !exists, inherits: mayBeThere})
	}
	return tftypes.NewValue(typ, values)
}

func (p *planner) mayExist(slot string) bool { return p.MayExist == nil || p.MayExist(slot) }

// inheritedSlots plans a map without configuration that may have slots: they stay, unless they were configured before.
func (p *planner) inheritedSlots(a spot) tftypes.Value {
	typ := a.config.Type()
	switch {
	case a.fresh && a.inherits:
		return unknown(typ)
	case a.fresh, !has(a.prior):
		return null(typ)
	}
	values := map[string]tftypes.Value{}
	for key, was := range fields(a.prior) {
		if at := join(a.at, key); !p.Managed[at] {
			values[key] = p.attributes(spot{node: a.node, at: at, prior: was}, elementType(typ),
				surroundings{inherits: a.inherits})
		}
	}
	if len(values) == 0 {
		return null(typ)
	}
	return tftypes.NewValue(typ, values)
}

// changesServer reports whether a plan differs from the prior state in a value that the server has.
func (n *node) changesServer(planned, prior tftypes.Value) bool {
	if n.rule.OnlyInState || planned.Equal(prior) || planned.IsKnown() && n.isUnsaid(planned) && n.isUnsaid(prior) {
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
		if !ok || child.changesServer(value, was) {
			return true
		}
	}
	return false
}

// withVolatileUnknown makes the volatile attributes of a plan with a change unknown.
func (n *node) withVolatileUnknown(value, config tftypes.Value) tftypes.Value {
	if n.rule.Volatile && !has(config) {
		return unknown(value.Type())
	}
	if n.kind == leaf || !has(value) {
		return value
	}
	wanted := fields(config)
	return n.each(value, func(name string, child *node, v tftypes.Value) tftypes.Value {
		return child.withVolatileUnknown(v, valueOr(wanted, name, null(v.Type())))
	})
}
