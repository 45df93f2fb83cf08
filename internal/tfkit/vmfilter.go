package tfkit

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
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

// Listing is what a filter finds.
type Listing struct {
	All pve.Resources
	// Meant are the VMs that fit, sorted by VMID; of Untold PVE does not tell whether they do.
	Meant, Untold []pve.Resource
}

// List looks for the VMs that are meant. It asks for the datacenter's idea of tags only where that makes a difference.
func (f VMFilter) List(ctx context.Context, api *pve.Client) (Listing, error) {
	all, err := api.SharedResources(ctx)
	if err != nil {
		return Listing{}, err
	}
	filter := pve.Filter{Name: said(f.Name), Node: said(f.Node), Pool: said(f.Pool), Tag: said(f.Tag), Status: said(f.Status),
		Template: f.Template}
	exact := true
	if len(all.VMs(filter, true)) != len(all.VMs(filter, false)) || len(all.Untold(filter, true)) != len(all.Untold(filter, false)) {
		if exact, err = api.TagsAreCaseSensitive(ctx); err != nil {
			return Listing{}, err
		}
	}
	return Listing{All: all, Meant: all.VMs(filter, exact), Untold: all.Untold(filter, exact)}, nil
}

func said(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// Warnings name the VMs that a list may lack.
func (l Listing) Warnings() (diags diag.Diagnostics) {
	if len(l.Untold) == 0 {
		return nil
	}
	var names []string
	for _, r := range l.Untold {
		names = append(names, fmt.Sprintf("%d (node %s)", r.VMID, r.Node))
	}
	diags.AddWarning("Some VMs may be missing from the list", "PVE does not tell the names of these VMs, nor whether they are templates, "+
		"since their nodes are away or have not reported them yet. They were left out: "+strings.Join(names, ", "))
	return diags
}
