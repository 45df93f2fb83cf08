package terraformtest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// scope is what expressions can refer to during one walk: variables, locals and the objects known so far.
type scope struct {
	m    *module
	vars map[string]cty.Value
	own  map[string]function.Function // the provider's

	mu     sync.Mutex
	values map[string]cty.Value // by block
}

func newScope(m *module, vars map[string]cty.Value) (*scope, error) {
	sc := &scope{m: m, vars: map[string]cty.Value{}, values: map[string]cty.Value{}}
	for name := range vars {
		if _, ok := m.variables[name]; !ok {
			return nil, fmt.Errorf("no variable %q is declared", name)
		}
	}
	for name, def := range m.variables {
		switch v, ok := vars[name]; {
		case ok:
			sc.vars[name] = v
		case def == nil:
			return nil, fmt.Errorf("variable %q has no value", name)
		default:
			v, diags := def.Value(nil)
			if diags.HasErrors() {
				return nil, diags
			}
			sc.vars[name] = v
		}
	}
	return sc, nil
}

// set makes the objects of a block known: by instance key, "" for the only one.
func (s *scope) set(b *block, keys []instanceKey, vals map[string]cty.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case b.count == nil && b.forEach == nil:
		s.values[b.addr] = vals[""]
	case b.count != nil:
		list := make([]cty.Value, len(keys))
		for i, k := range keys {
			list[i] = vals[k.suffix]
		}
		s.values[b.addr] = cty.TupleVal(list)
	default:
		obj := make(map[string]cty.Value, len(keys))
		for _, k := range keys {
			obj[k.each["key"].AsString()] = vals[k.suffix]
		}
		s.values[b.addr] = cty.ObjectVal(obj)
	}
}

// context is the evaluation context for an expression that refers to ts.
func (s *scope) context(ts []hcl.Traversal, extra map[string]cty.Value) (*hcl.EvalContext, error) {
	if err := s.m.undeclared(ts); err != nil {
		return nil, err
	}
	roots := map[string]cty.Value{"var": cty.ObjectVal(s.vars)}
	locals := map[string]cty.Value{}
	for _, t := range ts {
		name, ok := "", false
		if t.RootName() == "local" && len(t) > 1 {
			name, ok = attrStep(t[1])
		}
		if !ok {
			continue
		}
		v, err := s.eval(s.m.locals[name], nil)
		if err != nil {
			return nil, err
		}
		locals[name] = v
	}
	roots["local"] = cty.ObjectVal(locals)
	types := map[string]map[string]cty.Value{}
	data := map[string]map[string]cty.Value{}
	s.mu.Lock()
	for addr, b := range s.m.blocks {
		v, ok := s.values[addr]
		if !ok {
			v = cty.DynamicVal
		}
		into := types
		if b.data {
			into = data
		}
		if into[b.typ] == nil {
			into[b.typ] = map[string]cty.Value{}
		}
		into[b.typ][b.name] = v
	}
	s.mu.Unlock()
	for typ, objs := range types {
		roots[typ] = cty.ObjectVal(objs)
	}
	dataTypes := map[string]cty.Value{}
	for typ, objs := range data {
		dataTypes[typ] = cty.ObjectVal(objs)
	}
	roots["data"] = cty.ObjectVal(dataTypes)
	maps.Copy(roots, extra)
	known := functions()
	maps.Copy(known, s.own)
	return &hcl.EvalContext{Variables: roots, Functions: known}, nil
}

func (s *scope) eval(e hcl.Expression, extra map[string]cty.Value) (cty.Value, error) {
	ctx, err := s.context(e.Variables(), extra)
	if err != nil {
		return cty.NilVal, err
	}
	v, diags := e.Value(ctx)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	return v, nil
}

// instanceKey is one instance of a block: its suffix ("", "[0]", `["a"]`) and what its expressions see of it.
type instanceKey struct {
	suffix string
	each   map[string]cty.Value // for_each: key, value
	count  cty.Value
}

// variables are the instance's own variables in an evaluation.
func (i instanceKey) variables() map[string]cty.Value {
	switch {
	case i.each != nil:
		return map[string]cty.Value{"each": cty.ObjectVal(i.each)}
	case i.count != cty.NilVal:
		return map[string]cty.Value{"count": cty.ObjectVal(map[string]cty.Value{"index": i.count})}
	}
	return nil
}

// instances expands count and for_each.
func (s *scope) instances(b *block) ([]instanceKey, error) {
	switch {
	case b.count != nil:
		v, err := s.eval(b.count, nil)
		if err == nil {
			v, err = convert.Convert(v, cty.Number)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: count: %w", b.addr, err)
		}
		if v.IsNull() || !v.IsKnown() {
			return nil, fmt.Errorf("%s: count must be known", b.addr)
		}
		n, _ := v.AsBigFloat().Int64()
		var keys []instanceKey
		for i := range n {
			keys = append(keys, instanceKey{suffix: fmt.Sprintf("[%d]", i), count: cty.NumberIntVal(i)})
		}
		return keys, nil
	case b.forEach != nil:
		v, err := s.eval(b.forEach, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: for_each: %w", b.addr, err)
		}
		if v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
			return nil, fmt.Errorf("%s: for_each must be a known map or set", b.addr)
		}
		var keys []instanceKey
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			if k.Type() != cty.String {
				return nil, fmt.Errorf("%s: for_each must be a map or a set of strings", b.addr)
			}
			keys = append(keys, instanceKey{suffix: fmt.Sprintf("[%q]", k.AsString()), each: map[string]cty.Value{"key": k, "value": e}})
		}
		return keys, nil
	}
	return []instanceKey{{}}, nil
}

// object evaluates attributes to a value of the schema's type. Unlike Terraform it refuses unknown names inside of
// nested attributes too, which makes typing errors in tests show.
func (s *scope) object(schema *objchange.Object, attrs hcl.Attributes, extra map[string]cty.Value) (cty.Value, Diagnostics) {
	var out Diagnostics
	vals := map[string]cty.Value{}
	for _, name := range schema.Names {
		vals[name] = cty.NullVal(schema.Attrs[name].Typ)
	}
	for _, name := range sortedKeys(attrs) {
		at := schema.Attrs[name]
		if at == nil {
			out = append(out, configError(name, "Unsupported argument", "The schema has no such attribute."))
			continue
		}
		raw, err := s.eval(attrs[name].Expr, extra)
		if err == nil {
			err = noStrayNames(at, raw)
		}
		v := raw
		if err == nil {
			v, err = convert.Convert(raw, at.ConfigType())
		}
		if err != nil {
			out = append(out, evalErrors(name, err)...)
			continue
		}
		if v.IsNull() {
			v = cty.NullVal(at.Typ)
		}
		if !v.IsKnown() {
			v = cty.UnknownVal(at.Typ)
		}
		vals[name] = v
	}
	for _, name := range schema.Names {
		if schema.Attrs[name].Required && vals[name].IsNull() {
			out = append(out, configError(name, "Missing required argument", "A value is required."))
		}
	}
	return cty.ObjectVal(vals), out
}

// evalErrors are the diagnostics of an expression that has no value, or one of another type.
func evalErrors(attr string, err error) Diagnostics {
	var said hcl.Diagnostics
	if !errors.As(err, &said) {
		return Diagnostics{configError(attr, "Incorrect attribute value type", err.Error())}
	}
	var out Diagnostics
	for _, d := range said {
		if d.Severity == hcl.DiagError {
			out = append(out, configError(attr, d.Summary, d.Detail))
		}
	}
	return out
}

func configError(attr, summary, detail string) Diagnostic {
	return Diagnostic{Error: true, Summary: summary, Detail: detail, Attribute: attr, RPC: "configuration"}
}

// noStrayNames refuses names that a nested attribute does not have.
func noStrayNames(a *objchange.Attribute, v cty.Value) error {
	if a.Nested == nil || v.IsNull() || !v.IsKnown() {
		return nil
	}
	objs := []cty.Value{v}
	if wrapped := objchange.Wrap(a.Nesting, cty.String) != cty.String; wrapped {
		if !v.CanIterateElements() {
			return nil
		}
		objs = nil
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			objs = append(objs, e)
		}
	}
	for _, o := range objs {
		if !o.IsKnown() || o.IsNull() || !o.Type().IsObjectType() {
			continue
		}
		for name := range o.Type().AttributeTypes() {
			child := a.Nested.Attrs[name]
			if child == nil {
				return fmt.Errorf("no attribute %q here; there are %s", name, strings.Join(a.Nested.Names, ", "))
			}
			if err := noStrayNames(child, o.GetAttr(name)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}
