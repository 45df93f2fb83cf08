// Package disk holds the resource proxmox_disk: a disk that outlives the VMs that use it.
package disk

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// Resource is proxmox_disk.
type Resource struct {
	kit.ResourceBase
	run Run
}

// Run is told what the plans of the disks change, so that those of the VMs that have them do not promise otherwise, and
// tells which snapshots the plan removes.
type Run interface {
	NoteGrowing(volume string)
	SnapshotsGo(vmid int) map[string]int64
}

var (
	_ resource.ResourceWithConfigure   = &Resource{}
	_ resource.ResourceWithModifyPlan  = &Resource{}
	_ resource.ResourceWithImportState = &Resource{}
)

// New makes the resource.
func New(run Run) resource.Resource { return &Resource{run: run} }

// Metadata names the resource.
func (r *Resource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_disk"
}

// Schema returns the attributes of the resource.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = diskSchema(ctx)
}

func (r *Resource) attempt(verb string, m *model) kit.Attempt {
	return kit.Attempt{Verb: verb, Thing: m.thing(), VMID: m.vmid(), At: locator{}, As: r.Session.Identity(),
		Shared: true}
}

// Create makes the disk. If it fails, one of three holds: nothing is left; the VM that holds the disk is in state and
// tainted; or the error names a leftover volume.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	if !r.CheckFirst(ctx, r, req, resp) {
		return
	}
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	limit, attempt := kit.Duration(plan.Timeouts.Limits().Create, kit.CreateTimeout), r.attempt("create", &plan)
	r.Do(ctx, &resp.Diagnostics, limit, attempt, func(ctx context.Context) error {
		request := create.Request{VMID: plan.vmid(), Range: r.Session.Range}
		made, created, err := r.Session.VMs.Disks.Create(ctx, plan.wanted(), request)
		isGuest := func(left saga.Residue) bool { return left.Kind == "guest" }
		there := created.Guest.VMID != 0 &&
			(err == nil || created.Stays != "" || slices.ContainsFunc(created.Left, isGuest))
		attempt.Doubt, attempt.Stateless, attempt.Stays = created.Doubt, !there, created.Stays
		resp.Diagnostics.Append(kit.Warn(created.Warnings)...)
		resp.Diagnostics.Append(kit.Diagnose(attempt, err)...)
		switch {
		case !there:
			return nil
		case err == nil:
			plan.set(made)
		default:
			plan.leave(created)
			resp.Diagnostics.Append(keyProof.Write(ctx, resp.Private, created.Proof)...)
		}
		if resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...); err == nil {
			resp.Diagnostics.Append(kit.Settle(&resp.State, req.Plan.Raw)...)
		}
		return nil
	})
}

// Read refreshes the state. A disk leaves it only if its VM is proven to be gone.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	ref, diags := withProof(ctx, state.ref(), req.Private)
	resp.Diagnostics.Append(diags...)
	limit, attempt := kit.Duration(state.Timeouts.Limits().Read, kit.ReadTimeout), r.attempt("read", &state)
	lost, diags := isUnproven(ctx, ref, req.Private)
	resp.Diagnostics.Append(diags...)
	if lost {
		resp.Diagnostics.Append(kit.NotProven(attempt))
		return
	}
	r.Refresh(ctx, &resp.Diagnostics, limit, attempt, func(ctx context.Context) error {
		if ref.Proof != nil {
			r.Session.VMs.Disks.NoteFailed(ref.Proof)
		}
		found, seen, err := r.Session.VMs.Disks.Read(ctx, ref)
		var other *guest.IdentityError
		switch {
		case errors.As(err, &other):
			resp.Diagnostics.Append(kit.Diagnose(attempt, err)...)
		case err != nil:
			return err
		case seen == guest.Gone:
			resp.State.RemoveResource(ctx)
			if ref.Proof == nil { // else the VM may be there, completed by another run
				resp.Diagnostics.Append(kit.NotInCluster(attempt, ""))
			}
		case seen == guest.Unknown || found.VMID == 0:
			resp.Diagnostics.Append(kit.NotRefreshed(attempt, nil)...)
		case isLost(ref) && found.Leftover == nil:
			resp.Diagnostics.Append(kit.NotProven(attempt))
		default:
			if isLost(ref) {
				ref.Proof = found.Leftover
				resp.Diagnostics.Append(keyProof.Write(ctx, resp.Private, ref.Proof)...)
			}
			was := state
			state.set(found)
			if ref.Proof != nil {
				ref.Proof = ref.Proof.Unnamed()
				ref.Proof, diags = r.nameSnapshots(ctx, ref, resp.Private)
				resp.Diagnostics.Append(diags...)
				r.Session.VMs.Disks.NoteFailed(ref.Proof)
				state.UUID = types.StringNull() // see leave
			} else {
				resp.Diagnostics.Append(exposed(found)...)
			}
			resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
			resp.Diagnostics.Append(noteGrown(ctx, req.Private, resp.Private, was.Size, state.Size)...)
			resp.Diagnostics.Append(r.noteAstray(ctx, req.Private, resp.Private, was.known(), found)...)
			r.Session.VMs.Disks.NoteRefreshed(ref, found)
		}
		return nil
	})
}

// ModifyPlan plans the change of an existing disk, and asks the server whether the disk can move.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	_, diags := kit.TakeForetold(ctx, resp.Private) // of another plan
	if resp.Diagnostics.Append(diags...); !r.Session.Known() {
		resp.Diagnostics.Append(kit.NoteUnlooked(ctx, resp.Private)...)
	}
	if req.Plan.Raw.IsNull() {
		r.checkDestroy(ctx, req, resp)
		return
	}
	var plan, state, config model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	moves := false
	var unshown []int
	switch {
	case !req.State.Raw.IsNull():
		if r.Session.Known() {
			r.Session.VMs.Disks.NoteShown(state.vmid())
		}
		keepUnconfigured(&plan, state, config)
		moves = r.planChange(ctx, req, resp, &plan, state)
		resp.Diagnostics.Append(r.meetOthers(ctx, req.Private, &state, false)...)
	case r.Session.Known():
		unshown = r.Session.VMs.Disks.Unshown()
		if !r.Session.LeavesToCreate(req) {
			r.warnRenamed(&plan, kit.Comes, kit.Goes, &resp.Diagnostics)
		}
		if failed := r.Session.VMs.Disks.Failed(); len(failed) > 0 {
			resp.Diagnostics.Append(keyFailed.Write(ctx, resp.Private, failed)...)
		}
	}
	if !config.Node.IsUnknown() && !r.Session.LeavesToCreate(req) && !req.Plan.Raw.Equal(req.State.Raw) {
		r.check(ctx, plan, state, &resp.Diagnostics)
	}
	resp.Diagnostics.Append(r.warnUnshown(ctx, unshown)...)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(r.checkAstray(ctx, req.Private, "check", &state)...)
	}
	if moves && !resp.Diagnostics.HasError() && r.Session.Known() {
		err := r.Session.VMs.Disks.CheckMove(ctx, state.known(), plan.wanted())
		resp.Diagnostics.Append(kit.Diagnose(r.attempt("move", &state), err)...)
	}
}

// planChange plans for an existing disk, and reports whether it moves to a known place.
func (r *Resource) planChange(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, plan *model, state model,
) bool {
	resp.Diagnostics.Append(keepGrown(ctx, req.Private, resp.Private, plan, state)...)
	if state.Volume.IsNull() || !req.Plan.Raw.Equal(req.State.Raw) {
		resp.Diagnostics.Append(r.refuseUnproven(ctx, req.Private, &state)...)
		if resp.Diagnostics.HasError() {
			return false
		}
	}
	moves, diags := planChange(plan, state)
	resp.Diagnostics.Append(diags...)
	if !plan.Size.Equal(state.Size) {
		r.run.NoteGrowing(state.Volume.ValueString())
	}
	if state.UUID.IsNull() && !req.Plan.Raw.Equal(req.State.Raw) { // that of an untainted disk is seen by its first update
		plan.UUID = types.StringUnknown()
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
	if plan.Node.IsUnknown() || plan.Storage.IsUnknown() {
		return false
	}
	// Of another storage the format may be PVE's to choose.
	return moves && (!plan.Format.IsUnknown() || !plan.Storage.Equal(state.Storage) || !plan.Node.Equal(state.Node))
}

// check asks the server whether it would refuse the changes of a plan.
func (r *Resource) check(ctx context.Context, plan, state model, diags *diag.Diagnostics) {
	q := plan.request(state)
	if diags.HasError() || !r.Session.Known() {
		return
	}
	found := r.Session.VMs.Check(ctx, q)
	diags.Append(kit.Verdicts(r.attempt("check", &plan), found.Refused, found.Doubtful)...)
}

// checkDestroy names what goes with the disk, and asks for the privileges that it takes to destroy it.
func (r *Resource) checkDestroy(ctx context.Context, req resource.ModifyPlanRequest,
	resp *resource.ModifyPlanResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(r.meetOthers(ctx, req.Private, &state, true)...)
	// The rest of a failed create has no uuid, and only within an apply may a provider defer: it has a deposed disk.
	if !state.UUID.IsNull() && !req.ClientCapabilities.DeferralAllowed {
		r.warnRenamed(&state, kit.Goes, kit.Comes, &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() || !r.Session.Known() {
		return
	}
	r.Session.VMs.Disks.NoteShown(state.vmid())
	resp.Diagnostics.Append(r.warnOfDestroy(ctx, req, resp, &state)...)
	found := r.Session.VMs.Check(ctx, state.removal())
	resp.Diagnostics.Append(kit.Verdicts(r.attempt("destroy", &state), found.Refused, found.Doubtful)...)
}

// Update changes the disk in place.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	ref, diags := withProof(ctx, state.ref(), req.Private)
	resp.Diagnostics.Append(diags...)
	limit := kit.Duration(plan.Timeouts.Limits().Update, kit.UpdateTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("change", &state), func(ctx context.Context) error {
		now, warnings, err := r.Session.VMs.Disks.Update(ctx, ref, state.known(), plan.wanted())
		resp.Diagnostics.Append(kit.Warn(warnings)...)
		if err != nil {
			plan.Size = state.Size
		}
		isLeftover, diags := accept(ctx, ref, now, err, resp.Private)
		resp.Diagnostics.Append(diags...)
		plan.UUID = state.UUID
		if plan.set(now); isLeftover {
			plan.UUID = types.StringNull() // see leave
		}
		if resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...); err == nil {
			resp.Diagnostics.Append(kit.Settle(&resp.State, req.Plan.Raw)...)
		}
		return err
	})
}

// Delete destroys the disk, unless a guest uses it. A disk that is gone is a success.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	ref, diags := withProof(ctx, state.ref(), req.Private)
	resp.Diagnostics.Append(diags...)
	foretold, diags := kit.TakeForetold(ctx, resp.Private)
	resp.Diagnostics.Append(diags...)
	switch { // where something is left, the state keeps what this says
	case ref.Proof != nil:
		resp.Diagnostics.Append(keyProof.Write(ctx, resp.Private, ref.Proof)...)
	case ref.Identity.IsZero():
		resp.Diagnostics.Append(kit.Unproven.Write(ctx, resp.Private, true)...)
	}
	limit, attempt := kit.Duration(state.Timeouts.Limits().Delete, kit.DeleteTimeout), r.attempt("destroy", &state)
	r.Do(ctx, &resp.Diagnostics, limit, attempt, func(ctx context.Context) error {
		resp.Diagnostics.Append(r.checkAstray(ctx, req.Private, "destroy", &state)...)
		if resp.Diagnostics.HasError() {
			return nil
		}
		left, warnings, err := r.Session.VMs.Disks.Delete(ctx, ref, state.known(), foretold)
		resp.Diagnostics.Append(kit.Warn(warnings)...)
		resp.Diagnostics.Append(kit.Leftovers(attempt, err, left)...)
		return nil
	})
}

// ImportState adopts a disk by the id "vmid" or "node/vmid". It writes nothing to the server.
func (r *Resource) ImportState(ctx context.Context, req resource.ImportStateRequest,
	resp *resource.ImportStateResponse) {
	node, id, ok := strings.Cut(req.ID, "/")
	if !ok {
		node, id = "", req.ID
	}
	vmid, err := strconv.ParseInt(id, 10, 64)
	if err != nil || vmid < kit.MinVMID || vmid > kit.MaxVMID || ok && node == "" {
		resp.Diagnostics.AddError("Cannot import "+strconv.Quote(req.ID), "The id of a disk is the VMID of the VM that "+
			"holds it, with or without the node: \"pve1/120\", \"120\".")
		return
	}
	m := model{VMID: types.Int64Value(vmid)}
	r.Do(ctx, &resp.Diagnostics, kit.ReadTimeout, r.attempt("import", &m), func(ctx context.Context) error {
		found, err := r.Session.VMs.Disks.Adopt(ctx, node, int(vmid))
		if err != nil {
			return err
		}
		m.set(found)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		if errors.As(r.Session.VMs.Disks.CheckAstray(ctx, found), new(*guest.FieldError)) {
			resp.Diagnostics.Append(keyAstray.Write(ctx, resp.Private, true)...)
		}
		return nil
	})
}
