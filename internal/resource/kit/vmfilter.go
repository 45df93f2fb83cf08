package kit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	list "github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nearest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// VMFilter selects VMs of the cluster, in a data source and in a list block alike; a null attribute selects all.
type VMFilter struct {
	Name     *string `tfsdk:"name"`
	Node     *string `tfsdk:"node"`
	Pool     *string `tfsdk:"pool"`
	Tag      *string `tfsdk:"tag"`
	Status   *string `tfsdk:"status"`
	Template *bool   `tfsdk:"template"`
}

const aboutTemplate = "`true`: only templates; `false`: only VMs that are none. Default: both."

// filterText is a text attribute of the filter.
type filterText struct {
	name, about string
	valid       validator.String
}

func filterTexts() []filterText {
	return []filterText{
		{"name", "Only VMs of this name. `*` stands for any characters, `?` for one: `web-*`. Upper and lower case " +
			"differ.",
			stringvalidator.LengthAtLeast(1)},
		{"node", "Only VMs on this node.", NodeName()},
		{"pool", "Only VMs in this resource pool, and not in the pools below it.", PoolID()},
		{"tag", "Only VMs with this tag. Upper and lower case differ only where the datacenter says so.", Tag()},
		{"status", "Only VMs that are `running`, `stopped` or, since their node is away, `unknown`.",
			stringvalidator.OneOf("running", "stopped", "unknown")},
	}
}

// DataSourceFilter adds the filter's attributes to those of a data source.
func DataSourceFilter(to map[string]datasource.Attribute) map[string]datasource.Attribute {
	for _, f := range filterTexts() {
		to[f.name] = datasource.StringAttribute{Optional: true, MarkdownDescription: f.about,
			Validators: []validator.String{f.valid}}
	}
	to["template"] = datasource.BoolAttribute{Optional: true, MarkdownDescription: aboutTemplate}
	return to
}

// ListFilter returns the filter's attributes for a list block.
func ListFilter() map[string]list.Attribute {
	all := map[string]list.Attribute{"template": list.BoolAttribute{Optional: true, MarkdownDescription: aboutTemplate}}
	for _, f := range filterTexts() {
		all[f.name] = list.StringAttribute{Optional: true, MarkdownDescription: f.about,
			Validators: []validator.String{f.valid}}
	}
	return all
}

// Listing is the result of a filter.
type Listing struct {
	All pve.Resources
	// Meant are the selected VMs, sorted by VMID. Untold are those of which PVE does not tell whether they are selected.
	Meant, Untold []pve.Resource
	unknown       []string // sentences about a node and a pool that the cluster does not show
}

// List returns the selected VMs. It asks for the datacenter's rule for upper and lower case of tags only if that makes
// a difference.
func (v VMFilter) List(ctx context.Context, api pve.Reader) (Listing, error) {
	all, err := api.Listing().Shared(ctx)
	if err != nil {
		return Listing{}, err
	}
	filter := pve.Filter{Name: said(v.Name), Node: said(v.Node), Pool: said(v.Pool), Tag: said(v.Tag),
		Status:   said(v.Status),
		Template: v.Template}
	exact := true
	if len(all.VMs(filter, true)) != len(all.VMs(filter, false)) ||
		len(all.Untold(filter, true)) != len(all.Untold(filter, false)) {
		if exact, err = api.Cluster().TagsAreCaseSensitive(ctx); err != nil {
			return Listing{}, err
		}
	}
	return Listing{All: all, Meant: all.VMs(filter, exact), Untold: all.Untold(filter, exact),
		unknown: v.unknown(all)}, nil
}

// unknown are sentences about the node and the pool of the filter, where the cluster does not show them.
func (v VMFilter) unknown(all pve.Resources) (sentences []string) {
	for _, in := range []struct {
		kind, wanted string
		name         func(pve.Resource) string
	}{
		{"node", said(v.Node), func(r pve.Resource) string { return r.Node }},
		{"pool", said(v.Pool), func(r pve.Resource) string { return r.Pool }},
	} {
		var names []string
		for _, r := range all {
			if in.wanted != "" && r.Type == in.kind {
				names = append(names, in.name(r))
			}
		}
		if in.wanted != "" && !slices.Contains(names, in.wanted) {
			sentences = append(sentences, fmt.Sprintf("There is no %s %s, as far as this identity may see. %sThere are: %s.",
				in.kind, in.wanted, nearest.Hint(in.wanted, names), cmp.Or(strings.Join(names, ", "), "none")))
		}
	}
	return sentences
}

func said(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// Warnings names the VMs that the list may lack, and says of an empty list which name there is not.
func (l Listing) Warnings() (diags diag.Diagnostics) {
	if len(l.Meant) == 0 && len(l.unknown) > 0 {
		diags.AddWarning("No VM is selected", strings.Join(l.unknown, " "))
	}
	if len(l.Untold) == 0 {
		return diags
	}
	diags.AddWarning("Some VMs may be missing from the list", guest.UntoldText(l.Untold)+". They were left out.")
	return diags
}
