package tfkit

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// The formats of PVE's names, from its JSON schema (pve-common JSONSchema.pm, pve-storage, qemu-server).
var (
	nodeName   = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`)
	storageID  = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._-]*[a-zA-Z0-9]$`)
	bridge     = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,15}$`)
	dnsName    = regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	tag        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)
	pool       = regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+){0,2}$`)
	size       = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?[KMGT]$`)
	volumeID   = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._-]*:\S+$`)
	trunkRange = regexp.MustCompile(`^[0-9]{1,4}(-[0-9]{1,4})?$`)
	cpuFlag    = regexp.MustCompile(`^[+-][a-zA-Z0-9_.-]+$`)
	cpuType    = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	cpuSet     = regexp.MustCompile(`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`)
	// PVE takes 2 to 40 characters.
	snapshotName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{1,39}$`)
	machineType  = regexp.MustCompile(`^(pc|pc(-i440fx)?-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?|q35|pc-q35-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?|virt(-\d+(\.\d+)+)?(\+pve\d+)?)$`)
)

// NodeName accepts the name of a cluster node.
func NodeName() validator.String {
	return stringvalidator.RegexMatches(nodeName, "must be the name of a node, such as \"pve1\"")
}

// StorageID accepts the id of a storage.
func StorageID() validator.String {
	return stringvalidator.RegexMatches(storageID, "must be the id of a storage, such as \"local-zfs\", without a volume behind it")
}

// Bridge accepts the name of a bridge or VNet.
func Bridge() validator.String {
	return stringvalidator.RegexMatches(bridge, "must be the name of a bridge or VNet, such as \"vmbr0\"")
}

// DNSName accepts what PVE takes as the name of a guest.
func DNSName() validator.String {
	return stringvalidator.RegexMatches(dnsName, "must be a DNS name: letters, digits and hyphens in parts of at most 63 characters, separated by dots")
}

// Tag accepts one tag.
func Tag() validator.String {
	return stringvalidator.RegexMatches(tag, "must begin with a letter, a digit or \"_\", followed by these or \"-\", \"+\", \".\"")
}

// PoolID accepts the name of a resource pool, up to three levels deep.
func PoolID() validator.String {
	return stringvalidator.RegexMatches(pool, "must be the name of a resource pool, such as \"web\" or \"prod/web\"")
}

// Size accepts a size with its unit: a whole number of bytes above zero that PVE can count.
func Size() validator.String {
	return Check{Want: "must be a number with one of the units K, M, G, T (powers of 1024), such as \"32G\"", Wrong: func(value string) string {
		if !size.MatchString(value) {
			return "It is no such number."
		}
		switch bytes, err := vm.ParseSize(value); {
		case err != nil:
			return "It is not a whole number of bytes, or too large."
		case bytes == 0:
			return "It is nothing."
		}
		return ""
	}}
}

// VolumeID accepts the id of a volume.
func VolumeID() validator.String {
	return stringvalidator.RegexMatches(volumeID, "must be a volume id, such as \"local:import/ubuntu.qcow2\"")
}

// Trunk accepts a VLAN id or a range of them.
func Trunk() validator.String {
	return Check{Want: "must be a VLAN id or a range, such as \"5\" or \"10-20\"", Wrong: func(value string) string {
		if !trunkRange.MatchString(value) {
			return "It is neither."
		}
		first, last, isRange := strings.Cut(value, "-")
		low, _ := strconv.Atoi(first)
		high := low
		if isRange {
			high, _ = strconv.Atoi(last)
		}
		switch {
		case low < 1 || high > 4094:
			return "VLAN ids are 1 to 4094."
		case low > high:
			return "The range runs backwards."
		}
		return ""
	}}
}

// CPUType accepts the name of a CPU model.
func CPUType() validator.String {
	return stringvalidator.RegexMatches(cpuType, "must be a CPU model without options, such as \"host\" or \"x86-64-v2-AES\"; flags have an attribute of their own")
}

// SnapshotName accepts what PVE takes as the name of a snapshot (pve-common JSONSchema.pm, pve-configid).
func SnapshotName() validator.String {
	return stringvalidator.RegexMatches(snapshotName, "must be the name of a snapshot: 2 to 40 letters, digits, \"_\" and \"-\", a letter first")
}

// Line accepts a text that is not empty and has no control characters, which a line of PVE's files could not hold.
func Line() validator.String {
	return Check{Want: "must be one line of text", Wrong: func(value string) string {
		if value == "" || strings.ContainsFunc(value, unicode.IsControl) {
			return "It is empty, or has a line break or another control character."
		}
		return ""
	}}
}

// Printable accepts a text of several lines without NUL, which PVE cannot store.
func Printable() validator.String {
	return Check{Want: "must be text", Wrong: func(value string) string {
		if strings.ContainsRune(value, 0) {
			return "It has a NUL character."
		}
		return ""
	}}
}

// CPUFlag accepts a CPU flag with its sign.
func CPUFlag() validator.String {
	return stringvalidator.RegexMatches(cpuFlag, "must be a CPU flag with a sign, such as \"+aes\" or \"-pcid\"")
}

// CPUSet accepts a list of host CPUs.
func CPUSet() validator.String {
	return stringvalidator.RegexMatches(cpuSet, "must be a list of host CPUs, such as \"0,4-7\"")
}

// Machine accepts a machine type with its options.
func Machine() validator.String {
	return stringvalidator.RegexMatches(machineType, "must be a machine type, such as \"q35\" or \"pc-i440fx-9.2\"")
}

// Check is a validator made of a function that says what is wrong with a known string, or "".
type Check struct {
	Want  string // what is accepted, for the documentation
	Wrong func(value string) string
}

var _ validator.String = Check{}

// Description says what is accepted.
func (c Check) Description(context.Context) string { return c.Want }

// MarkdownDescription says what is accepted.
func (c Check) MarkdownDescription(context.Context) string { return c.Want }

// ValidateString refuses what Wrong objects to.
func (c Check) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	value := req.ConfigValue.ValueString()
	if wrong := c.Wrong(value); wrong != "" {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid Attribute Value",
			fmt.Sprintf("Attribute %s %s, got: %q. %s", req.Path, c.Want, value, wrong))
	}
}

// MAC accepts a unicast MAC address.
func MAC() validator.String {
	return Check{Want: "must be a unicast MAC address, such as \"BC:24:11:00:00:01\"", Wrong: func(value string) string {
		mac, err := net.ParseMAC(value)
		switch {
		case err != nil || len(mac) != 6 || strings.Count(value, ":") != 5:
			return "It is not six pairs of hexadecimal digits separated by colons."
		case mac[0]&1 == 1:
			return "It is a multicast address: the lowest bit of the first byte is set."
		}
		return ""
	}}
}

// Address accepts an address of one family: a CIDR or one of some words; plain addresses only if gateway is set.
func Address(v6, gateway bool, words ...string) validator.String {
	family, example := "IPv4", "10.0.0.5/24"
	if v6 {
		family, example = "IPv6", "2001:db8::5/64"
	}
	want := fmt.Sprintf("must be an %s address with its prefix length (%s)", family, example)
	if gateway {
		want = fmt.Sprintf("must be an %s address without a prefix length", family)
	}
	if len(words) > 0 {
		want += ", or " + strings.Join(words, ", or ")
	}
	return Check{Want: want, Wrong: func(value string) string {
		for _, word := range words {
			if value == word {
				return ""
			}
		}
		if !isAddress(value, v6, gateway) {
			return "It is not such an address."
		}
		return ""
	}}
}

func isAddress(value string, v6, gateway bool) bool {
	if gateway {
		addr, err := netip.ParseAddr(value)
		return err == nil && addr.Zone() == "" && addr.Is6() == v6
	}
	prefix, err := netip.ParsePrefix(value)
	return err == nil && prefix.Addr().Is6() == v6 && prefix.Bits() >= shortestPrefix
}

// shortestPrefix is the least prefix length that PVE takes (pve-common JSONSchema.pm, CIDRv4 and CIDRv6).
const shortestPrefix = 8

// IP accepts an address of either family, without a zone.
func IP() validator.String {
	return Check{Want: "must be an IP address", Wrong: func(value string) string {
		if addr, err := netip.ParseAddr(value); err != nil || addr.Zone() != "" {
			return "It is not an IP address, or has a zone."
		}
		return ""
	}}
}

// Positive accepts a positive duration.
func Positive() validator.String {
	return Check{Want: "must be a duration, such as \"90s\" or \"5m\"", Wrong: func(value string) string {
		if d, err := time.ParseDuration(value); err != nil || d <= 0 {
			return "It is not a positive number with a unit s, m or h."
		}
		return ""
	}}
}

// Slot accepts the device keys of PVE: a map from bus to the number of its slots, {"ide": 4} = ide0 to ide3.
func Slot(buses map[string]int, want string) validator.String {
	return Check{Want: want, Wrong: func(value string) string {
		bus := strings.TrimRight(value, "0123456789")
		number := strings.TrimPrefix(value, bus)
		count, ok := buses[bus]
		if !ok || number == "" || len(number) > 2 || len(number) > 1 && number[0] == '0' {
			return "There is no such slot."
		}
		n := 0
		for _, digit := range number {
			n = n*10 + int(digit-'0')
		}
		if n >= count {
			return fmt.Sprintf("The last slot of its kind is %s%d.", bus, count-1)
		}
		return ""
	}}
}
