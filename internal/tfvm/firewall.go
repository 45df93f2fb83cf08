package tfvm

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
)

// request is the firewall for package provision.
func (f *firewallModel) request() *provision.Firewall {
	if f == nil {
		return nil
	}
	wall := &provision.Firewall{Enabled: f.Enabled, DHCP: f.DHCP, NDP: f.NDP, RADV: f.RADV, IPFilter: f.IPFilter, MACFilter: f.MACFilter,
		LogLevelIn: f.LogLevelIn, LogLevelOut: f.LogLevelOut, PolicyIn: f.PolicyIn, PolicyOut: f.PolicyOut}
	if f.Rules != nil {
		wall.Rules = []provision.FirewallRule{}
	}
	for _, r := range f.Rules {
		wall.Rules = append(wall.Rules, provision.FirewallRule(r))
	}
	return wall
}

// fromFirewall is nil when the firewall has neither an option nor a rule.
func fromFirewall(wall *provision.Firewall) *firewallModel {
	if wall == nil {
		return nil
	}
	f := firewallModel{Enabled: wall.Enabled, DHCP: wall.DHCP, NDP: wall.NDP, RADV: wall.RADV, IPFilter: wall.IPFilter, MACFilter: wall.MACFilter,
		LogLevelIn: wall.LogLevelIn, LogLevelOut: wall.LogLevelOut, PolicyIn: wall.PolicyIn, PolicyOut: wall.PolicyOut}
	for _, r := range wall.Rules {
		f.Rules = append(f.Rules, firewallRuleModel(r))
	}
	if f.Rules == nil && f.Enabled == nil && f.DHCP == nil && f.NDP == nil && f.RADV == nil && f.IPFilter == nil && f.MACFilter == nil &&
		f.LogLevelIn == nil && f.LogLevelOut == nil && f.PolicyIn == nil && f.PolicyOut == nil {
		return nil
	}
	return &f
}

// sameRules compares two lists of rules as PVE keeps them: a rule that does not say whether it counts does, comments are
// trimmed, and macros have no case.
func sameRules(a, b tftypes.Value) bool {
	return slices.EqualFunc(ruleTexts(a), ruleTexts(b), maps.Equal)
}

// ruleTexts are the properties that each rule of a list has.
func ruleTexts(list tftypes.Value) []map[string]string {
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
			case !value.IsKnown() || value.IsNull():
			case name == "enabled":
				_ = value.As(&enabled)
				all[i][name] = strconv.FormatBool(enabled)
			case name == "macro":
				all[i][name] = strings.ToLower(stringOf(value))
			default:
				all[i][name] = strings.TrimSpace(stringOf(value))
			}
		}
	}
	return all
}

// keepsOff reports whether HA is to keep the VM off.
func (h *haModel) keepsOff() bool {
	return h != nil && (value(h.State) == "stopped" || value(h.State) == "disabled")
}
