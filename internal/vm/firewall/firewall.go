// Package firewall is the codec of a VM's firewall: its options and rules as values, how two of them differ, and the
// order of the requests that lead from one list of rules to another. It asks nothing and sends nothing.
package firewall

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// Settings are the firewall of a VM: its options and its rules. A nil option is one that nothing is said about. The
// tags are the names of Terraform's attributes.
type Settings struct {
	Enabled     *bool   `tfsdk:"enabled"`
	DHCP        *bool   `tfsdk:"dhcp"`
	NDP         *bool   `tfsdk:"ndp"`
	RADV        *bool   `tfsdk:"radv"`
	IPFilter    *bool   `tfsdk:"ipfilter"`
	MACFilter   *bool   `tfsdk:"macfilter"`
	LogLevelIn  *string `tfsdk:"log_level_in"`
	LogLevelOut *string `tfsdk:"log_level_out"`
	PolicyIn    *string `tfsdk:"policy_in"`
	PolicyOut   *string `tfsdk:"policy_out"`
	// Rules are all rules, the first decides. Nil: nothing is said about them; empty: there is none.
	Rules []Rule `tfsdk:"rules"`
	// Problems are the reasons why PVE does not follow a rule as it is written.
	Problems []string `tfsdk:"-"`
}

// Listed is one rule in PVE's names.
type Listed = map[string]string

// Rule is one rule. Nil properties are not set; Enabled nil means true.
type Rule struct {
	Type     *string `tfsdk:"type"`   // in, out or group
	Action   *string `tfsdk:"action"` // ACCEPT, DROP, REJECT, or the name of a security group
	Enabled  *bool   `tfsdk:"enabled"`
	Comment  *string `tfsdk:"comment"`
	Source   *string `tfsdk:"source"`
	Dest     *string `tfsdk:"dest"`
	SPort    *string `tfsdk:"sport"`
	DPort    *string `tfsdk:"dport"`
	Proto    *string `tfsdk:"proto"`
	IFace    *string `tfsdk:"iface"` // a network device of the VM, net0
	Log      *string `tfsdk:"log"`
	Macro    *string `tfsdk:"macro"`
	ICMPType *string `tfsdk:"icmp_type"`
}

// flags and texts are the options by PVE's names (pve-firewall Firewall.pm, $vm_option_properties).
func (s *Settings) flags() map[string]**bool {
	return map[string]**bool{"enable": &s.Enabled, "dhcp": &s.DHCP, "ndp": &s.NDP, "radv": &s.RADV,
		"ipfilter": &s.IPFilter, "macfilter": &s.MACFilter}
}

func (s *Settings) texts() map[string]**string {
	return map[string]**string{"log_level_in": &s.LogLevelIn, "log_level_out": &s.LogLevelOut,
		"policy_in": &s.PolicyIn, "policy_out": &s.PolicyOut}
}

// texts are the properties of a rule by PVE's names, but for enable (pve-firewall Firewall.pm, $rule_properties).
func (r *Rule) texts() map[string]**string {
	return map[string]**string{"type": &r.Type, "action": &r.Action, "comment": &r.Comment, "source": &r.Source,
		"dest": &r.Dest, "sport": &r.SPort, "dport": &r.DPort, "proto": &r.Proto, "iface": &r.IFace, "log": &r.Log,
		"macro": &r.Macro, "icmp-type": &r.ICMPType}
}

// Options are the options that are set, in PVE's names. Nil settings have none.
func (s *Settings) Options() map[string]string {
	all := map[string]string{}
	if s == nil {
		return all
	}
	for name, value := range s.flags() {
		if *value != nil {
			all[name] = property.ShowBool(**value)
		}
	}
	for name, value := range s.texts() {
		if *value != nil {
			all[name] = **value
		}
	}
	return all
}

// From makes settings of options and rules as PVE lists them.
func From(options map[string]string, rules []Listed) *Settings {
	s := &Settings{}
	for name, into := range s.flags() {
		if value, is := options[name]; is {
			*into = new(value == "1")
		}
	}
	read(options, s.texts())
	for _, listed := range rules {
		r := Rule{Enabled: new(isOn(listed))}
		read(listed, r.texts())
		s.Rules = append(s.Rules, r)
	}
	return s
}

// read fills in the values that are not empty.
func read(values map[string]string, into map[string]**string) {
	for name, value := range into {
		if is := values[name]; is != "" {
			*value = &is
		}
	}
}

// Listed is the rule in PVE's names.
func (r Rule) Listed() Listed {
	all := Listed{"enable": property.ShowBool(r.Enabled == nil || *r.Enabled)}
	for name, value := range r.texts() {
		if *value != nil && **value != "" {
			all[name] = **value
		}
	}
	return all
}

// List is rules in PVE's names.
func List(rules []Rule) []Listed {
	all := make([]Listed, len(rules))
	for i, r := range rules {
		all[i] = r.Listed()
	}
	return all
}

// SameRules compares two lists of rules as PVE keeps them.
func SameRules(a, b []Listed) bool { return slices.EqualFunc(a, b, sameRule) }

// sameRule compares two rules as PVE keeps them: it trims comments and writes macros in their own case (pve-firewall
// Firewall.pm, parse_fw_rule).
func sameRule(a, b Listed) bool { return maps.Equal(normalRule(a), normalRule(b)) }

func normalRule(values Listed) Listed {
	normal := maps.Clone(values)
	normal["macro"], normal["comment"] = strings.ToLower(values["macro"]), strings.TrimSpace(values["comment"])
	if normal["enable"] == "" {
		normal["enable"] = "0"
	}
	maps.DeleteFunc(normal, func(_, value string) bool { return value == "" })
	return normal
}
