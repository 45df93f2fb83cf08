package tfsnapshot

import (
	"context"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

func snapshotSchema(ctx context.Context) schema.Schema {
	keptText := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	return schema.Schema{
		MarkdownDescription: "A snapshot of a virtual machine: its options, its disks and, with `vmstate`, the memory of the running guest. " +
			"Taking one is a transaction: if it fails, no snapshot is left, or the error names what is. " +
			"Only the snapshot that Terraform has taken is removed: one that somebody else has taken under its name since is left alone.\n\n" +
			"The storage of every disk has to support snapshots: ZFS, LVM-thin, RBD, Btrfs, or files in qcow2 format; thick LVM since PVE 9.0 " +
			"only if it is configured to. A template has no snapshots, and no VM that has one becomes a template.\n\n" +
			"It takes `VM.Snapshot` and `VM.Audit` on the VM.",
		Attributes: map[string]schema.Attribute{
			"vmid": schema.Int64Attribute{Required: true, Validators: []validator.Int64{tfkit.VMID()},
				PlanModifiers:       []planmodifier.Int64{int64planmodifier.RequiresReplace()},
				MarkdownDescription: "Id of the VM. Another one takes a new snapshot there and removes this one."},
			"name": schema.StringAttribute{Required: true, Validators: []validator.String{tfkit.SnapshotName(), notReserved()},
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Name of the snapshot: 2 to 40 letters, digits, `_` and `-`, a letter first. " +
					"`current` and `pending` are PVE's own. Another name takes a new snapshot and removes this one."},
			"description": schema.StringAttribute{Optional: true, Validators: []validator.String{tfkit.Printable(), trimmed()},
				MarkdownDescription: "Text of the snapshot. It is changed in place."},
			"vmstate": schema.BoolAttribute{Optional: true, Computed: true,
				PlanModifiers: []planmodifier.Bool{boolplanmodifier.UseStateForUnknown(), boolplanmodifier.RequiresReplaceIfConfigured()},
				MarkdownDescription: "Save the guest's memory too (`vmstate`), so that a roll-back goes on where the guest was. The VM has to run. " +
					"The memory takes a volume of its size on the VM's `vmstatestorage`, or where its disks are. Default: `false`."},
			"node": schema.StringAttribute{Computed: true, MarkdownDescription: "Node that the VM is on."},
			"uuid": schema.StringAttribute{Computed: true, PlanModifiers: keptText,
				MarkdownDescription: "`uuid` of the VM. A VM with another one is another VM, though it has the id."},
			"snaptime": schema.Int64Attribute{Computed: true, PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()},
				MarkdownDescription: "When it was taken, in seconds since 1970 by the node's clock. " +
					"A snapshot with another time is another one, though it has the name."},
			"parent":   schema.StringAttribute{Computed: true, MarkdownDescription: "Snapshot that was taken before it, if there is one."},
			"timeouts": tfkit.TimeoutsAttribute(ctx, timeouts.Opts{Create: true, Read: true, Update: true, Delete: true}),
		},
	}
}

// notReserved refuses the names that PVE refuses (qemu-server API2/Qemu.pm).
func notReserved() validator.String {
	return tfkit.Check{Want: "must not be \"current\" or \"pending\"", Wrong: func(value string) string {
		if value == "current" || strings.EqualFold(value, "pending") {
			return "PVE uses this name itself."
		}
		return ""
	}}
}

// trimmed refuses what PVE would not store as it is written: it drops blanks and line breaks at the end of a description, and stores none
// that is false to Perl (qemu-server QemuServer.pm parse_vm_config, write_vm_config).
func trimmed() validator.String {
	return tfkit.Check{Want: "must be a text that does not end with a blank or a line break", Wrong: func(value string) string {
		switch {
		case value == "", value == "0":
			return "PVE does not store it."
		case value != strings.TrimRightFunc(value, unicode.IsSpace): // the same characters as Perl's \s
			return "PVE drops what is blank at its end."
		}
		return ""
	}}
}
