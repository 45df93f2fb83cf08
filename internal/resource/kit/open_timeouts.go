package kit

import (
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// OpenTimeouts are the configured time limits in a model that a plan is read into: they, or some of them, may be
// unknown there.
type OpenTimeouts struct{ raw tftypes.Value }

var (
	_ tftypes.ValueConverter = &OpenTimeouts{}
	_ tftypes.ValueCreator   = &OpenTimeouts{}
)

// FromTerraform5Value takes the group as it is.
func (t *OpenTimeouts) FromTerraform5Value(v tftypes.Value) error {
	t.raw = v
	return nil
}

// ToTerraform5Value returns the group as it was taken.
func (t *OpenTimeouts) ToTerraform5Value() (interface{}, error) {
	switch {
	case t == nil || t.raw.IsNull():
		return nil, nil //nolint:nilnil // the form of a null
	case !t.raw.IsKnown():
		return tftypes.UnknownValue, nil
	}
	return t.limits(), nil
}

// Limits returns the time limits that are known; a group without configuration has none.
func (t *OpenTimeouts) Limits() Timeouts {
	if t == nil {
		return Timeouts{}
	}
	limits := t.limits()
	of := func(operation string) *string {
		var text *string
		if v, ok := limits[operation]; ok && v.IsKnown() && v.As(&text) == nil {
			return text
		}
		return nil
	}
	return Timeouts{Create: of("create"), Read: of("read"), Update: of("update"), Delete: of("delete")}
}

// limits are the attributes of the group; none for a null and an unknown one.
func (t *OpenTimeouts) limits() map[string]tftypes.Value {
	all := map[string]tftypes.Value{}
	if t.raw.IsNull() || !t.raw.IsKnown() || t.raw.As(&all) != nil {
		return nil
	}
	return all
}
