package terraformtest

import (
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
)

// proposeNew merges a configuration with the prior state the way Terraform core does before it asks a provider to plan:
// what is configured is taken, what is computed and not configured stays as it was, and elements of nested collections
// are paired by key, by index, or, in sets, by what the configuration says of them. prior may be null.
func proposeNew(schema *object, prior, config cty.Value) cty.Value {
	if config.IsNull() {
		return prior
	}
	if prior.IsNull() {
		prior = schema.allNull()
	}
	return proposeObject(schema, prior, config)
}

func proposeObject(o *object, prior, config cty.Value) cty.Value {
	if config.IsNull() || !config.IsKnown() {
		return config
	}
	vals := make(map[string]cty.Value, len(o.attrs))
	for name, a := range o.attrs {
		p := cty.NullVal(a.typ)
		if !prior.IsNull() {
			p = prior.GetAttr(name)
		}
		vals[name] = proposeAttr(a, p, config.GetAttr(name))
	}
	return cty.ObjectVal(vals)
}

func proposeAttr(a *attribute, prior, config cty.Value) cty.Value {
	switch {
	case a.computed && config.IsNull():
		// A prior value that holds something only a configuration can have given was configured before and is
		// not any more: it does not carry over.
		if a.optional && a.nested != nil && holdsConfigured(a, prior) {
			return config
		}
		return prior
	case a.nested == nil || config.IsNull() || !config.IsKnown():
		return config
	}
	switch a.nesting {
	case tfprotov6.SchemaObjectNestingModeSingle:
		return proposeObject(a.nested, prior, config)
	case tfprotov6.SchemaObjectNestingModeSet:
		return proposeSet(a, prior, config)
	default:
		return proposeKeyed(a, prior, config)
	}
}

// proposeKeyed pairs the elements of a list or a map.
func proposeKeyed(a *attribute, prior, config cty.Value) cty.Value {
	if config.LengthInt() == 0 {
		return config
	}
	null := cty.NullVal(a.nested.typ())
	list, byKey := []cty.Value{}, map[string]cty.Value{}
	for it := config.ElementIterator(); it.Next(); {
		k, c := it.Element()
		p := null
		if !prior.IsNull() && prior.HasIndex(k).True() {
			p = prior.Index(k)
		}
		v := proposeObject(a.nested, p, c)
		list = append(list, v)
		if k.Type() == cty.String {
			byKey[k.AsString()] = v
		}
	}
	if a.nesting == tfprotov6.SchemaObjectNestingModeMap {
		return cty.MapVal(byKey)
	}
	return cty.ListVal(list)
}

// proposeSet pairs each element of the configuration with the first unused prior element that it can have become.
func proposeSet(a *attribute, prior, config cty.Value) cty.Value {
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
		p := cty.NullVal(a.nested.typ())
		for i, cand := range priors {
			if !used[i] && canHaveBecome(a.nested, c, cand) {
				p, used[i] = cand, true
				break
			}
		}
		vals = append(vals, proposeObject(a.nested, p, c))
	}
	return cty.SetVal(vals)
}

// canHaveBecome says whether prior is the configuration with nothing but computed values filled in.
func canHaveBecome(o *object, config, prior cty.Value) bool {
	if config.RawEquals(prior) {
		return true
	}
	if config.IsNull() || prior.IsNull() || !config.IsKnown() {
		return false
	}
	for _, name := range o.names {
		a, c, p := o.attrs[name], config.GetAttr(name), prior.GetAttr(name)
		switch {
		case c.RawEquals(p), a.computed && c.IsNull():
		case a.nested == nil || a.nesting == tfprotov6.SchemaObjectNestingModeSet:
			return false
		case c.IsNull() || p.IsNull() || !c.IsKnown():
			return false
		case a.nesting == tfprotov6.SchemaObjectNestingModeSingle:
			if !canHaveBecome(a.nested, c, p) {
				return false
			}
		default:
			if !elementsCanHaveBecome(a.nested, c, p) {
				return false
			}
		}
	}
	return true
}

func elementsCanHaveBecome(o *object, config, prior cty.Value) bool {
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
func holdsConfigured(a *attribute, v cty.Value) bool {
	if v.IsNull() || !v.IsKnown() {
		return false
	}
	for _, obj := range elements(a.nesting, v) {
		if obj.IsNull() || !obj.IsKnown() {
			continue
		}
		for name, child := range a.nested.attrs {
			cv := obj.GetAttr(name)
			if cv.IsNull() {
				continue
			}
			if !child.computed || child.nested != nil && holdsConfigured(child, cv) {
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

// unknownComputed is the configuration of a data source before it was read: what is computed and not configured is unknown.
func unknownComputed(o *object, config cty.Value) cty.Value {
	if config.IsNull() || !config.IsKnown() {
		return config
	}
	vals := make(map[string]cty.Value, len(o.attrs))
	for name, a := range o.attrs {
		c := config.GetAttr(name)
		if a.computed && c.IsNull() {
			c = cty.UnknownVal(a.typ)
		}
		vals[name] = c
	}
	return cty.ObjectVal(vals)
}
