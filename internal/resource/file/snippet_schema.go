package file

import (
	"context"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// snippetName matches the possible names of a snippet. PVE hides a file whose name begins with a dot. A comma or a
// space would end the volume id in a property string.
var snippetName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$`)

// maxSnippet is the number of bytes of a snippet that PVE reads (qemu-server QemuServer/Cloudinit.pm
// read_cloudinit_snippets_file).
const maxSnippet = 1 << 20

func (*snippetModel) schema(ctx context.Context) schema.Schema {
	replaces := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	return schema.Schema{
		MarkdownDescription: "A snippet on a storage: a document for cloud-init (`cloud_init.custom` of a VM) or a hook " +
			"script. No version of PVE has a request that writes one, so the resource requires `ssh` in the provider's " +
			"configuration. For user data without SSH use `proxmox_cloud_init_iso`.\n\n" +
			"A change of `content` replaces the content of the file under the same name, completely or not at all. A VM sees " +
			"the change when PVE writes its cloud-init drive again: at its next start, or at once with `cloud_init_trigger = " +
			"proxmox_snippet.x.sha256`. The VM is neither replaced nor restarted.\n\n" +
			"A file of that name with other content is never overwritten. One with the same content is used as it is: it may " +
			"be that of another configuration, so a later change of `content` is refused until the file is imported, and it " +
			"stays when the resource is destroyed. A plan shows changes that others make to the file. A snippet that a VM or " +
			"a container uses is not removed.\n\n" +
			"The content stands in the state in clear text. On the node only root can read a file that the " +
			"resource has written.",
		Attributes: map[string]schema.Attribute{
			"node": schema.StringAttribute{Required: true, Validators: []validator.String{kit.NodeName()},
				PlanModifiers: replaces,
				MarkdownDescription: "Node on which the file is written. All nodes see the files of a shared storage: one " +
					"resource is enough there."},
			"storage": schema.StringAttribute{Required: true, Validators: []validator.String{kit.StorageID()},
				PlanModifiers:       replaces,
				MarkdownDescription: "Storage of files with content type `snippets`, which no storage has by default."},
			"name": schema.StringAttribute{Required: true, PlanModifiers: replaces, Validators: []validator.String{
				stringvalidator.RegexMatches(snippetName,
					"must begin with a letter or a digit, and have only these, \"_\", \".\" and \"-\", 200 at most")},
				MarkdownDescription: "Name of the file: `web.yaml`."},
			"content": schema.StringAttribute{Required: true,
				Validators:          []validator.String{stringvalidator.LengthAtMost(maxSnippet)},
				MarkdownDescription: "Content of the file, at most one mebibyte: PVE reads no more."},
			"kind": schema.StringAttribute{Optional: true,
				Validators: []validator.String{stringvalidator.OneOf(snippetKinds()...)},
				MarkdownDescription: "Purpose of the file: `user-data`, `meta-data`, `network-config`, `vendor-data` or " +
					"`hookscript`. The plan refuses a document that cloud-init would ignore. A hook script is made executable. " +
					"Default: the content is neither checked nor made executable. A file that is executable stays so, whatever its " +
					"kind, unless `hookscript` is taken back."},
			"volume": schema.StringAttribute{Computed: true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "Volume id, for `cloud_init.custom` and `hookscript` of a VM: `local:snippets/web.yaml`."},
			"sha256": schema.StringAttribute{Computed: true,
				MarkdownDescription: "SHA-256 of the content in hexadecimal digits, for `cloud_init_trigger` of a VM."},
			"owned": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether this resource wrote the content of " +
				"the file, or imported it. A file that was there already stays when the resource is destroyed."},
			"timeouts": kit.TimeoutsAttribute(ctx, timeouts.Opts{Create: true, Update: true, Delete: true}),
		},
	}
}
