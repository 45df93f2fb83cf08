package plan

import (
	"context"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Rule holds the peculiarities of one attribute. An attribute with the zero Rule is null on the server until it is set.
// It is reset when it leaves the configuration, and no change of another attribute changes it.
type Rule struct {
	// KeepOnRemoval: the value stays when it leaves the configuration, since there is no value to reset it to.
	KeepOnRemoval bool
	// ServerChooses: without configuration the server chooses a value at creation.
	ServerChooses bool
	// Volatile: computed, and any change of the resource may change it.
	Volatile bool
	// OnlyInState: the server does not have it; a refresh keeps the value in state.
	OnlyInState bool
	// MayBeUnreported: the server takes the value but may not report it; then a refresh keeps the value in state.
	MayBeUnreported bool
	// NullStays: a refresh keeps a null in state although the server has a value.
	NullStays bool
	// MayBeAbsent: a group that as a whole may be missing on the server; its null is told from a group of nulls.
	MayBeAbsent bool
	// OneObject: a MayBeAbsent group that is one object on the server, so it is removed as a whole.
	OneObject bool
	// Same reports whether two known values mean the same; nil: only if they are equal.
	Same func(a, b tftypes.Value) bool
	// EmptyIsAbsent: a list or set of which the server, unlike Terraform, does not tell an empty one from an absent one.
	EmptyIsAbsent bool
	// Default is the server's default, if the server prints nothing for it. The zero Value: unknown or none.
	Default tftypes.Value
}

type kind int

const (
	leaf  kind = iota
	group      // nested object
	slots      // map of nested objects
)

// node is one attribute for the planner.
type node struct {
	rule      Rule
	kind      kind
	optional  bool // or required
	required  bool
	computed  bool
	writeOnly bool
	decimal   bool // a number that is not always whole
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
		case schema.Float64Attribute:
			n.decimal = true
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

// Rules returns the paths of all attributes, so that a test can find a rule that matches none.
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

// Same reports whether two values of an attribute at the top level mean the same to the server.
func (s Shape) Same(name string, a, b tftypes.Value) bool {
	return a.Equal(b) || s.root.children[name].same(a, b)
}

// slot is the object in a map of slots.
func (n *node) slot() *node { return &node{kind: group, optional: true, children: n.children} }

// same reports whether two known values mean the same to the server.
func (n *node) same(a, b tftypes.Value) bool {
	if !has(a) || !has(b) {
		return false
	}
	return a.Equal(b) || n.decimal && sameDecimal(a, b) ||
		n.rule.Same != nil && a.IsFullyKnown() && b.IsFullyKnown() && n.rule.Same(a, b)
}

// sameDecimal compares numbers as they are sent; one of the configuration has more digits than a float64.
func sameDecimal(a, b tftypes.Value) bool {
	var x, y *big.Float
	if a.As(&x) != nil || b.As(&y) != nil || x == nil || y == nil {
		return false
	}
	p, _ := x.Float64()
	q, _ := y.Float64()
	return p == q
}
