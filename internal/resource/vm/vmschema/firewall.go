package vmschema

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

func logLevels() []string {
	return []string{"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug", "nolog"}
}

// firewallAttributes are the VM's own firewall (pve-firewall Firewall.pm).
func firewallAttributes() map[string]schema.Attribute {
	policies := oneWord("ACCEPT", "DROP", "REJECT")
	return map[string]schema.Attribute{
		"firewall": optionGroup("The VM's own firewall, for network devices with `firewall = true`, on "+
			"clusters whose firewall is on. It is set up before the VM is started. Options that were set by hand before "+
			"the VM had `firewall` here are not changed: write them here as they are first. Needs `VM.Config.Network`.",
			map[string]schema.Attribute{
				"enabled": flagOption("Filter the VM's traffic. Default: `false`."),
				"dhcp":    flagOption("Allow DHCP. Default by PVE's description: `false`."),
				"ndp":     flagOption("Allow the neighbour discovery of IPv6. Default by PVE's description: `false`."),
				"radv":    flagOption("Let the VM send router advertisements. Default: `false`."),
				"ipfilter": flagOption("Let the VM use only the addresses of the IP sets `ipfilter-net*`; it may always use " +
					"its link-local address. Default: `false`."),
				"macfilter": flagOption("Let the VM use only the MAC addresses of its network devices. Default: `true`."),
				"log_level_in": textOption("What is logged of incoming traffic: `emerg`, `alert`, `crit`, `err`, `warning`, "+
					"`notice`, `info`, `debug` or `nolog`. Default: `nolog`.", oneWord(logLevels()...)),
				"log_level_out": textOption("The same for outgoing traffic. Default: `nolog`.", oneWord(logLevels()...)),
				"policy_in": textOption("What becomes of incoming traffic that no rule decides on: `ACCEPT`, `DROP` or "+
					"`REJECT`. Default: `DROP`.", policies),
				"policy_out": textOption("The same for outgoing traffic. Default: `ACCEPT`.", policies),
				"rules": schema.ListNestedAttribute{Optional: true, Computed: true,
					MarkdownDescription: "All rules, in order: the first that matches decides. Other rules are removed. " +
						"Where the VM has rules that were made by hand before it had `firewall` here, the plan refuses to remove " +
						"them: write them here first, or leave the attribute out for one apply, which takes them into the state. " +
						"Without the attribute all are left alone.",
					NestedObject: schema.NestedAttributeObject{Attributes: firewallRuleAttributes()}},
			}),
	}
}

// firewallRuleAttributes are the parts of a rule. PVE writes no part that is false to Perl, "0" (pve-firewall
// Firewall.pm, $format_rules).
func firewallRuleAttributes() map[string]schema.Attribute {
	part := func(about string, checks ...validator.String) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, MarkdownDescription: about,
			Validators: append(checks, stringvalidator.LengthAtLeast(1), stringvalidator.NoneOf("0"))}
	}
	return map[string]schema.Attribute{
		"type": schema.StringAttribute{Required: true, Validators: []validator.String{oneWord("in", "out", "group")},
			MarkdownDescription: "`in`, `out`, or `group` for a security group of the cluster."},
		"action": schema.StringAttribute{Required: true,
			Validators: []validator.String{stringvalidator.RegexMatches(firewallAction,
				"must be ACCEPT, DROP, REJECT or the name of a security group")},
			MarkdownDescription: "`ACCEPT`, `DROP`, `REJECT`, or the name of the security group."},
		"enabled": schema.BoolAttribute{Optional: true, MarkdownDescription: "The rule counts. Default: `true`."},
		"comment": part("A note; white space around it does not count.", kit.Check{Want: "must be one line",
			Wrong: func(value string) string {
				if !oneLine.MatchString(value) {
					return "It is empty, or has a line break."
				}
				return ""
			}}),
		"source": part("Where the traffic comes from: addresses or networks (`10.0.0.0/8,192.168.0.1`), a range "+
			"(`10.0.0.1-10.0.0.9`), `+ipset` or an alias. Default: anywhere.", addressList(),
			stringvalidator.LengthAtMost(512)),
		"dest": part("Where it goes to, in the same form. Default: anywhere.", addressList(),
			stringvalidator.LengthAtMost(512)),
		"sport": part("Source ports: `80`, `8000:8080`, a list with commas, or a name of `/etc/services`. Needs `proto`.",
			portList()),
		"dport": part("Destination ports, in the same form. Needs `proto`.", portList()),
		"proto": part("Protocol: `tcp`, `udp`, `icmp`, … or its number. Default: any.",
			stringvalidator.RegexMatches(protocolName, "must be the name or the number of a protocol")),
		"iface": part("Network device of the VM, `net0`. Default: all.",
			stringvalidator.RegexMatches(guestDevice, "must be a network device of the VM such as net0")),
		"log": part("What is logged of it: `emerg`, `alert`, `crit`, `err`, `warning`, `notice`, `info`, `debug` or "+
			"`nolog`.",
			oneWord(logLevels()...)),
		"macro": part("Ready-made protocol and ports, such as `SSH` or `HTTPS`. PVE's list is in its manual.",
			stringvalidator.LengthAtMost(128), stringvalidator.RegexMatches(macroName, "must be the name of a macro")),
		"icmp_type": part("Type of an ICMP message, with `proto` `icmp` or `ipv6-icmp`: `echo-request`.",
			stringvalidator.RegexMatches(icmpType, "must be the name of a type, such as echo-request")),
	}
}
