package tfplan

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Rule says what sets one attribute apart. The zero Rule is an attribute which is null on the server as long as nobody
// sets it, which is reset when it is taken out of the configuration, and which only a change of itself changes.
type Rule struct {
	// KeepOnRemoval: taken out of the configuration, the value stands, since there is nothing to reset it to.
	KeepOnRemoval bool
	// ServerChooses: where it is not configured the server chooses a value at creation.
	ServerChooses bool
	// Volatile: computed, and any change of the resource may change it.
	Volatile bool
	// OnlyInState: a wish or a memory that the server does not have; a refresh leaves it as it is in state.
	OnlyInState bool
	// MayBeUnreported: the server takes the value but need not say it afterwards; then a refresh leaves what is in state.
	MayBeUnreported bool
	// NullStays: a refresh leaves it null where state says null, although the server has a value.
	NullStays bool
	// MayBeAbsent: a group that as a whole may be missing on the server; its null is told from a group of nulls.
	MayBeAbsent bool
	// OneObject: a MayBeAbsent group that is one object on the server, so it is removed as a whole.
	OneObject bool
	// Same reports whether two known values mean the same; nil: only if they are equal.
	Same func(a, b tftypes.Value) bool
	// Default is the server's default, when it prints nothing for it. The zero Value: unknown or none.
	Default tftypes.Value
}

type kind int

const (
	leaf  kind = iota
	group      // nested object
	slots      // map of nested objects
)

// node is one attribute as the planner sees it.
type node struct {
	rule      Rule
	kind      kind
	optional  bool // or required
	required  bool
	computed  bool
	writeOnly bool
	children  map[string]*node
}

// Shape is a resource schema together with the rules of its attributes. It computes plans and states, attribute by
// attribute, in the same way for every resource:
//
//   - never configured = left alone: the plan takes the value in state;
//   - configured before and now absent = reset: the plan says null;
//   - a slot that is neither configured nor managed is forgotten.
type Shape struct {
	root *node
	typ  tftypes.Type
}

// NewShape builds the Shape of a schema. The keys of rules are paths with "*" for every map key: "disks.*.size".
func NewShape(ctx context.Context, s schema.Schema, rules map[string]Rule) Shape {
	return Shape{
		root: &node{kind: group, optional: true, children: nodes(s.Attributes, "", rules)},
		typ:  s.Type().TerraformType(ctx),
	}
}

func nodes(attributes map[string]schema.Attribute, prefix string, rules map[string]Rule) map[string]*node {
	all := make(map[string]*node, len(attributes))
	for name, attribute := range attributes {
		at := join(prefix, name)
		n := &node{
			rule:      rules[at],
			optional:  attribute.IsOptional() || attribute.IsRequired(),
			required:  attribute.IsRequired(),
			computed:  attribute.IsComputed(),
			writeOnly: attribute.IsWriteOnly(),
		}
		switch nested := attribute.(type) {
		case schema.SingleNestedAttribute:
			if n.optional {
				n.kind, n.children = group, nodes(nested.Attributes, at, rules)
			}
		case schema.MapNestedAttribute:
			if n.optional {
				n.kind, n.children = slots, nodes(nested.NestedObject.Attributes, at+".*", rules)
			}
		}
		all[name] = n
	}
	return all
}

// Rules lists the paths of all attributes, so that a test can tell a rule that matches nothing.
func (s Shape) Rules() map[string]bool {
	all := map[string]bool{}
	collect(s.root, "", all)
	return all
}

func collect(n *node, at string, all map[string]bool) {
	for name, child := range n.children {
		path := join(at, name)
		all[path] = true
		if child.kind == slots {
			path += ".*"
		}
		collect(child, path, all)
	}
}

// slot is the object in a map of slots.
func (n *node) slot() *node { return &node{kind: group, optional: true, children: n.children} }

// same reports whether two known values mean the same to the server.
func (n *node) same(a, b tftypes.Value) bool {
	if !has(a) || !has(b) {
		return false
	}
	return a.Equal(b) || n.rule.Same != nil && a.IsFullyKnown() && b.IsFullyKnown() && n.rule.Same(a, b)
}
