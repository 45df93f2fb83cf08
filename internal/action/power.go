package action

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// VMPower is the action proxmox_vm_power.
type VMPower struct{ kit.ActionBase }

var (
	_ action.ActionWithConfigure      = &VMPower{}
	_ action.ActionWithModifyPlan     = &VMPower{}
	_ action.ActionWithValidateConfig = &VMPower{}
)

// NewVMPower makes the action.
func NewVMPower() action.Action { return &VMPower{} }

// powerTimeout is the default time limit of a power action.
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
func (v *VMPower) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_vm_power"
}

// Schema returns the attributes of the action.
func (v *VMPower) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	var names []string
	for _, one := range power.Actions() {
		names = append(names, string(one))
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Starts, stops, reboots, resets, suspends or resumes a VM. It requires `VM.PowerMgmt` and " +
			"`VM.Audit` on the VM.\n\n" +
			"A VM that is already in the wanted state is a success: the start of a running VM, the stop of one that is off. " +
			"Requests that PVE would refuse are refused before anything is sent: the shutdown of a paused guest, which cannot " +
			"react, or the reboot of one that is off. A locked VM is waited for, at most for `timeout`. Templates and " +
			"containers are refused.\n\n" +
			"A guest under HA is started and stopped by HA's manager: it keeps it so, and it **cuts off a guest that does not " +
			"obey a shutdown**. `stop` and `shutdown` set the state of the VM's HA entry to `stopped`, so HA does not start " +
			"the guest again before a `start`, or an administrator, sets it to `started`. A reboot, a reset and a " +
			"suspension go past HA.\n\n" +
			"Where a `proxmox_vm` has `power_state` in its configuration, the next apply brings that back.",
		Attributes: vmAttributes(map[string]schema.Attribute{
			"action": schema.StringAttribute{Required: true, Validators: []validator.String{stringvalidator.OneOf(names...)},
				MarkdownDescription: "`start`, unless another guest runs with one of the VM's disks, or is suspended to disk " +
					"with it. Likewise for a `reboot` that brings another disk in force, and for `resume` where that guest was " +
					"started after this one, unless the tasks of the node show that this one was paused later, which takes " +
					"`Sys.Audit` on the node. `shutdown` asks the guest, by ACPI or its agent, and never cuts it off. " +
					"`stop` cuts it off, like pulling the plug. `reboot` asks the guest to shut down and starts it again, with its " +
					"pending changes. `reset` presses the reset button. `suspend` pauses it, or saves it to disk (`to_disk`); " +
					"`resume` continues it, and a guest that QEMU has stopped, such as since its storage was full. `stop` and " +
					"`reset` lose the guest's unwritten data."},
			"to_disk": schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether `suspend` saves the guest's memory " +
				"to a volume and stops it: the next `start` or `resume` restores the memory. PVE refuses this for a guest with " +
				"passed-through PCI devices, and for a guest under HA. It requires `VM.Config.Disk` on the VM and " +
				"`Datastore.AllocateSpace` on the storage. Default: `false`, the guest stays in memory."},
			"state_storage": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.StorageID()},
				MarkdownDescription: "Storage for the memory with `to_disk`. Default: the VM's `vmstatestorage`, otherwise PVE " +
					"chooses the storage of one of its disks."},
			"timeout": timeout("Time limit of the action. A guest that is asked to shut down has three quarters of it, and " +
				"the action watches it for the rest. Default: `5m`."),
			"wait": schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether to wait until it is done. " +
				"With `false` the action ends when PVE has accepted the request, and does not report its result; `stop` and " +
				"`reset` are always awaited. Default: `true`."},
		}),
	}
}

// ValidateConfig refuses combinations of arguments without a meaning.
func (v *VMPower) ValidateConfig(ctx context.Context, req action.ValidateConfigRequest,
	resp *action.ValidateConfigResponse) {
	var what, storage types.String
	var toDisk types.Bool
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("action"), &what)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("to_disk"), &toDisk)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("state_storage"), &storage)...)
	if resp.Diagnostics.HasError() || what.IsUnknown() || toDisk.IsUnknown() {
		return
	}
	if toDisk.ValueBool() && what.ValueString() != string(power.Suspend) {
		resp.Diagnostics.AddAttributeError(path.Root("to_disk"), "Invalid Attribute Combination",
			"Only action = \"suspend\" saves a "+
				"guest to disk.")
	}
	if !storage.IsNull() && !storage.IsUnknown() && !toDisk.ValueBool() {
		resp.Diagnostics.AddAttributeError(path.Root("state_storage"), "Invalid Attribute Combination",
			"A storage for the memory is needed only with to_disk = true.")
	}
}

// ModifyPlan refuses a VM on which the action can never work.
func (v *VMPower) ModifyPlan(ctx context.Context, req action.ModifyPlanRequest, resp *action.ModifyPlanResponse) {
	if m, ok := planned[powerModel](ctx, v.Session, req, resp); ok {
		resp.Diagnostics.Append(refuseVM(ctx, v.Session, v.attempt(m), m.choice(), m.takes()...)...)
		if slices.Contains([]power.Action{power.Start, power.Resume, power.Reboot}, power.Action(m.Action)) {
			resp.Diagnostics.Append(refuseAstray(ctx, v.Session, v.attempt(m), m.choice())...)
		}
		if storage := value(m.StateStorage); storage != "" && !resp.Diagnostics.HasError() {
			ctx, cancel := context.WithTimeout(ctx, kit.ReadTimeout)
			defer cancel()
			unknown := preflight.UnknownStorages(ctx, v.Session.VMs.Checker, map[string]string{"state_storage": storage})
			resp.Diagnostics.Append(kit.Verdicts(v.attempt(m), unknown, nil)...)
		}
	}
}

// takes returns the privileges that the action requires (qemu-server API2/Qemu.pm, vm_suspend: for the memory those of
// a disk).
func (p powerModel) takes() []preflight.Take {
	takes := []preflight.Take{onVM(p.choice(), p.Action, "VM.PowerMgmt")}
	if p.ToDisk != nil && *p.ToDisk {
		takes = append(takes, onVM(p.choice(), "save the memory of", "VM.Config.Disk"))
	}
	if storage := value(p.StateStorage); storage != "" {
		takes = append(takes, preflight.Take{Path: "state_storage", What: "save memory on storage " + storage,
			On:    "/storage/" + storage,
			AnyOf: []string{"Datastore.AllocateSpace"}})
	}
	return takes
}

func (v *VMPower) attempt(m powerModel) kit.Attempt {
	return kit.Attempt{Verb: m.Action, Thing: fmt.Sprintf("VM %d", m.VMID), VMID: int(m.VMID), At: attributes{},
		As: v.Session.Identity()}
}

// Invoke carries the action out.
func (v *VMPower) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var m powerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	limit := kit.Duration(m.Timeout, powerTimeout)
	v.Do(ctx, resp, limit, v.attempt(m), func(ctx context.Context) error {
		warnings, err := v.Session.VMs.Power.Do(ctx, power.Request{Choice: m.choice(), Action: power.Action(m.Action),
			Timeout: limit,
			ToDisk:  m.ToDisk != nil && *m.ToDisk, StateStorage: value(m.StateStorage), NoWait: m.Wait != nil && !*m.Wait})
		resp.Diagnostics.Append(kit.Warn(warnings)...)
		return err
	})
}
