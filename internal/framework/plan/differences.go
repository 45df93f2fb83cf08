package plan

import (
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Difference is an attribute, dotted, of which two values are known to differ.
type Difference struct {
	At            string
	Before, After tftypes.Value
}

// Differences compares two values attribute by attribute, in the order of their paths. A value that one of them leaves
// open is no difference.
func Differences(before, after tftypes.Value) []Difference { return differences("", before, after) }

func differences(at string, before, after tftypes.Value) (all []Difference) {
	_, isObject := before.Type().(tftypes.Object)
	_, isMap := before.Type().(tftypes.Map)
	switch {
	case !before.IsKnown(), !after.IsKnown(), before.Equal(after):
		return nil
	case !isObject && !isMap, before.IsNull(), after.IsNull():
		if before.IsFullyKnown() && after.IsFullyKnown() {
			all = append(all, Difference{at, before, after})
		}
		return all
	}
	was, is := fields(before), fields(after)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		typ := names[name].Type()
		all = append(all, differences(join(at, name), valueOr(was, name, null(typ)), valueOr(is, name, null(typ)))...)
	}
	return all
}
