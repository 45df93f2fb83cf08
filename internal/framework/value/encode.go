package value

import (
	"fmt"
	"math"
	"reflect"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Encode writes a model. A Decode of the result returns the same model.
func (c Codec[M]) Encode(m M) (tftypes.Value, error) {
	if c.root == nil {
		return tftypes.Value{}, errNotMade
	}
	return c.root.encode(reflect.ValueOf(m))
}

func (n *node) encode(from reflect.Value) (tftypes.Value, error) {
	if n.pointer || n.kind == reflect.Slice || n.kind == reflect.Map {
		if from.IsNil() {
			return n.null, nil
		}
	}
	if n.pointer {
		from = from.Elem()
	}
	switch n.kind {
	case reflect.Struct:
		values := make(map[string]tftypes.Value, len(n.children))
		for _, c := range n.children {
			value, err := c.node.encode(from.FieldByIndex(c.field))
			if err != nil {
				return value, fmt.Errorf("%s: %w", c.name, err)
			}
			values[c.name] = value
		}
		return tftypes.NewValue(n.typ, values), nil
	case reflect.Map:
		values := make(map[string]tftypes.Value, from.Len())
		for at := from.MapRange(); at.Next(); {
			value, err := n.element.encode(at.Value())
			if err != nil {
				return value, fmt.Errorf("%s: %w", at.Key(), err)
			}
			values[at.Key().String()] = value
		}
		return tftypes.NewValue(n.typ, values), nil
	case reflect.Slice:
		return n.encodeList(from)
	case reflect.Int64:
		return tftypes.NewValue(n.typ, from.Int()), nil
	case reflect.Float64:
		if f := from.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return n.null, fmt.Errorf("%v is no number", f)
		}
		return tftypes.NewValue(n.typ, from.Float()), nil
	case reflect.Bool:
		return tftypes.NewValue(n.typ, from.Bool()), nil
	default:
		return tftypes.NewValue(n.typ, from.String()), nil
	}
}

func (n *node) encodeList(from reflect.Value) (tftypes.Value, error) {
	values := make([]tftypes.Value, from.Len())
	for i := range values {
		value, err := n.element.encode(from.Index(i))
		if err != nil {
			return value, fmt.Errorf("%d: %w", i, err)
		}
		values[i] = value
	}
	if n.set && Repeats(values) {
		return n.null, fmt.Errorf("%s: an element stands in it twice", n.typ)
	}
	return tftypes.NewValue(n.typ, values), nil
}
