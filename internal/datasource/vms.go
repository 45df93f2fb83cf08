package datasource

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// VMs is the data source proxmox_vms.
type VMs struct{ kit.DataSourceBase }

var _ datasource.DataSourceWithConfigure = &VMs{}

// NewVMs makes the data source.
func NewVMs() datasource.DataSource { return &VMs{} }

type vmsModel struct {
	kit.VMFilter
	VMIDs []int64   `tfsdk:"vmids"`
	VMs   []vmEntry `tfsdk:"vms"`
}

// vmEntry is a VM of the cluster's listing, without the values that change all the time.
type vmEntry struct {
	VMID     int64    `tfsdk:"vmid"`
	Name     *string  `tfsdk:"name"`
	Node     string   `tfsdk:"node"`
	Status   string   `tfsdk:"status"`
	Template bool     `tfsdk:"template"`
	Tags     []string `tfsdk:"tags"`
	Pool     *string  `tfsdk:"pool"`
	Lock     *string  `tfsdk:"lock"`
	HAState  *string  `tfsdk:"ha_state"`
	MaxCPU   *int64   `tfsdk:"maxcpu"`
	MaxMem   *int64   `tfsdk:"maxmem"`
	MaxDisk  *int64   `tfsdk:"maxdisk"`
}

func entryOf(r pve.Resource) vmEntry {
	e := vmEntry{VMID: int64(r.VMID), Name: kit.NonZero(r.Name), Node: r.Node, Status: r.Status, Template: r.Template,
		Tags: r.TagList(),
		Pool: kit.NonZero(r.Pool), Lock: kit.NonZero(r.Lock), HAState: kit.NonZero(r.HAState),
		MaxCPU: kit.NonZero(r.MaxCPU), MaxMem: kit.NonZero(r.MaxMem), MaxDisk: kit.NonZero(r.MaxDisk)}
	if e.Tags == nil {
		e.Tags = []string{}
	}
	return e
}

// Metadata names the data source.
func (v *VMs) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_vms"
}

// Schema returns the attributes of the data source.
func (v *VMs) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The VMs of the cluster, templates included, containers not. It asks for the cluster's list " +
			"once, whatever is filtered. PVE leaves out, without a word, what the identity may not see: all VMs need " +
			"`VM.Audit` on `/vms`. The list is up to 10 seconds old where it says whether a VM runs and what its name is. PVE " +
			"does not know the names of VMs whose node is away, nor whether they are templates: with one of these filters a " +
			"warning names those that the list may lack.",
		Attributes: kit.DataSourceFilter(map[string]schema.Attribute{
			"vmids": schema.ListAttribute{Computed: true, ElementType: types.Int64Type,
				MarkdownDescription: "Ids of the VMs, ascending."},
			"vms": schema.ListNestedAttribute{Computed: true, MarkdownDescription: "The VMs, sorted by id.",
				NestedObject: schema.NestedAttributeObject{Attributes: listedAttributes()}},
		}),
	}
}

// listedAttributes returns the attributes that the listing tells of a VM.
func listedAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"vmid":     kit.ComputedInt64("Id."),
		"name":     kit.ComputedString("Name; null for a VM that the list has no name of yet."),
		"node":     kit.ComputedString("Node that the VM is on."),
		"status":   kit.ComputedString("`running`, `stopped` or `unknown`."),
		"template": kit.ComputedBool("Whether it is a template."),
		"tags":     schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Tags, sorted."},
		"pool":     kit.ComputedString("Resource pool, if it is in one that the identity may see."),
		"lock":     kit.ComputedString("Lock of its configuration, such as `backup` or `migrate`."),
		"ha_state": kit.ComputedString("State that HA has it in, if it is under HA."),
		"maxcpu":   kit.ComputedInt64("Virtual CPUs."),
		"maxmem":   kit.ComputedInt64("Memory, in bytes."), "maxdisk": kit.ComputedInt64("Size of the first disk, in bytes."),
	}
}

// Read lists the VMs.
func (v *VMs) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m vmsModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	attempt := kit.Attempt{Verb: "list", Thing: "the VMs of the cluster"}
	v.Ask(ctx, resp, kit.ReadTimeout, attempt, func(ctx context.Context) error {
		found, err := m.List(ctx, v.Session.API)
		if err != nil {
			return err
		}
		resp.Diagnostics.Append(found.Warnings()...)
		m.VMIDs, m.VMs = []int64{}, []vmEntry{}
		for _, r := range found.Meant {
			m.VMIDs = append(m.VMIDs, int64(r.VMID))
			m.VMs = append(m.VMs, entryOf(r))
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		return nil
	})
}
