package datasource

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// Files is the data source proxmox_files.
type Files struct{ kit.DataSourceBase }

var _ datasource.DataSourceWithConfigure = &Files{}

// NewFiles makes the data source.
func NewFiles() datasource.DataSource { return &Files{} }

type filesModel struct {
	Storage   string      `tfsdk:"storage"`
	Node      *string     `tfsdk:"node"`
	Content   *string     `tfsdk:"content"`
	VMID      *int64      `tfsdk:"vmid"`
	Volumes   []string    `tfsdk:"volumes"`
	Files     []fileEntry `tfsdk:"files"`
	Unchecked []string    `tfsdk:"unchecked"`
}

type fileEntry struct {
	Volume  string  `tfsdk:"volume"`
	Name    string  `tfsdk:"name"`
	Content string  `tfsdk:"content"`
	Format  *string `tfsdk:"format"`
	Size    *int64  `tfsdk:"size"`
	VMID    *int64  `tfsdk:"vmid"`
	Parent  *string `tfsdk:"parent"`
	Created *string `tfsdk:"created"`
}

// Metadata names the data source.
func (f *Files) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_files"
}

// Schema returns the attributes of the data source.
func (f *Files) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The files on a storage: ISO images, images to import, snippets, container templates, " +
			"backups, and the disks of guests. It needs `Datastore.Audit` on the storage; content types that need more " +
			"privileges stand in `unchecked`.",
		Attributes: map[string]schema.Attribute{
			"storage": schema.StringAttribute{Required: true, Validators: []validator.String{kit.StorageID()},
				MarkdownDescription: "Id of the storage."},
			"node": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.NodeName()},
				MarkdownDescription: "Node that looks. Default: the first one on which a shared storage is available; a storage " +
					"that is not shared and that several nodes have holds something else on each, so the node must be given."},
			"content": schema.StringAttribute{Optional: true, Validators: []validator.String{contentTypes()},
				MarkdownDescription: "Only this: `iso`, `import`, `snippets`, `vztmpl`, `backup`, `images` (disks of VMs, " +
					"and those without an owner) or `rootdir` (disks of containers)."},
			"vmid": schema.Int64Attribute{Optional: true, Validators: []validator.Int64{kit.VMID()},
				MarkdownDescription: "Only disks and backups that carry this id."},
			"volumes": schema.ListAttribute{Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Volume ids, sorted: what `cdroms.*.file` and `disks.*.import_from` of a VM take."},
			"files": schema.ListNestedAttribute{Computed: true, MarkdownDescription: "The files and volumes, sorted by volume " +
				"id.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"volume":  kit.ComputedString("Volume id: `local:iso/debian.iso`."),
					"name":    kit.ComputedString("Last part of the volume id: `debian.iso`."),
					"content": kit.ComputedString("What it is, as for `content`."),
					"format":  kit.ComputedString("Format, such as `raw`, `qcow2`, `iso`."),
					"size": kit.ComputedInt64("Size in bytes, of a disk as its guest sees it; null where the storage knows it " +
						"only roughly."),
					"vmid": kit.ComputedInt64("Id of the guest that it belongs to by its name, whether there is such a guest or " +
						"not."),
					"parent":  kit.ComputedString("Base of a linked clone, in the words of the storage."),
					"created": kit.ComputedString("When it was made, in UTC (RFC 3339); null where the storage does not know."),
				}}},
			"unchecked": schema.ListAttribute{Computed: true, ElementType: types.StringType,
				MarkdownDescription: "What may be there without being listed, since the identity may not see all of it, and " +
					"which privilege shows it. Empty: nothing was left out."},
		},
	}
}

// Read lists what is on the storage.
func (f *Files) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m filesModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	attempt := kit.Attempt{Verb: "list", Thing: "what is on storage " + m.Storage}
	f.Ask(ctx, resp, kit.ReadTimeout, attempt, func(ctx context.Context) error {
		if err := f.fill(ctx, &m); err != nil {
			return err
		}
		if len(m.Unchecked) > 0 {
			resp.Diagnostics.AddWarning("Not all of storage "+m.Storage+" was seen",
				"PVE leaves out what this identity may not see:\n  "+strings.Join(m.Unchecked, "\n  "))
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		return nil
	})
}

func (f *Files) fill(ctx context.Context, m *filesModel) error {
	listed, err := f.Session.API.Listing().Shared(ctx)
	if err != nil {
		return err
	}
	from, err := lookFrom(listed, m.Storage, value(m.Node))
	if err != nil {
		return err
	}
	at, found, err := fromAny(from, func(node string) ([]pve.Volume, error) {
		return f.Session.API.Storage(node, m.Storage).Content(ctx, value(m.Content), int(value(m.VMID)))
	})
	if err != nil {
		return err
	}
	kinds := contentOf(at)
	if m.Content != nil {
		kinds = []string{*m.Content}
	}
	if m.Unchecked, err = f.Session.API.Access().Hidden(ctx, m.Storage, kinds); err != nil {
		return err
	}
	m.Unchecked = append([]string{}, m.Unchecked...)
	m.Node, m.Volumes, m.Files = &at.Node, []string{}, []fileEntry{}
	slices.SortFunc(found, func(a, b pve.Volume) int { return cmp.Compare(a.ID, b.ID) })
	for _, v := range found {
		if m.VMID != nil && v.VMID != int(*m.VMID) {
			continue // PVE filters disks and backups only (pve-storage Plugin.pm list_volumes)
		}
		m.Volumes = append(m.Volumes, v.ID)
		m.Files = append(m.Files, fileOf(v))
	}
	return nil
}

// fromAny asks the nodes for the content of a storage, until one of them answers.
func fromAny[T any](from []pve.Resource, look func(node string) (T, error)) (at pve.Resource, found T, err error) {
	for _, at = range from {
		if found, err = look(at.Node); !pve.IsKind(err, pve.Unavailable) {
			break
		}
	}
	return at, found, err
}

// lookFrom chooses the nodes to ask for the content of a storage, the best first. For a storage that is not shared it
// is one node.
func lookFrom(listed pve.Resources, storage, node string) ([]pve.Resource, error) {
	if node != "" {
		if err := guest.CheckNode(listed, node); err != nil {
			return nil, err
		}
	}
	var on []pve.Resource
	var nodes []string
	for _, n := range listed.Nodes() {
		if s, ok := listed.Storage(n.Node, storage); ok && (node == "" || node == n.Node) {
			nodes = append(nodes, n.Node)
			if n.Status == "online" {
				on = append(on, s)
			}
		}
	}
	slices.Sort(nodes)
	slices.SortFunc(on, func(a, b pve.Resource) int { return cmp.Compare(a.Node, b.Node) })
	switch {
	case len(nodes) == 0:
		return nil, fmt.Errorf("there is no storage %s%s, or it is disabled, or this identity may not see it "+
			"(Datastore.Audit)", storage,
			onNode(node))
	case len(on) == 0:
		return nil, fmt.Errorf("storage %s is only on nodes that are not online: %s", storage, strings.Join(nodes, ", "))
	case len(nodes) > 1 && !on[0].Shared && on[0].PluginType != "esxi": // whose host all nodes see
		return nil, fmt.Errorf("storage %s is not shared, and several nodes have one: set node to one of %s", storage,
			strings.Join(nodes, ", "))
	}
	// The states may be old; the nodes say what is wrong.
	slices.SortStableFunc(on, func(a, b pve.Resource) int { return cmp.Compare(unavailable(a), unavailable(b)) })
	return on, nil
}

func unavailable(s pve.Resource) int {
	if s.Status == "available" {
		return 0
	}
	return 1
}

func onNode(node string) string {
	if node == "" {
		return ""
	}
	return " on node " + node
}

func fileOf(v pve.Volume) fileEntry {
	f := fileEntry{Volume: v.ID, Name: v.ID[strings.LastIndexAny(v.ID, ":/")+1:], Content: v.Content,
		Format: kit.NonZero(v.Format),
		Size:   kit.NonZero(v.Size), Parent: kit.NonZero(v.Parent), VMID: kit.NonZero(int64(v.VMID))}
	if !v.CreatedAt.IsZero() {
		created := v.CreatedAt.UTC().Format(time.RFC3339)
		f.Created = &created
	}
	return f
}
