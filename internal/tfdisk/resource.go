// Package tfdisk is the resource proxmox_disk.
package tfdisk

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// Resource is proxmox_disk.
type Resource struct{ tfkit.ResourceBase }

var (
	_ resource.ResourceWithConfigure   = &Resource{}
	_ resource.ResourceWithModifyPlan  = &Resource{}
	_ resource.ResourceWithImportState = &Resource{}
)

// New makes the resource.
func New() resource.Resource { return &Resource{} }

// Metadata names the resource.
func (r *Resource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_disk"
}

// Schema is the shape of the configuration.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = diskSchema(ctx)
}

func (r *Resource) attempt(verb string, m *model) tfkit.Attempt {
	return tfkit.Attempt{Verb: verb, Thing: m.thing(), At: locator{}, As: r.Session.User()}
}

// Create makes the disk whole. When it fails, nothing is left, or the VM that holds it is in state and tainted, or the error names a
// volume that is left.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	if resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...); resp.Diagnostics.HasError() {
		return
	}
	attempt := r.attempt("create", &plan)
	if !r.Session.Known() {
		resp.Diagnostics.Append(tfkit.NotConfigured(attempt.Verb, attempt.Thing))
		return
	}
	limit := tfkit.Duration(plan.Timeouts.Limits().Create, tfkit.CreateTimeout)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request := create.Request{VMID: plan.vmid(), Range: r.Session.Range, Lease: limit}
	made, created, err := r.Session.VMs.Disks.Create(ctx, plan.wanted(), request)
	isGuest := func(left tx.Residue) bool { return left.Kind == "guest" }
	there := created.Guest.VMID != 0 && (err == nil || slices.ContainsFunc(created.Left, isGuest))
	attempt.Doubt, attempt.Stateless = created.Doubt, !there
	resp.Diagnostics.Append(tfkit.Warn(created.Warnings)...)
	resp.Diagnostics.Append(tfkit.Diagnose(attempt, err)...)
	if !there {
		return
	}
	if err == nil {
		plan.take(made)
	} else {
		plan.leave(created)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// Read refreshes the state. A disk leaves it only when its VM is proven to be gone.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	if resp.Diagnostics.Append(req.State.Get(ctx, &state)...); resp.Diagnostics.HasError() {
		return
	}
	attempt := r.attempt("read", &state)
	if !r.Session.Known() {
		resp.Diagnostics.AddWarning(attempt.Thing+" was not refreshed",
			"The provider's configuration depends on values that are not known yet, so the state was left as it is.")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tfkit.Duration(state.Timeouts.Limits().Read, tfkit.ReadTimeout))
	defer cancel()
	found, seen, err := r.Session.VMs.Disks.Read(ctx, state.ref())
	var other *guest.IdentityError
	switch {
	case errors.As(err, &other), tfkit.LoginRefused(err), tfkit.Unreachable(err):
		resp.Diagnostics.Append(tfkit.Diagnose(attempt, err)...)
	case seen == guest.Gone:
		resp.State.RemoveResource(ctx)
	case err != nil || seen == guest.Unknown || found.VMID == 0:
		resp.Diagnostics.Append(tfkit.NotRefreshed(attempt, err)...)
	default:
		state.take(found)
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	}
}

// Update changes the disk in place.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.Append(req.State.Get(ctx, &state)...); resp.Diagnostics.HasError() {
		return
	}
	attempt := r.attempt("change", &state)
	if !r.Session.Known() {
		resp.Diagnostics.Append(tfkit.NotConfigured(attempt.Verb, attempt.Thing))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tfkit.Duration(plan.Timeouts.Limits().Update, tfkit.UpdateTimeout))
	defer cancel()
	now, warnings, err := r.Session.VMs.Disks.Update(ctx, state.ref(), state.known(), plan.wanted())
	resp.Diagnostics.Append(tfkit.Warn(warnings)...)
	resp.Diagnostics.Append(tfkit.Diagnose(attempt, err)...)
	if err != nil {
		plan.Size = state.Size
	}
	plan.UUID = state.UUID
	plan.take(now)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// Delete destroys the disk, if no guest uses it. One that is gone is a success.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	if resp.Diagnostics.Append(req.State.Get(ctx, &state)...); resp.Diagnostics.HasError() {
		return
	}
	attempt := r.attempt("destroy", &state)
	if !r.Session.Known() {
		resp.Diagnostics.Append(tfkit.NotConfigured(attempt.Verb, attempt.Thing))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tfkit.Duration(state.Timeouts.Limits().Delete, tfkit.DeleteTimeout))
	defer cancel()
	left, warnings, err := r.Session.VMs.Disks.Delete(ctx, state.ref(), state.Pool.ValueString())
	resp.Diagnostics.Append(tfkit.Warn(warnings)...)
	resp.Diagnostics.Append(tfkit.Leftovers(attempt, err, left)...)
}

// ImportState takes over a disk by "vmid" or "node/vmid". Nothing is written to the server.
func (r *Resource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	node, id, ok := strings.Cut(req.ID, "/")
	if !ok {
		node, id = "", req.ID
	}
	vmid, err := strconv.ParseInt(id, 10, 64)
	if err != nil || vmid < tfkit.MinVMID || vmid > tfkit.MaxVMID || ok && node == "" {
		resp.Diagnostics.AddError("Cannot import "+strconv.Quote(req.ID), "The id of a disk is the VMID of the VM that holds it, with its node "+
			"or without: \"pve1/120\", \"120\".")
		return
	}
	m := model{VMID: types.Int64Value(vmid)}
	attempt := r.attempt("import", &m)
	if !r.Session.Known() {
		resp.Diagnostics.Append(tfkit.NotConfigured(attempt.Verb, attempt.Thing))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tfkit.ReadTimeout)
	defer cancel()
	found, err := r.Session.VMs.Disks.Adopt(ctx, node, int(vmid))
	if err != nil {
		resp.Diagnostics.Append(tfkit.Diagnose(attempt, err)...)
		return
	}
	m.take(found)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}
