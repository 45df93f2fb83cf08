package planning

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
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
	if p.Creating() {
		if c.IsNull("nodes") {
			setDefault(all, "node", d.Node, d.Unknown["node"])
		}
		setDefault(all, "pool", d.Pool, d.Unknown["pool"])
	}
	if p.Creating() && c.Copies() {
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

// useTagStyle plans with it.
func (p *Planning) useTagStyle(ctx context.Context) {
	var configured []string
	if tags := p.Config.At("tags"); tags.IsFullyKnown() {
		configured = model.Texts(tags)
	}
	p.Values = model.WithTagStyle(ctx, p.Session, p.Values, p.Prior.Tags, configured)
}

// PlanTags plans tags_all, the tags that the VM has: its own and the provider's default ones.
func (p *Planning) PlanTags() {
	own, was := plan.At(p.Value, "tags"), plan.At(p.State, "tags_all")
	defaults, known := p.defaultTags()
	if p.Creating() && len(defaults) > 0 && p.Config.IsNull("tags") { // in place of the source's
		own = tftypes.NewValue(own.Type(), nil)
		p.Value = plan.Replace(p.Value, "tags", own)
	}
	if !known || !own.IsFullyKnown() {
		p.setTags(tftypes.NewValue(own.Type(), tftypes.UnknownValue))
		return
	}
	all := own
	if len(defaults) > 0 {
		all = model.SetOf(model.WithTags(model.Texts(own), defaults))
	}
	switch {
	case p.Creating():
	case was.IsNull() && len(defaults) == 0 && own.Equal(plan.At(p.State, "tags")): // of an earlier version
		all = was
	case p.Shape.Same("tags_all", was, all):
		all = was
	}
	p.changed = p.changed || !p.Creating() && !all.Equal(was)
	p.setTags(all)
}

func (p *Planning) setTags(all tftypes.Value) {
	p.Value = plan.Replace(p.Value, "tags_all", all)
	p.Plan.Tags, p.Plan.TagsAll = nil, nil
	if own := plan.At(p.Value, "tags"); own.IsFullyKnown() && !own.IsNull() {
		p.Plan.Tags = model.Texts(own)
	}
	if all.IsFullyKnown() && !all.IsNull() {
		p.Plan.TagsAll = model.Texts(all)
	}
}

// defaultTags are those that the VM is to have. A VM that was imported or moved here has none, so that the
// plan after that is empty. known: they follow from the provider's configuration.
func (p *Planning) defaultTags() (tags []string, known bool) {
	switch {
	case p.Session == nil, !p.Creating() && !p.Private.Made:
		return nil, true
	case p.Session.Defaults.Unknown["tags"]:
		return nil, false
	}
	return p.Session.Defaults.Tags, true
}

// withNodeOfHA is a configuration with the present node of a VM under HA in the place of the configured one, where that
// was off at the refresh: HA has recovered the VM elsewhere, and no plan could bring it back. Terraform takes a planned
// value that is the one in state (terraform internal/plans/objchange, assertPlannedValueValid). A look at the node now
// could tell the plan and the second plan within its apply different things.
func (p *Planning) withNodeOfHA(config tftypes.Value) tftypes.Value {
	is, wanted := p.Prior.Node, p.Config.Text("node")
	isUnderHA := p.Prior.HA != nil && p.Config.IsSet("ha")
	if is == nil || wanted == "" || wanted == *is || !isUnderHA || !slices.Contains(p.Private.Off, wanted) {
		return config
	}
	p.Diags.AddAttributeWarning(path.Root("node"), fmt.Sprintf("%s stays on node %s", p.Prior.Thing(), *is),
		fmt.Sprintf("It is under HA, and at the last refresh node %s was not online. The plan and its apply follow the VM; "+
			"the first plan that finds node %s online migrates it back. To follow the VM for good, leave node out, or set "+
			"nodes.", wanted, wanted))
	return plan.Replace(config, "node", model.Text(*is))
}

// chooseNode plans the migration of a VM that is on none of the nodes that the configuration names. While these are not
// known, neither is its node.
func (p *Planning) chooseNode(ctx context.Context) {
	nodes := p.Config.At("nodes")
	switch {
	case p.Prior.Node == nil || nodes.IsKnown() && nodes.IsNull():
	case !nodes.IsFullyKnown():
		p.Value, p.Plan.Node = plan.Edit(p.Value, map[string]bool{"node": true}, nil), nil
	case slices.Contains(p.Plan.Nodes, *p.Prior.Node) || p.Machines == nil:
	default:
		if to := p.Machines.Place(ctx, p.Plan.Nodes); to != "" {
			p.Value, p.changed = plan.Replace(p.Value, "node", model.Text(to)), true
			p.Plan.Node = &to
		}
	}
}
