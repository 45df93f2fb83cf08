package tfvm

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// Delete destroys the VM, and retries what an earlier failure left. The resource leaves the state only when nothing of it
// is left on the server.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	v := newValues(ctx)
	state, diags := v.model(ctx, req.State.Raw)
	resp.Diagnostics.Append(diags...)
	kept, diags := recall(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	attempt := r.attempt("destroy", &state, nil)
	if r.machines == nil {
		resp.Diagnostics.Append(tfkit.NotConfigured(attempt.Verb, attempt.Thing))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tfkit.Duration(state.limits().Delete, tfkit.DeleteTimeout))
	defer cancel()

	left, warnings, err := r.machines.Delete(ctx, state.removal(kept))
	resp.Diagnostics.Append(tfkit.Warn(warnings)...)
	if err == nil && len(left) == 0 {
		return
	}
	resp.Diagnostics.Append(tfkit.Leftovers(attempt, err, left)...)
	resp.Diagnostics.Append(noteResidues(ctx, resp.Private, left)...)
}

// removal is the state as a request.
func (m *model) removal(kept memory) provision.DeleteRequest {
	request := provision.DeleteRequest{Ref: m.ref(kept), Left: kept.Residues, StopTimeout: tfkit.Duration(m.ShutdownTimeout, 0)}
	if d := m.OnDestroy; d != nil {
		request.ForceStop = value(d.PowerOff) == "force"
		request.StopTimeout = tfkit.Duration(d.Timeout, request.StopTimeout)
		request.KeepReferences = d.Purge != nil && !*d.Purge
	}
	return request
}
