package vm

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/otherstate"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// MoveState takes a VM over from another provider. Terraform asks a provider that is not configured, so there is no
// request: the state says which VM it is and what no server could tell, and the refresh that follows fills it in as an
// import would.
func (r *Resource) MoveState(context.Context) []resource.StateMover {
	own := model.SchemaValues().Schema
	return []resource.StateMover{{SourceSchema: &own, StateMover: r.keep}, {StateMover: r.move}}
}

// keep takes over what this provider has written itself under another address, as when it comes from another registry:
// Terraform and some releases of OpenTofu ask for a move then, too (opentofu/opentofu#4375).
func (r *Resource) keep(ctx context.Context, req resource.MoveStateRequest, resp *resource.MoveStateResponse) {
	if req.SourceTypeName != "proxmox_vm" || req.SourceState == nil || plan.At(req.SourceState.Raw, "vmid").IsNull() {
		return // another provider's has no vmid
	}
	resp.TargetState.Raw = req.SourceState.Raw
	m, diags := model.SchemaValues().Model(ctx, req.SourceState.Raw)
	resp.Diagnostics.Append(append(diags, identify(ctx, resp.TargetIdentity, m.VMID)...)...)
	for _, key := range r.PrivateKeys() {
		noted, diags := req.SourcePrivate.GetKey(ctx, key)
		resp.Diagnostics.Append(diags...)
		if len(noted) > 0 {
			resp.Diagnostics.Append(resp.TargetPrivate.SetKey(ctx, key, noted)...)
		}
	}
}

// move takes over what another provider has written.
func (r *Resource) move(ctx context.Context, req resource.MoveStateRequest, resp *resource.MoveStateResponse) {
	var state []byte
	if req.SourceRawState != nil {
		state = req.SourceRawState.JSON
	}
	theirs, err := otherstate.Read(req.SourceProviderAddress, req.SourceTypeName, state)
	if err != nil {
		resp.Diagnostics.AddError("Cannot move a "+req.SourceTypeName+" to proxmox_vm", sentence(err.Error())+
			fmt.Sprintf(" Its schema has version %d. Nothing was moved. An import block takes any VM over by its id.",
				req.SourceSchemaVersion))
		return
	}
	if len(theirs.Odd) > 0 {
		resp.Diagnostics.AddWarning(fmt.Sprintf("Some of VM %d was not taken over", theirs.VMID),
			fmt.Sprintf("The state of the %s has %s in a form that this provider does not know, so what it says is not in "+
				"the state now. The plan shows what the configuration says of "+
				"it.", req.SourceTypeName, strings.Join(theirs.Odd, ", ")))
	}
	raw, diags := model.SchemaValues().Raw(ctx, fromForeign(theirs))
	resp.Diagnostics.Append(diags...)
	if diags.HasError() {
		return
	}
	resp.TargetState.Raw = raw
	resp.Diagnostics.Append(identify(ctx, resp.TargetIdentity, &theirs.VMID)...)
	private := model.PrivateState{Managed: plan.Managed{}, Identity: guest.Identity{UUID: theirs.UUID},
		Moved: &model.Moved{From: req.SourceTypeName, Name: theirs.Name, MACs: theirs.MACs, Slots: theirs.Slots,
			Settings: theirs.Settings}}
	resp.Diagnostics.Append(private.Write(ctx, resp.TargetPrivate)...)
	resp.Diagnostics.Append(model.WriteMoved(ctx, resp.TargetPrivate, private.Moved)...)
	resp.Diagnostics.Append(kit.NoteImport(ctx, resp.TargetPrivate)...)
}

// fromForeign is the model of a VM of which the server was not asked yet.
func fromForeign(v otherstate.VM) model.Model {
	m := model.Model{ID: new(strconv.FormatInt(v.VMID, 10)), VMID: &v.VMID, Node: &v.Node, Nodes: v.Nodes}
	if c := v.Clone; c != nil {
		m.Clone = &model.Clone{VMID: kit.NonZero(c.VMID), Name: kit.NonZero(c.Name), Node: kit.NonZero(c.Node), Full: &c.Full,
			Snapshot: kit.NonZero(c.Snapshot), Storage: kit.NonZero(c.Storage), Format: kit.NonZero(c.Format),
			BWLimit: kit.NonZero(c.BWLimit), SourceVMID: kit.NonZero(c.Source)}
	}
	for slot, image := range v.Images {
		model.Put(&m.Disks, slot, model.Disk{ImportFrom: &image})
	}
	if v.Stopped {
		m.PowerState = new(string(guest.Stopped))
	}
	if v.NoReboot {
		m.RebootPolicy = new("never")
	}
	if d := v.OnDestroy; d != (otherstate.OnDestroy{}) {
		m.OnDestroy = &model.OnDestroy{}
		if d.Force {
			m.OnDestroy.PowerOff = new("force")
		}
		if d.Timeout != 0 {
			m.OnDestroy.Timeout = new(d.Timeout.String())
		}
		if d.KeepReferences {
			m.OnDestroy.Purge = new(false)
		}
	}
	if t := v.Timeouts; t != (otherstate.Timeouts{}) {
		m.Timeouts = &kit.Timeouts{Create: kit.NonZero(t.Create), Read: kit.NonZero(t.Read), Update: kit.NonZero(t.Update),
			Delete: kit.NonZero(t.Delete)}
	}
	return m
}

// sentence makes a sentence of an error.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }
