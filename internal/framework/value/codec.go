// Package value turns Terraform's raw values into models and models into raw values, and compares them, by a plan that
// is made once. The reflection of the plugin framework does the same a hundred times slower: it looks every attribute
// up in the schema again, by its whole path. A value that does not fit is an error here, and the caller leaves the
// message to the framework.
package value

import (
	"fmt"
	"reflect"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Codec converts between the values of an object type and a struct whose fields name their attributes with the tag
// "tfsdk"; fields with the tag "-" are left alone. Null is a nil pointer, slice or map. Make it with NewCodec.
type Codec[M any] struct{ root *node }

// NewCodec makes the Codec of a type. Type and struct must have the same attributes.
func NewCodec[M any](typ tftypes.Type) (Codec[M], error) {
	root, err := build(typ, reflect.TypeFor[M]())
	return Codec[M]{root: root}, err
}

// node is the plan for one place in a value.
type node struct {
	typ      tftypes.Type
	null     tftypes.Value // of typ
	kind     reflect.Kind  // of the Go type without its pointer
	pointer  bool
	set      bool
	element  *node
	children []child
}

// child is an attribute of an object.
type child struct {
	name  string
	field []int // as reflect.Value.FieldByIndex wants it: fields of embedded structs count as the struct's own
	node  *node
}

func build(typ tftypes.Type, in reflect.Type) (*node, error) {
	n := &node{typ: typ, null: tftypes.NewValue(typ, nil), kind: in.Kind()}
	if n.kind == reflect.Pointer {
		in = in.Elem()
		n.pointer, n.kind = true, in.Kind()
	}
	var err error
	switch t := typ.(type) {
	case tftypes.Object:
		if n.kind == reflect.Struct {
			n.children, err = attributes(t, in)
			return n, err
		}
	case tftypes.List:
		if n.kind == reflect.Slice && !n.pointer {
			n.element, err = build(t.ElementType, in.Elem())
			return n, err
		}
	case tftypes.Set:
		if n.kind == reflect.Slice && !n.pointer {
			n.set = true
			n.element, err = build(t.ElementType, in.Elem())
			return n, err
		}
	case tftypes.Map:
		if n.kind == reflect.Map && !n.pointer && in.Key().Kind() == reflect.String {
			n.element, err = build(t.ElementType, in.Elem())
			return n, err
		}
	default:
		if isScalar(typ, n.kind) {
			return n, nil
		}
	}
	return nil, fmt.Errorf("%s has no place in %s", typ, in)
}

// isScalar reports whether a Go type holds the values of a type without elements.
func isScalar(typ tftypes.Type, kind reflect.Kind) bool {
	switch kind {
	case reflect.String:
		return typ.Is(tftypes.String)
	case reflect.Bool:
		return typ.Is(tftypes.Bool)
	case reflect.Int64, reflect.Float64:
		return typ.Is(tftypes.Number)
	}
	return false
}

// attributes finds the field of each attribute.
func attributes(typ tftypes.Object, in reflect.Type) ([]child, error) {
	var all []child
	for _, field := range reflect.VisibleFields(in) {
		name := field.Tag.Get("tfsdk")
		if name == "-" || field.Anonymous {
			continue
		}
		attribute, ok := typ.AttributeTypes[name]
		if !ok {
			return nil, fmt.Errorf("%s.%s: there is no attribute %q", in, field.Name, name)
		}
		n, err := build(attribute, field.Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, child{name: name, field: field.Index, node: n})
	}
	if len(all) != len(typ.AttributeTypes) {
		return nil, fmt.Errorf("%s has fields for %d of %d attributes", in, len(all), len(typ.AttributeTypes))
	}
	return all, nil
}
