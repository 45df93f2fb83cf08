// Package tfsnippet is the resource proxmox_snippet: a snippet on a storage, written over SSH.
package tfsnippet

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nocloud"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/snippet"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// fileName is what a snippet may be called: PVE hides what begins with a dot, and takes a volume id with a comma or a space in it for
// more than one thing.
var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$`)

// maxContent is how much PVE reads of a snippet (qemu-server QemuServer/Cloudinit.pm read_cloudinit_snippets_file).
const maxContent = 1 << 20

// hookScript is the kind of a script that the node runs.
const hookScript = "hookscript"

func snippetSchema(ctx context.Context) schema.Schema {
	replaces := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	return schema.Schema{
		MarkdownDescription: "A snippet on a storage: a document for cloud-init (`cloud_init.custom` of a VM) or a hook script. PVE has no " +
			"request that writes one, in no version, so it takes `ssh` in the provider's configuration. User data without SSH: " +
			"`proxmox_cloud_init_iso`.\n\n" +
			"A change of `content` writes the file anew, whole or not at all, under the same name. A VM gets it when its cloud-init drive is made " +
			"anew: at its next start, or at once with `cloud_init_trigger = proxmox_snippet.x.sha256`. It is neither replaced nor restarted.\n\n" +
			"A file of that name that holds something else is not written over; one that holds the same is used as it is, and stays when the " +
			"resource goes. What somebody else changes in the file a plan shows. A snippet that a VM or a container uses is not removed.\n\n" +
			"The content stands in the state in clear text; the file on the node only root can read.",
		Attributes: map[string]schema.Attribute{
			"node": schema.StringAttribute{Required: true, Validators: []validator.String{tfkit.NodeName()}, PlanModifiers: replaces,
				MarkdownDescription: "Node that it is written on. What is on a shared storage all nodes have."},
			"storage": schema.StringAttribute{Required: true, Validators: []validator.String{tfkit.StorageID()}, PlanModifiers: replaces,
				MarkdownDescription: "Storage of files with content type `snippets`, which none has by default."},
			"name": schema.StringAttribute{Required: true, PlanModifiers: replaces, Validators: []validator.String{
				stringvalidator.RegexMatches(fileName,
					"must begin with a letter or a digit, and have only these, \"_\", \".\" and \"-\", 200 at most")},
				MarkdownDescription: "Name of the file: `web.yaml`."},
			"content": schema.StringAttribute{Required: true, Validators: []validator.String{stringvalidator.LengthAtMost(maxContent)},
				MarkdownDescription: "What is in it, a mebibyte at most: PVE reads no more."},
			"kind": schema.StringAttribute{Optional: true, Validators: []validator.String{stringvalidator.OneOf(kinds()...)},
				MarkdownDescription: "What it is for: `user-data`, `meta-data`, `network-config` or `vendor-data`, of which the plan refuses what " +
					"cloud-init would pass over, or `hookscript`, which is made executable. Default: it is written as it is."},
			"volume": schema.StringAttribute{Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "Volume id, for `cloud_init.custom` and `hookscript` of a VM: `local:snippets/web.yaml`."},
			"sha256": schema.StringAttribute{Computed: true,
				MarkdownDescription: "SHA-256 of the content, in hexadecimal digits, for `cloud_init_trigger` of a VM."},
			"timeouts": tfkit.TimeoutsAttribute(ctx, timeouts.Opts{Create: true, Update: true, Delete: true}),
		},
	}
}

func kinds() []string {
	return []string{string(nocloud.User), string(nocloud.Meta), string(nocloud.Network), string(nocloud.Vendor), hookScript}
}

// check says what is wrong with the content of a kind; nil: nothing that can be told.
func check(kind, content string) error {
	switch kind {
	case "":
		return nil
	case hookScript:
		if !strings.HasPrefix(content, "#!") {
			return errors.New("it does not begin with #! and a program, so the node could not run it")
		}
		return nil
	}
	return nocloud.Check(nocloud.Kind(kind), content)
}

// model is the resource in configuration, plan and state.
type model struct {
	Node     types.String    `tfsdk:"node"`
	Storage  types.String    `tfsdk:"storage"`
	Name     types.String    `tfsdk:"name"`
	Content  types.String    `tfsdk:"content"`
	Kind     types.String    `tfsdk:"kind"`
	Volume   types.String    `tfsdk:"volume"`
	SHA256   types.String    `tfsdk:"sha256"`
	Timeouts *tfkit.Timeouts `tfsdk:"timeouts"`
}

// isPlaceKnown reports whether it is known where the snippet goes.
func (m model) isPlaceKnown() bool {
	return !m.Node.IsUnknown() && !m.Storage.IsUnknown() && !m.Name.IsUnknown()
}

// spec is the snippet that is wanted.
func (m model) spec() snippet.Spec {
	return snippet.Spec{Node: m.Node.ValueString(), Storage: m.Storage.ValueString(), Name: m.Name.ValueString(),
		Content: m.Content.ValueString(), Executable: m.Kind.ValueString() == hookScript}
}

// wrote notes what was written.
func (m *model) wrote(spec snippet.Spec) {
	m.Volume, m.SHA256 = types.StringValue(spec.Volume()), types.StringValue(spec.SHA256())
}

// found notes what is there.
func (m *model) found(spec snippet.Spec, c snippet.Content) {
	m.Volume, m.SHA256 = types.StringValue(spec.Volume()), types.StringValue(c.SHA256)
	m.Content = types.StringValue(strings.ToValidUTF8(c.Text, "\uFFFD"))
}

func (m model) thing() string { return "snippet " + m.spec().Volume() + " on " + m.Node.ValueString() }

// locator finds attributes for errors.
type locator struct{}

// Parameter is none: nothing of it is a parameter of PVE's.
func (locator) Parameter(string) (path.Path, bool) { return path.Empty(), false }

// Attribute is the path of an attribute.
func (locator) Attribute(name string) (path.Path, bool) {
	switch name {
	case "node", "storage", "name", "content":
		return path.Root(name), true
	}
	return path.Empty(), false
}
