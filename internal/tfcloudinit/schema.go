// Package tfcloudinit is the resource proxmox_cloud_init_iso: a disc that a guest's cloud-init reads its data from.
package tfcloudinit

import (
	"context"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/image"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nocloud"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// fileName is what the beginning of a file's name may be: what PVE leaves as it is (pve-storage Storage.pm
// normalize_content_filename), without what a program may take for an option or a hidden file.
var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

func discSchema(ctx context.Context) schema.Schema {
	document := func(text string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, MarkdownDescription: text}
	}
	return schema.Schema{
		MarkdownDescription: "A disc with what a guest's cloud-init is to do (NoCloud), as an ISO image on a storage. It is made by the " +
			"provider and uploaded over the API, so it takes neither SSH nor root. Put it into a drive of a VM: " +
			"`cdroms = { ide3 = { file = proxmox_cloud_init_iso.web.volume } }`. A VM has either this or `cloud_init`, whose drive PVE makes: " +
			"a guest would read one of the two.\n\n" +
			"The name of the file carries the beginning of its checksum. Another document gives another file: it is uploaded, the VM's drive " +
			"gets it, and the earlier one is removed when no guest uses it any more, at the latest with this resource. A guest reads the disc " +
			"when it boots, and does what is new once: `instance-id` follows from the documents, unless `meta_data` gives one.\n\n" +
			"The documents stand in the state in clear text, and anybody who may read the storage can read the disc.",
		Attributes: map[string]schema.Attribute{
			"node": schema.StringAttribute{Required: true, Validators: []validator.String{tfkit.NodeName()},
				MarkdownDescription: "Node whose storage it is put on."},
			"storage": schema.StringAttribute{Required: true, Validators: []validator.String{tfkit.StorageID()},
				MarkdownDescription: "Storage with content type `iso`. Takes `Datastore.AllocateTemplate` on it; to remove the file, " +
					"`Datastore.Allocate` there and `VM.Audit` on `/vms`."},
			"name": schema.StringAttribute{Required: true, Validators: []validator.String{stringvalidator.RegexMatches(fileName,
				"must begin with a letter or a digit, and have only these, \"_\", \".\" and \"-\", 128 at most")},
				MarkdownDescription: "Beginning of the file's name: `web-1` gives `web-1-3f2a9c1b7d04.iso`."},
			"user_data": document("User data: `#cloud-config` and YAML, a script that begins with `#!`, a MIME message, or what else cloud-init " +
				"knows by its beginning. What it would pass over is refused."),
			"meta_data":      document("Meta data, in YAML. Default: `instance-id`, which follows from the documents."),
			"network_config": document("Network configuration, version 1 or 2, in YAML."),
			"vendor_data":    document("Vendor data, as `user_data`, which overrides it."),
			"sha256":         schema.StringAttribute{Computed: true, MarkdownDescription: "SHA-256 of the file, in hexadecimal digits."},
			"size":           schema.Int64Attribute{Computed: true, MarkdownDescription: "Size of the file in bytes."},
			"volume": schema.StringAttribute{Computed: true,
				MarkdownDescription: "Volume id, for `cdroms.*.file` of a VM: `local:iso/web-1-3f2a9c1b7d04.iso`."},
			"timeouts": tfkit.TimeoutsAttribute(ctx, timeouts.Opts{Create: true, Update: true, Delete: true}),
		},
	}
}

// model is the resource in configuration, plan and state.
type model struct {
	Node          types.String    `tfsdk:"node"`
	Storage       types.String    `tfsdk:"storage"`
	Name          types.String    `tfsdk:"name"`
	UserData      types.String    `tfsdk:"user_data"`
	MetaData      types.String    `tfsdk:"meta_data"`
	NetworkConfig types.String    `tfsdk:"network_config"`
	VendorData    types.String    `tfsdk:"vendor_data"`
	SHA256        types.String    `tfsdk:"sha256"`
	Size          types.Int64     `tfsdk:"size"`
	Volume        types.String    `tfsdk:"volume"`
	Timeouts      *tfkit.Timeouts `tfsdk:"timeouts"`
}

// document is one of the documents with its attribute.
type document struct {
	attribute string
	kind      nocloud.Kind
	text      types.String
}

func (m model) documents() []document {
	return []document{{"user_data", nocloud.User, m.UserData}, {"meta_data", nocloud.Meta, m.MetaData},
		{"network_config", nocloud.Network, m.NetworkConfig}, {"vendor_data", nocloud.Vendor, m.VendorData}}
}

// areDocumentsKnown reports whether the disc can be made.
func (m model) areDocumentsKnown() bool {
	for _, d := range m.documents() {
		if d.text.IsUnknown() {
			return false
		}
	}
	return true
}

// isPlaceKnown reports whether it is known where the disc goes.
func (m model) isPlaceKnown() bool {
	return !m.Node.IsUnknown() && !m.Storage.IsUnknown() && !m.Name.IsUnknown()
}

func (m model) disc() []byte {
	return nocloud.Seed{UserData: m.UserData.ValueString(), MetaData: m.MetaData.ValueString(),
		NetworkConfig: m.NetworkConfig.ValueString(), VendorData: m.VendorData.ValueString()}.Image()
}

// spec is the file that is wanted.
func (m model) spec() (image.Spec, error) {
	source := image.Of(m.Name.ValueString(), m.disc())
	name, err := image.FileName("iso", m.Name.ValueString()+".iso", source.Checksum)
	return image.Spec{Node: m.Node.ValueString(), Storage: m.Storage.ValueString(), Content: "iso", Name: name, Source: source}, err
}

// isAsBefore reports whether a plan means the very file that is in state.
func (m model) isAsBefore(prior model) bool {
	return !m.Volume.IsUnknown() && m.Volume.Equal(prior.Volume) && m.Node.Equal(prior.Node)
}

// has reports whether a file is the disc in state.
func (m model) has(f remove.MadeFile) bool {
	return f.Node == m.Node.ValueString() && f.Volume == m.Volume.ValueString()
}

func (m model) thing() string {
	return "cloud-init disc " + m.Name.ValueString() + " on storage " + m.Storage.ValueString() + " of " + m.Node.ValueString()
}

// locator finds attributes for errors.
type locator struct{}

// Parameter is the attribute behind a parameter of PVE's API.
func (locator) Parameter(name string) (path.Path, bool) {
	at, ok := map[string]string{"filename": "name", "storage": "storage", "node": "node"}[name]
	return path.Root(at), ok
}

// Attribute is the path of an attribute of this resource; checks of files name one of another, too.
func (locator) Attribute(name string) (path.Path, bool) {
	switch name {
	case "node", "storage", "name":
		return path.Root(name), true
	case "file_name":
		return path.Root("name"), true
	}
	return path.Empty(), false
}
