package change

import (
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/snapshot"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// foretelling is what a change makes of the values that only the server gives: the plan leaves those known that stay,
// so that it shows what changes and nothing else, and nothing that depends on them is planned again.
type foretelling struct {
	*Change
	changed []string // attributes that the plan changes on the server
	atOnce  bool     // a running guest takes all of that at once, whatever the value, and nothing waits for its restart
}

// Foretell leaves the values known that stay. Its rules are in docs/design/plan.md.
func (p *Change) Foretell() {
	f := foretelling{Change: p, changed: p.changedAttributes()}
	if f.leavesToHA() {
		f.changed = slices.DeleteFunc(f.changed, func(name string) bool { return name == "ha" })
	}
	adds, grows := f.disks()
	takes := []string{"pool", "firewall"}
	for _, a := range vm.Attributes() {
		if a.KeepsStatus {
			takes = append(takes, a.Path)
		}
	}
	if grows {
		takes = append(takes, "disks")
	}
	f.atOnce = f.only(takes...) && len(model.PendingRestart(p.Prior, p.Plan, p.Private)) == 0
	if status := f.status(); status.IsKnown() {
		p.Value = plan.Replace(p.Value, "status", status)
	}
	if f.keepsPending() {
		f.keep("pending_changes")
	}
	if f.keepsAddresses() {
		f.keep("addresses", "ipv4_address", "ipv6_address")
	}
	leaves := slices.ContainsFunc(f.Prior.PendingChanges, vm.IsSlot) // maybe, at the restart
	if !leaves && !f.changes("efi_disk", "tpm_state", "node", "template") && (adds || !f.changes("disks")) {
		f.keep("unused_volumes")
	}
}

// InPlace is what a snapshot of the VM that follows the change may rely on, where it stays the one that it is.
func (p *Change) InPlace() snapshot.Until {
	f := foretelling{Change: p, changed: p.changedAttributes()}
	_, grows := f.disks() // at most
	return snapshot.Until{Changed: true, Disks: !grows || f.changes("efi_disk", "tpm_state", "node", "template"),
		Status: model.StringOf(plan.At(p.Value, "status"))}
}

func (f foretelling) keep(names ...string) {
	for _, name := range names {
		f.Value = plan.Replace(f.Value, name, plan.At(f.State, name))
	}
}

// changes reports whether the plan changes one of some attributes, or may.
func (f foretelling) changes(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(f.changed, name) })
}

// only reports whether the plan changes nothing but some attributes.
func (f foretelling) only(names ...string) bool {
	return !slices.ContainsFunc(f.changed, func(name string) bool { return !slices.Contains(names, name) })
}

// status is the power state after the apply. PVE restarts a guest without leaving it off, and the apply fails where it
// does not come back. HA starts and stops guests by itself.
func (f foretelling) status() tftypes.Value {
	now := plan.At(f.State, "status")
	switch {
	case f.atOnce:
		return now
	case f.changes("template", "ha"), f.Plan.HA != nil, f.Compare("power_state") == Open:
	case f.Plan.PowerState != nil:
		return model.Text(*f.Plan.PowerState)
	case model.StringOf(now) == string(guest.Running), model.StringOf(now) == string(guest.Stopped):
		return now
	}
	return tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
}

// keepsPending reports whether nothing waits for a restart after the apply that does not wait now. A change may wait
// where the apply does not restart the guest. A new uuid has to be noted if it waits, in a guest that a third party
// started after the plan, too: by it the VM is known again after its restart.
func (f foretelling) keepsPending() bool {
	switch {
	case f.Private.Lost, forgetsBootOrder(f.Change), plan.At(f.State, "pending_changes").IsNull(),
		f.Swaps("smbios.uuid") != Same,
		len(f.Prior.PendingChanges) > 0 && !f.Runs(): // it is in force with the first request
		return false
	case f.atOnce:
		return true
	case len(f.Prior.PendingChanges) > 0, !f.status().IsKnown():
		return false
	}
	return !f.Runs() || !f.bootWaits() &&
		f.Compare("reboot_policy") != Open && model.Value(f.Plan.RebootPolicy) != "never"
}

// bootWaits reports whether the boot order may wait for a restart that the apply does not make: PVE changes it with the
// devices that a running guest takes or gives up at once, and its own change waits (qemu-server API2/Qemu.pm,
// update_vm_api; QemuServer.pm, vmconfig_hotplug_pending). A device that the guest does not take at once restarts it.
func (f foretelling) bootWaits() bool {
	if f.Private.LegacyBoot || plan.At(f.Value, "boot_order").IsKnown() {
		return false
	}
	come, _ := model.ChangedDevices(f.Prior, f.Plan)
	return !slices.ContainsFunc(come, func(slot string) bool {
		return strings.HasPrefix(slot, "ide") || strings.HasPrefix(slot, "sata")
	})
}

// rewires are the attributes whose change may move the addresses of a guest: its network devices, their place on the
// guest's buses, by which it names them, its first configuration, and its agent and power, without which nothing tells
// them. A restart alone is no reason: the MAC addresses stay, and the state keeps the last words of an agent until it
// speaks again.
func rewires() []string {
	return []string{"networks", "agent", "cloud_init", "power_state", "ha", "template", "machine", "machine_options",
		"bios", "ostype", "arch", "acpi", "args", "pci", "smbios"}
}

// keepsAddresses reports whether the addresses stay as they are in state.
func (f foretelling) keepsAddresses() bool {
	w := f.Plan.WaitFor
	lacks := func(wants *bool, has *string) bool { return model.Value(wants) && has == nil }
	agent := model.Configuration{Raw: f.Value}
	switch {
	case len(f.Prior.Addresses) == 0 && (agent.IsNull("agent.enabled") || agent.IsFalse("agent.enabled")):
		return !f.Goes("agent") // a running guest may give its agent up only at its restart
	case f.changes(rewires()...), f.Compare("wait_for") == Open:
		return false
	case len(f.Prior.Addresses) == 0: // an agent may speak for the first time
		return !f.Runs() || f.Prior.Agent == nil || !model.Value(f.Prior.Agent.Enabled)
	case w == nil:
		return true
	}
	// The apply asks the agent after a restart.
	return !lacks(w.IPv4, f.Prior.IPv4Address) && !lacks(w.IPv6, f.Prior.IPv6Address) &&
		(f.atOnce || w.Request() == nil || !f.Runs())
}

// leavesToHA reports whether HA keeps the guest where and as it is through a change of its entry: the number of its
// tries and the comment are no reason to start, stop or move it (pve-ha-manager HA/Manager.pm).
func (f foretelling) leavesToHA() bool {
	if !f.Stays("ha") {
		return false
	}
	return !slices.ContainsFunc([]string{"ha.state", "ha.group", "ha.failback"}, func(at string) bool {
		return f.Compare(at) != Same
	})
}

// disks tells the change of the disks: none leaves its volume and no volume is attached, or all that changes is their
// sizes.
func (f foretelling) disks() (adds, grows bool) {
	is, was := plan.At(f.Value, "disks"), plan.At(f.State, "disks")
	if !is.IsKnown() {
		return false, false
	}
	adds, grows = len(f.Attached) == 0, is.IsFullyKnown() && len(f.Plan.Disks) == len(f.Prior.Disks)
	for slot, before := range f.Prior.Disks {
		disk, stays := f.Plan.Disks[slot]
		before.Size = disk.Size
		adds = adds && (slices.Contains(f.Forgotten, "disks."+slot) || // it stays on the VM
			stays && f.Compare("disks."+slot+".volume") == Same)
		grows = grows && stays && reflect.DeepEqual(disk, before)
	}
	for slot := range f.Plan.Disks {
		if _, existed := f.Prior.Disks[slot]; !existed {
			adds = adds && f.Config.IsNull("disks."+slot+".imported_disk")
		}
	}
	return adds, grows || is.Equal(was)
}

// ForetellNewVM plans what the create makes of the values that only the server gives: nothing waits for a restart, the
// guest runs if the create starts it, and it has no addresses if no agent is asked for them.
func (p *Change) ForetellNewVM() {
	set := func(name string, v tftypes.Value) { p.Value = plan.Replace(p.Value, name, v) }
	pending := plan.At(p.Value, "pending_changes").Type()
	set("pending_changes", tftypes.NewValue(pending, []tftypes.Value{}))
	if slot := "cloud_init.slot"; p.Config.IsSet("cloud_init") && p.Config.IsNull(slot) && !p.Config.Copies() {
		inside := model.ObjectOf(plan.At(p.Value, "cloud_init"))
		inside["slot"] = model.Text(vm.DefaultCloudInitSlot)
		set("cloud_init", tftypes.NewValue(plan.At(p.Value, "cloud_init").Type(), inside))
	}
	if !p.Config.At("power_state").IsKnown() || !p.Config.At("template").IsKnown() || !p.Config.IsNull("ha") {
		return // HA starts and stops guests by itself
	}
	status := guest.Stopped
	if p.Plan.StartsWhenMade() {
		status = guest.Running
	}
	set("status", model.Text(string(status)))
	agent := model.Configuration{Raw: p.Value} // a copy may have its source's
	if status == guest.Stopped || agent.IsNull("agent.enabled") || agent.IsFalse("agent.enabled") {
		for _, name := range []string{"addresses", "ipv4_address", "ipv6_address"} {
			set(name, tftypes.NewValue(plan.At(p.Value, name).Type(), nil))
		}
	}
}

// changedAttributes are the attributes that the plan changes on the server, but for those that only follow.
func (p *Change) changedAttributes() []string {
	all := model.Rules()
	var changed []string
	for name, attribute := range p.Schema.Attributes {
		follows := attribute.IsComputed() && !attribute.IsOptional()
		if !follows && !all[name].OnlyInState && !plan.At(p.Value, name).Equal(plan.At(p.State, name)) {
			changed = append(changed, name)
		}
	}
	return changed
}
