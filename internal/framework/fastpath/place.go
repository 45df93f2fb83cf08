package fastpath

import (
	"context"
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/value"
)

// form is what kind of value stands in a place.
type form int

const (
	text form = iota
	truth
	whole   // a number of 64 bits
	decimal // a float64
	object
	dictionary // a map
	list
	set
)

// place is one place in a value: the type that Terraform knows and what the framework demands beyond it.
type place struct {
	form     form
	typ      attr.Type
	wire     tftypes.Type
	names    []string // of an object's attributes, sorted
	children []*place // by names
	element  *place   // of a dictionary, a list or a set
}

// newPlace describes a type; nil if there is something in it that is not known here.
func newPlace(ctx context.Context, typ attr.Type) *place {
	p := &place{typ: typ, wire: typ.TerraformType(ctx)}
	switch t := typ.(type) {
	case basetypes.StringType:
		p.form = text
	case basetypes.BoolType:
		p.form = truth
	case basetypes.Int64Type:
		p.form = whole
	case basetypes.Float64Type:
		p.form = decimal
	case basetypes.MapType:
		p.form, p.element = dictionary, newPlace(ctx, t.ElemType)
	case basetypes.ListType:
		p.form, p.element = list, newPlace(ctx, t.ElemType)
	case basetypes.SetType:
		p.form, p.element = set, newPlace(ctx, t.ElemType)
	case attr.TypeWithAttributeTypes:
		p.form = object
		types := t.AttributeTypes()
		if isSpecial(ctx, typ) {
			return nil
		}
		p.names = slices.Sorted(maps.Keys(types))
		for _, name := range p.names {
			child := newPlace(ctx, types[name])
			if child == nil {
				return nil
			}
			p.children = append(p.children, child)
		}
	default:
		return nil
	}
	if p.form >= dictionary && p.element == nil {
		return nil
	}
	return p
}

// isSpecial reports whether an object type is one of a provider's own that the framework lets have a say: in what is
// valid, or in what is the same.
func isSpecial(ctx context.Context, typ attr.Type) bool {
	if _, ok := typ.(basetypes.ObjectType); ok {
		return false
	}
	value := typ.ValueType(ctx)
	_, validates := typ.(xattr.TypeWithValidate) //nolint:staticcheck // deprecated, and the framework still heeds it
	_, isValidated := value.(xattr.ValidateableAttribute)
	_, compares := value.(basetypes.ObjectValuableWithSemanticEquals)
	return validates || isValidated || compares
}

// fits reports whether the framework would take a value of the right type without a word. Unknowns fit if they may be
// there.
func (p *place) fits(v tftypes.Value, unknowns bool) bool {
	switch {
	case !v.IsKnown():
		return unknowns
	case v.IsNull():
		return true
	}
	switch p.form {
	case whole, decimal:
		number := new(big.Float)
		return v.As(&number) == nil && p.holds(number)
	case object:
		values := map[string]tftypes.Value{}
		if v.As(&values) != nil || len(values) != len(p.names) {
			return false
		}
		for i, name := range p.names {
			if value, ok := values[name]; !ok || !p.children[i].fits(value, unknowns) {
				return false
			}
		}
	case dictionary:
		values := map[string]tftypes.Value{}
		if v.As(&values) != nil {
			return false
		}
		for _, value := range values {
			if !p.element.fits(value, unknowns) {
				return false
			}
		}
	case list, set:
		var values []tftypes.Value
		if v.As(&values) != nil || p.form == set && value.Repeats(values) {
			return false
		}
		return !slices.ContainsFunc(values, func(value tftypes.Value) bool { return !p.element.fits(value, unknowns) })
	case text, truth:
	}
	return true
}

// sameDecimals reports whether two values have the same decimals in the same places: where one is only spelt in another
// way, "0.1" with more digits, the framework would keep the first.
func (p *place) sameDecimals(a, b tftypes.Value) bool {
	if !a.IsKnown() || !b.IsKnown() {
		return true
	}
	if p.form == decimal {
		return value.Equal(a, b)
	}
	if p.element == nil && p.form != object || a.IsNull() || b.IsNull() {
		return true
	}
	if p.form == list || p.form == set {
		return p.sameDecimalsInOrder(a, b)
	}
	first, second := map[string]tftypes.Value{}, map[string]tftypes.Value{}
	if a.As(&first) != nil || b.As(&second) != nil {
		return false
	}
	for i, name := range p.names {
		if !p.children[i].sameDecimals(first[name], second[name]) {
			return false
		}
	}
	for key, value := range first {
		if other, both := second[key]; p.form == dictionary && both && !p.element.sameDecimals(value, other) {
			return false
		}
	}
	return true
}

func (p *place) sameDecimalsInOrder(a, b tftypes.Value) bool {
	var first, second []tftypes.Value
	if a.As(&first) != nil || b.As(&second) != nil {
		return false
	}
	for i := range min(len(first), len(second)) {
		if !p.element.sameDecimals(first[i], second[i]) {
			return false
		}
	}
	return true
}

// holds reports whether a number has a place in 64 bits (basetypes Int64Type and Float64Type).
func (p *place) holds(number *big.Float) bool {
	if p.form == whole {
		_, accuracy := number.Int64()
		return accuracy == big.Exact
	}
	f, accuracy := number.Float64()
	return !math.IsInf(f, 0) && (f != 0 || accuracy == big.Exact)
}
