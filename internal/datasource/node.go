package datasource

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// Node is the data source proxmox_node.
type Node struct{ kit.DataSourceBase }

var _ datasource.DataSourceWithConfigure = &Node{}

// NewNode makes the data source.
func NewNode() datasource.DataSource { return &Node{} }

// Metadata names the data source.
func (n *Node) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_node"
}

// Schema returns the attributes of the data source.
func (n *Node) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = nodeSchema()
}

// Read asks the cluster for its nodes, and the node for the rest. A node that does not answer is no error: the data
// source exists to tell that.
func (n *Node) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var config nodeModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	name := *config.Name
	n.Ask(ctx, resp, kit.ReadTimeout, kit.Attempt{Verb: "read", Thing: "node " + name}, func(ctx context.Context) error {
		nodes, err := n.Session.API.Cluster().Nodes(ctx)
		if err != nil {
			return err
		}
		node, ok := nodeNamed(nodes, name)
		if !ok {
			resp.Diagnostics.AddAttributeError(path.Root("name"), "Unknown node "+name,
				"The cluster has the nodes "+nodeNames(nodes)+".")
			return nil
		}
		m := nodeOf(node)
		if *m.Online {
			resp.Diagnostics.Append(n.ask(ctx, name, &m)...)
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		return nil
	})
}

// ask gets version and status from the node.
func (n *Node) ask(ctx context.Context, name string, m *nodeModel) diag.Diagnostics {
	var diags diag.Diagnostics
	version, err := n.Session.API.Node(name).Version(ctx)
	if err == nil {
		m.versionIs(version)
	}
	status, statusErr := n.Session.API.Node(name).Status(ctx)
	if statusErr == nil {
		m.statusIs(status)
		return diags
	}
	switch pve.KindOf(statusErr) {
	case pve.Denied:
		diags.AddWarning("The status of node "+name+" is not shown",
			fmt.Sprintf("%v.\n\nReading it needs Sys.Audit on /nodes/%s; without it these attributes are null.", statusErr,
				name))
	case pve.Unavailable, pve.Ambiguous, pve.Unhealthy:
		diags.AddWarning("Node "+name+" does not answer", statusErr.Error()+".\n\nThe attributes that only the node knows "+
			"are null.")
	default:
		diags.Append(kit.Diagnose(kit.Attempt{Verb: "read", Thing: "the status of node " + name, As: n.Session.Identity()},
			statusErr)...)
	}
	return diags
}

func nodeNamed(nodes []pve.Node, name string) (pve.Node, bool) {
	for _, n := range nodes {
		if n.Name == name {
			return n, true
		}
	}
	return pve.Node{}, false
}

func nodeNames(nodes []pve.Node) string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.Name
	}
	return strings.Join(all, ", ")
}
