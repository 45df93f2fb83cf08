package disk

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/disk"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// keyAstray notes that a third party has moved the disk, or the VM that holds it, while a guest had the disk, or may
// have had it. The state shows the new place, so that nothing else tells of it.
const keyAstray kit.Note[bool] = "astray"

// noteAstray looks, where the disk is not where the state had it, whether a guest has the one that was there. A refresh
// that finds it where it was asks nothing.
func (r *Resource) noteAstray(ctx context.Context, from kit.PrivateReader, to kit.PrivateWriter,
	was, is disk.Disk) diag.Diagnostics {
	noted, diags := keyAstray.Read(ctx, from)
	moved := was.Volume != "" && (was.Volume != is.Volume ||
		was.Node != is.Node && !r.Session.VMs.Disks.IsShared(ctx, is))
	if is.Volume == "" || !noted && !moved {
		return diags
	}
	if astray := r.Session.VMs.Disks.CheckAstray(ctx, is) != nil; astray != noted {
		diags.Append(keyAstray.Write(ctx, to, astray)...)
	}
	return diags
}

// checkAstray refuses to go on with a disk of which a guest has another copy, by a fresh look. It looks at none without
// such a note.
func (r *Resource) checkAstray(ctx context.Context, private kit.PrivateReader, verb string,
	state *model) diag.Diagnostics {
	noted, diags := keyAstray.Read(ctx, private)
	if !noted || !r.Session.Known() || state.Volume.ValueString() == "" {
		return diags
	}
	err := r.Session.VMs.Disks.CheckAstray(ctx, state.known())
	var refused *guest.FieldError
	if err != nil && !errors.As(err, &refused) { // such as a node that is off, whose guests cannot be read
		diags.AddAttributeWarning(path.Root("storage"), "The "+state.thing()+" was moved outside Terraform", "Whether a "+
			"guest has another copy of it cannot be told, and nothing of that was changed: "+err.Error()+".")
		return diags
	}
	return append(diags, kit.Diagnose(r.attempt(verb, state), err)...)
}
