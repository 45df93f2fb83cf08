package tfaction

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/snapshot"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// VMSnapshotRollback is the action proxmox_vm_snapshot_rollback.
type VMSnapshotRollback struct{ tfkit.ActionBase }

var (
	_ action.ActionWithConfigure  = &VMSnapshotRollback{}
	_ action.ActionWithModifyPlan = &VMSnapshotRollback{}
)

// NewVMSnapshotRollback makes the action.
func NewVMSnapshotRollback() action.Action { return &VMSnapshotRollback{} }

type rollbackModel struct {
	chosen
	Name     string  `tfsdk:"name"`
	SnapTime *int64  `tfsdk:"snaptime"`
	Start    *bool   `tfsdk:"start"`
	Timeout  *string `tfsdk:"timeout"`
}

// Metadata names the action.
func (a *VMSnapshotRollback) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_vm_snapshot_rollback"
}

// Schema is the shape of the action.
func (a *VMSnapshotRollback) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Takes a VM back to a snapshot: its options, its disks and, where they were saved, its memory. " +
			"**Everything that came since is lost**, and a guest that runs is cut off. Before it is done the action tells what it takes back: " +
			"the options that change, the disks that are detached since they came later, and what becomes of the guest.\n\n" +
			"PVE refuses to go back past a younger snapshot on ZFS, and past an incomplete one. " +
			"A roll-back that fails in the middle leaves the VM locked (`rollback`); the error says so, and what to do. " +
			"Where a `proxmox_vm` is configured otherwise than the snapshot, the next plan shows it.\n\n" +
			"It takes `VM.Snapshot` or `VM.Snapshot.Rollback`, and `VM.Audit`, on the VM; `start` takes `VM.PowerMgmt` since PVE 9.0.",
		Attributes: vmAttributes(map[string]schema.Attribute{
			"name": schema.StringAttribute{Required: true, Validators: []validator.String{tfkit.SnapshotName()},
				MarkdownDescription: "Name of the snapshot."},
			"snaptime": schema.Int64Attribute{Optional: true, MarkdownDescription: "When the snapshot must have been taken, " +
				"`proxmox_vm_snapshot.x.snaptime`. With it nothing is done with another snapshot that has got the name since."},
			"start": schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether to start the guest afterwards. " +
				"One whose memory was saved is started in any case. Default: `false`."},
			"timeout": timeout("How long the action may take. Default: `30m`."),
		}),
	}
}

// ModifyPlan refuses what can never work.
func (a *VMSnapshotRollback) ModifyPlan(ctx context.Context, req action.ModifyPlanRequest, resp *action.ModifyPlanResponse) {
	if m, ok := planned[rollbackModel](ctx, a.Session, req, resp); ok {
		resp.Diagnostics.Append(refuseVM(ctx, a.Session, a.attempt(m), m.choice(),
			onVM(m.choice(), "roll back", "VM.Snapshot", "VM.Snapshot.Rollback"))...)
	}
}

func (a *VMSnapshotRollback) attempt(m rollbackModel) tfkit.Attempt {
	return tfkit.Attempt{Verb: "roll back", Thing: fmt.Sprintf("VM %d to snapshot %s", m.VMID, m.Name), VMID: int(m.VMID),
		At: attributes{}, As: a.Session.User()}
}

// Invoke takes the VM back.
func (a *VMSnapshotRollback) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var m rollbackModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	wanted := snapshot.RollBack{Choice: m.choice(), Name: m.Name, Start: m.Start != nil && *m.Start}
	if m.SnapTime != nil {
		wanted.Taken = *m.SnapTime
	}
	a.Do(ctx, resp, tfkit.Duration(m.Timeout, tfkit.UpdateTimeout), a.attempt(m), func(ctx context.Context) error {
		warnings, err := a.Session.VMs.Snapshots.Do(ctx, wanted)
		resp.Diagnostics.Append(tfkit.Warn(warnings)...)
		return err
	})
}
