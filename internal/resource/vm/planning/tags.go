package planning

import (
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

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
