package lint

import (
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// value is an expression that stands for a value of the configuration, or for the type of a variable.
type value struct {
	expr hclsyntax.Expression
	in   *scope
	via  []reach

	of *variable // the variable, if expr is its type or a part of that
	at []string  // the part
}

// reach is a name through which a value was reached, and the path of the value in it.
type reach struct {
	root root
	path []string
}

// root is the name of a value in a module: "local.nets", "var.nets". Without a name it is the element of a collection.
type root struct {
	in   *module
	name string
}

// scope says what names mean where an expression stands.
type scope struct {
	in       *module
	elements map[string]value // the collection behind each name: of for, or "each" of a block
}

// below returns the value under a key.
func (v value) below(e hclsyntax.Expression, key string) value {
	made := value{expr: e, in: v.in, of: v.of, at: append(slices.Clone(v.at), key)}
	for _, r := range v.via {
		made.via = append(made.via, reach{r.root, append(slices.Clone(r.path), key)})
	}
	return made
}

// as returns the same value as another expression says it.
func (v value) as(e hclsyntax.Expression) value {
	v.expr = e
	return v
}

// through adds the names of another value to those of this one.
func (v value) through(outer []reach) value {
	v.via = append(slices.Clone(outer), v.via...)
	return v
}

// maxDepth bounds a chain of references. Terraform reports a cycle; c.active ends all but those that grow.
const maxDepth = 200

// descend finds the values at a path below a value, and hands each to then. It passes through references.
func (c *checker) descend(v value, steps []string, then func(value)) {
	if c.depth++; c.depth <= maxDepth && v.expr != nil {
		c.pass(v, steps, then)
	}
	c.depth--
}

func (c *checker) pass(v value, steps []string, then func(value)) {
	if v.of != nil {
		c.descendType(v, steps, then)
		return
	}
	switch e := v.expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		c.descend(v.as(e.Expression), steps, then)
	case *hclsyntax.TemplateWrapExpr:
		c.descend(v.as(e.Wrapped), steps, then)
	case *hclsyntax.ConditionalExpr:
		c.descend(v.as(e.TrueResult), steps, then)
		c.descend(v.as(e.FalseResult), steps, then)
	case *hclsyntax.FunctionCallExpr:
		c.passCall(v, e, steps, then)
	case *hclsyntax.ScopeTraversalExpr:
		c.refer(v, stepsOf(e.Traversal[1:]), func(w value) { c.descend(w, steps, then) })
	case *hclsyntax.RelativeTraversalExpr:
		c.part(v, e.Source, stepsOf(e.Traversal), steps, then)
	case *hclsyntax.IndexExpr:
		step := anyStep
		if key, ok := literal(e.Key); ok {
			step = key
		}
		c.part(v, e.Collection, []string{step}, steps, then)
	default:
		c.enter(v, steps, then)
	}
}

// part descends into a part of another expression, and from there on.
func (c *checker) part(v value, from hclsyntax.Expression, part, steps []string, then func(value)) {
	c.descend(value{expr: from, in: v.in}, part, func(w value) { c.descend(w.through(v.via), steps, then) })
}

// passCall goes on with the arguments of functions that return them.
func (c *checker) passCall(v value, e *hclsyntax.FunctionCallExpr, steps []string, then func(value)) {
	switch e.Name {
	case "merge", "concat", "try", "coalesce", "coalescelist", "tomap", "tolist", "toset", "sensitive", "nonsensitive":
	default:
		c.enter(v, steps, then)
		return
	}
	for i, arg := range e.Args {
		if e.ExpandFinal && i == len(e.Args)-1 {
			c.part(v, arg, []string{anyStep}, steps, then)
			continue
		}
		c.descend(v.as(arg), steps, then)
	}
}

// enter takes the first step into a value that stands here.
func (c *checker) enter(v value, steps []string, then func(value)) {
	if len(steps) == 0 {
		then(v)
		return
	}
	switch e := v.expr.(type) {
	case *hclsyntax.ObjectConsExpr:
		for _, item := range e.Items {
			key, ok := literal(item.KeyExpr)
			if !ok {
				key = anyStep
			}
			if steps[0] == key || steps[0] == anyStep {
				c.descend(v.below(item.ValueExpr, key), steps[1:], then)
			}
		}
	case *hclsyntax.TupleConsExpr:
		for _, element := range e.Exprs {
			c.descend(v.below(element, anyStep), steps[1:], then)
		}
	case *hclsyntax.ForExpr:
		if !e.Group {
			c.descend(c.produced(v, e), steps[1:], then)
		}
	}
}

// produced is the value that each turn of a for expression gives.
func (c *checker) produced(v value, e *hclsyntax.ForExpr) value {
	inner := &scope{in: v.in.in, elements: map[string]value{}}
	for name, collection := range v.in.elements {
		inner.elements[name] = collection
	}
	delete(inner.elements, e.KeyVar)
	inner.elements[e.ValVar] = value{expr: e.CollExpr, in: v.in}
	made := v.below(e.ValExpr, anyStep)
	made.in = inner
	return made
}

// refer resolves a name with the steps behind it.
func (c *checker) refer(v value, steps []string, then func(value)) {
	e, ok := v.expr.(*hclsyntax.ScopeTraversalExpr)
	if !ok {
		return
	}
	if c.active[e] {
		return
	}
	c.active[e] = true
	defer delete(c.active, e)
	on := func(w value) { then(w.through(v.via)) }
	name := e.Traversal.RootName()
	if collection, ok := v.in.elements[name]; ok {
		if name == "each" {
			if len(steps) == 0 || steps[0] != "value" {
				return
			}
			steps = steps[1:]
		}
		c.followed[e] = true
		collection.via = append(slices.Clone(collection.via), reach{root: root{in: v.in.in}})
		c.descend(collection, append([]string{anyStep}, steps...), on)
		return
	}
	if len(steps) == 0 {
		return
	}
	via := []reach{{root: root{v.in.in, name + "." + steps[0]}}}
	switch found := v.in.in.variables[steps[0]]; {
	case name == "local" && v.in.in.locals[steps[0]] != nil:
		c.followed[e] = true
		c.descend(value{expr: v.in.in.locals[steps[0]], in: &scope{in: v.in.in}, via: via}, steps[1:], on)
	case name == "var" && found != nil && found.typ != nil:
		c.followed[e] = true
		c.descend(value{expr: found.typ, in: &scope{in: v.in.in}, via: via, of: found}, steps[1:], on)
	case name == "var" && found != nil:
		c.followed[e] = true
		for _, source := range found.values() {
			c.descend(source.through(via), steps[1:], on)
		}
	default:
		c.missed(e.Range())
	}
}
