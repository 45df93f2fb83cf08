package tfaction

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// VMUnlock is the action proxmox_vm_unlock.
type VMUnlock struct{ tfkit.ActionBase }

var (
	_ action.ActionWithConfigure  = &VMUnlock{}
	_ action.ActionWithModifyPlan = &VMUnlock{}
)

// NewVMUnlock makes the action.
func NewVMUnlock() action.Action { return &VMUnlock{} }

type unlockModel struct {
	chosen
	Lock   *string `tfsdk:"lock"`
	Accept *string `tfsdk:"accept"`
}

// Metadata names the action.
func (a *VMUnlock) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_vm_unlock"
}

// Schema is the shape of the action.
func (a *VMUnlock) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Takes the lock of a VM away that a task has left which died, as `qm unlock` does, and says which it was. " +
			"A VM that is not locked is a success.\n\n" +
			"**PVE lets only `root@pam` with a password do so**, no token; else `qm unlock` is run over SSH (`ssh` of the provider). " +
			"Without either the plan is refused. It takes `VM.Audit` on the VM and `Sys.Audit` on the nodes besides: who does not see " +
			"everybody's tasks cannot tell whether one holds the lock.\n\n" +
			"The lock is taken away only when no task that may hold it runs, looked at twice, and the last task of those that set this " +
			"lock was killed. It stays, with an error, while a task is at work; where no such task is known, unless `accept` says " +
			"otherwise; on a VM that is suspended to disk, whose memory would be lost; " +
			"and on one that was half made or half destroyed, which `proxmox_orphan_delete` removes.",
		Attributes: vmAttributes(map[string]schema.Attribute{
			"lock": schema.StringAttribute{Optional: true, Validators: []validator.String{stringvalidator.OneOf("backup", "create", "import",
				"migrate", "rollback", "snapshot", "snapshot-delete", "suspending")},
				MarkdownDescription: "Lock that it must be, such as `backup`. Any that is a leftover if this is not set."},
			"accept": schema.StringAttribute{Optional: true, Validators: []validator.String{stringvalidator.OneOf("certain", "unknown")},
				MarkdownDescription: "How sure it must be that nobody needs the lock. `certain`: a task that was killed has left it. " +
					"`unknown`: no task holds it, and that is all; a program outside PVE, which sets a lock of its own while it backs " +
					"a VM up, may still be at work. Default: `certain`."},
		}),
	}
}

// ModifyPlan refuses what can never work.
func (a *VMUnlock) ModifyPlan(ctx context.Context, req action.ModifyPlanRequest, resp *action.ModifyPlanResponse) {
	if a.Session.Known() {
		attempt := tfkit.Attempt{Verb: "unlock", Thing: "a VM", At: attributes{}, As: a.Session.User()}
		resp.Diagnostics.Append(tfkit.Diagnose(attempt, a.Session.VMs.CanUnlock())...)
	}
	if m, ok := planned[unlockModel](ctx, a.Session, req, resp); ok {
		resp.Diagnostics.Append(refuseVM(ctx, a.Session, a.attempt(m), m.choice())...)
	}
}

func (a *VMUnlock) attempt(m unlockModel) tfkit.Attempt {
	return tfkit.Attempt{Verb: "unlock", Thing: fmt.Sprintf("VM %d", m.VMID), VMID: int(m.VMID), At: attributes{}, As: a.Session.User()}
}

// Invoke takes the lock away.
func (a *VMUnlock) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var m unlockModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	wanted := remove.Unlocking{Choice: m.choice(), Lock: value(m.Lock), Unknown: value(m.Accept) == "unknown"}
	a.Do(ctx, resp, tfkit.ReadTimeout, a.attempt(m), func(ctx context.Context) error {
		done, err := a.Session.VMs.ReleaseLock(ctx, wanted)
		switch {
		case err != nil:
			return err
		case done.Lock == "":
			tfkit.Inform(ctx, fmt.Sprintf("VM %d on node %s is not locked: there is nothing to do", m.VMID, done.Node), nil)
		default:
			tfkit.Inform(ctx, fmt.Sprintf("The lock (%s) of VM %d on node %s was taken away: %s", done.Lock, m.VMID, done.Node, done.By), nil)
		}
		return nil
	})
}
