package tfimage

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/image"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// What is done with the file at a destroy.
const (
	onDestroyDelete = "delete"
	onDestroyKeep   = "keep"
)

func imageSchema(ctx context.Context) schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A file on a storage: an image that disks are made of (`import` content) or an ISO image. " +
			"The node downloads it from `url`, or it is uploaded from `source_file`.\n\n" +
			"PVE keeps no checksums of files, so the name on the storage carries the first twelve digits of the checksum: " +
			"`debian-12.qcow2` becomes `debian-12-3f2a9c1b7d04.qcow2`. The same file is there under the same name, and is used as it " +
			"is; another file never is. Where the checksum changes, so does the name, and the resource is replaced.\n\n" +
			"One resource is one file on one node. For several nodes with a storage each use `for_each`: `volume` is the same on all " +
			"of them.",
		Attributes: attributes(ctx),
	}
}

func attributes(ctx context.Context) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"node": schema.StringAttribute{Required: true, Validators: []validator.String{tfkit.NodeName()},
			MarkdownDescription: "Node that downloads the file, or is given it."},
		"storage": schema.StringAttribute{Required: true, Validators: []validator.String{tfkit.StorageID()},
			MarkdownDescription: "Storage of the types `dir`, `nfs`, `cifs`, `cephfs` or `btrfs`, configured for `content`."},
		"content": schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString("import"),
			Validators: []validator.String{stringvalidator.OneOf("import", "iso")},
			MarkdownDescription: "What it is: `import`, from which disks are made (`qcow2`, `raw`, `vmdk` since PVE 8.4, `ova` since " +
				"8.3), or `iso` (`iso`, `img`). Default: `import`."},
		"url": schema.StringAttribute{Optional: true, Validators: []validator.String{webAddress()},
			MarkdownDescription: "From where the node downloads it (`http`, `https`), through the proxy of the datacenter's options if " +
				"one is set there. PVE writes the address to the task's log. Another address with the same `checksum` is the same " +
				"file. Takes `Sys.AccessNetwork` on the node (PVE 8.2), or `Sys.Audit` and `Sys.Modify` on `/`."},
		"source_file": schema.StringAttribute{Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
			MarkdownDescription: "File of the machine that runs Terraform, to be uploaded. It is read once for its checksum, and again " +
				"while it is sent; it passes `/var/tmp` of the node that the endpoint names, which must have the room. " +
				"The node verifies the checksum."},
		"checksum": schema.StringAttribute{Optional: true, Validators: []validator.String{checksum()},
			MarkdownDescription: "Checksum of the file, in hexadecimal digits: MD5, SHA-1, SHA-224, SHA-256, SHA-384 or SHA-512, told " +
				"by its length; of what is downloaded, not of what it is decompressed to. " +
				"Of a `source_file` it is checked before anything is sent. Without one a download is not verified, and the URL stands " +
				"for the checksum in the name."},
		"compression": schema.StringAttribute{Optional: true,
			Validators: []validator.String{stringvalidator.OneOf(image.Compressions()...)},
			MarkdownDescription: "How the download is compressed, so that the node decompresses it (PVE 8.1): `gz`, `lzo`, " +
				"`zst` or `bz2`. PVE does so with " +
				"`iso` content only."},
		"verify_certificates": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: "Whether the node verifies the certificate of the server of `url`. Default: true."},
		"file_name": schema.StringAttribute{Optional: true, Validators: []validator.String{tfkit.Line()},
			MarkdownDescription: "Name of the file, before the checksum is put into it. Default: the last part of `url` or " +
				"`source_file`. PVE goes by the extension: an image in qcow2 format that is called `.img`, as Ubuntu's, needs a name " +
				"that ends with `.qcow2`."},
		"on_destroy": schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString(onDestroyDelete),
			Validators: []validator.String{stringvalidator.OneOf(onDestroyDelete, onDestroyKeep)},
			MarkdownDescription: "`delete` removes the file with the resource, if `owned`, unless a guest uses it; `keep` " +
				"leaves it. Default: `delete`. " +
				"Removal takes `Datastore.Allocate` on the storage and `VM.Audit` on `/vms`."},
		"volume": schema.StringAttribute{Computed: true, MarkdownDescription: "Volume id, for `disks.*.import_from` and " +
			"`cdroms.*.file` of a VM: " +
			"`local:import/debian-12-3f2a9c1b7d04.qcow2`."},
		"size": schema.Int64Attribute{Computed: true, MarkdownDescription: "Size of the file in bytes."},
		"created": schema.StringAttribute{Computed: true, MarkdownDescription: "When the file was put there or last changed, in " +
			"UTC (RFC 3339)."},
		"owned": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether this resource put the file there, and " +
			"nobody has replaced it since. One " +
			"that was there already stays when the resource is destroyed."},
		"timeouts": tfkit.TimeoutsAttribute(ctx, timeouts.Opts{Create: true, Delete: true}),
	}
}
