package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Refuse is the error of a moved VM that is not taken over as the server has it.
func (p PrivateState) Refuse(a kit.Attempt, found guest.Guest) diag.Diagnostics {
	var diags diag.Diagnostics
	if p.Moved == nil {
		return diags
	}
	if why := p.Moved.Differs(found, p.Identity.UUID != ""); why != "" {
		diags.AddError("Cannot take "+a.Thing+" over", why)
	}
	return diags
}

// Differs says why what the server has at the id is not the VM that was moved: it is no whole one, or not the one that
// the other provider knew. Ids are used again; another name and none of its network devices tell another VM. Without
// network devices to compare, another name alone tells it, unless the uuid is proven to be the same.
func (m *Moved) Differs(found guest.Guest, proven bool) string {
	switch {
	case guest.IsOwnLock(found.Lock), ownership.IsMark(Value(found.Spec.Description)):
		return "It is half made, or half destroyed. Wait for the task that is at work on it."
	case m.Name != "" && Value(found.Spec.Name) == m.Name, len(m.MACs) == 0 && (proven || m.Name == ""):
		return ""
	}
	var has []string
	for _, nic := range found.Spec.Networks {
		has = append(has, strings.ToUpper(Value(nic.MACAddr)))
	}
	if slices.ContainsFunc(m.MACs, func(mac string) bool { return slices.Contains(has, mac) }) {
		return ""
	}
	slices.Sort(has)
	difference := fmt.Sprintf("It is called %q and has the MAC addresses [%s]. The VM of the %s was called %q and had "+
		"[%s], so it is another one.", Value(found.Spec.Name), strings.Join(has, " "), m.From, m.Name,
		strings.Join(m.MACs, " "))
	if len(m.MACs) == 0 {
		difference = fmt.Sprintf("It is called %q. The VM of the %s was called %q, and its state has no network device and "+
			"no uuid by which to know it.", Value(found.Spec.Name), m.From, m.Name)
	}
	return difference + " If it is the one you mean all the same, \"terraform state rm\" and an import take it over."
}

// leaves reports whether the other provider knew the devices of the VM, but none in a slot: it does not come into the
// state.
func (m *Moved) leaves(slot string) bool {
	return m != nil && m.Slots != nil && !slices.Contains(m.Slots, slot)
}

// Named is what the server says less the devices that the other provider left alone: they do not come into the state,
// so that a configuration need not say them either.
func (m *Moved) Named(all Model) Model {
	if m == nil || m.Slots == nil {
		return all
	}
	all.Disks, all.CDROMs, all.Networks = only(all.Disks, m.Slots), only(all.CDROMs, m.Slots), only(all.Networks, m.Slots)
	all.PCI, all.USB, all.VirtioFS = only(all.PCI, m.Slots), only(all.USB, m.Slots), only(all.VirtioFS, m.Slots)
	all.Serial = only(all.Serial, m.Slots)
	return all // with NUMA nodes, which bpg/proxmox loses in its refresh, and parallel ports, which neither knows
}

// only are some slots of a kind of device; nil for none.
func only[D any](devices map[string]D, slots []string) map[string]D {
	var some map[string]D
	for slot, device := range devices {
		if slices.Contains(slots, slot) {
			Put(&some, slot, device)
		}
	}
	return some
}

// Adopt is the state of a VM that another provider had, with all that the server says, and of what no server says what
// that provider did.
func (v Values) Adopt(prior, server tftypes.Value) tftypes.Value {
	power := plan.At(prior, "power_state")
	state := v.WithDefaults(v.Shape.Fill(prior, server)) // a configuration that names one is no change
	return plan.Replace(state, "power_state", power)
}

// Unread is the error of a state with which nothing can be done: another provider has written it, or it came from one
// and the server was not asked since.
func (m *Model) Unread(a kit.Attempt, private PrivateState) diag.Diagnostics {
	var diags diag.Diagnostics
	switch {
	case m.VMID == nil:
		diags.AddError("The state is another provider's", "The state of this resource has no vmid, so this provider has "+
			"not written it: Terraform hands a state over as it is where the provider changes, but not the type of the "+
			"resource, as by \"terraform state replace-provider\". Nothing was done. Go back to the provider that has "+
			"written it. A moved block to another address takes the VM over, and so do \"terraform state rm\" and an import.")
	case private.Moved != nil:
		diags.AddError("Cannot "+a.Verb+" "+a.Thing, fmt.Sprintf("It was moved here from a %s, and the server was not "+
			"asked about it since. Nothing was done. Let Terraform refresh it first (no -refresh=false).", private.Moved.From))
	}
	return diags
}

// WithDefaults is a state with PVE's defaults, but for options of disks that their buses do not have: no configuration
// can say those.
func (v Values) WithDefaults(state tftypes.Value) tftypes.Value {
	buses := vm.DiskOptionBuses()
	return EachDisk(v.Shape.Defaults(state), func(slot string, disk map[string]tftypes.Value) {
		bus, _ := SplitSlot(slot)
		for option, known := range buses {
			if !slices.Contains(known, bus) {
				disk[option] = tftypes.NewValue(disk[option].Type(), nil)
			}
		}
	})
}
