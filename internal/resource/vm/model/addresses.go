package model

import (
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
)

// setAddresses is what the agent says, by network device. Devices that the configuration does not name count too.
func (m *Model) setAddresses(g guest.Guest) {
	found := g.Addresses()
	for _, slot := range g.NICs() {
		a, ok := found[slot]
		if !ok {
			continue
		}
		Put(&m.Addresses, slot, guestAddress{MAC: new(a.MAC), IPv4: a.IPv4, IPv6: a.IPv6})
		m.IPv4Address = first(m.IPv4Address, a.IPv4)
		m.IPv6Address = first(m.IPv6Address, a.IPv6)
	}
}

func first(known *string, found []string) *string {
	if known == nil && len(found) > 0 {
		return &found[0]
	}
	return known
}

// WithKnownAddresses completes the agent's addresses by those that it said before, which state knows. Outputs that
// depend on addresses are not to change because an agent is silent for a while: as long as the guest runs and has an
// agent, its last words stand, for the network devices that it still has. When it does answer, the addresses that are
// in state keep their order and their place before new ones.
func (m *Model) WithKnownAddresses(g guest.Guest) guest.Guest {
	switch {
	case len(m.Addresses) == 0, powerState(g.Status) == nil || *powerState(g.Status) != string(guest.Running),
		!Value(g.Spec.Agent.Enabled):
		return g
	case g.Interfaces == nil:
		for _, slot := range g.NICs() {
			if was, ok := m.Addresses[slot]; ok {
				g.Interfaces = append(g.Interfaces, agent.Interface{Name: slot, MAC: Value(was.MAC), IPv4: was.IPv4,
					IPv6: was.IPv6})
			}
		}
		return g
	}
	var four, six []string
	for _, was := range m.Addresses {
		four, six = append(four, was.IPv4...), append(six, was.IPv6...)
	}
	g.Interfaces = slices.Clone(g.Interfaces)
	for n, i := range g.Interfaces {
		g.Interfaces[n].IPv4, g.Interfaces[n].IPv6 = inOrder(i.IPv4, four), inOrder(i.IPv6, six)
	}
	return g
}

// inOrder sorts what was known before to the front, in its order.
func inOrder(found, known []string) []string {
	place := func(s string) int {
		if n := slices.Index(known, s); n >= 0 {
			return n
		}
		return len(known)
	}
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(a, b string) int { return place(a) - place(b) })
	return found
}
