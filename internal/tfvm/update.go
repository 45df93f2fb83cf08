package tfvm

import (
	"context"
	"reflect"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Update changes the VM in place. When it fails in the middle the state says what is true on the server by then.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	r.run.act()
	v := r.values()
	prior, diags := v.model(ctx, req.State.Raw)
	resp.Diagnostics.Append(diags...)
	plan, diags := v.essence(ctx, req.Plan.Raw, req.State.Raw)
	resp.Diagnostics.Append(diags...)
	private, diags := readPrivateState(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	password := readPassword(ctx, req.Config, &resp.Diagnostics)
	resp.Diagnostics.Append(identify(ctx, resp.Identity, prior.VMID)...)
	prior.about(ctx)
	attempt := r.attempt("update", &prior, password)
	attempt.At = plan.locator()
	switch {
	case resp.Diagnostics.HasError():
		return
	case r.machines == nil:
		resp.Diagnostics.Append(tfkit.NotConfigured(attempt.Verb, attempt.Thing))
		return
	}
	ctx, cancel := context.WithTimeout(maskPassword(ctx, password), tfkit.Duration(plan.Timeouts.Limits().Update, tfkit.UpdateTimeout))
	defer cancel()

	request := updateRequest(prior, plan, private, password)
	managed := v.shape.ManagedAfter(private.Managed, req.Config.Raw, req.State.Raw, req.Plan.Raw)
	resp.Diagnostics.Append(writeGrown(ctx, resp.Private, configuration{req.Config.Raw}.stillGrown(private.Grown), private)...)
	if changesNothing(request, prior) {
		resp.State.Raw = v.shape.Settle(req.Plan.Raw, req.State.Raw)
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, keyManaged, managed.JSON())...)
		return
	}
	guest, warnings, err := r.machines.Update(ctx, request)
	resp.Diagnostics.Append(tfkit.Warn(warnings)...)
	resp.Diagnostics.Append(tfkit.Diagnose(namedAfterWaiting(attempt, err), err)...)
	guest = prior.withKnownAddresses(guest)
	if err != nil && !isWaiting(err) {
		private.Managed = private.Managed.Union(managed)
		v.afterFailedUpdate(ctx, req, resp, guest, private)
		return
	}
	resp.State.Raw, diags = v.newState(ctx, req.Plan.Raw, guest)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, keyManaged, managed.JSON())...)
	resp.Diagnostics.Append(private.noteIdentity(ctx, resp.Private, guest.Identity)...)
}

// afterFailedUpdate writes what is true by now. Both what was and what was to be set is managed from here on.
func (v values) afterFailedUpdate(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse,
	guest guest.Guest, private privateState) {
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, keyManaged, private.Managed.JSON())...)
	if guest.VMID == 0 {
		return // the state stays as it was, and the next refresh tells
	}
	resp.Diagnostics.Append(private.noteIdentity(ctx, resp.Private, guest.Identity)...)
	server, diags := v.server(ctx, guest)
	resp.Diagnostics.Append(diags...)
	if !diags.HasError() {
		resp.State.Raw = v.shape.Between(req.State.Raw, req.Plan.Raw, withoutPinnedMachine(req.Plan.Raw, server))
	}
}

// changesNothing reports whether an update only changes what the provider notes: no request is made then.
func changesNothing(r change.Request, prior model) bool {
	power := r.PowerState == guest.Unmanaged || string(r.PowerState) == value(powerState(value(prior.Status)))
	stays := r.Node == "" || r.Node == r.Ref.Node
	return power && stays && len(r.Due) == 0 && !r.NewSnippets && r.Pool == r.PriorPool && reflect.DeepEqual(r.PriorFirewall, r.Firewall) &&
		reflect.DeepEqual(r.PriorHA, r.HA) && vm.Diff(r.Prior, r.Planned).Empty()
}

// updateRequest is the difference between state and plan as a request.
func updateRequest(prior, plan model, private privateState, password *string) change.Request {
	before, after := normalized(prior, plan, private.Managed)
	if has := value(prior.Machine); vm.IsWindows(value(prior.OSType)) && !vm.IsWindows(value(plan.OSType)) && (has == "q35" || has == "pc") {
		before.Machine = nil // what PVE pinned for Windows; the wish holds from now on
	}
	request := change.Request{
		Ref:       prior.ref(private),
		Prior:     before.spec(false),
		Planned:   after.spec(false),
		PriorPool: value(prior.Pool), Pool: value(plan.Pool),
		PriorHA: prior.HA, HA: plan.HA,
		PriorFirewall: prior.Firewall, Firewall: plan.Firewall,
		ImportStorage: value(plan.ImportStorage),
		BootOrder:     plan.BootOrder,
		PowerState:    guest.PowerState(value(plan.PowerState)), Due: pendingRestart(prior, plan, private.Managed),
	}
	if differ(prior.Node, plan.Node) { // one that is somewhere else by now for another reason is followed
		request.Node = *plan.Node
	}
	for slot, nic := range request.Planned.Networks { // a slot that is new in state may be there on the server
		if _, known := before.Networks[slot]; !known {
			nic.Model = value(after.Networks[slot].Model)
			request.Planned.Networks[slot] = nic
		}
	}
	if version := plan.PasswordVersion; version != nil && (prior.PasswordVersion == nil || *prior.PasswordVersion != *version) {
		request.Planned.CloudInit.PasswordHash = passwordHash(password, value(plan.OSType))
	}
	if plan.PasswordVersion == nil && prior.PasswordVersion != nil {
		request.Planned.CloudInit.PasswordHash = new("") // takes it away
	}
	if before, now := prior.SnippetTrigger, plan.SnippetTrigger; before != nil && now != nil {
		request.NewSnippets = *before != *now
	}
	request.Planned.ExactTags = slices.Equal(lowered(prior.Tags), lowered(plan.Tags)) // else the plan would have left them alone
	request.DestroyRemoved = value(plan.RemovedDisks) == "destroy"
	request.StopTimeout, request.Wait = tfkit.Duration(plan.ShutdownTimeout, 0), plan.WaitFor.request()
	request.Restart = plan.restart()
	return request
}

// restart is the reboot policy.
func (m *model) restart() change.Restart {
	switch value(m.RebootPolicy) {
	case "never":
		return change.RestartNever
	case "force":
		return change.RestartForcibly
	default:
		return change.RestartGracefully
	}
}
