package tfaction

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// VMPower is the action proxmox_vm_power.
type VMPower struct{ tfkit.ActionBase }

var (
	_ action.ActionWithConfigure      = &VMPower{}
	_ action.ActionWithModifyPlan     = &VMPower{}
	_ action.ActionWithValidateConfig = &VMPower{}
)

// NewVMPower makes the action.
func NewVMPower() action.Action { return &VMPower{} }

// powerTimeout is how long a power action may take where the configuration says nothing.
const powerTimeout = 5 * time.Minute

type powerModel struct {
	chosen
	Action       string  `tfsdk:"action"`
	ToDisk       *bool   `tfsdk:"to_disk"`
	StateStorage *string `tfsdk:"state_storage"`
	Timeout      *string `tfsdk:"timeout"`
	Wait         *bool   `tfsdk:"wait"`
}

// Metadata names the action.
func (a *VMPower) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_vm_power"
}

// Schema is the shape of the action.
func (a *VMPower) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	var names []string
	for _, one := range power.Actions() {
		names = append(names, string(one))
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Switches a VM: on, off, to sleep and back. It takes `VM.PowerMgmt` and `VM.Audit` on the VM.\n\n" +
			"What is so already is a success: the start of a VM that runs, the stop of one that is off. What PVE refuses is refused before " +
			"anything is sent: the shutdown of a paused guest, which hears no such request, or the reboot of one that is off. A VM whose " +
			"configuration is locked is waited for, as long as `timeout` says. Templates and containers are refused.\n\n" +
			"A guest under HA is started and stopped by HA's manager: it keeps it so, and it **cuts off a guest that does not obey a " +
			"shutdown**. A reboot, a reset and a suspension go past HA.\n\n" +
			"Where a `proxmox_vm` has `power_state` in its configuration, the next apply brings that back.",
		Attributes: vmAttributes(map[string]schema.Attribute{
			"action": schema.StringAttribute{Required: true, Validators: []validator.String{stringvalidator.OneOf(names...)},
				MarkdownDescription: "`start`; `shutdown` asks the guest, by ACPI or its agent, and never cuts it off; " +
					"`stop` cuts it off, as pulling the plug does; `reboot` asks the guest to shut down and starts it again, with what " +
					"waits for a restart; `reset` presses the reset button; `suspend` pauses it, or saves it to disk (`to_disk`); " +
					"`resume` lets it go on. `stop` and `reset` lose what the guest has not written."},
			"to_disk": schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether `suspend` saves the guest's memory to a " +
				"volume and ends it: the next `start` or `resume` takes it up. PVE refuses that for a guest with passed-through PCI " +
				"devices, and for one under HA. It takes `VM.Config.Disk` on the VM and `Datastore.AllocateSpace` on the storage. " +
				"Default: `false`, the guest stays in memory."},
			"state_storage": schema.StringAttribute{Optional: true, Validators: []validator.String{tfkit.StorageID()},
				MarkdownDescription: "Storage for the memory with `to_disk`. Default: the VM's `vmstatestorage`, else PVE chooses one of its " +
					"disks'."},
			"timeout": timeout("How long the action may take. A guest that is asked to shut down has three quarters of it, and is " +
				"watched for the rest. Default: `5m`."),
			"wait": schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether to wait until it is done. " +
				"With `false` the action ends when PVE has taken the request, and what becomes of it is not told; " +
				"`stop` and `reset` are awaited all the same. Default: `true`."},
		}),
	}
}

// ValidateConfig refuses arguments that mean nothing together.
func (a *VMPower) ValidateConfig(ctx context.Context, req action.ValidateConfigRequest, resp *action.ValidateConfigResponse) {
	var what, storage types.String
	var toDisk types.Bool
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("action"), &what)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("to_disk"), &toDisk)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("state_storage"), &storage)...)
	if resp.Diagnostics.HasError() || what.IsUnknown() || toDisk.IsUnknown() {
		return
	}
	if toDisk.ValueBool() && what.ValueString() != string(power.Suspend) {
		resp.Diagnostics.AddAttributeError(path.Root("to_disk"), "Invalid Attribute Combination", "Only action = \"suspend\" saves a "+
			"guest to disk.")
	}
	if !storage.IsNull() && !toDisk.ValueBool() {
		resp.Diagnostics.AddAttributeError(path.Root("state_storage"), "Invalid Attribute Combination",
			"A storage for the memory is needed only with to_disk = true.")
	}
}

// ModifyPlan refuses what can never work.
func (a *VMPower) ModifyPlan(ctx context.Context, req action.ModifyPlanRequest, resp *action.ModifyPlanResponse) {
	if m, ok := planned[powerModel](ctx, a.Session, req, resp); ok {
		resp.Diagnostics.Append(refuseVM(ctx, a.Session, a.attempt(m), m.choice(), m.takes()...)...)
	}
}

// takes are the privileges that the action takes (qemu-server API2/Qemu.pm, vm_suspend: for the memory what a disk takes).
func (m powerModel) takes() []preflight.Take {
	takes := []preflight.Take{onVM(m.choice(), m.Action, "VM.PowerMgmt")}
	if m.ToDisk != nil && *m.ToDisk {
		takes = append(takes, onVM(m.choice(), "save the memory of", "VM.Config.Disk"))
	}
	if storage := value(m.StateStorage); storage != "" {
		takes = append(takes, preflight.Take{Path: "state_storage", What: "save memory on storage " + storage, On: "/storage/" + storage,
			AnyOf: []string{"Datastore.AllocateSpace"}})
	}
	return takes
}

func (a *VMPower) attempt(m powerModel) tfkit.Attempt {
	return tfkit.Attempt{Verb: m.Action, Thing: fmt.Sprintf("VM %d", m.VMID), VMID: int(m.VMID), At: attributes{}, As: a.Session.User()}
}

// Invoke switches the VM.
func (a *VMPower) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var m powerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	limit := tfkit.Duration(m.Timeout, powerTimeout)
	a.Do(ctx, resp, limit, a.attempt(m), func(ctx context.Context) error {
		warnings, err := a.Session.VMs.Power.Do(ctx, power.Request{Choice: m.choice(), Action: power.Action(m.Action), Timeout: limit,
			ToDisk: m.ToDisk != nil && *m.ToDisk, StateStorage: value(m.StateStorage), NoWait: m.Wait != nil && !*m.Wait})
		resp.Diagnostics.Append(tfkit.Warn(warnings)...)
		return err
	})
}
