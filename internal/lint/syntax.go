package lint

import (
	"encoding/json"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// file is one parsed file. Expressions of JSON are translated into those of the native syntax, so that the rest of the
// package knows one form.
type file struct {
	name string
	body hcl.Body
	text []byte
}

// syntax returns an expression in the native syntax.
func (f file) syntax(e hcl.Expression) hclsyntax.Expression {
	if native, ok := e.(hclsyntax.Expression); ok {
		return native
	}
	if pairs, diags := hcl.ExprMap(e); !diags.HasErrors() {
		made := &hclsyntax.ObjectConsExpr{SrcRange: e.Range()}
		for _, pair := range pairs {
			key, diags := pair.Key.Value(nil)
			if diags.HasErrors() {
				continue // a key that is computed
			}
			made.Items = append(made.Items, hclsyntax.ObjectConsItem{ValueExpr: f.syntax(pair.Value),
				KeyExpr: &hclsyntax.LiteralValueExpr{Val: key, SrcRange: pair.Key.Range()}})
		}
		return made
	}
	if elements, diags := hcl.ExprList(e); !diags.HasErrors() {
		made := &hclsyntax.TupleConsExpr{SrcRange: e.Range()}
		for _, element := range elements {
			made.Exprs = append(made.Exprs, f.syntax(element))
		}
		return made
	}
	return f.scalar(e)
}

// scalar returns a text of JSON as the template that it is. Other scalars have no keys.
func (f file) scalar(e hcl.Expression) hclsyntax.Expression {
	r := e.Range()
	nothing := &hclsyntax.LiteralValueExpr{Val: cty.NullVal(cty.DynamicPseudoType), SrcRange: r}
	if !r.CanSliceBytes(f.text) {
		return nothing
	}
	var text string
	if json.Unmarshal(r.SliceBytes(f.text), &text) != nil {
		return nothing
	}
	start := hcl.Pos{Line: r.Start.Line, Column: r.Start.Column + 1, Byte: r.Start.Byte + 1}
	template, diags := hclsyntax.ParseTemplate([]byte(text), f.name, start)
	if diags.HasErrors() {
		return nothing
	}
	return template
}

// literal returns the text that an expression is, if it is one without evaluation.
func literal(e hclsyntax.Expression) (string, bool) {
	v, diags := e.Value(nil)
	if diags.HasErrors() || v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}

// anyStep is a step into each element of a collection.
const anyStep = "*"

// stepsOf are the keys of a traversal.
func stepsOf(t hcl.Traversal) []string {
	steps := []string{}
	for _, step := range t {
		switch step := step.(type) {
		case hcl.TraverseAttr:
			steps = append(steps, step.Name)
		case hcl.TraverseIndex:
			steps = append(steps, indexStep(step.Key))
		default:
			steps = append(steps, anyStep)
		}
	}
	return steps
}

func indexStep(key cty.Value) string {
	if key.Type() == cty.String && key.IsKnown() && !key.IsNull() {
		return key.AsString()
	}
	return anyStep
}

// walker visits every expression below one.
type walker struct{ visit func(hclsyntax.Expression) }

func (w walker) Enter(n hclsyntax.Node) hcl.Diagnostics {
	if e, ok := n.(hclsyntax.Expression); ok {
		w.visit(e)
	}
	return nil
}

func (w walker) Exit(hclsyntax.Node) hcl.Diagnostics { return nil }

func walk(e hclsyntax.Expression, visit func(hclsyntax.Expression)) {
	_ = hclsyntax.Walk(e, walker{visit}) // it returns what Enter and Exit return
}
