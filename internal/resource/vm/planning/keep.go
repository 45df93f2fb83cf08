package planning

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

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
