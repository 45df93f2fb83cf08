package lint

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// topLevel are the blocks of a module that are read. The others hold expressions that may read a local or a variable.
func topLevel() *hcl.BodySchema {
	labels := map[string]int{"resource": 2, "data": 2, "ephemeral": 2, "list": 2, "action": 2, "provider": 1, "module": 1,
		"variable": 1, "output": 1, "check": 1, "locals": 0, "terraform": 0, "moved": 0, "import": 0, "removed": 0}
	schema := &hcl.BodySchema{}
	for kind, n := range labels {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: kind,
			LabelNames: []string{"type", "name"}[:min(n, 2)]})
	}
	return schema
}

func newModule(dir string, files []file) *module {
	m := &module{dir: dir, locals: map[string]hclsyntax.Expression{}, variables: map[string]*variable{},
		sources: map[string]string{}}
	for _, f := range files {
		if !isValues(f.name) {
			content, _, _ := f.body.PartialContent(topLevel()) // Terraform reports errors of its own language
			for _, b := range content.Blocks {
				m.add(f.block(b.Type, b.Labels, b.Body, b.DefRange, m))
			}
		}
	}
	for _, f := range files {
		if isValues(f.name) {
			m.addValues(f)
		}
	}
	return m
}

// isValues reports whether a file has values of variables.
func isValues(name string) bool { return strings.Contains(name, ".tfvars") }

func (m *module) addValues(f file) {
	attributes, _ := f.body.JustAttributes()
	for name, a := range attributes {
		if v := m.variables[name]; v != nil {
			v.files = append(v.files, f.syntax(a.Expr))
		}
	}
}

func (m *module) add(b *block) {
	m.blocks = append(m.blocks, b)
	switch b.kind {
	case "locals":
		for name, a := range b.attributes {
			m.locals[name] = a.value
		}
	case "variable":
		m.variables[b.label()] = &variable{name: b.label(), in: m, typ: b.attributes["type"].value,
			value: b.attributes["default"].value}
	case "terraform":
		for _, required := range b.inner("required_providers") {
			for name, a := range required.attributes {
				m.sources[name] = sourceOf(a.value)
			}
		}
	}
}

// sourceOf returns the source address of a required provider, "" if there is none.
func sourceOf(e hclsyntax.Expression) string {
	o, ok := e.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return ""
	}
	for _, item := range o.Items {
		if key, ok := literal(item.KeyExpr); ok && key == "source" {
			source, _ := literal(item.ValueExpr)
			return source
		}
	}
	return ""
}

// block reads one block. JSON does not tell blocks from arguments, so there all are arguments.
func (f file) block(kind string, labels []string, body hcl.Body, at hcl.Range, in *module) *block {
	b := &block{kind: kind, labels: labels, attributes: map[string]argument{}, at: at, in: in}
	attributes, _ := body.JustAttributes()
	for name, a := range attributes {
		b.attributes[name] = argument{at: a.NameRange, value: f.syntax(a.Expr)}
	}
	if native, ok := body.(*hclsyntax.Body); ok {
		for _, inner := range native.Blocks {
			b.blocks = append(b.blocks, f.block(inner.Type, inner.Labels, inner.Body, inner.DefRange(), in))
		}
	}
	return b
}

// inner returns the nested blocks of a kind, which JSON writes as objects.
func (b *block) inner(kind string) []*block {
	var found []*block
	for _, nested := range b.blocks {
		if nested.kind == kind {
			found = append(found, nested)
		}
	}
	written := []hclsyntax.Expression{b.attributes[kind].value}
	if tuple, ok := written[0].(*hclsyntax.TupleConsExpr); ok {
		written = tuple.Exprs
	}
	for _, e := range written {
		if o, ok := e.(*hclsyntax.ObjectConsExpr); ok {
			found = append(found, b.of(kind, o))
		}
	}
	return found
}

// of makes a block of an object of JSON.
func (b *block) of(kind string, o *hclsyntax.ObjectConsExpr) *block {
	made := &block{kind: kind, attributes: map[string]argument{}, at: o.SrcRange, in: b.in}
	for _, item := range o.Items {
		if key, ok := literal(item.KeyExpr); ok {
			made.attributes[key] = argument{at: item.KeyExpr.Range(), value: item.ValueExpr}
		}
	}
	return made
}

// expressions calls visit for each argument of a block and of those in it.
func (b *block) expressions(visit func(name string, e hclsyntax.Expression)) {
	for name, a := range b.attributes {
		visit(name, a.value)
	}
	for _, nested := range b.blocks {
		nested.expressions(visit)
	}
}
