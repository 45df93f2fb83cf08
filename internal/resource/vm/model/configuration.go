package model

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
)

// Configuration reads a configuration by dotted paths. Its values may be unknown: a question is answered with yes only
// where that is certain.
type Configuration struct{ Raw tftypes.Value }

// At is a configured value.
func (c Configuration) At(dotted string) tftypes.Value {
	return plan.At(c.Raw, strings.Split(dotted, ".")...)
}

// IsNull reports whether a value is certainly not configured.
func (c Configuration) IsNull(dotted string) bool {
	return c.At(dotted).IsKnown() && c.At(dotted).IsNull()
}

// IsSet reports whether a value is known.
func (c Configuration) IsSet(dotted string) bool {
	return c.At(dotted).IsKnown() && !c.At(dotted).IsNull()
}

// IsDecided reports whether the configuration decides a value: it is known, and if it is left out no source decides.
func (c Configuration) IsDecided(dotted string) bool {
	return c.IsSet(dotted) || c.IsNull(dotted) && !c.Copies()
}

// Copies reports whether the VM is, or may be, a copy of another one or of a backup, which has what the configuration
// leaves out.
func (c Configuration) Copies() bool { return !c.IsNull("clone") || !c.IsNull("restore") }

// IsTrue reports whether a flag is known to be true.
func (c Configuration) IsTrue(dotted string) bool {
	on := false
	return c.IsSet(dotted) && c.At(dotted).As(&on) == nil && on
}

// IsFalse reports whether a flag is known to be false.
func (c Configuration) IsFalse(dotted string) bool {
	on := true
	return c.IsSet(dotted) && c.At(dotted).As(&on) == nil && !on
}

// Text is a known text, or "".
func (c Configuration) Text(dotted string) string {
	if !c.IsSet(dotted) {
		return ""
	}
	return StringOf(c.At(dotted))
}

// Number is a known number, or 0.
func (c Configuration) Number(dotted string) float64 {
	if v := c.At(dotted); c.IsSet(dotted) && v.Type().Is(tftypes.Number) {
		return FloatOf(v)
	}
	return 0
}

// Keys are the known keys of a map, sorted; ok is false when the map is not known.
func (c Configuration) Keys(dotted string) (keys []string, ok bool) {
	v := c.At(dotted)
	if !v.IsKnown() {
		return nil, false
	}
	elements := map[string]tftypes.Value{}
	if !v.IsNull() && v.As(&elements) != nil {
		return nil, false
	}
	return slices.Sorted(maps.Keys(elements)), true
}

// IsElementKnown reports whether all of one element of a list is known.
func (c Configuration) IsElementKnown(list string, i int) bool {
	var elements []tftypes.Value
	return c.At(list).As(&elements) == nil && i < len(elements) && elements[i].IsFullyKnown()
}

// HasCPUDetails reports whether there is something about the CPU that PVE takes only together with a model.
func (c Configuration) HasCPUDetails() bool {
	details := c.IsSet("cpu.flags") && len(Texts(c.At("cpu.flags"))) > 0
	for _, key := range []string{"hidden", "hv_vendor_id", "phys_bits", "guest_phys_bits", "level", "reported_model"} {
		details = details || c.IsSet("cpu."+key)
	}
	return details
}

// WaitedFor is the first thing that wait_for asks for, "" if there is none for sure.
func (c Configuration) WaitedFor() string {
	for _, what := range []string{"agent", "ipv4", "ipv6"} {
		if c.IsTrue("wait_for." + what) {
			return "wait_for." + what
		}
	}
	return ""
}
