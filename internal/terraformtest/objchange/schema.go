// Package objchange holds the rules of Terraform's core about values of a schema: the proposed new state, and the checks
// of a provider's plan and of its result. Terraform's own internal/plans/objchange has the same subject.
package objchange

import (
	"fmt"
	"sort"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
)

// Object is a schema, or the object in a nested attribute, in the terms of cty.
type Object struct {
	Attrs map[string]*Attribute
	Names []string // sorted, so that everything below is deterministic
	Typed cty.Type // the object type of all attributes
}

// Attribute is one attribute of an object. nested is nil for an attribute with a plain type.
type Attribute struct {
	Typ                                                cty.Type
	Nested                                             *Object
	Nesting                                            tfprotov6.SchemaObjectNestingMode
	Required, Optional, Computed, Sensitive, WriteOnly bool
}

// ResourceSchema is the schema of one resource, data source or of the provider.
type ResourceSchema struct {
	*Object
	Version int64
}

// NewResourceSchema is a schema as the protocol sends it. Nested blocks are an error.
func NewResourceSchema(s *tfprotov6.Schema) (ResourceSchema, error) {
	if s == nil || s.Block == nil {
		return ResourceSchema{Object: &Object{Attrs: map[string]*Attribute{}, Typed: cty.EmptyObject}}, nil
	}
	if n := len(s.Block.BlockTypes); n > 0 {
		return ResourceSchema{}, fmt.Errorf("the schema has %d nested blocks, which the driver does not know", n)
	}
	o, err := NewObject(s.Block.Attributes)
	return ResourceSchema{Object: o, Version: s.Version}, err
}

// NewObject is the object of these attributes.
func NewObject(attrs []*tfprotov6.SchemaAttribute) (*Object, error) {
	o := &Object{Attrs: make(map[string]*Attribute, len(attrs))}
	for _, a := range attrs {
		if !a.Required && !a.Optional && !a.Computed {
			return nil, fmt.Errorf("attribute %s is neither required nor optional nor computed", a.Name)
		}
		at := &Attribute{
			Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive, WriteOnly: a.WriteOnly,
		}
		if a.NestedType != nil {
			nested, err := NewObject(a.NestedType.Attributes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", a.Name, err)
			}
			at.Nested, at.Nesting = nested, a.NestedType.Nesting
			at.Typ = Wrap(at.Nesting, nested.Typ())
		} else {
			typ, err := CtyType(a.Type)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", a.Name, err)
			}
			at.Typ = typ
		}
		o.Attrs[a.Name] = at
		o.Names = append(o.Names, a.Name)
	}
	sort.Strings(o.Names)
	types := make(map[string]cty.Type, len(o.Attrs))
	for name, a := range o.Attrs {
		types[name] = a.Typ
	}
	o.Typed = cty.Object(types)
	return o, nil
}

// Wrap is the type of a nested attribute, of objects of a type.
func Wrap(mode tfprotov6.SchemaObjectNestingMode, elem cty.Type) cty.Type {
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

// Typ is the object type of all attributes.
func (o *Object) Typ() cty.Type { return o.Typed }

// configType is what a configuration is converted to: attributes that are not required may be missing.
func (o *Object) configType() cty.Type {
	types := make(map[string]cty.Type, len(o.Attrs))
	var missing []string
	for name, a := range o.Attrs {
		types[name] = a.ConfigType()
		if !a.Required {
			missing = append(missing, name)
		}
	}
	return cty.ObjectWithOptionalAttrs(types, missing)
}

// ConfigType is the type that a configured value of the attribute is converted to.
func (a *Attribute) ConfigType() cty.Type {
	if a.Nested == nil {
		return a.Typ
	}
	return Wrap(a.Nesting, a.Nested.configType())
}

// AllNull is the object with every attribute null: what an empty configuration says.
func (o *Object) AllNull() cty.Value {
	vals := make(map[string]cty.Value, len(o.Attrs))
	for name, a := range o.Attrs {
		vals[name] = cty.NullVal(a.Typ)
	}
	return cty.ObjectVal(vals)
}

// CtyType translates a wire type.
func CtyType(t tftypes.Type) (cty.Type, error) {
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
			ct, err := CtyType(at)
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
	elem, err := CtyType(t)
	if err != nil {
		return cty.NilType, err
	}
	return collection(elem), nil
}
