package tfaction

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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// attributes finds an attribute of an action by its name.
type attributes struct{}

// Parameter says that no parameter of PVE's API is an attribute of an action.
func (attributes) Parameter(string) (path.Path, bool) { return path.Empty(), false }

// Attribute is the attribute of a name.
func (attributes) Attribute(name string) (path.Path, bool) {
	if strings.Contains(name, ".") {
		return path.Empty(), false
	}
	return path.Root(name), true
}

// planned reads what a plan says of an action, if all of it and the server are known.
func planned[M any](ctx context.Context, session *tfkit.Session, req action.ModifyPlanRequest, resp *action.ModifyPlanResponse,
) (m M, ok bool) {
	if !session.Known() || !req.Config.Raw.IsFullyKnown() {
		return m, false
	}
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	return m, !resp.Diagnostics.HasError()
}

// refuseVM refuses a VM of which the plan knows already that the action cannot be done to it. One that is not there may be made, or
// moved, by the same apply, before the action is invoked: that is no reason, nor is anything that could not be looked at.
func refuseVM(ctx context.Context, session *tfkit.Session, attempt tfkit.Attempt, choice guest.Choice, takes ...preflight.Take,
) diag.Diagnostics {
	ctx, cancel := context.WithTimeout(ctx, tfkit.ReadTimeout)
	defer cancel()
	if err := session.VMs.Guests.Never(ctx, choice); err != nil {
		return tfkit.Diagnose(attempt, err)
	}
	takes = append(takes, onVM(choice, "see", "VM.Audit"))
	return tfkit.Verdicts(attempt, session.VMs.Permit(ctx, takes...), nil)
}

// onVM is a privilege that an action takes on its VM.
func onVM(choice guest.Choice, verb string, anyOf ...string) preflight.Take {
	return preflight.Take{Path: "vmid", What: fmt.Sprintf("%s VM %d", verb, choice.VMID), On: fmt.Sprintf("/vms/%d", choice.VMID),
		AnyOf: anyOf}
}

// chosen is the VM of an action.
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

// vmAttributes are those by which a VM is named, and more.
func vmAttributes(more map[string]schema.Attribute) map[string]schema.Attribute {
	more["vmid"] = schema.Int64Attribute{Required: true, Validators: []validator.Int64{tfkit.VMID()}, MarkdownDescription: "Id of the VM."}
	more["node"] = schema.StringAttribute{Optional: true, Validators: []validator.String{tfkit.NodeName()},
		MarkdownDescription: "Node that the VM must be on. It is found wherever it is if this is not set."}
	more["uuid"] = schema.StringAttribute{Optional: true,
		MarkdownDescription: "SMBIOS uuid that the VM must have, `proxmox_vm.x.uuid`. With it nothing is done to another VM that has got the " +
			"id since; without it the action is about whichever VM has the id when it is invoked."}
	return more
}

// timeout is the attribute that bounds an action.
func timeout(about string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, Validators: []validator.String{tfkit.PositiveDuration()}, MarkdownDescription: about}
}
