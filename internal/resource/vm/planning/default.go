package planning

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// withDefaults is the configuration with the provider's defaults where it says nothing about an object to be made: a VM
// that is not there yet, or a device that the VM does not have yet. An existing one keeps its values, whether a
// default, a person or another tool has given them, so a default never makes a difference on an imported VM, nor does a
// change of it anywhere. The values that a clone takes from its source are not touched either.
func (p *Planning) withDefaults(config tftypes.Value) tftypes.Value {
	if p.Session == nil || p.Session.Defaults.IsZero() || config.IsNull() {
		return config
	}
	d, c := p.Session.Defaults, model.Configuration{Raw: config}
	all := model.ObjectOf(config)
	if p.creating() {
		if c.IsNull("nodes") {
			setDefault(all, "node", d.Node, d.Unknown["node"])
		}
		setDefault(all, "pool", d.Pool, d.Unknown["pool"])
	}
	if p.creating() && c.Copies() {
		return tftypes.NewValue(config.Type(), all)
	}
	all["disks"] = eachNew(all["disks"], plan.At(p.State, "disks"), func(disk map[string]tftypes.Value) {
		if imported := disk["imported_disk"]; imported.IsKnown() && imported.IsNull() {
			setDefault(disk, "storage", d.Storage, d.Unknown["storage"])
		}
	})
	all["networks"] = eachNew(all["networks"], plan.At(p.State, "networks"), func(nic map[string]tftypes.Value) {
		setDefault(nic, "bridge", d.Bridge, d.Unknown["bridge"])
	})
	for _, group := range []string{"efi_disk", "tpm_state", "cloud_init"} {
		if plan.At(p.State, group).IsNull() && c.IsSet(group) {
			inside := model.ObjectOf(all[group])
			setDefault(inside, "storage", d.Storage, d.Unknown["storage"])
			all[group] = tftypes.NewValue(all[group].Type(), inside)
		}
	}
	return tftypes.NewValue(config.Type(), all)
}

// setDefault sets a text that is null; unknown, where the default is not known yet.
func setDefault(all map[string]tftypes.Value, name, text string, unknown bool) {
	if v := all[name]; unknown && v.IsKnown() && v.IsNull() {
		all[name] = tftypes.NewValue(v.Type(), tftypes.UnknownValue)
		return
	}
	model.SetNull(all, name, text)
}

// eachNew changes the devices in a map that the state does not have.
func eachNew(devices, prior tftypes.Value, change func(device map[string]tftypes.Value)) tftypes.Value {
	if !devices.IsKnown() || devices.IsNull() {
		return devices
	}
	all, before := model.ObjectOf(devices), map[string]tftypes.Value{}
	if prior.IsKnown() && !prior.IsNull() {
		before = model.ObjectOf(prior)
	}
	for slot, v := range all {
		if _, has := before[slot]; has || !v.IsKnown() || v.IsNull() {
			continue
		}
		device := model.ObjectOf(v)
		change(device)
		all[slot] = tftypes.NewValue(v.Type(), device)
	}
	return tftypes.NewValue(devices.Type(), all)
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

// useTagStyle plans with it.
func (p *Planning) useTagStyle(ctx context.Context) {
	var configured []string
	if tags := p.Config.At("tags"); tags.IsFullyKnown() {
		configured = model.Texts(tags)
	}
	p.Values = model.WithTagStyle(ctx, p.Session, p.Values, p.Prior.Tags, configured)
}

// PlanTags plans tags_all, the tags that the VM has: its own and the provider's default ones.
func (p *Planning) PlanTags() { tagging{p}.plan() }

// tagging is the plan of the tags.
type tagging struct{ *Planning }

func (p tagging) plan() {
	own, was := plan.At(p.Value, "tags"), plan.At(p.State, "tags_all")
	defaults, known := p.defaults()
	if p.creating() && len(defaults) > 0 && p.Config.IsNull("tags") { // in place of the source's
		own = tftypes.NewValue(own.Type(), nil)
		p.Value = plan.Replace(p.Value, "tags", own)
	}
	if !known || !own.IsFullyKnown() {
		p.set(tftypes.NewValue(own.Type(), tftypes.UnknownValue))
		return
	}
	all := own
	if len(defaults) > 0 {
		all = model.SetOf(model.WithTags(model.Texts(own), defaults))
	}
	switch {
	case p.creating():
	case was.IsNull() && len(defaults) == 0 && own.Equal(plan.At(p.State, "tags")): // of an earlier version
		all = was
	case p.Shape.Same("tags_all", was, all):
		all = was
	}
	p.changed = p.changed || !p.creating() && !all.Equal(was)
	p.set(all)
}

func (p tagging) set(all tftypes.Value) {
	p.Value = plan.Replace(p.Value, "tags_all", all)
	p.Plan.Tags, p.Plan.TagsAll = nil, nil
	if own := plan.At(p.Value, "tags"); own.IsFullyKnown() && !own.IsNull() {
		p.Plan.Tags = model.Texts(own)
	}
	if all.IsFullyKnown() && !all.IsNull() {
		p.Plan.TagsAll = model.Texts(all)
	}
}

// defaults are the default tags that the VM is to have. A VM that was imported or moved here has none, so that the
// plan after that is empty. known: they follow from the provider's configuration.
func (p tagging) defaults() (tags []string, known bool) {
	switch {
	case p.Session == nil, !p.creating() && !p.private.Made:
		return nil, true
	case p.Session.Defaults.Unknown["tags"]:
		return nil, false
	}
	return p.Session.Defaults.Tags, true
}
