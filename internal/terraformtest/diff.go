package terraformtest

import (
	"sort"

	"github.com/zclconf/go-cty/cty"
)

// Differences lists the leaves that differ between two values of one type, as lines "path: old -> new".
func Differences(a, b cty.Value) []string {
	la, lb := leaves(a), leaves(b)
	var lines []string
	for path, v := range la {
		if w, ok := lb[path]; ok && w != v {
			lines = append(lines, path+": "+v+" -> "+w)
		} else if !ok {
			lines = append(lines, path+": "+v+" -> (gone)")
		}
	}
	for path, w := range lb {
		if _, ok := la[path]; !ok {
			lines = append(lines, path+": (absent) -> "+w)
		}
	}
	sort.Strings(lines)
	return lines
}

// leaves maps paths to printed values; sets count as leaves.
func leaves(v cty.Value) map[string]string {
	out := map[string]string{}
	if v == cty.NilVal {
		return out
	}
	_ = cty.Walk(v, func(p cty.Path, v cty.Value) (bool, error) {
		inner := !v.IsNull() && v.IsKnown() && !v.Type().IsPrimitiveType() && !v.Type().IsSetType()
		if inner && v.LengthInt() > 0 {
			return true, nil
		}
		out[pathString(p)] = ShowValue(v)
		return false, nil
	})
	return out
}
