package datasource

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// Version is the data source proxmox_version.
type Version struct{ kit.DataSourceBase }

var _ datasource.DataSourceWithConfigure = &Version{}

// NewVersion makes the data source.
func NewVersion() datasource.DataSource { return &Version{} }

type versionModel struct {
	Version      *string      `tfsdk:"version"`
	Release      *string      `tfsdk:"release"`
	RepoID       *string      `tfsdk:"repoid"`
	Major        *int64       `tfsdk:"major"`
	Minor        *int64       `tfsdk:"minor"`
	Capabilities types.Object `tfsdk:"capabilities"`
}

// Metadata names the data source.
func (d *Version) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_version"
}

// Schema returns the attributes of the data source.
func (d *Version) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The version of PVE on the node that the endpoint names. Every identity may ask for it. " +
			"The nodes of a cluster may differ while it is upgraded: `proxmox_node` tells each one's.",
		Attributes: map[string]schema.Attribute{
			"version": kit.ComputedString("Version of the management software (`pve-manager`), such as `8.4.1`."),
			"release": kit.ComputedString("Release, such as `8.4`."),
			"repoid":  kit.ComputedString("Build of that version."),
			"major":   kit.ComputedInt64("First number of the version."),
			"minor":   kit.ComputedInt64("Second number of the version."),
			"capabilities": schema.SingleNestedAttribute{Computed: true, Attributes: capabilityAttributes(),
				MarkdownDescription: "What that version can do."},
		},
	}
}

// Read asks the server, once per process.
func (d *Version) Read(ctx context.Context, _ datasource.ReadRequest, resp *datasource.ReadResponse) {
	attempt := kit.Attempt{Verb: "read", Thing: "the version of PVE"}
	d.Ask(ctx, resp, kit.ReadTimeout, attempt, func(ctx context.Context) error {
		v, err := d.Session.API.Cluster().Version(ctx)
		if err != nil {
			return err
		}
		major, minor := int64(v.Major), int64(v.Minor)
		m := versionModel{Version: kit.NonZero(v.Version), Release: kit.NonZero(v.Release), RepoID: kit.NonZero(v.RepoID),
			Major: kit.NonZero(major), Capabilities: capabilitiesOf(v)}
		if v.Major > 0 {
			m.Minor = &minor
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		return nil
	})
}
