package tfvm

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// Read refreshes the state. It drops a VM only when it is proven to be gone and nothing is left of it; where the server
// cannot tell, the state stays with a warning; a VM that is another under the same id is an error, never a refresh.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	v := r.values()
	state, diags := v.model(ctx, req.State.Raw)
	resp.Diagnostics.Append(diags...)
	private, diags := readPrivateState(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(identify(ctx, resp.Identity, state.VMID)...)
	if resp.Diagnostics.HasError() {
		return
	}
	state.about(ctx)
	attempt := r.attempt("read", &state, nil)
	if state.VMID == nil {
		resp.Diagnostics.Append(state.unread(attempt, private)...)
		return
	}
	if r.machines == nil {
		resp.Diagnostics.Append(tfkit.NotYetRefreshed(attempt))
		return
	}
	defer r.sweep(ctx, &state, false)(&resp.Diagnostics)
	r.run.noteRefreshed(int(value(state.VMID)))
	r.noteFailed(int(value(state.VMID)), private)
	ctx, cancel := context.WithTimeout(ctx, tfkit.Duration(state.Timeouts.Limits().Read, tfkit.ReadTimeout))
	defer cancel()

	found, seen, err := r.machines.Read(ctx, state.ref(private))
	if diags := whyNotRead(attempt, seen, err); len(diags) > 0 {
		resp.Diagnostics.Append(diags...)
		return
	}
	switch {
	case found.Placeholder:
		resp.Diagnostics.AddWarning(attempt.Thing+" is gone",
			"Its destroy was interrupted while it removed a volume, for which it had made an empty VM of the same id. "+
				"\"terraform destroy\" and the next apply remove both.")
	case seen == guest.Found:
		if resp.Diagnostics.Append(private.refuse(attempt, found)...); resp.Diagnostics.HasError() {
			return
		}
		r.run.noteHeld(found.VMID, found.Spec.Disks)
		resp.Diagnostics.Append(writeAgent(ctx, resp.Private, found, private)...)
		r.withTagStyle(ctx, v, state.Tags, found.Spec.Tags).refresh(ctx, req, resp, state.withKnownAddresses(found), private,
			state.isUnseen(private))
		sayable, left := r.sayable(ctx, req.State.Raw, resp.State.Raw)
		resp.State.Raw = sayable
		if private.Moved != nil {
			resp.Diagnostics.Append(leftAlone(attempt.Thing, left)...)
		}
		resp.Diagnostics.Append(noteGrown(ctx, resp.Private, state.Disks, resp.State.Raw, private)...)
	}
	left := r.recheckResidues(ctx, state.ref(private), private.Residues, attempt, resp)
	if seen == guest.Gone && len(left) == 0 && !resp.Diagnostics.HasError() {
		resp.State.RemoveResource(ctx)
		return
	}
	resp.Diagnostics.Append(writeGone(ctx, resp.Private, seen == guest.Gone || found.Placeholder, private)...)
}

// whyNotRead is what is said where the server does not tell what is true of the VM in state; nothing where it does.
func whyNotRead(a tfkit.Attempt, seen guest.Seen, err error) diag.Diagnostics {
	var other *guest.IdentityError
	switch {
	case errors.As(err, &other), tfkit.LoginRefused(err), tfkit.Unreachable(err):
		return tfkit.Diagnose(a, err)
	case seen == guest.Unknown || err != nil:
		return tfkit.NotRefreshed(a, err)
	}
	return nil
}

// refresh writes what the server says into state, and notes the identity of a VM that has none yet, or another since a restart.
func (v values) refresh(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse, guest guest.Guest,
	private privateState, unseen bool) {
	server, diags := v.raw(ctx, private.Moved.named(fromGuest(guest)))
	resp.Diagnostics.Append(diags...)
	if diags.HasError() {
		return
	}
	server = withoutPinnedMachine(req.State.Raw, server)
	if unseen {
		resp.State.Raw = v.adopt(req.State.Raw, server)
	} else {
		resp.State.Raw = v.shape.Refresh(req.State.Raw, server)
	}
	resp.Diagnostics.Append(private.noteIdentity(ctx, resp.Private, guest.Identity)...)
	if private.Moved != nil {
		resp.Diagnostics.Append(writeMoved(ctx, resp.Private, nil)...)
	}
}

// recheckResidues looks whether what an earlier failure left is still there.
func (r *Resource) recheckResidues(ctx context.Context, ref guest.Ref, residues []tx.Residue, attempt tfkit.Attempt,
	resp *resource.ReadResponse) []tx.Residue {
	if len(residues) == 0 {
		return nil
	}
	left, err := r.machines.Recheck(ctx, ref, residues)
	if err != nil {
		resp.Diagnostics.Append(tfkit.NotRefreshed(attempt, err)...)
		return residues
	}
	if len(left) > 0 {
		resp.Diagnostics.AddWarning("Leftovers of "+attempt.Thing,
			"An earlier operation failed and could not remove everything.\n"+tfkit.ListResidues(left)+
				"\"terraform destroy\" and the next apply try again.")
	}
	resp.Diagnostics.Append(writeResidues(ctx, resp.Private, left)...)
	return left
}
