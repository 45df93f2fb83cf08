package tfvm

import (
	"context"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// Delete destroys the VM, and retries what an earlier failure left. The resource leaves the state only when nothing of it
// is left on the server.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	r.run.act()
	v := r.values()
	state, diags := v.model(ctx, req.State.Raw)
	resp.Diagnostics.Append(diags...)
	private, diags := readPrivateState(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(private.restoreFailed(ctx, int(value(state.VMID)), resp.Private)...)
	if resp.Diagnostics.HasError() {
		return
	}
	state.about(ctx)
	attempt := r.attempt("destroy", &state, nil)
	if resp.Diagnostics.Append(state.unread(attempt, private)...); resp.Diagnostics.HasError() {
		return
	}
	if r.machines == nil {
		resp.Diagnostics.Append(tfkit.NotConfigured(attempt.Verb, attempt.Thing))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tfkit.Duration(state.Timeouts.Limits().Delete, tfkit.DeleteTimeout))
	defer cancel()

	left, warnings, err := r.machines.Delete(ctx, state.deleteRequest(private))
	resp.Diagnostics.Append(tfkit.Warn(warnings)...)
	if err == nil && len(left) == 0 {
		return
	}
	resp.Diagnostics.Append(tfkit.Leftovers(attempt, err, left)...)
	resp.Diagnostics.Append(writeResidues(ctx, resp.Private, worthNoting(left, private, int(value(state.VMID))))...)
}

// worthNoting leaves out the VM itself where its identity is known: the resource in state is what remembers it, and a refresh
// need not warn of it.
func worthNoting(left []tx.Residue, private privateState, vmid int) []tx.Residue {
	return slices.DeleteFunc(slices.Clone(left), func(r tx.Residue) bool {
		return r.Kind == "guest" && r.ID == strconv.Itoa(vmid) && private.Proof == nil && !private.Identity.IsZero()
	})
}

// deleteRequest is the state as a request.
func (m *model) deleteRequest(private privateState) remove.Request {
	request := remove.Request{Ref: m.ref(private), Left: private.Residues, Pool: value(m.Pool),
		StopTimeout: tfkit.Duration(m.ShutdownTimeout, 0)}
	if d := m.OnDestroy; d != nil {
		request.ForceStop, request.GracefulOnly = value(d.PowerOff) == "force", value(d.PowerOff) == "graceful_only"
		request.StopTimeout = tfkit.Duration(d.Timeout, request.StopTimeout)
		request.KeepReferences = d.Purge != nil && !*d.Purge
	}
	return request
}
