// Package action holds the actions, which Terraform 1.14 and later invoke: operations on a VM that leave nothing in any
// state. Each is a schema, a plan that refuses what can never work, and one call of the package that carries it out.
package action

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// All returns the constructors of all actions.
func All() []func() action.Action {
	return []func() action.Action{NewVMPower, NewVMUnlock, NewVMSnapshotRollback, NewOrphanDelete}
}

// attributes finds an attribute of an action by its name.
type attributes struct{}

// Parameter returns false: no parameter of PVE's API is an attribute of an action.
func (attributes) Parameter(string) (path.Path, bool) { return path.Empty(), false }

// Attribute returns the attribute of a name.
func (attributes) Attribute(name string) (path.Path, bool) {
	if strings.Contains(name, ".") {
		return path.Empty(), false
	}
	return path.Root(name), true
}

// planned reads the configuration of an action; false: it, or the server, is not known yet.
func planned[M any](ctx context.Context, session *kit.Session, req action.ModifyPlanRequest,
	resp *action.ModifyPlanResponse,
) (m M, ok bool) {
	if !session.Known() || !req.Config.Raw.IsFullyKnown() {
		return m, false
	}
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	return m, !resp.Diagnostics.HasError()
}

// refuseVM refuses a VM if the plan already knows that the action cannot work on it. A missing VM is no reason: the
// same apply may make or move it before it invokes the action. Nor is a failed look.
func refuseVM(ctx context.Context, session *kit.Session, attempt kit.Attempt, choice guest.Choice,
	takes ...preflight.Take,
) diag.Diagnostics {
	ctx, cancel := context.WithTimeout(ctx, kit.ReadTimeout)
	defer cancel()
	if err := session.VMs.Guests.Unusable(ctx, choice); err != nil {
		return kit.Diagnose(attempt, err)
	}
	takes = append(takes, onVM(choice, "see", "VM.Audit"))
	return kit.Verdicts(attempt, session.VMs.Permit(ctx, takes...), nil)
}

// refuseAstray refuses a VM whose disks may be others', by the refresh of this run.
func refuseAstray(ctx context.Context, session *kit.Session, attempt kit.Attempt, choice guest.Choice,
) diag.Diagnostics {
	ctx, cancel := context.WithTimeout(ctx, kit.ReadTimeout)
	defer cancel()
	return kit.Diagnose(attempt, guest.HasItsDisks(ctx, session.VMs.Guests, choice.VMID, "vmid"))
}

// onVM returns a privilege that an action requires on its VM.
func onVM(choice guest.Choice, verb string, anyOf ...string) preflight.Take {
	return preflight.Take{Path: "vmid", What: fmt.Sprintf("%s VM %d", verb, choice.VMID), On: fmt.Sprintf("/vms/%d",
		choice.VMID),
		AnyOf: anyOf}
}

// chosen is the VM of an action, as configured.
type chosen struct {
	VMID int64   `tfsdk:"vmid"`
	Node *string `tfsdk:"node"`
	UUID *string `tfsdk:"uuid"`
}

func (c chosen) choice() guest.Choice {
	return guest.Choice{VMID: int(c.VMID), Node: value(c.Node), UUID: value(c.UUID)}
}

func value(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// vmAttributes adds the attributes that name a VM to others.
func vmAttributes(more map[string]schema.Attribute) map[string]schema.Attribute {
	more["vmid"] = schema.Int64Attribute{Required: true, Validators: []validator.Int64{kit.VMID()},
		MarkdownDescription: "Id of the VM."}
	more["node"] = schema.StringAttribute{Optional: true, Validators: []validator.String{kit.NodeName()},
		MarkdownDescription: "Node that the VM must be on. Default: the VM may be on any node."}
	more["uuid"] = schema.StringAttribute{Optional: true, Validators: []validator.String{kit.UUID()},
		MarkdownDescription: "SMBIOS uuid that the VM must have, `proxmox_vm.x.uuid`. With it the action never touches a " +
			"different VM that has received the id since. Default: the action is about the VM that has the id when it is " +
			"invoked."}
	return more
}

// timeout returns the attribute for the time limit of an action.
func timeout(about string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, Validators: []validator.String{kit.PositiveDuration()},
		MarkdownDescription: about}
}
