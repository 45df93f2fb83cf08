package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
)

// sameRules compares two lists of rules as PVE keeps them: a rule that does not say whether it counts does, comments
// are trimmed, and macros have no case.
func sameRules(a, b tftypes.Value) bool {
	return slices.EqualFunc(RuleTexts(a), RuleTexts(b), maps.Equal)
}

// RuleTexts are the properties that each rule of a list has.
func RuleTexts(list tftypes.Value) []map[string]string {
	var elements []tftypes.Value
	_ = list.As(&elements)
	all := make([]map[string]string, len(elements))
	for i, element := range elements {
		values := map[string]tftypes.Value{}
		_ = element.As(&values)
		all[i] = map[string]string{"enabled": "true"}
		for name, value := range values {
			var enabled bool
			switch {
			case !value.IsKnown() || value.IsNull(), name == "comment" && strings.TrimSpace(StringOf(value)) == "":
			case name == "enabled":
				_ = value.As(&enabled)
				all[i][name] = strconv.FormatBool(enabled)
			case name == "macro":
				all[i][name] = strings.ToLower(StringOf(value))
			case name == "proto", name == "sport", name == "dport":
				all[i][name] = StringOf(value)
			default:
				all[i][name] = strings.TrimSpace(StringOf(value))
			}
		}
	}
	return all
}

// keepsOff reports whether HA is to keep the VM off.
func keepsOff(h *guest.HA) bool {
	return h != nil && (Value(h.State) == "stopped" || Value(h.State) == "disabled")
}
