package vmschema

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// bridgeName accepts the name of a bridge or VNet.
func bridgeName() validator.String {
	return stringvalidator.RegexMatches(bridgePattern, "must be the name of a bridge or VNet, such as \"vmbr0\"")
}

// vlanTrunk accepts a VLAN id or a range of them.
func vlanTrunk() validator.String {
	return kit.Check{Want: "must be a VLAN id or a range, such as \"5\" or \"10-20\"", Wrong: func(value string) string {
		if !trunkPattern.MatchString(value) {
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

// medium accepts the medium of an optical drive.
func medium() validator.String {
	return kit.Check{Want: "must be the id of an ISO image, such as \"local:iso/debian.iso\", or one of none, cdrom",
		Shows: true, Wrong: func(value string) string {
			if value == "none" || value == "cdrom" || kit.IsVolumeID(value) {
				return ""
			}
			return "An empty drive is \"none\", the drive of the node \"cdrom\"."
		}}
}

// cpuTypeName accepts the name of a CPU model.
func cpuTypeName() validator.String {
	return stringvalidator.RegexMatches(cpuTypePattern, "must be a CPU model without options, such as \"host\" or "+
		"\"x86-64-v2-AES\"; flags have an attribute of their own")
}

// cpuFlag accepts a CPU flag with its sign.
func cpuFlag() validator.String {
	return stringvalidator.RegexMatches(cpuFlagPattern, "must be a CPU flag with a sign, such as \"+aes\" or \"-pcid\"")
}

// secretLine accepts what PVE can store of a password, which it keeps in a line of its own for Windows. The error does
// not repeat it.
func secretLine() validator.String { return secret{} }

type secret struct{}

// Description returns the requirement.
func (secret) Description(context.Context) string {
	return "must be one line of text that is not empty"
}

// MarkdownDescription returns the requirement.
func (s secret) MarkdownDescription(ctx context.Context) string { return s.Description(ctx) }

// ValidateString refuses an empty text and one of several lines.
func (s secret) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	value := req.ConfigValue.ValueString()
	if open := req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown(); !open && kit.Line().Wrong(value) != "" {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid Attribute Value",
			fmt.Sprintf("Attribute %s %s. %s", req.Path, s.Description(ctx), kit.Line().Wrong(value)))
	}
}

// bootDevice accepts a slot that PVE boots from (qemu-server QemuServer.pm, pve-qm-bootdev).
func bootDevice() validator.String {
	return slotName("must be the slot of a device, such as \"scsi0\" or \"net0\"", "ide", "sata", "scsi", "virtio", "net",
		"usb", "hostpci")
}

// portList accepts ports as a firewall rule has them (pve-firewall Firewall.pm, parse_port_name_number_or_range). The
// node's list of names decides on a name.
func portList() validator.String {
	return kit.Check{Want: "must be ports: numbers, ranges such as 8000:8080 and names, separated by commas",
		Wrong: func(value string) string {
			numbers := 0
			for item := range strings.SplitSeq(value, ",") {
				first, last, isRange := strings.Cut(item, ":")
				if !isRange {
					last = first
				}
				low, errLow := strconv.ParseUint(first, 10, 64)
				high, errHigh := strconv.ParseUint(last, 10, 64)
				switch named := !isRange && errLow != nil; {
				case named && !portName.MatchString(item), !named && (errLow != nil || errHigh != nil):
					return "One of them is no port."
				case named:
					continue
				case high > 65535 || low > high:
					return "Ports are 0 to 65535, the lower one first."
				}
				numbers++
				if isRange {
					numbers++
				}
			}
			if numbers > 15 {
				return "PVE takes 15 numbers at most."
			}
			return ""
		}}
}

// addressList accepts the source or destination of a firewall rule (pve-firewall Firewall.pm, parse_address_list). PVE
// decides on what looks like an address.
func addressList() validator.String {
	return kit.Check{Want: "must be addresses or networks separated by commas, a range, +ipset or an alias",
		Wrong: func(value string) string {
			if firewallRef.MatchString(value) {
				return ""
			}
			for item := range strings.SplitSeq(value, ",") {
				if !firewallAddress.MatchString(item) || !strings.ContainsAny(item, ".:") {
					return "One of them is none of these."
				}
			}
			return ""
		}}
}

// storedText accepts a description that PVE stores.
func storedText() validator.String {
	return kit.Check{Want: "must be a text that PVE can store", Wrong: func(value string) string {
		if strings.TrimRightFunc(value, unicode.IsSpace) == "0" {
			return "PVE takes a lone 0 for no description (qemu-server QemuServer.pm write_vm_config)."
		}
		return ""
	}}
}

// hostCPUs accepts a list of host CPUs.
func hostCPUs() validator.String {
	return stringvalidator.RegexMatches(cpuSetPattern, "must be a list of host CPUs, such as \"0,4-7\"")
}

// machineType accepts a machine type with its options.
func machineType() validator.String {
	return stringvalidator.RegexMatches(machinePattern, "must be a machine type, such as \"q35\" or \"pc-i440fx-9.2\"")
}

// macAddress accepts a unicast MAC address.
func macAddress() validator.String {
	return kit.Check{Want: "must be a unicast MAC address, such as \"BC:24:11:00:00:01\"",
		Wrong: func(value string) string {
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

// networkAddress accepts an address of one family: a CIDR or one of some words; plain addresses only if gateway is set.
func networkAddress(v6, gateway bool, words ...string) validator.String {
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
	return kit.Check{Want: want, Wrong: func(value string) string {
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

// ipAddress accepts an address of either family, without a zone.
func ipAddress() validator.String {
	return kit.Check{Want: "must be an IP address", Wrong: func(value string) string {
		if addr, err := netip.ParseAddr(value); err != nil || addr.Zone() != "" {
			return "It is not an IP address, or has a zone."
		}
		return ""
	}}
}

// slotName accepts a slot of one of some buses or kinds of device, "net" for net0 to net31.
func slotName(want string, families ...string) validator.String {
	return kit.Check{Want: want, Wrong: func(value string) string {
		family := strings.TrimRight(value, "0123456789")
		digits := strings.TrimPrefix(value, family)
		if !slices.Contains(families, family) || digits == "" || len(digits) > 2 || len(digits) > 1 && digits[0] == '0' {
			return "There is no such slot."
		}
		count := vm.SlotCount(family)
		if n, err := strconv.Atoi(digits); err != nil || n >= count {
			return fmt.Sprintf("The last slot of its kind is %s%d.", family, count-1)
		}
		return ""
	}}
}

// DiskBuses are the buses that disks can be on.
func DiskBuses() []string { return []string{"ide", "sata", "scsi", "virtio"} }

// CDROMBuses are the buses that optical drives can be on.
func CDROMBuses() []string { return []string{"ide", "sata", "scsi"} }
