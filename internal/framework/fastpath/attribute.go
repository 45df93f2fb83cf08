package fastpath

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// attribute is one attribute of a schema, as far as a configuration is held to it.
type attribute struct {
	name   string
	place  *place
	check  check // nil: nothing
	nested []attribute
	// within looks at each nested object of a list or map; nil: nothing.
	within check

	required, readOnly, writeOnly, deprecated bool
}

// newAttributes describes the attributes of an object. ok is false if there is one that the framework does more with
// than is known here.
func newAttributes(attributes map[string]schema.Attribute, p *place, root bool) (all []attribute, ok bool) {
	for i, name := range p.names {
		a := attributes[name]
		described := attribute{name: name, place: p.children[i], required: a.IsRequired(), readOnly: a.IsComputed() &&
			!a.IsOptional(),
			writeOnly: a.IsWriteOnly(), deprecated: a.GetDeprecationMessage() != ""}
		if described.check, ok = checkOf(a); !ok {
			return nil, false
		}
		if !a.IsRequired() && !a.IsOptional() && !a.IsComputed() || a.IsWriteOnly() && (a.IsComputed() || !root) {
			return nil, false
		}
		switch a := a.(type) {
		case schema.SingleNestedAttribute:
			described.nested, ok = newAttributes(a.Attributes, described.place, false)
		case schema.ListNestedAttribute:
			described.nested, described.within, ok = newElement(a.NestedObject, described.place.element)
		case schema.MapNestedAttribute:
			described.nested, described.within, ok = newElement(a.NestedObject, described.place.element)
		}
		if !ok {
			return nil, false
		}
		all = append(all, described)
	}
	return all, len(all) == len(attributes)
}

func newElement(o schema.NestedAttributeObject, p *place) (all []attribute, within check, ok bool) {
	all, ok = newAttributes(o.Attributes, p, false)
	return all, each(o.Validators, checkObject), ok && len(o.PlanModifiers) == 0
}

// accepts reports whether the framework would take the configured values of some attributes without a word. They fit.
func accepts(ctx context.Context, attributes []attribute, values map[string]tftypes.Value, parent call) bool {
	for i := range attributes {
		a := &attributes[i]
		v, null := values[a.name], values[a.name].IsNull()
		if a.required && null || !null && (a.readOnly || a.deprecated || a.writeOnly &&
			!parent.capabilities.WriteOnlyAttributesAllowed) {
			return false
		}
		if a.check == nil && (null || len(a.nested) == 0) {
			continue
		}
		at := parent
		at.path, at.expression = parent.path.AtName(a.name), parent.expression.AtName(a.name)
		if a.check != nil && !a.check(ctx, at, a.place, v) {
			return false
		}
		if !null && v.IsKnown() && len(a.nested) > 0 && !a.acceptsNested(ctx, v, at) {
			return false
		}
	}
	return true
}

// acceptsNested is accepts for an attribute's nested values. A null or an unknown in a list or map of objects is left
// to the framework.
func (a *attribute) acceptsNested(ctx context.Context, v tftypes.Value, at call) bool {
	element := func(v tftypes.Value, at call) bool {
		fields := map[string]tftypes.Value{}
		if !v.IsKnown() || v.IsNull() || v.As(&fields) != nil || a.within != nil && !a.within(ctx, at, a.place.element, v) {
			return false
		}
		return accepts(ctx, a.nested, fields, at)
	}
	switch a.place.form {
	case object:
		fields := map[string]tftypes.Value{}
		return v.As(&fields) == nil && accepts(ctx, a.nested, fields, at)
	case dictionary:
		elements := map[string]tftypes.Value{}
		if v.As(&elements) != nil {
			return false
		}
		for key, value := range elements {
			inside := at
			inside.path, inside.expression = at.path.AtMapKey(key), at.expression.AtMapKey(key)
			if !element(value, inside) {
				return false
			}
		}
		return true
	case list:
		var elements []tftypes.Value
		if v.As(&elements) != nil {
			return false
		}
		for i, value := range elements {
			inside := at
			inside.path, inside.expression = at.path.AtListIndex(i), at.expression.AtListIndex(i)
			if !element(value, inside) {
				return false
			}
		}
		return true
	case text, truth, whole, decimal, set:
	}
	return false
}
