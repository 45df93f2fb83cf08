package tfvm

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
)

// configuration reads a configuration by dotted paths. Its values may be unknown: a question is answered with yes only where
// that is certain.
type configuration struct{ raw tftypes.Value }

// at is a configured value.
func (c configuration) at(dotted string) tftypes.Value {
	return tfplan.At(c.raw, strings.Split(dotted, ".")...)
}

// isNull reports whether a value is certainly not configured.
func (c configuration) isNull(dotted string) bool {
	return c.at(dotted).IsKnown() && c.at(dotted).IsNull()
}

// isSet reports whether a value is known.
func (c configuration) isSet(dotted string) bool {
	return c.at(dotted).IsKnown() && !c.at(dotted).IsNull()
}

// isDecided reports whether the configuration decides a value: it is known, and if it is left out no source decides.
func (c configuration) isDecided(dotted string) bool {
	return c.isSet(dotted) || c.isNull(dotted) && !c.copies()
}

// copies reports whether the VM is, or may be, a copy of another one or of a backup, which has what the configuration leaves out.
func (c configuration) copies() bool { return !c.isNull("clone") || !c.isNull("restore") }

// isTrue reports whether a flag is known to be true.
func (c configuration) isTrue(dotted string) bool {
	on := false
	return c.isSet(dotted) && c.at(dotted).As(&on) == nil && on
}

// isFalse reports whether a flag is known to be false.
func (c configuration) isFalse(dotted string) bool {
	on := true
	return c.isSet(dotted) && c.at(dotted).As(&on) == nil && !on
}

// text is a known text, or "".
func (c configuration) text(dotted string) string {
	if !c.isSet(dotted) {
		return ""
	}
	return stringOf(c.at(dotted))
}

// number is a known number, or 0.
func (c configuration) number(dotted string) float64 {
	if v := c.at(dotted); c.isSet(dotted) && v.Type().Is(tftypes.Number) {
		return floatOf(v)
	}
	return 0
}

// keys are the known keys of a map, sorted; ok is false when the map is not known.
func (c configuration) keys(dotted string) (keys []string, ok bool) {
	v := c.at(dotted)
	if !v.IsKnown() {
		return nil, false
	}
	elements := map[string]tftypes.Value{}
	if !v.IsNull() && v.As(&elements) != nil {
		return nil, false
	}
	return slices.Sorted(maps.Keys(elements)), true
}

// isElementKnown reports whether all of one element of a list is known.
func (c configuration) isElementKnown(list string, i int) bool {
	var elements []tftypes.Value
	return c.at(list).As(&elements) == nil && i < len(elements) && elements[i].IsFullyKnown()
}

// hasCPUDetails reports whether there is something about the CPU that PVE takes only together with a model.
func (c configuration) hasCPUDetails() bool {
	details := c.isSet("cpu.flags") && len(texts(c.at("cpu.flags"))) > 0
	for _, key := range []string{"hidden", "hv_vendor_id", "phys_bits", "guest_phys_bits", "level", "reported_model"} {
		details = details || c.isSet("cpu."+key)
	}
	return details
}
