package tfdata

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// Storages is the data source proxmox_storages.
type Storages struct{ tfkit.DataSourceBase }

var _ datasource.DataSourceWithConfigure = &Storages{}

// NewStorages makes the data source.
func NewStorages() datasource.DataSource { return &Storages{} }

type storagesModel struct {
	Node     *string        `tfsdk:"node"`
	Content  *string        `tfsdk:"content"`
	Type     *string        `tfsdk:"type"`
	IDs      []string       `tfsdk:"ids"`
	Storages []storageEntry `tfsdk:"storages"`
}

// storageEntry is a storage as one node has it.
type storageEntry struct {
	ID        string   `tfsdk:"id"`
	Node      string   `tfsdk:"node"`
	Type      string   `tfsdk:"type"`
	Content   []string `tfsdk:"content"`
	Shared    bool     `tfsdk:"shared"`
	Available bool     `tfsdk:"available"`
	Total     *int64   `tfsdk:"total"`
	Used      *int64   `tfsdk:"used"`
}

// Metadata names the data source.
func (d *Storages) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_storages"
}

// contentTypes are what a storage may hold (pve-storage Plugin.pm).
func contentTypes() validator.String {
	return stringvalidator.OneOf("images", "rootdir", "iso", "import", "snippets", "vztmpl", "backup")
}

// Schema is the shape of the data source.
func (d *Storages) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The storages of the cluster as each node has them, those that are disabled left out. It asks for the " +
			"cluster's list once. PVE leaves out, without a word, the storages on which the identity has neither `Datastore.Audit` nor " +
			"`Datastore.AllocateSpace`.",
		Attributes: map[string]schema.Attribute{
			"node": schema.StringAttribute{Optional: true, Validators: []validator.String{tfkit.NodeName()},
				MarkdownDescription: "Only storages of this node."},
			"content": schema.StringAttribute{Optional: true, Validators: []validator.String{contentTypes()},
				MarkdownDescription: "Only storages that may hold this: `images` (disks of VMs), `rootdir` (disks of containers), " +
					"`iso`, `import`, `snippets`, `vztmpl` or `backup`."},
			"type": schema.StringAttribute{Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Only storages of this type, such as `zfspool` or `dir`."},
			"ids": schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Ids of the storages, " +
				"each once, sorted."},
			"storages": schema.ListNestedAttribute{Computed: true, MarkdownDescription: "The storages, sorted by id and node.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"id": tfkit.ComputedString("Id."), "node": tfkit.ComputedString("Node that has it."),
					"type": tfkit.ComputedString("Type, such as `zfspool` or `dir`."),
					"content": schema.ListAttribute{Computed: true, ElementType: types.StringType,
						MarkdownDescription: "What may be kept on it, sorted."},
					"shared": tfkit.ComputedBool("Whether all nodes that have it see the " +
						"same."), "available": tfkit.ComputedBool("Whether it can be used now."),
					"total": tfkit.ComputedInt64("Size, in bytes; null while it is not " +
						"available."), "used": tfkit.ComputedInt64("Space in use, in bytes, likewise."),
				}}},
		},
	}
}

// Read lists the storages.
func (d *Storages) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m storagesModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	attempt := tfkit.Attempt{Verb: "list", Thing: "the storages of the cluster"}
	d.Ask(ctx, resp, tfkit.ReadTimeout, attempt, func(ctx context.Context) error {
		listed, err := d.Session.API.SharedResources(ctx)
		if err != nil {
			return err
		}
		m.fill(listed)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		return nil
	})
}

func (m *storagesModel) fill(listed pve.Resources) {
	m.IDs, m.Storages = []string{}, []storageEntry{}
	for _, r := range listed {
		if r.Type == "storage" && m.wants(r) {
			m.IDs = append(m.IDs, r.Storage)
			m.Storages = append(m.Storages, storageOf(r))
		}
	}
	slices.Sort(m.IDs)
	m.IDs = slices.Compact(m.IDs)
	slices.SortFunc(m.Storages, func(a, b storageEntry) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Node, b.Node)) })
}

func (m *storagesModel) wants(r pve.Resource) bool {
	return (m.Node == nil || *m.Node == r.Node) && (m.Type == nil || *m.Type == r.PluginType) &&
		(m.Content == nil || slices.Contains(contentOf(r), *m.Content))
}

func contentOf(r pve.Resource) []string {
	all := strings.FieldsFunc(r.Content, func(c rune) bool { return c == ',' || c == ' ' })
	slices.Sort(all)
	return append([]string{}, all...)
}

func storageOf(r pve.Resource) storageEntry {
	return storageEntry{ID: r.Storage, Node: r.Node, Type: r.PluginType, Content: contentOf(r), Shared: r.Shared,
		Available: r.Status == "available", Total: tfkit.NonZero(r.MaxDisk), Used: used(r)}
}

// used is null where the size is: then 0 is no number of anything.
func used(r pve.Resource) *int64 {
	if r.MaxDisk == 0 {
		return nil
	}
	return &r.Disk
}
