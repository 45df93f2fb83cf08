package vm

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Update changes the VM in place. When it fails in the middle the state says what is true on the server by then.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	r.run.Act()
	v := model.SchemaValues()
	prior, diags := v.Model(ctx, req.State.Raw)
	resp.Diagnostics.Append(diags...)
	private, diags := model.ReadPrivateState(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	private.OwnMark(&prior)
	plan, diags := v.Essence(ctx, req.Plan.Raw, req.State.Raw, private.Others)
	plan.WishPower(model.Configuration{Raw: req.Config.Raw})
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(kit.ForgetImport(ctx, req.Private, resp.Private)...)
	password := readPassword(ctx, req.Config, &resp.Diagnostics)
	resp.Diagnostics.Append(identify(ctx, resp.Identity, prior.VMID)...)
	prior.About(ctx)
	attempt := prior.Attempt(r.Session.Identity(), "update", password)
	attempt.At, attempt.VMID = plan.Locator(), int(model.Value(prior.VMID))
	resp.Diagnostics.Append(change.RefuseTaken(prior, plan)...)
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
	isExchanged := func(slot string) bool { return model.Differ(prior.Disks[slot].Volume, plan.Disks[slot].Volume) }
	stillGrown := change.StillGrown(model.Configuration{Raw: req.Config.Raw}, private.Grown, isExchanged)
	resp.Diagnostics.Append(change.WriteGrown(ctx, resp.Private, stillGrown, private)...)
	private.Grown = stillGrown
	resp.Diagnostics.Append(private.NoteFrozen(ctx, resp.Private, private.Frozen && !model.Value(plan.Template))...)
	if model.ChangesNothing(request, prior) {
		resp.Diagnostics.Append(private.Accept(ctx, vmid, resp.Private)...)
		resp.State.Raw = v.Shape.Settle(req.Plan.Raw, req.State.Raw)
		resp.Diagnostics.Append(private.NoteOwed(ctx, resp.Private, prior.PendingChanges, nil)...)
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, model.KeyManaged, managed.JSON())...)
		resp.Diagnostics.Append(r.noteForgotten(ctx, private, &prior, &plan, resp.Private)...)
		return
	}
	now, warnings, err := r.machines.Update(ctx, request)
	resp.Diagnostics.Append(kit.Warn(warnings)...)
	resp.Diagnostics.Append(kit.Diagnose(model.NamedAfterWaiting(attempt, err), err)...)
	if now.VMID != 0 {
		if err == nil || reached(err).Options && !ownership.IsMark(model.Value(now.Spec.Description)) {
			resp.Diagnostics.Append(private.Accept(ctx, vmid, resp.Private)...)
		}
		resp.Diagnostics.Append(private.NoteFollowed(ctx, resp.Private, &prior, request.Node, now)...)
		resp.Diagnostics.Append(private.NoteOwed(ctx, resp.Private, now.Pending, sentBy(request, err))...)
	}
	now = prior.WithKnownAddresses(now)
	if err != nil && !model.IsWaiting(err) {
		if now.VMID != 0 {
			_, diags := private.NoteDetached(ctx, resp.Private, &prior, now)
			resp.Diagnostics.Append(diags...)
			resp.Diagnostics.Append(private.NoteLeaving(ctx, resp.Private, now)...)
		}
		r.afterFailedUpdate(ctx, v, req, resp, now, private, managed, err)
		resp.Diagnostics.Append(change.NoteGrown(ctx, resp.Private, grownBy(prior, plan, resp.State.Raw),
			resp.State.Raw, private)...)
		return
	}
	resp.State.Raw, diags = newState(ctx, v, req.Plan.Raw, now)
	resp.Diagnostics.Append(diags...)
	if state, diags := v.Model(ctx, resp.State.Raw); !diags.HasError() {
		_, diags = noteSeen(ctx, resp.Private, private, &prior, &state, now)
		resp.Diagnostics.Append(diags...)
	}
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, model.KeyManaged, managed.JSON())...)
	resp.Diagnostics.Append(private.NoteIdentity(ctx, resp.Private, now.Identity)...)
}

// noteForgotten notes the devices that the configuration has no more, and that the VM keeps. A failed look leaves that
// to the next refresh.
func (r *Resource) noteForgotten(ctx context.Context, private model.PrivateState, prior, planned *model.Model,
	out kit.PrivateWriter) (diags diag.Diagnostics) {
	had, has := vm.Devices(prior.Spec(false)), vm.Devices(planned.Spec(false))
	maps.DeleteFunc(had, func(slot, _ string) bool { return has[slot] != "" })
	if len(had) == 0 {
		return nil
	}
	now, seen, err := r.machines.Read(ctx, prior.Ref(private))
	if err == nil && seen == guest.Found {
		_, diags = noteSeen(ctx, out, private, prior, planned, now)
	}
	return diags
}

// afterFailedUpdate writes what is true by now. Of the parts of the plan that the update has reached, both what was and
// what was to be set is managed from here on. Of the others nothing was done: a device, a firewall or an HA entry that
// the plan was to take over is a third party's still.
func (r *Resource) afterFailedUpdate(ctx context.Context, v model.Values, req resource.UpdateRequest,
	resp *resource.UpdateResponse, guest guest.Guest, private model.PrivateState, planned plan.Managed, cause error) {
	target, managed := reachedOf(req, planned, cause)
	private.Managed = private.Managed.Union(managed)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, model.KeyManaged, private.Managed.JSON())...)
	if guest.VMID == 0 {
		return // the state stays as it was, and the next refresh tells
	}
	resp.Diagnostics.Append(private.NoteIdentity(ctx, resp.Private, guest.Identity)...)
	server, diags := v.Server(ctx, guest)
	resp.Diagnostics.Append(diags...)
	if !diags.HasError() {
		server = model.WithOwnTags(model.WithoutPinnedMachine(target, server), req.State.Raw, target)
		now := model.WithImported(v.Shape.Between(req.State.Raw, target, server), req.State.Raw, target)
		resp.State.Raw, _ = r.sayable(ctx, req.State.Raw, now) // else the next plan refuses what is in no configuration
		resp.Diagnostics.Append(private.HideUUID(ctx, &resp.State)...)
	}
}

// grownBy are the disks of a VM as an update that has failed left them: those that it was to grow have their planned
// size, unless the server has a smaller one. A larger disk has grown outside of it. A disk whose slot was to
// get another one tells nothing.
func grownBy(prior, planned model.Model, is tftypes.Value) map[string]model.Disk {
	was := map[string]model.Disk{}
	for slot, disk := range prior.Disks {
		then, stays := planned.Disks[slot]
		if !stays || model.Differ(disk.Volume, then.Volume) {
			continue
		}
		size := model.StringOf(plan.At(is, "disks", slot, "size"))
		if then.Size != nil && !model.IsLarger(*then.Size, size) {
			disk.Size = then.Size
		}
		was[slot] = disk
	}
	return was
}

// sentBy are the options that an update has changed.
func sentBy(r update.Request, err error) []string {
	if err != nil && !model.IsWaiting(err) && !reached(err).Options {
		return nil
	}
	change := vm.Diff(r.Prior, r.Planned)
	return slices.Concat(slices.Collect(maps.Keys(change.Set)), change.Delete, change.DeleteFirst, r.Due)
}

// reached is how far an update has come that failed.
func reached(err error) update.Reached {
	var unfinished *update.UnfinishedError
	if !errors.As(err, &unfinished) {
		return update.Reached{}
	}
	return unfinished.Reached
}

// reachedOf is the part of a plan that a failed update has reached, with the paths that are managed by it.
func reachedOf(req resource.UpdateRequest, planned plan.Managed, cause error) (tftypes.Value, plan.Managed) {
	far := reached(cause)
	if !far.Options {
		return req.State.Raw, nil
	}
	target := req.Plan.Raw
	for attribute, sent := range map[string]bool{"firewall": far.Firewall, "ha": far.HA} {
		if !sent {
			target = plan.Replace(target, attribute, plan.At(req.State.Raw, attribute))
			planned = planned.Without(attribute)
		}
	}
	return target, planned
}
