package action

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog/interceptor"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// VMUnlock is the action proxmox_vm_unlock.
type VMUnlock struct{ kit.ActionBase }

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
func (v *VMUnlock) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_vm_unlock"
}

// Schema returns the attributes of the action.
func (v *VMUnlock) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Takes the lock of a VM away that a task has left which died, as `qm unlock` does, and says " +
			"which it was. A VM that is not locked is a success.\n\n" +
			"**PVE allows this only to `root@pam` with a password**, not to a token; otherwise the action runs `qm unlock` " +
			"over SSH (`ssh` of the provider). Without either the plan is refused. It also requires `VM.Audit` on the VM. To " +
			"see the tasks of all users, it requires `Sys.Audit` on the nodes.\n\n" +
			"The lock is removed only if no task that may hold it runs, checked twice, and the last task that set such a lock " +
			"on this VM was killed. A killed backup of many guests does not count, since its task names none of them. The " +
			"lock stays, with an error, while a task is at work, and if no such task is known, unless `accept` says " +
			"otherwise. It also stays on a VM that is suspended to disk, whose memory would be lost, and on a half-made or " +
			"half-destroyed one, which `proxmox_orphan_delete` removes.",
		Attributes: vmAttributes(map[string]schema.Attribute{
			"lock": schema.StringAttribute{Optional: true,
				Validators: []validator.String{stringvalidator.OneOf("backup", "create", "import",
					"migrate", "rollback", "snapshot", "snapshot-delete", "suspending")},
				MarkdownDescription: "Lock that the VM must have, such as `backup`. Default: any leftover lock."},
			"accept": schema.StringAttribute{Optional: true,
				Validators: []validator.String{stringvalidator.OneOf("certain", "unknown")},
				MarkdownDescription: "Required certainty that the lock is not needed. `certain`: a killed task has left it. " +
					"`unknown`: no task holds it. A program outside PVE, which sets its own lock while it backs a VM up, may " +
					"still be at work. Default: `certain`."},
		}),
	}
}

// ModifyPlan refuses a VM on which the action can never work.
func (v *VMUnlock) ModifyPlan(ctx context.Context, req action.ModifyPlanRequest, resp *action.ModifyPlanResponse) {
	if v.Session.Known() {
		attempt := kit.Attempt{Verb: "unlock", Thing: "a VM", At: attributes{}, As: v.Session.Identity()}
		resp.Diagnostics.Append(kit.Diagnose(attempt, v.Session.VMs.Locks().CanRelease())...)
	}
	if m, ok := planned[unlockModel](ctx, v.Session, req, resp); ok {
		resp.Diagnostics.Append(refuseVM(ctx, v.Session, v.attempt(m), m.choice())...)
	}
}

func (v *VMUnlock) attempt(m unlockModel) kit.Attempt {
	return kit.Attempt{Verb: "unlock", Thing: fmt.Sprintf("VM %d", m.VMID), VMID: int(m.VMID), At: attributes{},
		As: v.Session.Identity()}
}

// Invoke removes the lock.
func (v *VMUnlock) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var m unlockModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	wanted := guard.Unlocking{Choice: m.choice(), Lock: value(m.Lock), Unknown: value(m.Accept) == "unknown"}
	v.Do(ctx, resp, kit.ReadTimeout, v.attempt(m), func(ctx context.Context) error {
		done, err := v.Session.VMs.Locks().Release(ctx, wanted)
		switch {
		case err != nil:
			return err
		case done.Lock == "":
			interceptor.Inform(ctx, fmt.Sprintf("VM %d on node %s is not locked: there is nothing to do", m.VMID, done.Node),
				nil)
		default:
			interceptor.Inform(ctx, fmt.Sprintf("The lock (%s) of VM %d on node %s was removed: %s", done.Lock, m.VMID,
				done.Node,
				done.By), nil)
		}
		return nil
	})
}
