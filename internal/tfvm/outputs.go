package tfvm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
)

// absorbAddresses is what the agent says, by network device. Devices that the configuration does not name count too.
func (m *model) absorbAddresses(g provision.Guest) {
	found := g.Addresses()
	for _, slot := range g.NICs() {
		a, ok := found[slot]
		if !ok {
			continue
		}
		put(&m.Addresses, slot, guestAddress{MAC: some(a.MAC), IPv4: a.IPv4, IPv6: a.IPv6})
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

// remind completes what the agent says by what it said before, which state knows. Outputs that depend on addresses are not
// to change because an agent is silent for a while: as long as the guest runs and has an agent, its last words stand, for
// the network devices that it still has. When it does answer, the addresses that are in state keep their order and their
// place before new ones.
func (m *model) remind(g provision.Guest) provision.Guest {
	switch {
	case len(m.Addresses) == 0, powerState(g.Status) == nil || *powerState(g.Status) != string(provision.Running),
		!value(g.Spec.Agent.Enabled):
		return g
	case g.Interfaces == nil:
		for _, slot := range g.NICs() {
			if was, ok := m.Addresses[slot]; ok {
				g.Interfaces = append(g.Interfaces, provision.Interface{Name: slot, MAC: value(was.MAC), IPv4: was.IPv4, IPv6: was.IPv6})
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

// quiet are the attributes whose change leaves a guest's addresses as they are.
var quiet = map[string]bool{
	"name": true, "description": true, "tags": true, "onboot": true, "startup": true, "protection": true, "pool": true,
	"hookscript": true, "disks": true, "cdroms": true, "boot_order": true, "firewall": true,
	"reboot_policy": true, "shutdown_timeout": true, "wait_for": true, "on_failure": true, "on_orphaned_volumes": true,
	"on_destroy": true, "timeouts": true, "removed_disks": true,
	"status": true, "pending_changes": true, "ipv4_address": true, "ipv6_address": true, "addresses": true,
}

// steady leaves the addresses known in the plan of a change that does not touch them, so that nothing that depends on them
// is planned anew. What wait_for is to bring stays open.
func (v values) steady(planned, state tftypes.Value, prior, plan model) tftypes.Value {
	if len(prior.Addresses) == 0 {
		return planned
	}
	for name, attribute := range v.schema.Attributes {
		consequence := attribute.IsComputed() && !attribute.IsOptional()
		if !quiet[name] && !consequence && !tfplan.At(planned, name).Equal(tfplan.At(state, name)) {
			return planned
		}
	}
	wanted := plan.WaitFor
	if wanted == nil {
		wanted = &waitForModel{}
	}
	if value(wanted.IPv4) && prior.IPv4Address == nil || value(wanted.IPv6) && prior.IPv6Address == nil {
		return planned
	}
	for _, name := range []string{"addresses", "ipv4_address", "ipv6_address"} {
		planned = tfplan.Replace(planned, name, tfplan.At(state, name))
	}
	return planned
}

// isWaiting reports whether an operation has done its work, and the guest only did not get as far as it was waited for.
func isWaiting(err error) bool {
	var failed *provision.WaitError
	return errors.As(err, &failed)
}

// waited names such an attempt.
func waited(a tfkit.Attempt, err error) tfkit.Attempt {
	if isWaiting(err) {
		a.Verb = "finish waiting for"
	}
	return a
}

// tainted adds what Terraform makes of a create that only did not wait to the end.
func tainted(err error) error {
	if !isWaiting(err) {
		return err
	}
	return fmt.Errorf("%w\n\nThe VM is in state. Terraform takes every create with an error for failed and marks the VM as tainted, so that the next "+
		"apply replaces it; \"terraform untaint\" of this resource's address keeps it as it is", err)
}
