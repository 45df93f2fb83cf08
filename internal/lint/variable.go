package lint

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// values are the places that a variable has its values from: its default, files, and the arguments of module calls.
func (v *variable) values() []value {
	var all []value
	for _, e := range append([]hclsyntax.Expression{v.value}, v.files...) {
		if e != nil {
			all = append(all, value{expr: e, in: &scope{in: v.in}})
		}
	}
	for _, caller := range v.in.callers {
		if a, ok := caller.attributes[v.name]; ok {
			all = append(all, value{expr: a.value, in: caller.scope()})
		}
	}
	return all
}

// scope says what names mean in the arguments of a block.
func (b *block) scope() *scope {
	s := &scope{in: b.in, elements: map[string]value{}}
	if a, ok := b.attributes["for_each"]; ok {
		s.elements["each"] = value{expr: a.value, in: &scope{in: b.in}}
	}
	return s
}

// descendType finds the types at a path below a type. Where the type says nothing of a value, it goes on with the
// values of the variable. A declared type converts them, so their other keys are Terraform's business.
func (c *checker) descendType(v value, steps []string, then func(value)) {
	call, ok := v.expr.(*hclsyntax.FunctionCallExpr)
	switch {
	case hcl.ExprAsKeyword(v.expr) == "any":
		c.descendValues(v, func(w value) { c.descend(w, steps, then) })
	case !ok || len(call.Args) == 0:
	case call.Name == "optional":
		c.descend(v.as(call.Args[0]), steps, then)
	case len(steps) == 0:
		then(v)
	case call.Name == "object":
		for key, item := range typesOf(call) {
			if steps[0] == key || steps[0] == anyStep {
				c.descend(v.below(item.ValueExpr, key), steps[1:], then)
			}
		}
	case isCollection(call):
		c.descend(v.below(call.Args[0], steps[0]), steps[1:], then)
	}
}

// descendValues finds the values of a variable at the part of its type.
func (c *checker) descendValues(v value, then func(value)) {
	own := root{v.of.in, "var." + v.of.name}
	outer := slices.DeleteFunc(slices.Clone(v.via), func(r reach) bool { return r.root == own })
	for _, source := range v.of.values() {
		c.descend(source.through([]reach{{root: own}}), v.at, func(w value) { then(w.through(outer)) })
	}
}

func isCollection(call *hclsyntax.FunctionCallExpr) bool {
	return call.Name == "map" || call.Name == "list" || call.Name == "set"
}

// typesOf are the attributes of an object type, with the place of each.
func typesOf(call *hclsyntax.FunctionCallExpr) map[string]hclsyntax.ObjectConsItem {
	items := map[string]hclsyntax.ObjectConsItem{}
	if o, ok := call.Args[0].(*hclsyntax.ObjectConsExpr); ok {
		for _, item := range o.Items {
			if key, ok := literal(item.KeyExpr); ok {
				items[key] = item
			}
		}
	}
	return items
}
