package tfkit

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	list "github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// VMFilter says which VMs of the cluster are meant, in a data source and in a list block alike; what is null does not matter.
type VMFilter struct {
	Name     *string `tfsdk:"name"`
	Node     *string `tfsdk:"node"`
	Pool     *string `tfsdk:"pool"`
	Tag      *string `tfsdk:"tag"`
	Status   *string `tfsdk:"status"`
	Template *bool   `tfsdk:"template"`
}

const aboutTemplate = "`true`: only templates; `false`: only VMs that are none. Default: both."

// filterText is an attribute of the filter that is a text.
type filterText struct {
	name, about string
	valid       validator.String
}

func filterTexts() []filterText {
	return []filterText{
		{"name", "Only VMs of this name. `*` stands for any characters, `?` for one: `web-*`.", stringvalidator.LengthAtLeast(1)},
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
		to[f.name] = datasource.StringAttribute{Optional: true, MarkdownDescription: f.about, Validators: []validator.String{f.valid}}
	}
	to["template"] = datasource.BoolAttribute{Optional: true, MarkdownDescription: aboutTemplate}
	return to
}

// ListFilter is the filter's attributes as those of a list block.
func ListFilter() map[string]list.Attribute {
	all := map[string]list.Attribute{"template": list.BoolAttribute{Optional: true, MarkdownDescription: aboutTemplate}}
	for _, f := range filterTexts() {
		all[f.name] = list.StringAttribute{Optional: true, MarkdownDescription: f.about, Validators: []validator.String{f.valid}}
	}
	return all
}

// List gives the VMs that are meant, sorted by VMID, and the cluster's listing that they are taken from. It asks for the datacenter's idea
// of tags only where that makes a difference.
func (f VMFilter) List(ctx context.Context, api *pve.Client) (meant []pve.Resource, all pve.Resources, err error) {
	if all, err = api.SharedResources(ctx); err != nil {
		return nil, nil, err
	}
	filter := pve.Filter{Template: f.Template}
	for to, from := range map[*string]*string{&filter.Name: f.Name, &filter.Node: f.Node, &filter.Pool: f.Pool, &filter.Tag: f.Tag,
		&filter.Status: f.Status} {
		if from != nil {
			*to = *from
		}
	}
	loose, strict := all.VMs(filter, false), all.VMs(filter, true)
	if len(loose) == len(strict) {
		return strict, all, nil
	}
	exact, err := api.TagsAreCaseSensitive(ctx)
	if err != nil || exact {
		return strict, all, err
	}
	return loose, all, nil
}
