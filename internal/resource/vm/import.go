package vm

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// ImportState adopts a VM by "node/vmid", "vmid" or its identity. Nothing is in state before its configuration was read
// on the server, and nothing is written there.
func (r *Resource) ImportState(ctx context.Context, req resource.ImportStateRequest,
	resp *resource.ImportStateResponse) {
	asked, diags := toImport(ctx, req)
	if resp.Diagnostics.Append(diags...); resp.Diagnostics.HasError() {
		return
	}
	attempt := kit.Attempt{Verb: "import", Thing: model.Thing(int64(asked.vmid), "", asked.node), At: model.Locator{},
		As: r.Session.Identity()}
	oplog.From(ctx).About(asked.vmid, asked.node)
	oplog.From(ctx).Thing(attempt.Thing)
	if r.machines == nil {
		resp.Diagnostics.Append(kit.NotConfigured(attempt.Verb, attempt.Thing))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, kit.ReadTimeout)
	defer cancel()
	found, err := r.machines.Adopt(ctx, asked.node, asked.vmid)
	if err == nil {
		err = asked.refuse(found)
	}
	if err != nil {
		resp.Diagnostics.Append(kit.Diagnose(attempt, err)...)
		return
	}
	adopted, diags := r.adopted(ctx, found)
	diags.Append(identify(ctx, resp.Identity, new(int64(found.VMID)))...)
	resp.Diagnostics.Append(diags...)
	if diags.HasError() {
		return
	}
	resp.State.Raw = adopted
	managed := plan.Managed{}
	// also where the configuration says nothing of the description, the next update takes the mark away
	if found.IsUnfinished() {
		managed["description"] = true
		resp.Diagnostics.AddWarning(attempt.Thing+" was not finished by the run that made it",
			"Its description is still the mark of a create that was killed. The next apply writes the one that is "+
				"configured, or none, and changes what else is not as it is configured. Until then a create with the "+
				"configuration that the run had goes on with it.")
	}
	private := model.PrivateState{Managed: managed, Identity: found.Identity.Seen()}
	resp.Diagnostics.Append(private.Write(ctx, resp.Private)...)
	resp.Diagnostics.Append(kit.NoteImport(ctx, resp.Private)...)
}

// adopted is the state of a VM that is taken over.
func (r *Resource) adopted(ctx context.Context, found guest.Guest) (tftypes.Value, diag.Diagnostics) {
	m := model.FromGuest(found)
	if !r.mayBeRoot() {
		m.VMGenID = nil // a configuration that is made of the state could not be applied with it
	}
	raw, diags := model.SchemaValues().Raw(ctx, m)
	if diags.HasError() {
		return raw, diags
	}
	state, left := r.sayable(ctx, tftypes.NewValue(model.SchemaValues().Typ, nil), r.withDefaults(raw, m))
	return state, append(diags, leftAlone(model.Thing(int64(found.VMID), "", found.Node), left)...)
}

// mayBeRoot reports whether the provider may set what is root's, as far as that is known.
func (r *Resource) mayBeRoot() bool {
	return !r.Session.Known() || r.Session.API.Identity().IsRootTicket()
}

// withDefaults is the state of an import with PVE's defaults, so that a configuration that names one is no change.
// Those that only root may name are left out for others.
func (r *Resource) withDefaults(raw tftypes.Value, adopted model.Model) tftypes.Value {
	state := model.SchemaValues().WithDefaults(raw)
	if adopted.Memory.KeepHugepages == nil && !r.mayBeRoot() {
		state = plan.Edit(state, nil, map[string]bool{"memory.keephugepages": true})
	}
	return state
}
