package tfdisk

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// planChange plans what a change makes of a disk that is there, and reports whether it moves. It never plans another one in its place: that
// would be an empty one.
func planChange(plan *model, state model) (moves bool, diags diag.Diagnostics) {
	refuse := func(at, text string) { diags.AddAttributeError(path.Root(at), "Cannot change "+state.thing(), text) }
	switch {
	case state.Volume.IsNull():
		refuse("storage", fmt.Sprintf("VM %d does not have it in scsi0 any more: somebody has detached or moved it. It was not touched. Put it "+
			"back, or take the resource out of the state (terraform state rm) and of the configuration.", state.vmid()))
	case !plan.VMID.Equal(state.VMID):
		refuse("vmid", "The VM that holds it keeps its id. Another proxmox_disk is another, empty disk: take this one out of the configuration, "+
			"or leave vmid as it is.")
	case !plan.Size.IsUnknown() && bytes(plan.Size) < bytes(state.Size):
		refuse("size", fmt.Sprintf("It has %s, and PVE shrinks no disk. Write size = %q.", state.Size.ValueString(), state.Size.ValueString()))
	}
	moves = !plan.Node.Equal(state.Node) || !plan.Storage.Equal(state.Storage) || !plan.Format.Equal(state.Format)
	plan.UUID, plan.Volume = state.UUID, state.Volume
	if moves {
		plan.Volume = types.StringUnknown()
	}
	return moves, diags
}

// keyGrown notes the size before somebody else has grown the disk.
const keyGrown tfkit.Note[string] = "grown"

// noteGrown notes that a refresh finds the disk larger than the state had it. A size that is lowered in the configuration is refused; one
// that stays as it was must not be, or the disk that somebody has grown would stop every plan, and its destroy.
func noteGrown(ctx context.Context, from tfkit.PrivateReader, to tfkit.PrivateWriter, was, is types.String) diag.Diagnostics {
	noted, diags := keyGrown.Read(ctx, from)
	if noted == "" && bytes(was) > 0 && bytes(is) > bytes(was) {
		diags.Append(keyGrown.Write(ctx, to, was.ValueString())...)
	}
	return diags
}

// keepGrown plans the size that the disk has where the configuration says the one before somebody has grown it.
func keepGrown(ctx context.Context, from tfkit.PrivateReader, to tfkit.PrivateWriter, plan *model, state model) diag.Diagnostics {
	noted, diags := keyGrown.Read(ctx, from)
	switch {
	case noted == "" || plan.Size.IsUnknown():
	case bytes(plan.Size) == bytes(types.StringValue(noted)) && bytes(plan.Size) < bytes(state.Size):
		diags.AddAttributeWarning(path.Root("size"), fmt.Sprintf("The %s has %s, not %s", state.thing(), state.Size.ValueString(), noted),
			fmt.Sprintf("It has grown outside of Terraform, and PVE shrinks no disk: it stays as it is. Write size = %q, or leave its size to "+
				"others with lifecycle { ignore_changes = [size] }.", state.Size.ValueString()))
		plan.Size = state.Size
	default: // what the configuration says now is its own
		diags.Append(keyGrown.Write(ctx, to, "")...)
	}
	return diags
}

// keepUnconfigured plans what the configuration does not say as it is. Another storage may have another format.
func keepUnconfigured(plan *model, state model) {
	if plan.VMID.IsUnknown() {
		plan.VMID = state.VMID
	}
	if plan.Node.IsUnknown() {
		plan.Node = state.Node
	}
	if plan.Format.IsUnknown() && plan.Storage.Equal(state.Storage) {
		plan.Format = state.Format
	}
}
