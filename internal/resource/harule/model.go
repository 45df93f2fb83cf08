package harule

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/harule"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// model is proxmox_ha_rule in configuration, plan and state.
type model struct {
	Rule      types.String      `tfsdk:"rule"`
	Type      types.String      `tfsdk:"type"`
	Resources types.Set         `tfsdk:"resources"`
	Nodes     types.Map         `tfsdk:"nodes"`
	Strict    types.Bool        `tfsdk:"strict"`
	Affinity  types.String      `tfsdk:"affinity"`
	Disable   types.Bool        `tfsdk:"disable"`
	Comment   types.String      `tfsdk:"comment"`
	Timeouts  *kit.OpenTimeouts `tfsdk:"timeouts"`
}

// rule returns the rule of a model whose values are known.
func (m *model) rule() pve.HARule {
	r := pve.HARule{ID: m.Rule.ValueString(), Type: m.Type.ValueString(), Strict: m.Strict.ValueBool(),
		Affinity: m.Affinity.ValueString(), Disabled: m.Disable.ValueBool(), Comment: m.Comment.ValueString()}
	for _, element := range m.Resources.Elements() {
		if text, ok := element.(types.String); ok {
			r.Resources = append(r.Resources, text.ValueString())
		}
	}
	slices.Sort(r.Resources)
	for node, element := range m.Nodes.Elements() {
		if priority, ok := element.(types.Int64); ok {
			if r.Nodes == nil {
				r.Nodes = map[string]int64{}
			}
			r.Nodes[node] = priority.ValueInt64()
		}
	}
	return r
}

// replaces reports whether a plan makes another rule in the place of the one in state.
func (m *model) replaces(prior *model) bool {
	return !m.Rule.Equal(prior.Rule) || !m.Type.Equal(prior.Type)
}

// set sets the model to a rule of the server.
func (m *model) set(r pve.HARule) diag.Diagnostics {
	resources := make([]attr.Value, 0, len(r.Resources))
	for _, sid := range r.Resources {
		resources = append(resources, types.StringValue(sid))
	}
	nodes := map[string]attr.Value{}
	for node, priority := range r.Nodes {
		nodes[node] = types.Int64Value(priority)
	}
	var diags, more diag.Diagnostics
	m.Rule, m.Type = types.StringValue(r.ID), types.StringValue(r.Type)
	m.Strict, m.Disable = types.BoolValue(r.Strict), types.BoolValue(r.Disabled)
	m.Affinity = types.StringPointerValue(kit.NonZero(r.Affinity))
	m.Comment = types.StringPointerValue(kit.NonZero(r.Comment))
	m.Resources, diags = types.SetValue(types.StringType, resources)
	m.Nodes = types.MapNull(types.Int64Type)
	if len(nodes) > 0 {
		m.Nodes, more = types.MapValue(types.Int64Type, nodes)
	}
	return append(diags, more...)
}

// invalid returns what no server accepts, as far as the values are known (pve-ha-manager HA/Rules/NodeAffinity.pm and
// ResourceAffinity.pm, options, check_resource_affinity_resources_count).
func (m *model) invalid() (diags diag.Diagnostics) {
	typ := m.Type.ValueString()
	of := func(attribute, with string) {
		diags.AddAttributeError(path.Root(attribute), "Attribute "+attribute+" does not belong to this type of HA rule",
			"A rule with type = \""+typ+"\" has no "+attribute+". Leave it out, or set type = \""+with+"\".")
	}
	missing := func(attribute, example string) {
		diags.AddAttributeError(path.Root("type"), "Attribute "+attribute+" is missing",
			"A rule with type = \""+typ+"\" needs "+attribute+", such as "+example+".")
	}
	switch typ {
	case harule.NodeAffinity:
		if !m.Affinity.IsNull() && !m.Affinity.IsUnknown() {
			of("affinity", harule.ResourceAffinity)
		}
		if m.Nodes.IsNull() {
			missing("nodes", "{ pve1 = 0, pve2 = 0 }")
		}
	case harule.ResourceAffinity:
		if !m.Nodes.IsNull() && !m.Nodes.IsUnknown() {
			of("nodes", harule.NodeAffinity)
		}
		if m.Strict.ValueBool() {
			of("strict", harule.NodeAffinity)
		}
		if m.Affinity.IsNull() {
			missing("affinity", "\"negative\"")
		}
		// two unknown elements may be equal, and one may be any
		if one := len(m.Resources.Elements()) == 1; one && !m.Resources.IsUnknown() && isOn(m.Disable) {
			diags.AddAttributeError(path.Root("resources"), "Too few resources for an HA rule",
				"Resource affinity is about two guests or more. Name another one, or remove the rule.")
		}
	}
	return diags
}

// isOn reports whether a rule with that value of disable is certainly followed.
func isOn(disable types.Bool) bool { return !disable.IsUnknown() && !disable.ValueBool() }

// known returns the nodes of a model whose names are known.
func (m *model) nodes() []string { return slices.Sorted(maps.Keys(m.Nodes.Elements())) }

// locator finds attributes, which have the names of PVE's parameters.
type locator struct{}

// Parameter returns the attribute behind a parameter of PVE's API.
func (locator) Parameter(name string) (path.Path, bool) { return locator{}.Attribute(name) }

// Attribute returns the path of an attribute.
func (locator) Attribute(name string) (path.Path, bool) {
	if _, ok := ruleSchema(context.Background()).Attributes[name]; !ok || name == "timeouts" {
		return path.Empty(), false
	}
	return path.Root(name), true
}
