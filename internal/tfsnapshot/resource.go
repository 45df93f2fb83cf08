// Package tfsnapshot is the resource proxmox_vm_snapshot.
package tfsnapshot

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/snapshot"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// Resource is proxmox_vm_snapshot.
type Resource struct{ tfkit.ResourceBase }

var (
	_ resource.ResourceWithConfigure   = &Resource{}
	_ resource.ResourceWithImportState = &Resource{}
	_ resource.ResourceWithModifyPlan  = &Resource{}
)

// New makes the resource.
func New() resource.Resource { return &Resource{} }

// Metadata names the resource.
func (r *Resource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_vm_snapshot"
}

// Schema is the shape of the configuration.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = snapshotSchema(ctx)
}

type model struct {
	VMID        types.Int64     `tfsdk:"vmid"`
	Name        types.String    `tfsdk:"name"`
	Description types.String    `tfsdk:"description"`
	VMState     types.Bool      `tfsdk:"vmstate"`
	Node        types.String    `tfsdk:"node"`
	UUID        types.String    `tfsdk:"uuid"`
	SnapTime    types.Int64     `tfsdk:"snaptime"`
	Parent      types.String    `tfsdk:"parent"`
	Timeouts    *tfkit.Timeouts `tfsdk:"timeouts"`
}

// take writes what the server says into the model.
func (m *model) take(s snapshot.Snapshot) {
	m.Description, m.VMState = types.StringPointerValue(tfkit.NonZero(s.Description)), types.BoolValue(s.Memory)
	m.Node, m.UUID = types.StringValue(s.Node), types.StringPointerValue(tfkit.NonZero(s.VM.UUID))
	m.SnapTime, m.Parent = types.Int64Value(s.Taken), types.StringPointerValue(tfkit.NonZero(s.Parent))
}

func (m *model) vmid() int { return int(m.VMID.ValueInt64()) }

// ref is the snapshot in state.
func (m *model) ref() snapshot.Ref {
	return snapshot.Ref{Name: m.Name.ValueString(), Taken: m.SnapTime.ValueInt64(),
		VM: guest.Ref{VMID: m.vmid(), Node: m.Node.ValueString(), Identity: guest.Identity{UUID: m.UUID.ValueString()}}}
}

// locator finds attributes: each is named as PVE's parameter, but for the name.
type locator struct{}

// Parameter is the attribute behind a parameter of PVE's API.
func (locator) Parameter(name string) (path.Path, bool) {
	if name == "snapname" {
		name = "name"
	}
	return locator{}.Attribute(name)
}

// Attribute is the path of an attribute.
func (locator) Attribute(name string) (path.Path, bool) {
	switch name {
	case "vmid", "name", "description", "vmstate":
		return path.Root(name), true
	}
	return path.Empty(), false
}

func (r *Resource) attempt(verb string, m *model) tfkit.Attempt {
	thing := fmt.Sprintf("snapshot %s of VM %d", m.Name.ValueString(), m.vmid())
	return tfkit.Attempt{Verb: verb, Thing: thing, VMID: m.vmid(), At: locator{}, As: r.Session.User()}
}

// ModifyPlan refuses to take or to describe a snapshot without the privilege for it. One that is to be removed may be gone by then.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	m, _, ok := tfkit.Planned[model](ctx, req, resp)
	if !ok || !r.Session.Known() || m.VMID.IsUnknown() || req.Plan.Raw.Equal(req.State.Raw) {
		return
	}
	take := func(what, privilege string) preflight.Take {
		return preflight.Take{Path: "vmid", What: fmt.Sprintf("%s VM %d", what, m.vmid()), On: fmt.Sprintf("/vms/%d", m.vmid()),
			AnyOf: []string{privilege}}
	}
	lacks := r.Session.VMs.Permit(ctx, take("see", "VM.Audit"), take("take a snapshot of", "VM.Snapshot"))
	resp.Diagnostics.Append(tfkit.Verdicts(r.attempt("plan", &m), lacks, nil)...)
}

// Create takes the snapshot. One that could be taken back only in part is in state, so that the next destroy tries again.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	limit := tfkit.Duration(plan.Timeouts.Limits().Create, tfkit.CreateTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("take", &plan), func(ctx context.Context) error {
		taken, err := r.Session.VMs.Snapshots.Take(ctx, snapshot.Wanted{VMID: plan.vmid(), Name: plan.Name.ValueString(),
			Description: plan.Description.ValueString(), Memory: plan.VMState.ValueBool()})
		var failed *tx.Error
		if errors.As(err, &failed) && (len(failed.Left) == 0 || taken.Taken == 0) {
			return err
		}
		plan.take(taken)
		resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
		return err
	})
}

// Read refreshes the state. A snapshot that is gone, or another by now, leaves it.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit := tfkit.Duration(state.Timeouts.Limits().Read, tfkit.ReadTimeout)
	r.Refresh(ctx, &resp.Diagnostics, limit, r.attempt("read", &state), func(ctx context.Context) error {
		found, err := r.Session.VMs.Snapshots.Refresh(ctx, state.ref())
		switch {
		case errors.Is(err, snapshot.ErrGone):
			resp.State.RemoveResource(ctx)
			return nil
		case err != nil:
			return err
		}
		state.take(found)
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
		return nil
	})
}

// Update changes the description.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit := tfkit.Duration(plan.Timeouts.Limits().Update, tfkit.UpdateTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("describe", &state), func(ctx context.Context) error {
		found, err := r.Session.VMs.Snapshots.Describe(ctx, state.ref(), plan.Description.ValueString())
		if err != nil {
			return err
		}
		plan.take(found)
		resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
		return nil
	})
}

// Delete removes the snapshot. One that is gone is a success.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit := tfkit.Duration(state.Timeouts.Limits().Delete, tfkit.DeleteTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("remove", &state), func(ctx context.Context) error {
		return r.Session.VMs.Snapshots.Delete(ctx, state.ref())
	})
}

// ImportState takes over a snapshot by "vmid/name". Nothing is written to the server.
func (r *Resource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	id, name, ok := strings.Cut(req.ID, "/")
	vmid, err := strconv.ParseInt(id, 10, 64)
	if !ok || err != nil || name == "" || vmid < tfkit.MinVMID || vmid > tfkit.MaxVMID {
		resp.Diagnostics.AddError("Cannot import "+strconv.Quote(req.ID),
			"The id of a snapshot is the VMID and its name: \"100/before-upgrade\".")
		return
	}
	m := model{VMID: types.Int64Value(vmid), Name: types.StringValue(name)}
	r.Do(ctx, &resp.Diagnostics, tfkit.ReadTimeout, r.attempt("import", &m), func(ctx context.Context) error {
		found, err := r.Session.VMs.Snapshots.Adopt(ctx, int(vmid), name)
		if err != nil {
			return err
		}
		m.take(found)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		return nil
	})
}
