package lint

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// checker compares the modules with the schema.
type checker struct {
	schema   *Schema
	depth    int
	active   map[hclsyntax.Expression]bool // references that are being followed
	followed map[hclsyntax.Expression]bool
	known    map[hcl.Range]bool // keys that are right somewhere
	unjudged map[hcl.Range]bool // places of values and keys
	found    []candidate
}

// candidate is a finding, if nothing else reads the key.
type candidate struct {
	Finding
	via []reach
	key hcl.Range
}

// meta are the arguments and blocks that Terraform has for every block of a kind.
func meta(kind string) []string {
	switch kind {
	case "provider":
		return []string{"alias", "version"}
	case "list", "action":
		return []string{"config", "count", "for_each", "provider", "limit", "include_resource", "depends_on", "lifecycle"}
	default:
		return []string{"count", "for_each", "provider", "depends_on", "lifecycle", "connection", "provisioner", "dynamic",
			"provisioners"}
	}
}

// block compares one block, if it is of this provider.
func (c *checker) block(b *block) {
	want := c.wanted(b)
	if want == nil {
		return
	}
	where := strings.Join(b.labels, ".")
	switch b.kind {
	case "provider":
		where = `provider "` + b.label() + `"`
	case "list", "action":
		for _, config := range b.inner("config") {
			c.arguments(config, b.scope(), want, site{address: b.kind + "." + where, object: b.label()}, nil)
		}
		return
	case "resource":
	default:
		where = b.kind + "." + where
	}
	c.arguments(b, b.scope(), want, site{address: where, object: b.label()}, meta(b.kind))
}

// wanted returns the shape of a block, nil for one of another provider.
func (c *checker) wanted(b *block) *shape {
	if b.kind == "provider" {
		if c.isOurs(b.in, b.label()) {
			return c.schema.provider
		}
		return nil
	}
	local, _, _ := strings.Cut(b.label(), "_")
	if a, ok := b.attributes["provider"]; ok {
		traversal, diags := hcl.AbsTraversalForExpr(a.value)
		if diags.HasErrors() {
			if traversal = traversalIn(a.value); traversal == nil {
				return nil
			}
		}
		local = traversal.RootName()
	}
	if !c.isOurs(b.in, local) {
		return nil
	}
	return c.schema.types[b.kind][b.label()]
}

// traversalIn reads a reference that JSON writes as a text: "proxmox.alias".
func traversalIn(e hclsyntax.Expression) hcl.Traversal {
	text, ok := literal(e)
	if !ok {
		return nil
	}
	traversal, diags := hclsyntax.ParseTraversalAbs([]byte(text), "", hcl.InitialPos)
	if diags.HasErrors() {
		return nil
	}
	return traversal
}

// isOurs reports whether a local name of a module means this provider.
func (c *checker) isOurs(m *module, local string) bool {
	if source := m.sources[local]; source != "" {
		return withoutHost(source) == c.schema.source
	}
	return local == c.schema.name
}

// site is where a value stands in the schema.
type site struct {
	address string // proxmox_vm.web
	object  string // the type
	path    []string
	form    []string // the path with "*" for keys of maps
}

func (s site) below(key string) site {
	s.path, s.form = append(slices.Clone(s.path), key), append(slices.Clone(s.form), key)
	return s
}

// belowElement is the site of an element, whose key the schema does not know.
func (s site) belowElement(key string) site {
	s.path, s.form = append(slices.Clone(s.path), key), append(slices.Clone(s.form), anyStep)
	return s
}

// arguments compares the arguments and nested blocks of a block.
func (c *checker) arguments(b *block, in *scope, want *shape, at site, besides []string) {
	for _, name := range slices.Sorted(maps.Keys(b.attributes)) {
		a := b.attributes[name]
		if slices.Contains(besides, name) {
			continue
		}
		if inner := c.key(name, a.at, nil, want, at); inner != nil {
			c.check(value{expr: a.value, in: in}, inner, at.below(name))
		}
	}
	for _, nested := range b.blocks {
		if slices.Contains(besides, nested.kind) {
			continue
		}
		if inner := c.key(nested.kind, nested.at, nil, want, at); inner != nil && inner.kind == object {
			c.arguments(nested, in, inner, at.below(nested.kind), nil)
		}
	}
}

// check compares the keys of a value with the shape that it should have.
func (c *checker) check(v value, want *shape, at site) {
	if !want.hasKeys() {
		return
	}
	c.descend(v, nil, func(v value) {
		if v.of != nil {
			c.checkType(v, want, at)
			return
		}
		switch e := v.expr.(type) {
		case *hclsyntax.ObjectConsExpr:
			for _, item := range e.Items {
				key, ok := literal(item.KeyExpr)
				switch {
				case ok:
					c.item(v, key, item, want, at)
				case want.kind == mapping:
					c.item(v, anyStep, item, want, at)
				default:
					c.missed(item.KeyExpr.Range())
				}
			}
		case *hclsyntax.TupleConsExpr:
			if want.kind == list {
				for _, element := range e.Exprs {
					c.check(v.below(element, anyStep), want.elem, at.below(anyStep))
				}
			}
		case *hclsyntax.ForExpr:
			if want.elem != nil && !e.Group {
				c.check(c.produced(v, e), want.elem, at.below(anyStep))
			} else {
				c.missed(e.Range())
			}
		case *hclsyntax.LiteralValueExpr, *hclsyntax.TemplateExpr: // null, or what Terraform refuses
		default:
			c.missed(e.Range())
		}
	})
}

// item compares one key of an object, and goes on with its value.
func (c *checker) item(v value, key string, item hclsyntax.ObjectConsItem, want *shape, at site) {
	switch want.kind {
	case object:
		if inner := c.key(key, item.KeyExpr.Range(), v.via, want, at); inner != nil {
			c.check(v.below(item.ValueExpr, key), inner, at.below(key))
		}
	case mapping:
		c.check(v.below(item.ValueExpr, key), want.elem, at.belowElement(key))
	}
}

// checkType compares the declared type of a variable.
func (c *checker) checkType(v value, want *shape, at site) {
	call, ok := v.expr.(*hclsyntax.FunctionCallExpr)
	switch {
	case !ok:
	case call.Name == "object":
		for key, item := range typesOf(call) {
			c.item(v, key, item, want, at)
		}
	case isCollection(call) && want.elem != nil:
		c.check(v.below(call.Args[0], anyStep), want.elem, at.below(anyStep))
	case isCollection(call): // a map in the place of an object: its keys are in the values
		c.descendValues(v, func(w value) { c.check(w, want, at) })
	}
}

// missed notes a value that could not be followed, or a key that something else may read.
func (c *checker) missed(at hcl.Range) { c.unjudged[at] = true }
