package tfvm

import (
	"maps"
	"reflect"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// keepUnconcerned leaves computed attributes known that the changes of a plan do not touch, so that the plan shows what changes
// and nothing else.
func (p *planning) keepUnconcerned() {
	changed := p.changedAttributes()
	only := func(attributes ...string) bool {
		return !slices.ContainsFunc(changed, func(name string) bool { return !slices.Contains(attributes, name) })
	}
	grows := p.onlySizesOfDisks()
	keep := func(name string) { p.value = tfplan.Replace(p.value, name, tfplan.At(p.state, name)) }
	drives := []string{"disks", "efi_disk", "tpm_state", "cloud_init", "cdroms", "node", "template"}
	if !slices.ContainsFunc(changed, func(name string) bool { return slices.Contains(drives, name) && (name != "disks" || !grows) }) {
		keep("unused_volumes")
	}
	// What PVE takes from a running guest at once, whatever it is.
	atOnce := []string{"description", "tags", "onboot", "protection", "startup", "pool", "firewall"}
	if grows {
		atOnce = append(atOnce, "disks")
	}
	if only(atOnce...) && len(pendingRestart(p.prior, p.plan, p.private.Managed)) == 0 {
		keep("status")
		if !p.private.Lost {
			keep("pending_changes")
		}
	}
}

// changedAttributes are the attributes that the plan changes on the server, but for those that only follow.
func (p *planning) changedAttributes() []string {
	all := rules()
	var changed []string
	for name, attribute := range p.schema.Attributes {
		follows := attribute.IsComputed() && !attribute.IsOptional()
		if !follows && !all[name].OnlyInState && !tfplan.At(p.value, name).Equal(tfplan.At(p.state, name)) {
			changed = append(changed, name)
		}
	}
	return changed
}

// onlySizesOfDisks reports whether disks differ in their sizes alone.
func (p *planning) onlySizesOfDisks() bool {
	is, was := tfplan.At(p.value, "disks"), tfplan.At(p.state, "disks")
	if !is.IsFullyKnown() || len(p.plan.Disks) != len(p.prior.Disks) {
		return is.Equal(was)
	}
	for slot, disk := range p.plan.Disks {
		before, ok := p.prior.Disks[slot]
		before.Size = disk.Size
		if !ok || !reflect.DeepEqual(disk, before) {
			return false
		}
	}
	return true
}

// knowDefaultsOfNewVM says what is known of a VM that is made from scratch: it has no detached volumes, and its network devices are of
// the model that the provider chooses.
func (p *planning) knowDefaultsOfNewVM() {
	if p.config.copies() {
		return
	}
	p.value = tfplan.Edit(p.value, nil, map[string]bool{"unused_volumes": true})
	networks := map[string]tftypes.Value{}
	if all := tfplan.At(p.value, "networks"); !all.IsKnown() || all.IsNull() || all.As(&networks) != nil {
		return
	}
	networks = maps.Clone(networks)
	for slot, nic := range networks {
		fields := map[string]tftypes.Value{}
		if nic.IsKnown() && !nic.IsNull() && p.config.isNull("networks."+slot+".model") && nic.As(&fields) == nil {
			fields = maps.Clone(fields)
			fields["model"] = text(vm.DefaultNICModel)
			networks[slot] = tftypes.NewValue(nic.Type(), fields)
		}
	}
	p.value = tfplan.Replace(p.value, "networks", tftypes.NewValue(tfplan.At(p.value, "networks").Type(), networks))
}

// addressesUnaffectedBy are the attributes whose change leaves a guest's addresses as they are.
func addressesUnaffectedBy() []string {
	return []string{
		"name", "description", "tags", "onboot", "startup", "protection", "pool", "hookscript", "disks", "cdroms", "boot_order", "firewall",
		"reboot_policy", "shutdown_timeout", "wait_for", "on_failure", "on_orphaned_volumes", "on_destroy", "timeouts", "removed_disks",
		"import_working_storage",
		"cloud_init_trigger",
		"status", "pending_changes", "ipv4_address", "ipv6_address", "addresses",
	}
}

// keepAddresses leaves the addresses known in the plan of a change that does not touch them, so that nothing that depends on
// them is planned anew. What wait_for is to bring stays open.
func (p *planning) keepAddresses() {
	if len(p.prior.Addresses) == 0 {
		return
	}
	unaffected := addressesUnaffectedBy()
	for name, attribute := range p.schema.Attributes {
		consequence := attribute.IsComputed() && !attribute.IsOptional()
		if !consequence && !slices.Contains(unaffected, name) && !tfplan.At(p.value, name).Equal(tfplan.At(p.state, name)) {
			return
		}
	}
	if w := p.plan.WaitFor; w != nil && (value(w.IPv4) && p.prior.IPv4Address == nil || value(w.IPv6) && p.prior.IPv6Address == nil) {
		return
	}
	for _, name := range []string{"addresses", "ipv4_address", "ipv6_address"} {
		p.value = tfplan.Replace(p.value, name, tfplan.At(p.state, name))
	}
}
