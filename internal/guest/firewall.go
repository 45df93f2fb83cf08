package guest

import (
	"maps"
	"strings"
)

// Firewall is a VM's firewall: its options and its rules. A nil option is one that nothing is said about. The tags are the
// names of Terraform's attributes.
type Firewall struct {
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
	Rules []FirewallRule `tfsdk:"rules"`
}

// FirewallRule is one rule. Nil properties are not set; Enabled nil means true.
type FirewallRule struct {
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

// options are the firewall's options in PVE's names (pve-firewall Firewall.pm, $vm_option_properties).
func (f *Firewall) options() map[string]string {
	all := map[string]string{}
	if f == nil {
		return all
	}
	for name, value := range map[string]*bool{"enable": f.Enabled, "dhcp": f.DHCP, "ndp": f.NDP, "radv": f.RADV,
		"ipfilter": f.IPFilter, "macfilter": f.MACFilter} {
		if value != nil {
			all[name] = flag(*value)
		}
	}
	for name, value := range map[string]*string{"log_level_in": f.LogLevelIn, "log_level_out": f.LogLevelOut,
		"policy_in": f.PolicyIn, "policy_out": f.PolicyOut} {
		if value != nil {
			all[name] = *value
		}
	}
	return all
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// firewallFrom is options and rules as PVE lists them.
func firewallFrom(options map[string]string, rules []map[string]string) *Firewall {
	f := &Firewall{
		Enabled: truth(options, "enable"), DHCP: truth(options, "dhcp"), NDP: truth(options, "ndp"), RADV: truth(options, "radv"),
		IPFilter: truth(options, "ipfilter"), MACFilter: truth(options, "macfilter"),
		LogLevelIn: text(options, "log_level_in"), LogLevelOut: text(options, "log_level_out"),
		PolicyIn: text(options, "policy_in"), PolicyOut: text(options, "policy_out"),
	}
	for _, r := range rules {
		enabled := r["enable"] == "1"
		f.Rules = append(f.Rules, FirewallRule{
			Type: text(r, "type"), Action: text(r, "action"), Enabled: &enabled, Comment: text(r, "comment"),
			Source: text(r, "source"), Dest: text(r, "dest"), SPort: text(r, "sport"), DPort: text(r, "dport"), Proto: text(r, "proto"),
			IFace: text(r, "iface"), Log: text(r, "log"), Macro: text(r, "macro"), ICMPType: text(r, "icmp-type"),
		})
	}
	return f
}

func text(values map[string]string, name string) *string {
	if v := values[name]; v != "" {
		return &v
	}
	return nil
}

func truth(values map[string]string, name string) *bool {
	v, ok := values[name]
	if !ok {
		return nil
	}
	is := v == "1"
	return &is
}

// values is a rule in PVE's names.
func (r FirewallRule) values() map[string]string {
	all := map[string]string{"enable": flag(r.Enabled == nil || *r.Enabled)}
	for name, value := range map[string]*string{"type": r.Type, "action": r.Action, "comment": r.Comment, "source": r.Source,
		"dest": r.Dest, "sport": r.SPort, "dport": r.DPort, "proto": r.Proto, "iface": r.IFace, "log": r.Log, "macro": r.Macro,
		"icmp-type": r.ICMPType} {
		if value != nil && *value != "" {
			all[name] = *value
		}
	}
	return all
}

// sameRule compares two rules as PVE keeps them: it trims comments and writes macros in their own case (pve-firewall
// Firewall.pm, parse_fw_rule).
func sameRule(a, b map[string]string) bool { return maps.Equal(normalRule(a), normalRule(b)) }

func normalRule(values map[string]string) map[string]string {
	normal := maps.Clone(values)
	normal["macro"], normal["comment"] = strings.ToLower(values["macro"]), strings.TrimSpace(values["comment"])
	if normal["enable"] == "" {
		normal["enable"] = "0"
	}
	maps.DeleteFunc(normal, func(_, value string) bool { return value == "" })
	return normal
}
