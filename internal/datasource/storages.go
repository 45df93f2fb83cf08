package datasource

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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// Storages is the data source proxmox_storages.
type Storages struct{ kit.DataSourceBase }

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
func (s *Storages) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_storages"
}

// contentTypes accepts the content types of storages (pve-storage Plugin.pm).
func contentTypes() validator.String {
	return stringvalidator.OneOf("images", "rootdir", "iso", "import", "snippets", "vztmpl", "backup")
}

// Schema returns the attributes of the data source.
func (s *Storages) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The storages of the cluster as each node has them, those that are disabled left out. It asks " +
			"for the cluster's list once. PVE leaves out, without a word, the storages on which the identity has neither " +
			"`Datastore.Audit` nor `Datastore.AllocateSpace`.",
		Attributes: map[string]schema.Attribute{
			"node": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.NodeName()},
				MarkdownDescription: "Only storages of this node."},
			"content": schema.StringAttribute{Optional: true, Validators: []validator.String{contentTypes()},
				MarkdownDescription: "Only storages that may hold this: `images` (disks of VMs), `rootdir` (disks of " +
					"containers), `iso`, `import`, `snippets`, `vztmpl` or `backup`."},
			"type": schema.StringAttribute{Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Only storages of this type, such as `zfspool` or `dir`."},
			"ids": schema.ListAttribute{Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Ids of the storages, each once, sorted."},
			"storages": schema.ListNestedAttribute{Computed: true, MarkdownDescription: "The storages, sorted by id and node.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"id": kit.ComputedString("Id."), "node": kit.ComputedString("Node that has it."),
					"type": kit.ComputedString("Type, such as `zfspool` or `dir`."),
					"content": schema.ListAttribute{Computed: true, ElementType: types.StringType,
						MarkdownDescription: "What may be kept on it, sorted."},
					"shared": kit.ComputedBool("Whether all nodes that have it see the " +
						"same."), "available": kit.ComputedBool("Whether it can be used now."),
					"total": kit.ComputedInt64("Size, in bytes; null while it is not " +
						"available."), "used": kit.ComputedInt64("Space in use, in bytes, likewise."),
				}}},
		},
	}
}

// Read lists the storages.
func (s *Storages) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m storagesModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	attempt := kit.Attempt{Verb: "list", Thing: "the storages of the cluster"}
	s.Ask(ctx, resp, kit.ReadTimeout, attempt, func(ctx context.Context) error {
		listed, err := s.Session.API.Listing().Shared(ctx)
		if err != nil {
			return err
		}
		m.fill(listed)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		return nil
	})
}

func (s *storagesModel) fill(listed pve.Resources) {
	s.IDs, s.Storages = []string{}, []storageEntry{}
	for _, r := range listed {
		if r.Type == "storage" && s.wants(r) {
			s.IDs = append(s.IDs, r.Storage)
			s.Storages = append(s.Storages, storageOf(r))
		}
	}
	slices.Sort(s.IDs)
	s.IDs = slices.Compact(s.IDs)
	slices.SortFunc(s.Storages, func(a, b storageEntry) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Node,
			b.Node))
	})
}

func (s *storagesModel) wants(r pve.Resource) bool {
	return (s.Node == nil || *s.Node == r.Node) && (s.Type == nil || *s.Type == r.PluginType) &&
		(s.Content == nil || slices.Contains(contentOf(r), *s.Content))
}

func contentOf(r pve.Resource) []string {
	all := strings.FieldsFunc(r.Content, func(c rune) bool { return c == ',' || c == ' ' })
	slices.Sort(all)
	return append([]string{}, all...)
}

func storageOf(r pve.Resource) storageEntry {
	return storageEntry{ID: r.Storage, Node: r.Node, Type: r.PluginType, Content: contentOf(r), Shared: r.Shared,
		Available: r.Status == "available", Total: kit.NonZero(r.MaxDisk), Used: used(r)}
}

// used is null if the size is: 0 would not be a measured value then.
func used(r pve.Resource) *int64 {
	if r.MaxDisk == 0 {
		return nil
	}
	return &r.Disk
}
