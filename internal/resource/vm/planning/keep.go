package planning

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// keepUnconcerned leaves computed attributes known that the changes of a plan do not touch, so that the plan shows what
// changes and nothing else.
func (p *Planning) keepUnconcerned() {
	changed := p.changedAttributes()
	only := func(attributes ...string) bool {
		return !slices.ContainsFunc(changed, func(name string) bool { return !slices.Contains(attributes, name) })
	}
	grows := p.onlySizesOfDisks()
	keep := func(name string) { p.Value = plan.Replace(p.Value, name, plan.At(p.State, name)) }
	drives := []string{"disks", "efi_disk", "tpm_state", "cloud_init", "cdroms", "node", "template"}
	if !slices.ContainsFunc(changed, func(name string) bool {
		return slices.Contains(drives, name) &&
			(name != "disks" || !grows)
	}) {
		keep("unused_volumes")
	}
	// Changes that a running guest takes at once, whatever the value.
	atOnce := append(options(func(f vm.Facts) bool { return f.KeepsStatus }), "pool", "firewall")
	if grows {
		atOnce = append(atOnce, "disks")
	}
	if only(atOnce...) && len(model.PendingRestart(p.Prior, p.Plan, p.private.Managed)) == 0 {
		keep("status")
		if !p.private.Lost {
			keep("pending_changes")
		}
	}
}

// changedAttributes are the attributes that the plan changes on the server, but for those that only follow.
func (p *Planning) changedAttributes() []string {
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

// onlySizesOfDisks reports whether disks differ in their sizes alone.
func (p *Planning) onlySizesOfDisks() bool {
	is, was := plan.At(p.Value, "disks"), plan.At(p.State, "disks")
	if !is.IsFullyKnown() || len(p.Plan.Disks) != len(p.Prior.Disks) {
		return is.Equal(was)
	}
	for slot, disk := range p.Plan.Disks {
		before, ok := p.Prior.Disks[slot]
		before.Size = disk.Size
		if !ok || !reflect.DeepEqual(disk, before) {
			return false
		}
	}
	return true
}

// knowDefaultsOfNewVM says what is known of a VM that is made from scratch: it has no detached volumes, and its network
// devices are of the model that the provider chooses.
func (p *Planning) knowDefaultsOfNewVM() {
	if p.Config.Copies() {
		return
	}
	p.Value = plan.Edit(p.Value, nil, map[string]bool{"unused_volumes": true})
	networks := map[string]tftypes.Value{}
	if all := plan.At(p.Value, "networks"); !all.IsKnown() || all.IsNull() || all.As(&networks) != nil {
		return
	}
	networks = maps.Clone(networks)
	for slot, nic := range networks {
		fields := map[string]tftypes.Value{}
		if nic.IsKnown() && !nic.IsNull() && p.Config.IsNull("networks."+slot+".model") && nic.As(&fields) == nil {
			fields = maps.Clone(fields)
			fields["model"] = model.Text(vm.DefaultNICModel)
			networks[slot] = tftypes.NewValue(nic.Type(), fields)
		}
	}
	p.Value = plan.Replace(p.Value, "networks", tftypes.NewValue(plan.At(p.Value, "networks").Type(), networks))
}

// options are the top-level attributes of options with a property.
func options(has func(vm.Facts) bool) []string {
	var all []string
	for _, a := range vm.Attributes() {
		if has(a.Facts) {
			all = append(all, a.Path)
		}
	}
	return all
}

// addressesUnaffectedBy are the attributes whose change leaves a guest's addresses as they are.
func addressesUnaffectedBy() []string {
	return append(options(func(f vm.Facts) bool { return f.KeepsAddresses }),
		"pool", "disks", "cdroms", "firewall",
		"reboot_policy", "shutdown_timeout", "wait_for", "on_failure", "on_orphaned_volumes", "on_destroy", "timeouts",
		"removed_disks",
		"import_working_storage", "cloud_init_trigger",
		"status", "pending_changes", "ipv4_address", "ipv6_address", "addresses")
}

// keepAddresses leaves the addresses known in the plan of a change that does not touch them, so that nothing that
// depends on them is planned again. An address that wait_for is to bring stays open.
func (p *Planning) keepAddresses() {
	if len(p.Prior.Addresses) == 0 && p.runs() { // a guest that has just started may have some by the end of the apply
		return
	}
	unaffected := addressesUnaffectedBy()
	for name, attribute := range p.Schema.Attributes {
		consequence := attribute.IsComputed() && !attribute.IsOptional()
		if !consequence && !slices.Contains(unaffected, name) && !plan.At(p.Value, name).Equal(plan.At(p.State, name)) {
			return
		}
	}
	if p.delta().change("wait_for") == open {
		return
	}
	if w := p.Plan.WaitFor; w != nil && (model.Value(w.IPv4) && p.Prior.IPv4Address == nil || model.Value(w.IPv6) &&
		p.Prior.IPv6Address == nil) {
		return
	}
	for _, name := range []string{"addresses", "ipv4_address", "ipv6_address"} {
		p.Value = plan.Replace(p.Value, name, plan.At(p.State, name))
	}
}

// useTagStyle plans with it.
func (p *Planning) useTagStyle(ctx context.Context) {
	var configured []string
	if tags := p.Config.At("tags"); tags.IsFullyKnown() {
		configured = model.Texts(tags)
	}
	p.Values = model.WithTagStyle(ctx, p.Session, p.Values, p.Prior.Tags, configured)
}
