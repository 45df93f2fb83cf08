package objchange

import (
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
)

// ProposeNew merges a configuration with the prior state the way Terraform core does before it asks a provider to plan:
// what is configured is taken, what is computed and not configured stays as it was, and elements of nested collections
// are paired by key, by index, or, in sets, by what the configuration says of them. prior may be null.
func ProposeNew(schema *Object, prior, config cty.Value) cty.Value {
	if config.IsNull() {
		return prior
	}
	if prior.IsNull() {
		prior = schema.AllNull()
	}
	return proposeObject(schema, prior, config)
}

func proposeObject(o *Object, prior, config cty.Value) cty.Value {
	if config.IsNull() || !config.IsKnown() {
		return config
	}
	vals := make(map[string]cty.Value, len(o.Attrs))
	for name, a := range o.Attrs {
		p := cty.NullVal(a.Typ)
		if !prior.IsNull() {
			p = prior.GetAttr(name)
		}
		vals[name] = proposeAttr(a, p, config.GetAttr(name))
	}
	return cty.ObjectVal(vals)
}

func proposeAttr(a *Attribute, prior, config cty.Value) cty.Value {
	switch {
	case a.Computed && config.IsNull():
		// A prior value that holds something only a configuration can have given was configured before and is
		// not any more: it does not carry over.
		if a.Optional && a.Nested != nil && holdsConfigured(a, prior) {
			return config
		}
		return prior
	case a.Nested == nil || config.IsNull() || !config.IsKnown():
		return config
	}
	switch a.Nesting {
	case tfprotov6.SchemaObjectNestingModeSingle:
		return proposeObject(a.Nested, prior, config)
	case tfprotov6.SchemaObjectNestingModeSet:
		return proposeSet(a, prior, config)
	default:
		return proposeKeyed(a, prior, config)
	}
}

// proposeKeyed pairs the elements of a list or a map.
func proposeKeyed(a *Attribute, prior, config cty.Value) cty.Value {
	if config.LengthInt() == 0 {
		return config
	}
	null := cty.NullVal(a.Nested.Typ())
	list, byKey := []cty.Value{}, map[string]cty.Value{}
	for it := config.ElementIterator(); it.Next(); {
		k, c := it.Element()
		p := null
		if !prior.IsNull() && prior.HasIndex(k).True() {
			p = prior.Index(k)
		}
		v := proposeObject(a.Nested, p, c)
		list = append(list, v)
		if k.Type() == cty.String {
			byKey[k.AsString()] = v
		}
	}
	if a.Nesting == tfprotov6.SchemaObjectNestingModeMap {
		return cty.MapVal(byKey)
	}
	return cty.ListVal(list)
}

// proposeSet pairs each element of the configuration with the first unused prior element that it can have become.
func proposeSet(a *Attribute, prior, config cty.Value) cty.Value {
	if config.LengthInt() == 0 {
		return config
	}
	var priors []cty.Value
	if !prior.IsNull() {
		priors = prior.AsValueSlice()
	}
	used := make([]bool, len(priors))
	vals := make([]cty.Value, 0, config.LengthInt())
	for _, c := range config.AsValueSlice() {
		p := cty.NullVal(a.Nested.Typ())
		for i, cand := range priors {
			if !used[i] && canHaveBecome(a.Nested, c, cand) {
				p, used[i] = cand, true
				break
			}
		}
		vals = append(vals, proposeObject(a.Nested, p, c))
	}
	return cty.SetVal(vals)
}

// canHaveBecome says whether prior is the configuration with nothing but computed values filled in.
func canHaveBecome(o *Object, config, prior cty.Value) bool {
	if config.RawEquals(prior) {
		return true
	}
	if config.IsNull() || prior.IsNull() || !config.IsKnown() {
		return false
	}
	for _, name := range o.Names {
		a, c, p := o.Attrs[name], config.GetAttr(name), prior.GetAttr(name)
		switch {
		case c.RawEquals(p), a.Computed && c.IsNull():
		case a.Nested == nil || a.Nesting == tfprotov6.SchemaObjectNestingModeSet:
			return false
		case c.IsNull() || p.IsNull() || !c.IsKnown():
			return false
		case a.Nesting == tfprotov6.SchemaObjectNestingModeSingle:
			if !canHaveBecome(a.Nested, c, p) {
				return false
			}
		default:
			if !elementsCanHaveBecome(a.Nested, c, p) {
				return false
			}
		}
	}
	return true
}

func elementsCanHaveBecome(o *Object, config, prior cty.Value) bool {
	if config.LengthInt() != prior.LengthInt() {
		return false
	}
	for it := config.ElementIterator(); it.Next(); {
		k, c := it.Element()
		if !prior.HasIndex(k).True() || !canHaveBecome(o, c, prior.Index(k)) {
			return false
		}
	}
	return true
}

// holdsConfigured says whether a nested value has a non-null part that is not computed.
func holdsConfigured(a *Attribute, v cty.Value) bool {
	if v.IsNull() || !v.IsKnown() {
		return false
	}
	for _, obj := range elements(a.Nesting, v) {
		if obj.IsNull() || !obj.IsKnown() {
			continue
		}
		for name, child := range a.Nested.Attrs {
			cv := obj.GetAttr(name)
			if cv.IsNull() {
				continue
			}
			if !child.Computed || child.Nested != nil && holdsConfigured(child, cv) {
				return true
			}
		}
	}
	return false
}

// elements gives the objects in a nested value: itself, or the members of the collection.
func elements(mode tfprotov6.SchemaObjectNestingMode, v cty.Value) []cty.Value {
	if mode == tfprotov6.SchemaObjectNestingModeSingle {
		return []cty.Value{v}
	}
	return v.AsValueSlice()
}

// UnknownComputed is the configuration of a data source before it was read: what is computed and not configured is
// unknown.
func UnknownComputed(o *Object, config cty.Value) cty.Value {
	if config.IsNull() || !config.IsKnown() {
		return config
	}
	vals := make(map[string]cty.Value, len(o.Attrs))
	for name, a := range o.Attrs {
		c := config.GetAttr(name)
		if a.Computed && c.IsNull() {
			c = cty.UnknownVal(a.Typ)
		}
		vals[name] = c
	}
	return cty.ObjectVal(vals)
}
