package lint

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// uses are the references of a module, to tell whether a key that the schema does not know has another reader.
type uses struct {
	of       map[string][]use // by root: local.nets
	names    map[string]bool  // keys that an expression reads by name
	elements []use            // names of for expressions and each
}

// use is one reference.
type use struct {
	expr       hclsyntax.Expression
	path       []string
	collection bool // of a for expression or for_each, or only counted
}

// usesOf collects the references of a module.
func usesOf(m *module) *uses {
	u := &uses{of: map[string][]use{}, names: map[string]bool{}}
	turns, collections := map[string]bool{"each": true}, map[hclsyntax.Expression]bool{}
	tested := map[hclsyntax.Expression]bool{} // only whether there is a value
	var all []hclsyntax.Expression
	for _, b := range m.blocks {
		b.expressions(func(name string, e hclsyntax.Expression) {
			if name == "for_each" {
				collections[e] = true
			}
			all = append(all, e)
		})
	}
	for _, e := range all {
		walk(e, func(n hclsyntax.Expression) {
			switch n := n.(type) {
			case *hclsyntax.ForExpr:
				turns[n.ValVar], collections[n.CollExpr] = true, true
			case *hclsyntax.BinaryOpExpr:
				tested[n.LHS], tested[n.RHS] = isNull(n.RHS), isNull(n.LHS)
			case *hclsyntax.FunctionCallExpr:
				switch {
				case len(n.Args) != 1:
				case n.Name == "can":
					tested[n.Args[0]] = true
				case n.Name == "length" || n.Name == "keys":
					collections[n.Args[0]] = true
				}
			}
		})
	}
	for _, e := range all {
		walk(e, func(n hclsyntax.Expression) { u.note(n, turns, collections[n], tested[n]) })
	}
	return u
}

// isNull reports whether an expression is the word null.
func isNull(e hclsyntax.Expression) bool {
	literal, ok := e.(*hclsyntax.LiteralValueExpr)
	return ok && literal.Val.IsNull()
}

func (u *uses) note(n hclsyntax.Expression, turns map[string]bool, collection, tested bool) {
	switch n := n.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		steps := stepsOf(n.Traversal[1:])
		u.reads(steps...)
		switch name := n.Traversal.RootName(); {
		case tested:
		case turns[name]:
			if name == "each" && len(steps) > 0 {
				if steps[0] != "value" {
					return
				}
				steps = steps[1:]
			}
			u.elements = append(u.elements, use{expr: n, path: steps})
		case (name == "local" || name == "var") && len(steps) > 0:
			at := name + "." + steps[0]
			u.of[at] = append(u.of[at], use{expr: n, path: steps[1:], collection: collection})
		}
	case *hclsyntax.RelativeTraversalExpr:
		u.reads(stepsOf(n.Traversal)...)
	case *hclsyntax.IndexExpr:
		if key, ok := literal(n.Key); ok {
			u.reads(key)
		}
	case *hclsyntax.FunctionCallExpr:
		for _, arg := range n.Args {
			if text, ok := literal(arg); ok {
				u.reads(text)
			}
		}
	case *hclsyntax.SplatExpr:
		for _, t := range n.Each.Variables() {
			u.reads(stepsOf(t[1:])...)
		}
	}
}

func (u *uses) reads(names ...string) {
	for _, name := range names {
		u.names[name] = true
	}
}

// isReadElsewhere reports whether an expression beside those that were followed may read the key of a finding. A key
// that one reads by name is meant for it. One whose whole value goes elsewhere, such as to an output, was not judged.
func (c *checker) isReadElsewhere(f candidate, all map[*module]*uses) bool {
	if slices.ContainsFunc(f.via, func(r reach) bool { return all[r.root.in].names[f.Key] }) {
		return true
	}
	leaves := slices.ContainsFunc(f.via, func(r reach) bool {
		u := all[r.root.in]
		whole := slices.ContainsFunc(u.elements, func(e use) bool { return len(e.path) == 0 && !c.followed[e.expr] })
		if r.root.name == "" {
			return whole
		}
		return slices.ContainsFunc(u.of[r.root.name], func(one use) bool {
			return !c.followed[one.expr] && overlap(one.path, r.path) && (!one.collection || whole)
		})
	})
	if leaves {
		c.missed(f.key)
	}
	return leaves
}

// overlap reports whether one path may lead to a part of the other's value.
func overlap(a, b []string) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] && a[i] != anyStep && b[i] != anyStep {
			return false
		}
	}
	return true
}

// Result is the outcome for one configuration.
type Result struct {
	Findings []Finding
	Blocks   int         // of this provider
	Unjudged []hcl.Range // values that could not be followed, and keys of values that go elsewhere, too
}
