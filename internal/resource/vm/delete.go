package vm

import (
	"context"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/source"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// Delete destroys the VM, and retries what an earlier failure left. The resource leaves the state only when nothing of
// it is left on the server.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	r.run.Act()
	v := model.SchemaValues()
	state, diags := v.Model(ctx, req.State.Raw)
	resp.Diagnostics.Append(diags...)
	private, diags := model.ReadPrivateState(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(private.RestoreFailed(ctx, int(model.Value(state.VMID)), resp.Private)...)
	if resp.Diagnostics.HasError() {
		return
	}
	state.About(ctx)
	attempt := state.Attempt(r.Session.Identity(), "destroy", nil)
	if resp.Diagnostics.Append(state.Unread(attempt, private)...); resp.Diagnostics.HasError() {
		return
	}
	if r.machines == nil {
		resp.Diagnostics.Append(kit.NotConfigured(attempt.Verb, attempt.Thing))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, kit.Duration(state.Timeouts.Limits().Delete, kit.DeleteTimeout))
	defer cancel()

	request := state.DeleteRequest(private)
	request.Replaced = source.IsReplaced(ctx, req.Private)
	request.Foretold, diags = kit.TakeForetold(ctx, resp.Private)
	resp.Diagnostics.Append(diags...)
	// Where it stays, the state keeps what this says. Of a VM that was read and has no identity the state says so already.
	if request.Ref.Proof == nil && request.Ref.Identity == (guest.Identity{}) {
		resp.Diagnostics.Append(kit.Unproven.Write(ctx, resp.Private, true)...)
	}
	resp.Diagnostics.Append(source.RefuseOwn(ctx, req.Private, state)...)
	resp.Diagnostics.Append(source.RefuseLost(ctx, req.Private, state, r.machines)...)
	if resp.Diagnostics.HasError() {
		return
	}
	left, warnings, err := r.machines.Delete(ctx, request)
	resp.Diagnostics.Append(kit.Warn(warnings)...)
	if err == nil && len(left) == 0 {
		return
	}
	resp.Diagnostics.Append(kit.Leftovers(attempt, err, left)...)
	resp.Diagnostics.Append(model.WriteResidues(ctx, resp.Private, worthNoting(left, private,
		int(model.Value(state.VMID))))...)
}

// worthNoting leaves out the VM itself where its identity is known: the resource in state is what remembers it, and a
// refresh need not warn of it.
func worthNoting(left []saga.Residue, private model.PrivateState, vmid int) []saga.Residue {
	return slices.DeleteFunc(slices.Clone(left), func(r saga.Residue) bool {
		return r.Kind == "guest" && r.ID == strconv.Itoa(vmid) && private.Proof == nil && !private.Identity.IsZero()
	})
}
