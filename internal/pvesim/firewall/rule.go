package firewall

import (
	"errors"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// ruleAnswer is a rule as the list shows it. The list counts positions itself, so they are numbers there.
func ruleAnswer(r *engine.Request, f *state.FirewallFile, pos int) map[string]any {
	out := typed(f.Rules[pos])
	out["pos"] = pos
	out["digest"] = rulesDigest(f)
	if v := RuleIPVersion(f.Rules[pos]); v != 0 {
		out["ipversion"] = v
	}
	if e := (*perl.Error)(nil); errors.As(verifyRule(r, f, f.Rules[pos]), &e) && len(e.Errors) > 0 {
		out["errors"] = e.Errors // an object (Firewall.pm verify_rule with $noerr, copy_list_with_digest)
	}
	return out
}

// RuleIPVersion is 4 or 6 if protocol or addresses tell, else 0 (pve-firewall Firewall.pm, verify_rule).
func RuleIPVersion(rule map[string]string) int {
	switch rule["proto"] {
	case "icmp":
		return 4
	case "icmpv6", "ipv6-icmp":
		return 6
	}
	for _, k := range []string{"source", "dest"} {
		first, _, _ := strings.Cut(rule[k], ",")
		first, _, _ = strings.Cut(first, "/")
		first, _, _ = strings.Cut(first, "-")
		if a, err := netip.ParseAddr(first); err == nil {
			if a.Is4() {
				return 4
			}
			return 6
		}
	}
	return 0
}

// firewallRules reads the file, whether there is a guest or not.
func firewallRules(r *engine.Request) (any, error) {
	f := firewallFile(r)
	list := []any{}
	for pos := range f.Rules {
		list = append(list, ruleAnswer(r, f, pos))
	}
	return list, nil
}

// firewallAddRule puts a rule at the top, whatever "pos" and "digest" say (pve-firewall API2/Firewall/Rules.pm,
// create_rule).
func firewallAddRule(r *engine.Request) (any, error) {
	f, err := writableFirewall(r, nil)
	if err != nil {
		return nil, err
	}
	rule := copyRule(map[string]string{}, bodyParams(r))
	if err := verifyRule(r, f, rule); err != nil {
		return nil, err
	}
	if rule["enable"] == "" {
		rule["enable"] = "0"
	}
	f.Rules = slices.Insert(f.Rules, 0, rule)
	return nil, nil
}

// copyRule returns the rule with the changes; an empty value and "-" take a property away (Firewall.pm,
// copy_rule_data).
func copyRule(rule, changes map[string]string) map[string]string {
	out := maps.Clone(rule)
	for k, v := range changes {
		if v == "" || v == "-" {
			delete(out, k)
			continue
		}
		out[k] = v
	}
	for _, k := range []string{"iface", "source", "dest", "proto", "dport", "sport", "log", "comment"} {
		if out[k] == "0" || k == "comment" && strings.TrimSpace(out[k]) == "" { // not written ($format_rules)
			delete(out, k)
		}
	}
	return out
}

var (
	guestInterface = regexp.MustCompile(`^net\d+$`)
	aliasName      = regexp.MustCompile(`^(?:guest/|dc/)?([A-Za-z][A-Za-z0-9_-]+)$`)
	ipsetName      = regexp.MustCompile(`^\+(?:guest/|dc/|sdn/)?([A-Za-z][A-Za-z0-9_-]+)$`)
)

// verifyRule refuses what a rule of that place cannot be (Firewall.pm, verify_rule). Names of security groups are not
// checked. Aliases and IP sets are those of the file and of the cluster.
func verifyRule(r *engine.Request, f *state.FirewallFile, rule map[string]string) error {
	if errs := formatErrors(rule); len(errs) > 0 {
		return &perl.Error{Status: 400, Message: "Parameter verification failed.", Errors: errs}
	}
	if err := verifyPlace(placeOf(r), rule); err != nil {
		return err
	}
	if err := verifyMacro(rule); err != nil {
		return err
	}
	if err := verifyICMP(rule); err != nil {
		return err
	}
	for _, k := range []string{"dport", "sport"} {
		if rule[k] == "" || rule[k] == "0" {
			continue
		}
		switch proto := rule["proto"]; {
		case proto == "":
			return perl.Invalid("proto", "missing property - '"+k+"' requires this property")
		case !slices.Contains(protocolsWithPorts, proto) && (k == "sport" || !slices.Contains(icmpProtocols, proto)):
			return perl.Invalid(k, "protocol '"+proto+"' does not support ports")
		}
	}
	for _, k := range []string{"source", "dest"} {
		if m := ipsetName.FindStringSubmatch(rule[k]); len(m) > 1 && f.IPSets[m[1]] == nil &&
			clusterFirewall(r.W).IPSets[m[1]] == nil {
			return perl.Invalid(k, "no such ipset '"+m[1]+"'")
		}
		if m := aliasName.FindStringSubmatch(rule[k]); len(m) > 1 && !hasAlias(r.W, f, m[1]) {
			return perl.Invalid(k, "no such alias '"+rule[k]+"'")
		}
	}
	return nil
}

var (
	protocolsWithPorts = []string{"udp", "17", "udplite", "136", "tcp", "6", "dccp", "33", "sctp", "132"}
	icmpProtocols      = []string{"icmp", "icmpv6", "ipv6-icmp"}
)

func position(r *engine.Request, f *state.FirewallFile) (int, error) {
	n, ok := perl.ParseNumber(r.Params["pos"])
	if !ok || n < 0 || n >= len(f.Rules) {
		return 0, perl.Die("no rule at position %s", r.Params["pos"])
	}
	return n, nil
}

// firewallRule answers with the position as it came in the path: a string, although the schema says integer.
func firewallRule(r *engine.Request) (any, error) {
	f := firewallFile(r)
	pos, err := position(r, f)
	if err != nil {
		return nil, err
	}
	out := ruleAnswer(r, f, pos)
	out["pos"] = r.Params["pos"]
	return out, nil
}

func firewallSetRule(r *engine.Request) (any, error) {
	f, err := writableFirewall(r, rulesDigest)
	if err != nil {
		return nil, err
	}
	pos, err := position(r, f)
	if err != nil {
		return nil, err
	}
	rule := f.Rules[pos]
	if to, ok := perl.ParseNumber(r.Params["moveto"]); ok && to != pos {
		f.Rules = slices.Delete(f.Rules, pos, pos+1)
		if to > pos {
			to--
		}
		f.Rules = slices.Insert(f.Rules, min(to, len(f.Rules)), rule)
		return nil, nil
	}
	rule = copyRule(rule, bodyParams(r))
	for _, k := range perl.SplitList(r.Params["delete"]) {
		if !slices.Contains(ruleProperties, k) {
			return nil, perl.Invalid("delete", "no such property ('"+k+"')")
		}
		if k == "type" || k == "action" {
			return nil, perl.Invalid("delete", "unable to delete required property '"+k+"'")
		}
		delete(rule, k)
	}
	if err := verifyRule(r, f, rule); err != nil {
		return nil, err
	}
	f.Rules[pos] = rule
	return nil, nil
}

func firewallDeleteRule(r *engine.Request) (any, error) {
	f, err := writableFirewall(r, rulesDigest)
	if err != nil {
		return nil, err
	}
	pos, err := position(r, f)
	if err != nil {
		return nil, err
	}
	f.Rules = slices.Delete(f.Rules, pos, pos+1)
	return nil, nil
}

// protocols is /etc/protocols of Debian's netbase, by number, as far as names go; the firewall adds icmpv6
// (Firewall.pm, get_etc_protocols).
var protocols = map[string]int{
	"ip": 0, "icmp": 1, "igmp": 2, "ggp": 3, "ipencap": 4, "st": 5, "tcp": 6, "egp": 8, "igp": 9, "pup": 12, "udp": 17,
	"hmp":     20,
	"xns-idp": 22, "rdp": 27, "iso-tp4": 29, "dccp": 33, "xtp": 36, "ddp": 37, "idpr-cmtp": 38, "ipv6": 41,
	"ipv6-route": 43,
	"ipv6-frag":  44, "idrp": 45, "rsvp": 46, "gre": 47, "esp": 50, "ah": 51, "skip": 57, "ipv6-icmp": 58, "icmpv6": 58,
	"ipv6-nonxt": 59,
	"ipv6-opts":  60, "rspf": 73, "vmtp": 81, "eigrp": 88, "ospf": 89, "ax.25": 93, "ipip": 94, "etherip": 97, "encap": 98,
	"pim":    103,
	"ipcomp": 108, "vrrp": 112, "l2tp": 115, "isis": 124, "sctp": 132, "fc": 133, "mobility-header": 135, "udplite": 136,
	"mpls-in-ip": 137, "manet": 138, "hip": 139, "shim6": 140, "wesp": 141, "rohc": 142, "ethernet": 143,
}

// knownProtocol tells whether a protocol has that name or number.
func knownProtocol(proto string) bool {
	if _, ok := protocols[proto]; ok {
		return true
	}
	n, err := strconv.Atoi(proto)
	return err == nil && slices.Contains(slices.Collect(maps.Values(protocols)), n)
}
