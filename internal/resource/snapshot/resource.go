// Package snapshot holds the resource proxmox_vm_snapshot.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/snapshot"
)

// Resource is proxmox_vm_snapshot.
type Resource struct {
	kit.ResourceBase
	run Run
}

// Run is told which snapshots come and go, for the plans of their VMs and of clones of them, and tells which VMs this
// run makes, changes or removes.
type Run interface {
	NoteSnapshotComes(vmid int)
	NoteSnapshotGoes(vmid int, name string, taken int64)
	UntilSnapshot(vmid int) snapshot.Until
}

var (
	_ resource.ResourceWithConfigure   = &Resource{}
	_ resource.ResourceWithImportState = &Resource{}
	_ resource.ResourceWithModifyPlan  = &Resource{}
)

// New makes the resource.
func New(run Run) resource.Resource { return &Resource{run: run} }

// Metadata names the resource.
func (r *Resource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_vm_snapshot"
}

// Schema returns the attributes of the resource.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = snapshotSchema(ctx)
}

func (r *Resource) attempt(verb string, m *model) kit.Attempt {
	thing := fmt.Sprintf("snapshot %s of VM %d", m.Name.ValueString(), m.vmid())
	return kit.Attempt{Verb: verb, Thing: thing, VMID: m.vmid(), At: locator{}, As: r.Session.Identity()}
}

// ModifyPlan refuses to take, to describe or to remove a snapshot without the privilege for it, and to take one that
// cannot be taken, as far as the server tells.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	m, prior, ok := kit.Planned[model](ctx, req, resp)
	verb := "take a snapshot of"
	if !ok && !resp.Diagnostics.HasError() {
		verb = "remove a snapshot of"
		resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
		if ok = !resp.Diagnostics.HasError(); ok {
			r.run.NoteSnapshotGoes(m.vmid(), m.Name.ValueString(), m.SnapTime.ValueInt64())
		}
	}
	if ok && !req.State.Raw.IsNull() {
		r.meetOthers(ctx, &m, &prior, req, resp)
	}
	if ok && m.SnapTime.IsUnknown() {
		r.run.NoteSnapshotComes(m.vmid())
	}
	if !ok || !r.Session.Known() || r.Session.LeavesToCreate(req) ||
		m.VMID.IsUnknown() || req.Plan.Raw.Equal(req.State.Raw) {
		return
	}
	take := func(what, privilege string) preflight.Take {
		return preflight.Take{Path: "vmid", What: fmt.Sprintf("%s VM %d", what, m.vmid()), On: fmt.Sprintf("/vms/%d",
			m.vmid()),
			AnyOf: []string{privilege}}
	}
	lacks := r.Session.VMs.Permit(ctx, take("see", "VM.Audit"), take(verb, "VM.Snapshot"))
	var doubts []*guest.FieldError
	if req.Plan.Raw.IsNull() || m.SnapTime.IsUnknown() {
		err := guest.HasItsDisks(ctx, r.Session.VMs.Guests, m.vmid(), "vmid")
		resp.Diagnostics.Append(kit.Diagnose(r.attempt("check", &m), err)...)
	}
	if len(lacks) == 0 && !req.Plan.Raw.IsNull() {
		lacks = r.foresee(ctx, req.State.Raw.IsNull(), &m, &prior)
	} else if stays := r.Session.VMs.Snapshots.ForeseeRemoval(ctx, m.ref()); len(lacks) == 0 && stays != nil {
		doubts = append(doubts, stays)
	}
	resp.Diagnostics.Append(kit.Verdicts(r.attempt("check", &m), lacks, doubts)...)
}

// meetOthers holds what becomes of a snapshot in state against the other plans of the run.
func (r *Resource) meetOthers(ctx context.Context, m, prior *model, req resource.ModifyPlanRequest,
	resp *resource.ModifyPlanResponse) {
	was, goes := prior, req.Plan.Raw.IsNull()
	if goes {
		was = m
	}
	object := fmt.Sprintf("snapshot %d/%s %d", was.vmid(), was.Name.ValueString(), was.SnapTime.ValueInt64())
	thing := r.attempt("", was).Thing
	resp.Diagnostics.Append(kit.RefuseSplit(r.Session, object, thing, thing, goes || m.replaces(prior))...)
	if !goes && m.replaces(prior) {
		resp.Diagnostics.Append(kit.RefuseImported(ctx, req.Private, thing, r.attempt("", m).Thing)...)
	}
	if !goes && !m.Name.IsUnknown() && !m.VMID.IsUnknown() {
		resp.Diagnostics.Append(r.meetName(m, m.replaces(prior))...)
	}
}

// meetName refuses the second of two plans one of which takes a snapshot by the name that the other one keeps. It asks
// no server.
func (r *Resource) meetName(m *model, comes bool) (diags diag.Diagnostics) {
	thing, fate, other := r.attempt("", m).Thing, kit.Stays, kit.Comes
	if comes {
		fate, other = kit.Comes, kit.Stays
	}
	if len(kit.Meet(r.Session, "name of "+thing, thing, fate, other)) > 0 {
		diags.AddAttributeError(path.Root("name"), "Two resources want "+thing, "One has it in state and keeps it, and "+
			"another one is replaced by it. Nothing was changed. Take another name. "+kit.ToDestroyAll+".")
	}
	return diags
}

// foresee is why a snapshot that is new, or replaces one, cannot be taken.
func (r *Resource) foresee(ctx context.Context, isNew bool, m, prior *model) []*guest.FieldError {
	var refused *guest.FieldError
	switch snapshots, until := r.Session.VMs.Snapshots, r.run.UntilSnapshot(m.vmid()); {
	case until.Another, isNew && until.Changed: // it is not yet as it will be
	case isNew:
		refused = snapshots.ForeseeFirst(ctx, m.vmid())
	case m.replaces(prior):
		refused = snapshots.Foresee(ctx, m.wanted(), prior.ref(), until)
	}
	if refused == nil {
		return nil
	}
	return []*guest.FieldError{refused}
}

// Create takes the snapshot. A snapshot that could be undone only in part is in state, so that the next destroy tries
// again.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	if !r.CheckFirst(ctx, r, req, resp) {
		return
	}
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	limit := kit.Duration(plan.Timeouts.Limits().Create, kit.CreateTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("take", &plan), func(ctx context.Context) error {
		taken, err := r.Session.VMs.Snapshots.Take(ctx, plan.wanted())
		var failed *saga.Error
		if errors.As(err, &failed) && (len(failed.Left) == 0 || taken.Taken == 0) {
			return err
		}
		plan.set(taken)
		resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
		return err
	})
}

// Read refreshes the state. A snapshot that is gone, or that has been replaced, leaves it.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit := kit.Duration(state.Timeouts.Limits().Read, kit.ReadTimeout)
	r.Refresh(ctx, &resp.Diagnostics, limit, r.attempt("read", &state), func(ctx context.Context) error {
		found, err := r.Session.VMs.Snapshots.Refresh(ctx, state.ref())
		switch {
		case errors.Is(err, snapshot.ErrGone):
			resp.Diagnostics.Append(kit.Warn(snapshot.Warnings(err))...)
			resp.State.RemoveResource(ctx)
			return nil
		case err != nil:
			return err
		}
		resp.Diagnostics.Append(kit.Warn(found.Unwhole())...)
		state.set(found)
		resp.Diagnostics.Append(kit.AgeImport(ctx, req.Private, resp.Private)...)
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
		return nil
	})
}

// Update changes the description.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(kit.ForgetImport(ctx, req.Private, resp.Private)...)
	limit := kit.Duration(plan.Timeouts.Limits().Update, kit.UpdateTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("describe", &state), func(ctx context.Context) error {
		found, err := r.Session.VMs.Snapshots.Describe(ctx, state.ref(), state.Description.ValueString(),
			plan.Description.ValueString())
		if err != nil {
			return err
		}
		plan.set(found)
		resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
		return nil
	})
}

// Delete removes the snapshot. A snapshot that is gone is a success.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit := kit.Duration(state.Timeouts.Limits().Delete, kit.DeleteTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("remove", &state), func(ctx context.Context) error {
		warnings, err := r.Session.VMs.Snapshots.Delete(ctx, state.ref())
		resp.Diagnostics.Append(kit.Warn(warnings)...)
		return err
	})
}

// ImportState adopts a snapshot by the id "vmid/name". It writes nothing to the server.
func (r *Resource) ImportState(ctx context.Context, req resource.ImportStateRequest,
	resp *resource.ImportStateResponse) {
	id, name, ok := strings.Cut(req.ID, "/")
	vmid, err := strconv.ParseInt(id, 10, 64)
	if !ok || err != nil || name == "" || vmid < kit.MinVMID || vmid > kit.MaxVMID {
		resp.Diagnostics.AddError("Cannot import "+strconv.Quote(req.ID),
			"The id of a snapshot is the VMID and its name: \"100/before-upgrade\".")
		return
	}
	m := model{VMID: types.Int64Value(vmid), Name: types.StringValue(name)}
	r.Do(ctx, &resp.Diagnostics, kit.ReadTimeout, r.attempt("import", &m), func(ctx context.Context) error {
		found, err := r.Session.VMs.Snapshots.Adopt(ctx, int(vmid), name)
		if err != nil {
			return err
		}
		m.set(found)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		resp.Diagnostics.Append(kit.NoteImport(ctx, resp.Private)...)
		return nil
	})
}
