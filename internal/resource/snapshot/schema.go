package snapshot

import (
	"context"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

func snapshotSchema(ctx context.Context) schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A snapshot of a virtual machine: its options, its disks and, with `vmstate`, the memory of " +
			"the running guest. If the create fails, no snapshot is left, or the error names the leftover. Only " +
			"Terraform's own snapshot is removed: a third party's later snapshot of the same name is left alone.\n\n" +
			"A snapshot that is replaced, as by another `name`, is removed before Terraform changes the VM, and the new one " +
			"is taken after that. If the change of the VM fails, there is no snapshot. With " +
			"`lifecycle { create_before_destroy = true }` the old one stays until the new one is taken. Terraform then " +
			"makes a VM that is replaced before the old one goes, too, so its `vmid` must not be fixed.\n\n" +
			"The storage of every disk has to support snapshots: ZFS, LVM-thin, RBD, Btrfs, or files in qcow2 format. Thick " +
			"LVM supports them since PVE 9.0, and only if it is configured to. A template has no snapshots, and a VM with a " +
			"snapshot cannot " +
			"become a template.\n\n" +
			"It requires `VM.Snapshot` and `VM.Audit` on the VM.",
		Attributes: map[string]schema.Attribute{
			"vmid": schema.Int64Attribute{Required: true, Validators: []validator.Int64{kit.VMID()},
				PlanModifiers:       []planmodifier.Int64{int64planmodifier.RequiresReplace()},
				MarkdownDescription: "Id of the VM. A change removes this snapshot and takes a new one of the other VM."},
			"name": schema.StringAttribute{Required: true, Validators: []validator.String{kit.SnapshotName(), notReserved()},
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Name of the snapshot: 2 to 40 letters, digits, `_` and `-`, a letter first. " +
					"`current`, `pending` and `vzdump` are reserved. A change removes this snapshot and takes a new one."},
			"description": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.Printable(), trimmed()},
				MarkdownDescription: "Description of the snapshot. A change keeps the snapshot. Default: none."},
			"vmstate": schema.BoolAttribute{Optional: true, Computed: true,
				PlanModifiers: []planmodifier.Bool{boolplanmodifier.UseStateForUnknown(),
					boolplanmodifier.RequiresReplaceIfConfigured()},
				MarkdownDescription: "Whether to save the guest's memory too (`vmstate`), so that the guest continues from there " +
					"after a roll-back. The VM must run. The memory requires a volume of its size on the VM's `vmstatestorage`, or " +
					"on the storage of its disks. Default: `false`."},
			"node": schema.StringAttribute{Computed: true, MarkdownDescription: "Node that the VM is on."},
			"uuid": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.UUID()},
				PlanModifiers: []planmodifier.String{keepOfSameVM{stringplanmodifier.UseStateForUnknown()},
					stringplanmodifier.RequiresReplaceIf(isAnotherVM, isAnother, isAnother)},
				MarkdownDescription: "SMBIOS uuid that the VM must have, `proxmox_vm.x.uuid`. A VM with another uuid is another " +
					"VM, even if it has the id. With it a plan that is applied later never takes a snapshot of a VM that has " +
					"received the id since, and a VM that is replaced gets a new snapshot in the same apply. Default: that of the " +
					"VM that has the id when the snapshot is taken."},
			"snaptime": schema.Int64Attribute{Computed: true,
				PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()},
				MarkdownDescription: "Time at which it was taken, in seconds since 1970 by the node's clock. " +
					"A snapshot with another time is another snapshot, even if it has the name."},
			"parent":   schema.StringAttribute{Computed: true, MarkdownDescription: "Previous snapshot; null if there is none."},
			"timeouts": kit.TimeoutsAttribute(ctx, timeouts.Opts{Create: true, Read: true, Update: true, Delete: true}),
		},
	}
}

// isAnother says when a changed uuid takes a new snapshot.
const isAnother = "A change of the VM removes this snapshot and takes a new one of the other VM."

// keepOfSameVM keeps a uuid that is not configured while vmid stays: that of another VM is known once its snapshot is
// taken.
type keepOfSameVM struct{ planmodifier.String }

// PlanModifyString keeps the uuid.
func (keep keepOfSameVM) PlanModifyString(ctx context.Context, req planmodifier.StringRequest,
	resp *planmodifier.StringResponse) {
	var planned, prior types.Int64
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("vmid"), &planned)...)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("vmid"), &prior)...)
	}
	if planned.Equal(prior) {
		keep.String.PlanModifyString(ctx, req, resp)
	}
}

// isAnotherVM is false for the same uuid in other letters, since PVE reads both alike (qemu-server QemuServer.pm,
// $smbios1_fmt), and for one that is not configured.
func isAnotherVM(_ context.Context, req planmodifier.StringRequest,
	resp *stringplanmodifier.RequiresReplaceIfFuncResponse) {
	resp.RequiresReplace = !req.ConfigValue.IsNull() && (req.PlanValue.IsUnknown() ||
		!strings.EqualFold(req.PlanValue.ValueString(), req.StateValue.ValueString()))
}

// notReserved refuses the names that PVE refuses (qemu-server API2/Qemu.pm), and the one of which it removes a snapshot
// from the VM alone (pve-guest-common AbstractConfig.pm snapshot_delete).
func notReserved() validator.String {
	return kit.Check{Want: "must not be \"current\", \"pending\" or \"vzdump\"", Wrong: func(value string) string {
		if value == "current" || strings.EqualFold(value, "pending") {
			return "PVE uses this name itself."
		}
		if value == "vzdump" {
			return "PVE names the snapshot for a container's backup so. It would remove a snapshot of that name from the VM, " +
				"and leave it on the disks."
		}
		return ""
	}}
}

// trimmed refuses a text that PVE would change. It drops blanks and line breaks at the end of a description, and does
// not store a text that is false to Perl (qemu-server QemuServer.pm parse_vm_config, write_vm_config).
func trimmed() validator.String {
	return kit.Check{Want: "must be a text that does not end with a blank or a line break",
		Wrong: func(value string) string {
			switch {
			case value == "", value == "0":
				return "PVE does not store it."
			case value != strings.TrimRightFunc(value, unicode.IsSpace): // the same characters as Perl's \s
				return "PVE drops the white space at its end."
			}
			return ""
		}}
}
