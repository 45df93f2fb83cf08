package file

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

func (*imageModel) schema(ctx context.Context) schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A file on a storage: an image that disks are made of (`import` content), or an ISO image. " +
			"The node downloads it from `url`, or the provider uploads it from `source_file`.\n\n" +
			"PVE keeps no checksums of files. Therefore the name on the storage carries the first twelve digits of the " +
			"checksum: `debian-12.qcow2` becomes `debian-12-3f2a9c1b7d04.qcow2`. The same file has the same name and is used " +
			"as it is; a different file never has that name. When the checksum changes, so does the name, and the resource is " +
			"replaced.\n\n" +
			"One resource is one file on one node. For several nodes with a storage each, use `for_each`: `volume` is the " +
			"same on all of them.\n\n" + kit.DestroyedFirst,
		Attributes: imageAttributes(ctx),
	}
}

func imageAttributes(ctx context.Context) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"node": schema.StringAttribute{Required: true, Validators: []validator.String{kit.NodeName()},
			MarkdownDescription: "Node that downloads or receives the file."},
		"storage": schema.StringAttribute{Required: true, Validators: []validator.String{kit.StorageID()},
			MarkdownDescription: "Storage of type `dir`, `nfs`, `cifs`, `cephfs` or `btrfs`, configured for `content`."},
		"content": schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString(file.Import),
			Validators: []validator.String{stringvalidator.OneOf(file.Import, file.ISO)},
			MarkdownDescription: "Content type: `import` for images that disks are made of (`qcow2`, `raw`, `vmdk` since PVE " +
				"8.4, `ova` since 8.3), or `iso` (`iso`, `img`). Default: `import`."},
		"url": schema.StringAttribute{Optional: true, Validators: []validator.String{webAddress()},
			MarkdownDescription: "Address from which the node downloads the file (`http`, `https`). The node uses the proxy " +
				"of the datacenter's options, if one is set. PVE writes the address to the task's log, a password in it too; the " +
				"provider's own messages show neither that nor a signature. Another address with the same " +
				"`checksum` is the same file. The plan has the node ask the server for the head of a new file. " +
				"Requires `Sys.AccessNetwork` on the node (PVE 8.2), or `Sys.Audit` and " +
				"`Sys.Modify` on `/`."},
		"source_file": schema.StringAttribute{Optional: true,
			Validators: []validator.String{stringvalidator.LengthAtLeast(1), localFile()},
			MarkdownDescription: "File to upload, on the machine that runs Terraform. The provider reads it once for its " +
				"checksum, and again during the upload. The node of the provider's endpoint stores it in `/var/tmp` for a while, " +
				"so it needs the space there. The node verifies the checksum."},
		"checksum": schema.StringAttribute{Optional: true, Validators: []validator.String{checksum()},
			MarkdownDescription: "Checksum of the file in hexadecimal digits: MD5, SHA-1, SHA-224, SHA-256, SHA-384 or " +
				"SHA-512, told by its length. It is that of the downloaded file, before decompression. The provider verifies it " +
				"for a `source_file` before the upload. Without a checksum a download is not verified, and the name carries that " +
				"of the URL."},
		"compression": schema.StringAttribute{Optional: true,
			Validators: []validator.String{stringvalidator.OneOf(file.Compressions()...)},
			MarkdownDescription: "Compression of the download, which the node undoes (PVE 8.1): `gz`, `lzo`, `zst` or `bz2`. " +
				"PVE decompresses `iso` content only. Default: the file is stored as it is."},
		"verify_certificates": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: "Whether the node verifies the certificate of the server of `url`. Default: true."},
		"file_name": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.Line()},
			MarkdownDescription: "Name of the file, before the checksum is inserted. Default: the last part of the " +
				"`url` or `source_file` that it first came from. " +
				"It does not begin with a dot: PVE lists no hidden file. PVE goes by the extension: an image in " +
				"qcow2 format that is called `.img`, as Ubuntu's is, needs a name that ends with `.qcow2`."},
		"on_destroy": schema.StringAttribute{Optional: true, Computed: true,
			Default:    stringdefault.StaticString(onDestroyDelete),
			Validators: []validator.String{stringvalidator.OneOf(onDestroyDelete, onDestroyKeep)},
			MarkdownDescription: "`delete` removes the file with the resource, if `owned`, unless a guest uses it; `keep` " +
				"leaves it in place. Default: `delete`. Removal requires `Datastore.Allocate` on the storage and `VM.Audit` on " +
				"`/vms`."},
		"volume": schema.StringAttribute{Computed: true, MarkdownDescription: "Volume id, for `disks.*.import_from` and " +
			"`cdroms.*.file` of a VM: `local:import/debian-12-3f2a9c1b7d04.qcow2`."},
		"size": schema.Int64Attribute{Computed: true, MarkdownDescription: "Size of the file in bytes."},
		"created": schema.StringAttribute{Computed: true, MarkdownDescription: "Time of the file's last change, in UTC " +
			"(RFC 3339)."},
		"owned": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether this resource put the file there, and " +
			"no other file has taken its place since. A file that was there already stays when the resource is destroyed."},
		"timeouts": kit.TimeoutsAttribute(ctx, timeouts.Opts{Create: true, Update: true, Delete: true}),
	}
}

// checksum accepts a checksum that PVE can verify.
func checksum() validator.String {
	return kit.Check{Want: "must be a checksum in hexadecimal digits", Wrong: func(value string) string {
		if _, err := file.ParseChecksum(value); err != nil {
			return err.Error() + "."
		}
		return ""
	}}
}

// httpAddress is PVE's own pattern (pve-storage API2/Storage/Status.pm download_url).
var httpAddress = regexp.MustCompile(`^https?://.*`)

// localFile accepts the name of a file, not an address in its place: messages name the file.
func localFile() validator.String {
	return kit.Check{Want: "must be the name of a file on this machine", Wrong: func(value string) string {
		switch {
		case strings.Contains(value, "://"):
			return "It is an address, which belongs into url."
		case strings.ContainsFunc(value, unicode.IsControl):
			return "It has a line break or another control character."
		}
		return ""
	}}
}

// webAddress accepts an address that a node can download from.
func webAddress() validator.String {
	return kit.Check{Want: "must be an address that begins with http:// or https://", Wrong: func(value string) string {
		u, err := url.Parse(value)
		if err != nil || u.Host == "" || !httpAddress.MatchString(value) || strings.ContainsAny(value, " \t\r\n") {
			return "It is none."
		}
		return ""
	}}
}
