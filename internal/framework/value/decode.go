package value

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

var errNotMade = errors.New("the Codec was not made by NewCodec")

// Decode reads a value without unknowns.
func (c Codec[M]) Decode(v tftypes.Value) (M, error) {
	var m M
	if c.root == nil {
		return m, errNotMade
	}
	err := c.root.decode(v, reflect.ValueOf(&m).Elem())
	return m, err
}

func (n *node) decode(v tftypes.Value, into reflect.Value) error {
	switch {
	case !v.IsKnown():
		return fmt.Errorf("%s: not known", n.typ)
	case v.IsNull() && (n.pointer || n.kind == reflect.Slice || n.kind == reflect.Map):
		return nil // into is new
	case v.IsNull():
		return fmt.Errorf("%s: null", n.typ)
	}
	if n.pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	switch n.kind {
	case reflect.Struct:
		return n.decodeObject(v, into)
	case reflect.Map:
		return n.decodeMap(v, into)
	case reflect.Slice:
		return n.decodeList(v, into)
	case reflect.Int64, reflect.Float64:
		return n.decodeNumber(v, into)
	case reflect.Bool:
		var is bool
		err := v.As(&is)
		into.SetBool(is)
		return err
	default:
		var text string
		err := v.As(&text)
		into.SetString(text)
		return err
	}
}

func (n *node) decodeObject(v tftypes.Value, into reflect.Value) error {
	values := map[string]tftypes.Value{}
	if err := v.As(&values); err != nil {
		return err
	}
	for _, c := range n.children {
		value, ok := values[c.name]
		if !ok {
			return fmt.Errorf("%s: missing", c.name)
		}
		if err := c.node.decode(value, into.FieldByIndex(c.field)); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (n *node) decodeMap(v tftypes.Value, into reflect.Value) error {
	values := map[string]tftypes.Value{}
	if err := v.As(&values); err != nil {
		return err
	}
	into.Set(reflect.MakeMapWithSize(into.Type(), len(values)))
	for key, value := range values {
		element := reflect.New(into.Type().Elem()).Elem()
		if err := n.element.decode(value, element); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		into.SetMapIndex(reflect.ValueOf(key).Convert(into.Type().Key()), element)
	}
	return nil
}

func (n *node) decodeList(v tftypes.Value, into reflect.Value) error {
	var values []tftypes.Value
	if err := v.As(&values); err != nil {
		return err
	}
	if n.set && Repeats(values) {
		return fmt.Errorf("%s: an element stands in it twice", n.typ)
	}
	into.Set(reflect.MakeSlice(into.Type(), len(values), len(values)))
	for i, value := range values {
		if err := n.element.decode(value, into.Index(i)); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
	}
	return nil
}

func (n *node) decodeNumber(v tftypes.Value, into reflect.Value) error {
	number := new(big.Float)
	if err := v.As(&number); err != nil {
		return err
	}
	if n.kind == reflect.Int64 {
		whole, accuracy := number.Int64()
		into.SetInt(whole)
		if accuracy != big.Exact {
			return fmt.Errorf("%s is no whole number of 64 bits", number)
		}
		return nil
	}
	f, _ := number.Float64()
	into.SetFloat(f)
	if math.IsInf(f, 0) { // a decimal such as 0.1 or 1/3 is no float64, and is rounded
		return fmt.Errorf("%s is too large", number)
	}
	return nil
}
