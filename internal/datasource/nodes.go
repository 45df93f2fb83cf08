package datasource

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// Nodes is the data source proxmox_nodes.
type Nodes struct{ kit.DataSourceBase }

var _ datasource.DataSourceWithConfigure = &Nodes{}

// NewNodes makes the data source.
func NewNodes() datasource.DataSource { return &Nodes{} }

type nodesModel struct {
	Names []string    `tfsdk:"names"`
	Nodes []nodeEntry `tfsdk:"nodes"`
}

type nodeEntry struct {
	Name        *string  `tfsdk:"name"`
	Status      *string  `tfsdk:"status"`
	Online      *bool    `tfsdk:"online"`
	CPU         *float64 `tfsdk:"cpu"`
	MaxCPU      *int64   `tfsdk:"maxcpu"`
	Mem         *int64   `tfsdk:"mem"`
	MaxMem      *int64   `tfsdk:"maxmem"`
	Disk        *int64   `tfsdk:"disk"`
	MaxDisk     *int64   `tfsdk:"maxdisk"`
	Uptime      *int64   `tfsdk:"uptime"`
	Level       *string  `tfsdk:"level"`
	Fingerprint *string  `tfsdk:"ssl_fingerprint"`
}

// Metadata names the data source.
func (d *Nodes) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_nodes"
}

// Schema returns the attributes of the data source.
func (d *Nodes) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The nodes of the cluster. The numbers need `Sys.Audit` on `/nodes`; without it, and for a " +
			"node that is offline, they are null.",
		Attributes: map[string]schema.Attribute{
			"names": schema.ListAttribute{Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Names of all nodes, sorted."},
			"nodes": schema.ListNestedAttribute{Computed: true, MarkdownDescription: "The nodes, sorted by name.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"name":            kit.ComputedString("Name."),
					"status":          kit.ComputedString("`online`, `offline` or `unknown`."),
					"online":          kit.ComputedBool("Whether the cluster sees the node."),
					"cpu":             kit.ComputedFloat64("Load of the CPUs, 0 to 1."),
					"maxcpu":          kit.ComputedInt64("Threads."),
					"mem":             kit.ComputedInt64("Memory in use, in bytes."),
					"maxmem":          kit.ComputedInt64("Memory, in bytes."),
					"disk":            kit.ComputedInt64("Root file system in use, in bytes."),
					"maxdisk":         kit.ComputedInt64("Root file system, in bytes."),
					"uptime":          kit.ComputedInt64("Seconds since the node booted."),
					"level":           kit.ComputedString("Subscription level, if there is one."),
					"ssl_fingerprint": kit.ComputedString("Fingerprint of the node's certificate."),
				}}},
		},
	}
}

// Read lists the nodes.
func (d *Nodes) Read(ctx context.Context, _ datasource.ReadRequest, resp *datasource.ReadResponse) {
	attempt := kit.Attempt{Verb: "list", Thing: "the nodes of the cluster"}
	d.Ask(ctx, resp, kit.ReadTimeout, attempt, func(ctx context.Context) error {
		nodes, err := d.Session.API.Cluster().Nodes(ctx)
		if err != nil {
			return err
		}
		slices.SortFunc(nodes, func(a, b pve.Node) int { return strings.Compare(a.Name, b.Name) })
		m := nodesModel{Names: []string{}, Nodes: []nodeEntry{}}
		for _, n := range nodes {
			m.Names = append(m.Names, n.Name)
			m.Nodes = append(m.Nodes, nodeEntryOf(n))
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		return nil
	})
}

// nodeEntryOf returns one node. Without statistics, which never have 0 CPUs, the numbers are null.
func nodeEntryOf(n pve.Node) nodeEntry {
	online := n.Status == "online"
	e := nodeEntry{Name: &n.Name, Status: &n.Status, Online: &online, Level: kit.NonZero(n.Level),
		Fingerprint: kit.NonZero(n.SSLFingerprint)}
	if n.MaxCPU > 0 {
		e.CPU, e.MaxCPU, e.Mem, e.MaxMem = &n.CPU, &n.MaxCPU, &n.Mem, &n.MaxMem
		e.Disk, e.MaxDisk, e.Uptime = &n.Disk, &n.MaxDisk, &n.Uptime
	}
	return e
}
