package terraformtest

import (
	"fmt"
	"sort"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
)

// object is a schema, or the object in a nested attribute, in the terms of cty.
type object struct {
	attrs map[string]*attribute
	names []string // sorted, so that everything below is deterministic
	typed cty.Type // the object type of all attributes
}

// attribute is one attribute of an object. nested is nil for an attribute with a plain type.
type attribute struct {
	typ                                                cty.Type
	nested                                             *object
	nesting                                            tfprotov6.SchemaObjectNestingMode
	required, optional, computed, sensitive, writeOnly bool
}

// resourceSchema is the schema of one resource, data source or of the provider.
type resourceSchema struct {
	*object
	version int64
}

func newResourceSchema(s *tfprotov6.Schema) (resourceSchema, error) {
	if s == nil || s.Block == nil {
		return resourceSchema{object: &object{attrs: map[string]*attribute{}, typed: cty.EmptyObject}}, nil
	}
	if n := len(s.Block.BlockTypes); n > 0 {
		return resourceSchema{}, fmt.Errorf("the schema has %d nested blocks, which the driver does not know", n)
	}
	o, err := newObject(s.Block.Attributes)
	return resourceSchema{object: o, version: s.Version}, err
}

func newObject(attrs []*tfprotov6.SchemaAttribute) (*object, error) {
	o := &object{attrs: make(map[string]*attribute, len(attrs))}
	for _, a := range attrs {
		if !a.Required && !a.Optional && !a.Computed {
			return nil, fmt.Errorf("attribute %s is neither required nor optional nor computed", a.Name)
		}
		at := &attribute{
			required: a.Required, optional: a.Optional, computed: a.Computed, sensitive: a.Sensitive, writeOnly: a.WriteOnly,
		}
		if a.NestedType != nil {
			nested, err := newObject(a.NestedType.Attributes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", a.Name, err)
			}
			at.nested, at.nesting = nested, a.NestedType.Nesting
			at.typ = wrap(at.nesting, nested.typ())
		} else {
			typ, err := ctyType(a.Type)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", a.Name, err)
			}
			at.typ = typ
		}
		o.attrs[a.Name] = at
		o.names = append(o.names, a.Name)
	}
	sort.Strings(o.names)
	types := make(map[string]cty.Type, len(o.attrs))
	for name, a := range o.attrs {
		types[name] = a.typ
	}
	o.typed = cty.Object(types)
	return o, nil
}

func wrap(mode tfprotov6.SchemaObjectNestingMode, elem cty.Type) cty.Type {
	switch mode {
	case tfprotov6.SchemaObjectNestingModeList:
		return cty.List(elem)
	case tfprotov6.SchemaObjectNestingModeMap:
		return cty.Map(elem)
	case tfprotov6.SchemaObjectNestingModeSet:
		return cty.Set(elem)
	default:
		return elem
	}
}

// typ is the object type of all attributes.
func (o *object) typ() cty.Type { return o.typed }

// configType is what a configuration is converted to: attributes that are not required may be missing.
func (o *object) configType() cty.Type {
	types := make(map[string]cty.Type, len(o.attrs))
	var missing []string
	for name, a := range o.attrs {
		types[name] = a.configType()
		if !a.required {
			missing = append(missing, name)
		}
	}
	return cty.ObjectWithOptionalAttrs(types, missing)
}

func (a *attribute) configType() cty.Type {
	if a.nested == nil {
		return a.typ
	}
	return wrap(a.nesting, a.nested.configType())
}

// allNull is the object with every attribute null: what an empty configuration says.
func (o *object) allNull() cty.Value {
	vals := make(map[string]cty.Value, len(o.attrs))
	for name, a := range o.attrs {
		vals[name] = cty.NullVal(a.typ)
	}
	return cty.ObjectVal(vals)
}

// ctyType translates a wire type.
func ctyType(t tftypes.Type) (cty.Type, error) {
	switch t := t.(type) {
	case tftypes.List:
		return elemType(t.ElementType, cty.List)
	case tftypes.Set:
		return elemType(t.ElementType, cty.Set)
	case tftypes.Map:
		return elemType(t.ElementType, cty.Map)
	case tftypes.Object:
		types := make(map[string]cty.Type, len(t.AttributeTypes))
		for name, at := range t.AttributeTypes {
			ct, err := ctyType(at)
			if err != nil {
				return cty.NilType, err
			}
			types[name] = ct
		}
		return cty.Object(types), nil
	}
	switch {
	case t.Is(tftypes.String):
		return cty.String, nil
	case t.Is(tftypes.Number):
		return cty.Number, nil
	case t.Is(tftypes.Bool):
		return cty.Bool, nil
	case t.Is(tftypes.DynamicPseudoType):
		return cty.DynamicPseudoType, nil
	}
	return cty.NilType, fmt.Errorf("unknown type %s", t)
}

func elemType(t tftypes.Type, collection func(cty.Type) cty.Type) (cty.Type, error) {
	elem, err := ctyType(t)
	if err != nil {
		return cty.NilType, err
	}
	return collection(elem), nil
}
