package vm

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/planning"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// Update changes the VM in place. When it fails in the middle the state says what is true on the server by then.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	r.run.Act()
	v := model.SchemaValues()
	prior, diags := v.Model(ctx, req.State.Raw)
	resp.Diagnostics.Append(diags...)
	plan, diags := v.Essence(ctx, req.Plan.Raw, req.State.Raw)
	plan.WishPower(model.Configuration{Raw: req.Config.Raw})
	resp.Diagnostics.Append(diags...)
	private, diags := model.ReadPrivateState(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	private.OwnMark(&prior)
	password := readPassword(ctx, req.Config, &resp.Diagnostics)
	resp.Diagnostics.Append(identify(ctx, resp.Identity, prior.VMID)...)
	prior.About(ctx)
	attempt := prior.Attempt(r.Session.Identity(), "update", password)
	attempt.At = plan.Locator()
	switch {
	case resp.Diagnostics.HasError():
		return
	case r.machines == nil:
		resp.Diagnostics.Append(kit.NotConfigured(attempt.Verb, attempt.Thing))
		return
	}
	ctx, cancel := context.WithTimeout(maskPassword(ctx, password), kit.Duration(plan.Timeouts.Limits().Update,
		kit.UpdateTimeout))
	defer cancel()

	vmid := int(model.Value(prior.VMID))
	request := model.UpdateRequest(prior, plan, private, password)
	managed := v.Shape.ManagedAfter(private.Managed, req.Config.Raw, req.State.Raw, req.Plan.Raw)
	resp.Diagnostics.Append(planning.WriteGrown(ctx, resp.Private,
		planning.StillGrown(model.Configuration{Raw: req.Config.Raw}, private.Grown), private)...)
	if model.ChangesNothing(request, prior) {
		resp.Diagnostics.Append(private.Accept(ctx, vmid, resp.Private)...)
		resp.State.Raw = v.Shape.Settle(req.Plan.Raw, req.State.Raw)
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, model.KeyManaged, managed.JSON())...)
		return
	}
	guest, warnings, err := r.machines.Update(ctx, request)
	resp.Diagnostics.Append(kit.Warn(warnings)...)
	resp.Diagnostics.Append(kit.Diagnose(model.NamedAfterWaiting(attempt, err), err)...)
	if guest.VMID != 0 {
		if err == nil || hasBegun(err) && !ownership.IsMark(model.Value(guest.Spec.Description)) {
			resp.Diagnostics.Append(private.Accept(ctx, vmid, resp.Private)...)
		}
		_, diags := private.NoteDetached(ctx, resp.Private, &prior, guest)
		resp.Diagnostics.Append(diags...)
	}
	guest = prior.WithKnownAddresses(guest)
	if err != nil && !model.IsWaiting(err) {
		afterFailedUpdate(ctx, v, req, resp, guest, private, managed, err)
		return
	}
	resp.State.Raw, diags = newState(ctx, v, req.Plan.Raw, guest)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, model.KeyManaged, managed.JSON())...)
	resp.Diagnostics.Append(private.NoteIdentity(ctx, resp.Private, guest.Identity)...)
}

// hasBegun reports whether an update that failed has begun a step. Else nothing was done.
func hasBegun(err error) bool {
	var step *saga.StepError
	return errors.As(err, &step) || model.IsWaiting(err)
}

// afterFailedUpdate writes what is true by now. Once a step was begun, both what was and what was to be set is managed
// from here on. Before that nothing was done: a device that the plan was to take over is a third party's still.
func afterFailedUpdate(ctx context.Context, v model.Values, req resource.UpdateRequest, resp *resource.UpdateResponse,
	guest guest.Guest, private model.PrivateState, planned plan.Managed, cause error) {
	target := req.State.Raw
	if hasBegun(cause) || guest.VMID == 0 { // a VM that cannot be read back may have changed
		target, private.Managed = req.Plan.Raw, private.Managed.Union(planned)
	}
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, model.KeyManaged, private.Managed.JSON())...)
	if guest.VMID == 0 {
		return // the state stays as it was, and the next refresh tells
	}
	resp.Diagnostics.Append(private.NoteIdentity(ctx, resp.Private, guest.Identity)...)
	server, diags := v.Server(ctx, guest)
	resp.Diagnostics.Append(diags...)
	if !diags.HasError() {
		server = model.WithOwnTags(model.WithoutPinnedMachine(target, server), req.State.Raw, target)
		resp.State.Raw = v.Shape.Between(req.State.Raw, target, server)
		resp.Diagnostics.Append(private.HideUUID(ctx, &resp.State)...)
	}
}
