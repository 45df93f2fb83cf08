package tfvalue

import (
	"maps"
	"math/big"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Equal is tftypes.Value.Equal for two values of one type, without its walk from the root to each leaf.
func Equal(a, b tftypes.Value) bool {
	switch {
	case a.Type() == nil || b.Type() == nil:
		return a.Type() == nil && b.Type() == nil
	case !a.IsKnown() || !b.IsKnown():
		return a.IsKnown() == b.IsKnown()
	case a.IsNull() || b.IsNull():
		return a.IsNull() == b.IsNull()
	}
	return equalContent(a, b)
}

// equalContent compares values that are neither null nor unknown.
func equalContent(a, b tftypes.Value) bool {
	switch t := a.Type(); {
	case t.Is(tftypes.String):
		var s1, s2 string
		return a.As(&s1) == nil && b.As(&s2) == nil && s1 == s2
	case t.Is(tftypes.Bool):
		var b1, b2 bool
		return a.As(&b1) == nil && b.As(&b2) == nil && b1 == b2
	case t.Is(tftypes.Number):
		n1, n2 := new(big.Float), new(big.Float)
		return a.As(&n1) == nil && b.As(&n2) == nil && n1.Cmp(n2) == 0
	case t.Is(tftypes.Object{}) || t.Is(tftypes.Map{}):
		var m1, m2 map[string]tftypes.Value
		return a.As(&m1) == nil && b.As(&m2) == nil && maps.EqualFunc(m1, m2, Equal)
	case t.Is(tftypes.Set{}):
		var l1, l2 []tftypes.Value
		return a.As(&l1) == nil && b.As(&l2) == nil && len(l1) == len(l2) && within(l1, l2) && within(l2, l1)
	default:
		var l1, l2 []tftypes.Value
		return a.As(&l1) == nil && b.As(&l2) == nil && slices.EqualFunc(l1, l2, Equal)
	}
}

// within reports whether all elements of some values are among others.
func within(some, others []tftypes.Value) bool {
	return !slices.ContainsFunc(some, func(v tftypes.Value) bool {
		return !slices.ContainsFunc(others, func(other tftypes.Value) bool { return Equal(v, other) })
	})
}

// Repeats reports whether an element stands twice in a list.
func Repeats(values []tftypes.Value) bool {
	for i, v := range values {
		if slices.ContainsFunc(values[:i], func(other tftypes.Value) bool { return Equal(v, other) }) {
			return true
		}
	}
	return false
}
