package file

import (
	"context"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// isoName matches the possible beginnings of a disc's name: characters that PVE leaves unchanged (pve-storage
// Storage.pm normalize_content_filename), without a beginning that a program could take for an option or a hidden file.
var isoName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

func (*isoModel) schema(ctx context.Context) schema.Schema {
	document := func(text string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, MarkdownDescription: text}
	}
	return schema.Schema{
		MarkdownDescription: "A disc with data for a guest's cloud-init (NoCloud), as an ISO image on a storage. The " +
			"provider makes it and uploads it over the API, so it requires neither SSH nor root. Put it into a drive of a VM: " +
			"`cdroms = { ide3 = { file = proxmox_cloud_init_iso.web.volume } }`. A VM has either this disc or `cloud_init`, " +
			"whose drive PVE makes: a guest would read only one of the two.\n\n" +
			"The name of the file carries the beginning of its checksum, so another document makes another file. The provider " +
			"uploads that file, and the VM's drive gets it. The earlier file is removed once no guest uses it, at the latest " +
			"with this resource. A guest reads the disc when it boots, and applies new data once. Its `instance-id` follows " +
			"from the documents, unless `meta_data` sets one.\n\n" +
			kit.DestroyedFirst + "\n\n" +
			"The documents stand in the state in clear text, and every user who may read the storage can read the disc.",
		Attributes: map[string]schema.Attribute{
			"node": schema.StringAttribute{Required: true, Validators: []validator.String{kit.NodeName()},
				MarkdownDescription: "Node that receives the disc."},
			"storage": schema.StringAttribute{Required: true, Validators: []validator.String{kit.StorageID()},
				MarkdownDescription: "Storage with content type `iso`. The upload requires `Datastore.AllocateTemplate` on it. " +
					"Removal requires `Datastore.Allocate` there and `VM.Audit` on `/vms`."},
			"name": schema.StringAttribute{Required: true, Validators: []validator.String{stringvalidator.RegexMatches(isoName,
				"must begin with a letter or a digit, and have only these, \"_\", \".\" and \"-\", 128 at most")},
				MarkdownDescription: "Beginning of the file's name: `web-1` gives `web-1-3f2a9c1b7d04.iso`."},
			"user_data": document("User data: `#cloud-config` and YAML, a script that begins with `#!`, a MIME message, or " +
				"another format that cloud-init knows by its beginning. A document that cloud-init would ignore is refused. " +
				"Default: empty."),
			"meta_data": document("Meta data in YAML. Default: `instance-id`, which follows from the documents."),
			"network_config": document("Network configuration, version 1 or 2, in YAML. Default: none; the guest uses its own " +
				"default."),
			"vendor_data": document("Vendor data in the formats of `user_data`, which overrides it. Default: none."),
			"sha256": schema.StringAttribute{Computed: true, MarkdownDescription: "SHA-256 of the file in hexadecimal " +
				"digits."},
			"size": schema.Int64Attribute{Computed: true, MarkdownDescription: "Size of the file in bytes."},
			"volume": schema.StringAttribute{Computed: true,
				MarkdownDescription: "Volume id, for `cdroms.*.file` of a VM: `local:iso/web-1-3f2a9c1b7d04.iso`."},
			"created": schema.StringAttribute{Computed: true, MarkdownDescription: "Time of the file's last change, in UTC " +
				"(RFC 3339)."},
			"owned": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether this resource put the file there, and " +
				"no other file has taken its place since. A file that was there already stays when the resource is destroyed."},
			"timeouts": kit.TimeoutsAttribute(ctx, timeouts.Opts{Create: true, Update: true, Delete: true}),
		},
	}
}
