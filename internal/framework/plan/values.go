package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Known replaces every unknown by null, so that a plan can be read into a model. A list or set with an unknown element
// is unknown as a whole, since a model has no place for gaps; an unknown object under a key stays there, with nothing
// in it.
func Known(v tftypes.Value) tftypes.Value {
	switch {
	case v.IsFullyKnown():
		return v
	case !v.IsKnown():
		return null(v.Type())
	}
	var elements []tftypes.Value
	if v.As(&elements) == nil {
		elements = slices.Clone(elements) // As gives the value's own
		for i, e := range elements {
			if !e.IsKnown() {
				return null(v.Type())
			}
			elements[i] = Known(e)
		}
		return tftypes.NewValue(v.Type(), elements)
	}
	values := maps.Clone(fields(v))
	inMap := v.Type().Is(tftypes.Map{})
	for name, child := range values {
		if object, ok := child.Type().(tftypes.Object); ok && inMap && !child.IsKnown() {
			values[name] = nullObject(object)
			continue
		}
		values[name] = Known(child)
	}
	return tftypes.NewValue(v.Type(), values)
}

// nullObject is an object whose attributes are all null.
func nullObject(t tftypes.Object) tftypes.Value {
	values := map[string]tftypes.Value{}
	for name, typ := range t.AttributeTypes {
		values[name] = null(typ)
	}
	return tftypes.NewValue(t, values)
}

// At returns the value at a path of attribute names and map keys. Every value below an unknown is unknown. Values below
// a null, and those of a missing path, are null.
func At(v tftypes.Value, steps ...string) tftypes.Value {
	for _, step := range steps {
		if !v.IsKnown() {
			return unknown(tftypes.DynamicPseudoType)
		}
		next, ok := fields(v)[step]
		if !ok {
			return null(tftypes.DynamicPseudoType)
		}
		v = next
	}
	return v
}

// Unknowns are the dotted paths at which a value is not known, in order: of objects and maps those in them, of the rest
// the whole.
func Unknowns(v tftypes.Value) []string { return unknowns("", v) }

func unknowns(at string, v tftypes.Value) (all []string) {
	inside := fields(v)
	if !v.IsFullyKnown() && len(inside) == 0 {
		return []string{at}
	}
	for _, name := range slices.Sorted(maps.Keys(inside)) {
		all = append(all, unknowns(join(at, name), inside[name])...)
	}
	return all
}

// Keep is a plan with the values of the prior state at some paths, as far as that has any.
func Keep(planned, prior tftypes.Value, paths []string) tftypes.Value {
	kept, err := tftypes.Transform(planned, func(at *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
		path := dotted(at)
		if was := At(prior, strings.Split(path, ".")...); slices.Contains(paths, path) && was.Type().Equal(v.Type()) {
			return was, nil
		}
		return v, nil
	})
	if err != nil { // the function above fails on nothing
		return planned
	}
	return kept
}

// Edit replaces the values at dotted paths by unknown or null.
func Edit(v tftypes.Value, toUnknown, toNull map[string]bool) tftypes.Value {
	edited, err := tftypes.Transform(v, func(at *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
		switch path := dotted(at); {
		case toUnknown[path]:
			return unknown(v.Type()), nil
		case toNull[path]:
			return null(v.Type()), nil
		}
		return v, nil
	})
	if err != nil { // the function above fails on nothing
		return v
	}
	return edited
}

// dotted is a path without its position in lists and sets.
func dotted(at *tftypes.AttributePath) string {
	path := ""
	for _, step := range at.Steps() {
		switch s := step.(type) {
		case tftypes.AttributeName:
			path = join(path, string(s))
		case tftypes.ElementKeyString:
			path = join(path, string(s))
		default:
			path = join(path, "#")
		}
	}
	return path
}

// Replace replaces a top-level attribute.
func Replace(v tftypes.Value, name string, by tftypes.Value) tftypes.Value {
	values := maps.Clone(fields(v))
	values[name] = by
	return tftypes.NewValue(v.Type(), values)
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// fields are the attributes of an object or the elements of a map, to be read only: they are the value's own. There are
// none for null and unknown.
func fields(v tftypes.Value) map[string]tftypes.Value {
	all := map[string]tftypes.Value{}
	if v.Type() == nil || v.IsNull() || !v.IsKnown() {
		return all
	}
	if err := v.As(&all); err != nil {
		return map[string]tftypes.Value{}
	}
	return all
}

// valueOr is the value under a name, or another one.
func valueOr(values map[string]tftypes.Value, name string, otherwise tftypes.Value) tftypes.Value {
	if v, ok := values[name]; ok {
		return v
	}
	return otherwise
}

// null is the null of a type.
func null(t tftypes.Type) tftypes.Value { return tftypes.NewValue(t, nil) }

// unknown is the unknown of a type.
func unknown(t tftypes.Type) tftypes.Value { return tftypes.NewValue(t, tftypes.UnknownValue) }

// has reports whether v is a known value other than null.
func has(v tftypes.Value) bool { return v.Type() != nil && v.IsKnown() && !v.IsNull() }

// attributeType is the type of one attribute of an object type.
func attributeType(t tftypes.Type, name string) tftypes.Type {
	if o, ok := t.(tftypes.Object); ok {
		return o.AttributeTypes[name]
	}
	return tftypes.DynamicPseudoType
}

// elementType is the type of the elements of a map type.
func elementType(t tftypes.Type) tftypes.Type {
	if m, ok := t.(tftypes.Map); ok {
		return m.ElementType
	}
	return tftypes.DynamicPseudoType
}
