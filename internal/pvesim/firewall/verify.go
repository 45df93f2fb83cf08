package firewall

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
)

// ruleProperties are what a rule consists of (pve-firewall Firewall.pm, $rule_properties).
var ruleProperties = []string{
	"pos", "digest", "type", "action", "enable", "comment", "macro", "iface", "source", "dest", "proto", "dport", "sport",
	"log", "icmp-type",
}

// formatErrors are what the formats of a rule's parameters refuse, before any of its other rules.
func formatErrors(rule map[string]string) map[string]string {
	errs := map[string]string{}
	note := func(k, problem string) {
		if problem != "" {
			errs[k] = "invalid format - " + problem + "\n"
		}
	}
	if proto := rule["proto"]; proto != "" && !knownProtocol(proto) {
		note("proto", fmt.Sprintf("unknown protocol '%s'", proto))
	}
	note("dport", checkPorts(rule["dport"], true))
	note("sport", checkPorts(rule["sport"], false))
	note("source", checkAddresses(rule["source"]))
	note("dest", checkAddresses(rule["dest"]))
	if t := rule["icmp-type"]; t != "" && !isOneOf(icmp4Types, t) && !isOneOf(icmp6Types, t) {
		note("icmp-type", fmt.Sprintf("invalid icmp-type value '%s'", t))
	}
	return errs
}

// checkPorts is parse_port_name_number_or_range.
func checkPorts(list string, destination bool) (problem string) {
	if list == "" {
		return ""
	}
	count, icmp := 0, false
	if strings.HasSuffix(list, ",") {
		return "extraneous commas in list"
	}
	for _, item := range strings.Split(list, ",") {
		first, second, isRange := strings.Cut(item, ":")
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(second)
		switch {
		case err == nil && from > maxPort:
			return fmt.Sprintf("invalid port '%s'", first)
		case isRange && err == nil && err2 == nil && to > maxPort:
			return fmt.Sprintf("invalid port '%s'", second)
		case isRange && err == nil && err2 == nil && from > to:
			return fmt.Sprintf("backwards range '%s:%s' not allowed, did you mean '%s:%s'?", first, second, second, first)
		case isRange && err == nil && err2 == nil:
			count += 2
		case !isRange && err == nil:
			count++
		case destination && (isOneOf(icmp4Types, item) || isOneOf(icmp6Types, item)):
			icmp = true
		case !isOneOf(services, item):
			return fmt.Sprintf("invalid port '%s'", item)
		}
	}
	switch {
	case icmp && count > 0:
		return "ICMP ports not allowed in port range"
	case count > 15:
		return "too many entries in port list (> 15 numbers)"
	}
	return ""
}

const maxPort = 65535

// checkAddresses is parse_address_list: names of sets and aliases, or addresses, networks and ranges of one family.
func checkAddresses(list string) (problem string) {
	switch {
	case list == "":
		return ""
	case strings.HasPrefix(list, "+"):
		if len(list) > 65 {
			return "ipset name too long"
		}
		return ""
	case aliasName.MatchString(list):
		if len(list) > 64 {
			return "alias name too long"
		}
		return ""
	case strings.HasSuffix(list, ","):
		return "extraneous commas in list"
	}
	elements := strings.Split(list, ",")
	is4 := false
	for i, element := range elements {
		a, problem := checkAddress(element)
		if problem != "" {
			return "invalid IP address: " + problem
		}
		if i > 0 && a.Is4() != is4 {
			return fmt.Sprintf("detected mixed ipv4/ipv6 addresses in address list '%s'", list)
		}
		is4 = a.Is4()
		if strings.Contains(element, "-") && len(elements) > 1 {
			return "you can't use a range in a list"
		}
	}
	return ""
}

// checkAddress reads an address, a network or a range, or returns the message of Net::IP.
func checkAddress(text string) (a netip.Addr, problem string) {
	first, last, _ := strings.Cut(text, "-")
	word, bits, hasBits := strings.Cut(first, "/")
	a, err := netip.ParseAddr(word)
	if err != nil {
		return a, fmt.Sprintf("Cannot determine IP version for %s", word)
	}
	if n, err := strconv.Atoi(bits); hasBits && (err != nil || n > a.BitLen()) {
		return a, fmt.Sprintf("Prefix length %s is longer than IP address (%d)", bits, a.BitLen())
	}
	if last != "" {
		if _, err := netip.ParseAddr(last); err != nil {
			return a, fmt.Sprintf("Cannot determine IP version for %s", last)
		}
	}
	return a, ""
}

// verifyICMP holds a type of ICMP to its protocol.
func verifyICMP(rule map[string]string) error {
	t, proto := rule["icmp-type"], rule["proto"]
	switch {
	case t == "":
		return nil
	case !slices.Contains(icmpProtocols, proto):
		return perl.Invalid("proto", "missing property - 'icmp-type' requires this property")
	case rule["dport"] != "":
		return perl.Invalid("icmp-type", "'icmp-type' cannot be specified together with 'dport'")
	case proto == "icmp" && !isOneOf(icmp4Types, t), proto != "icmp" && !isOneOf(icmp6Types, t):
		return perl.Invalid("icmp-type", "invalid icmp-type '"+t+"' for proto '"+proto+"'")
	}
	return nil
}
