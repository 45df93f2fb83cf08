package value

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
		return equalAs(a, b, func(x, y string) bool { return x == y })
	case t.Is(tftypes.Bool):
		return equalAs(a, b, func(x, y bool) bool { return x == y })
	case t.Is(tftypes.Number):
		return equalAs(a, b, func(x, y big.Float) bool { return x.Cmp(&y) == 0 })
	case t.Is(tftypes.Object{}) || t.Is(tftypes.Map{}):
		return equalAs(a, b, func(x, y map[string]tftypes.Value) bool { return maps.EqualFunc(x, y, Equal) })
	case t.Is(tftypes.Set{}):
		return equalAs(a, b, func(x, y []tftypes.Value) bool { return len(x) == len(y) && within(x, y) && within(y, x) })
	default:
		return equalAs(a, b, func(x, y []tftypes.Value) bool { return slices.EqualFunc(x, y, Equal) })
	}
}

// equalAs compares what two values hold, in the form that it has in Go.
func equalAs[T any](a, b tftypes.Value, equal func(x, y T) bool) bool {
	var x, y T
	return a.As(&x) == nil && b.As(&y) == nil && equal(x, y)
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
