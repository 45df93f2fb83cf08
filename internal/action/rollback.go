package action

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/snapshot"
)

// VMSnapshotRollback is the action proxmox_vm_snapshot_rollback.
type VMSnapshotRollback struct{ kit.ActionBase }

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
func (v *VMSnapshotRollback) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_vm_snapshot_rollback"
}

// Schema returns the attributes of the action.
func (v *VMSnapshotRollback) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Rolls a VM back to a snapshot: its options, its disks and, if it was saved, its memory. " +
			"**All later changes are lost**, and a running guest is cut off. Before the roll-back the action reports its " +
			"effects. These are the changed options, the detached later disks, and the state of the guest afterwards. A " +
			"guest that HA is to keep running is started again by HA.\n\n" +
			"PVE refuses to roll back past a younger snapshot on ZFS, and past an incomplete one. A roll-back that fails in " +
			"the middle leaves the VM locked (`rollback`); the error says so, and gives the next step. If the configuration " +
			"of a `proxmox_vm` differs from the snapshot, the next plan shows it.\n\n" +
			"If another guest has one of the disks, the roll-back would take it back for that guest too, so the action " +
			"refuses. That goes for every VM with the disk of a `proxmox_disk`, and for such a disk itself while guests may " +
			"be hidden from the identity.\n\n" +
			"It requires `VM.Snapshot` or `VM.Snapshot.Rollback`, and `VM.Audit`, on the VM; `start` requires `VM.PowerMgmt` " +
			"since PVE 9.0.",
		Attributes: vmAttributes(map[string]schema.Attribute{
			"name": schema.StringAttribute{Required: true, Validators: []validator.String{kit.SnapshotName()},
				MarkdownDescription: "Name of the snapshot."},
			"snaptime": schema.Int64Attribute{Optional: true, MarkdownDescription: "Time at which the snapshot must have been " +
				"taken, in seconds since 1970: `proxmox_vm_snapshot.x.snaptime`. With it the action never uses a different " +
				"snapshot that has received the name since. Default: any time."},
			"start": schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether to start the guest afterwards. " +
				"A guest whose memory was saved is started in any case. Default: `false`."},
			"timeout": timeout("Time limit of the action. Default: `30m`."),
		}),
	}
}

// ModifyPlan refuses a VM on which the action can never work.
func (v *VMSnapshotRollback) ModifyPlan(ctx context.Context, req action.ModifyPlanRequest,
	resp *action.ModifyPlanResponse) {
	if m, ok := planned[rollbackModel](ctx, v.Session, req, resp); ok {
		resp.Diagnostics.Append(refuseVM(ctx, v.Session, v.attempt(m), m.choice(),
			onVM(m.choice(), "roll back", "VM.Snapshot", "VM.Snapshot.Rollback"))...)
		resp.Diagnostics.Append(refuseAstray(ctx, v.Session, v.attempt(m), m.choice())...)
	}
}

func (v *VMSnapshotRollback) attempt(m rollbackModel) kit.Attempt {
	return kit.Attempt{Verb: "roll back", Thing: fmt.Sprintf("VM %d to snapshot %s", m.VMID, m.Name), VMID: int(m.VMID),
		At: attributes{}, As: v.Session.Identity()}
}

// Invoke rolls the VM back.
func (v *VMSnapshotRollback) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var m rollbackModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	wanted := snapshot.RollBack{Choice: m.choice(), Name: m.Name, Start: m.Start != nil && *m.Start}
	if m.SnapTime != nil {
		wanted.Taken = *m.SnapTime
	}
	v.Do(ctx, resp, kit.Duration(m.Timeout, kit.UpdateTimeout), v.attempt(m), func(ctx context.Context) error {
		warnings, err := v.Session.VMs.Snapshots.Do(ctx, wanted)
		resp.Diagnostics.Append(kit.Warn(warnings)...)
		return err
	})
}
