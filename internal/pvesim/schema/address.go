package schema

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// addressVerifiers are those of IP addresses and networks. IPorCIDR: pve-firewall Firewall.pm.
func addressVerifiers(v map[string]verifier) {
	v["ipv4"] = address("value does not look like a valid IPv4 address", netip.Addr.Is4)
	v["ipv6"] = address("value does not look like a valid IPv6 address", netip.Addr.Is6)
	v["ip"] = address("value does not look like a valid IP address", netip.Addr.IsValid)
	v["CIDRv4"] = cidr("value does not look like a valid IPv4 CIDR network", netip.Addr.Is4)
	v["CIDRv6"] = cidr("value does not look like a valid IPv6 CIDR network", netip.Addr.Is6)
	v["CIDR"] = cidr("value does not look like a valid CIDR network", netip.Addr.IsValid)
	v["pve-ipv4-config"] = or("value does not look like a valid ipv4 network configuration", oneOf("dhcp", "manual"),
		v["CIDRv4"])
	v["pve-ipv6-config"] = or("value does not look like a valid ipv6 network configuration",
		oneOf("auto", "dhcp", "manual"), v["CIDRv6"])
	v["pve-storage-server"] = or("value does not look like a valid server name or IP address", v["ip"], v["dns-name"])
	v["IPorCIDR"] = or("value does not look like a valid IP address or CIDR network", v["ip"], anyPrefix)
	v["pve-storage-portal-dns"] = or("value does not look like a valid portal address",
		match(`[[:alnum:]\-.]+(?::\d+)?`, ""), bracketed, portAfterDot)
	v["address"] = func(value string) error {
		if v["ip"](value) == nil || v["dns-name"](value) == nil {
			return nil
		}
		return fmt.Errorf("value does not look like a valid address: %s", value)
	}
}

// address makes a verifier of addresses of one family.
func address(text string, family func(netip.Addr) bool) verifier {
	return func(value string) error {
		if a, err := netip.ParseAddr(value); err != nil || a.Zone() != "" || !family(a) {
			return errors.New(text)
		}
		return nil
	}
}

// cidr asks for a prefix length of 8 or more, the host part may be set (10.0.0.5/24).
func cidr(text string, family func(netip.Addr) bool) verifier {
	return func(value string) error {
		host, length, ok := strings.Cut(value, "/")
		a, err := netip.ParseAddr(host)
		if !ok || err != nil || a.Zone() != "" || !family(a) || digits(length) != len(length) {
			return errors.New(text)
		}
		if n, err := strconv.Atoi(length); err != nil || n <= 7 || n > a.BitLen() {
			return errors.New(text)
		}
		return nil
	}
}

func anyPrefix(value string) error {
	_, err := netip.ParsePrefix(value)
	return err
}

// bracketed is [host or address], perhaps with :port (pve-common Tools.pm parse_host_and_port).
func bracketed(value string) error {
	host, port, ok := strings.Cut(strings.TrimPrefix(value, "["), "]")
	if !ok || !strings.HasPrefix(value, "[") {
		return errors.New("no brackets")
	}
	if port != "" && (port[0] != ':' || len(port) == 1 || digits(port[1:]) != len(port)-1) {
		return errors.New("no port")
	}
	if match(`[[:alnum:]\-.]+`, "")(host) == nil {
		return nil
	}
	_, err := netip.ParseAddr(host)
	return err
}

// portAfterDot is an IPv6 address, perhaps with .port.
func portAfterDot(value string) error {
	if a, err := netip.ParseAddr(value); err == nil && a.Is6() && a.Zone() == "" {
		return nil
	}
	i := strings.LastIndexByte(value, '.')
	if i < 0 || i == len(value)-1 || digits(value[i+1:]) != len(value)-i-1 {
		return errors.New("no port")
	}
	a, err := netip.ParseAddr(value[:i])
	if err == nil && (!a.Is6() || a.Zone() != "") {
		err = errors.New("no IPv6 address")
	}
	return err
}
