package agent

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Address is what the agent says of one network device.
type Address struct {
	MAC  string   // of the VM's configuration, in its spelling
	IPv4 []string // without prefix length, in the order of the agent
	IPv6 []string // likewise, global ones before unique local ones (fc00::/7)
}

// most addresses of one device and family are kept: a guest can report any number, and the state holds them all.
const most = 256

// Addresses are the addresses by network device of what an agent said; nil if it did not answer.
//
// An interface of the guest belongs to the device with its MAC address. So a bridge, a bond or a VLAN of the guest
// counts for the device that it has its MAC address from, and several with one MAC address count together. An
// interface that the guest has made up itself (lo, docker0, br-*, veth*, virbr*, cni*, flannel*, cali*, tun*, wg*,
// tailscale*) has a MAC address of its own or none, and does not count.
func Addresses(nics map[string]vm.NIC, interfaces []Interface) map[string]Address {
	if interfaces == nil {
		return nil
	}
	all := map[string]Address{}
	for slot, nic := range nics {
		if nic.MACAddr == nil {
			continue
		}
		found, ok := Address{MAC: *nic.MACAddr, IPv4: []string{}, IPv6: []string{}}, false
		for _, i := range interfaces {
			if strings.EqualFold(i.MAC, *nic.MACAddr) {
				found.IPv4, found.IPv6, ok = append(found.IPv4, i.IPv4...), append(found.IPv6, i.IPv6...), true
			}
		}
		if ok {
			found.IPv4, found.IPv6 = distinct(found.IPv4), distinct(found.IPv6)
			slices.SortStableFunc(found.IPv6, func(a, b string) int { return cmp.Compare(locality(a), locality(b)) })
			found.IPv4, found.IPv6 = found.IPv4[:min(len(found.IPv4), most)], found.IPv6[:min(len(found.IPv6), most)]
			all[slot] = found
		}
	}
	return all
}

// NICs are the slots of network devices in the order of their numbers.
func NICs(nics map[string]vm.NIC) []string {
	return slices.SortedFunc(maps.Keys(nics), func(a, b string) int { return cmp.Compare(nicNumber(a), nicNumber(b)) })
}

func nicNumber(slot string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(slot, "net"))
	if err != nil { // no slot of PVE's
		return 1 << 30
	}
	return n
}

// distinct drops repetitions and keeps the order.
func distinct(all []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}

// locality is 0 for an address that the world can reach, 1 for a unique local one (RFC 4193).
func locality(address string) int {
	if addr, err := netip.ParseAddr(address); err == nil && addr.Is6() && addr.IsPrivate() {
		return 1
	}
	return 0
}
