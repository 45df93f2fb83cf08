package tfvm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/foreign"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
)

// MoveState takes a VM over from another provider. Terraform asks a provider that is not configured, so there is no request: the
// state says which VM it is and what no server could tell, and the refresh that follows fills it in as an import would.
func (r *Resource) MoveState(context.Context) []resource.StateMover {
	own := r.values().schema
	return []resource.StateMover{{SourceSchema: &own, StateMover: r.keep}, {StateMover: r.move}}
}

// keep takes over what this provider has written itself under another address, as when it comes from another registry: Terraform and some
// releases of OpenTofu ask for a move then, too (opentofu/opentofu#4375).
func (r *Resource) keep(ctx context.Context, req resource.MoveStateRequest, resp *resource.MoveStateResponse) {
	if req.SourceTypeName != "proxmox_vm" || req.SourceState == nil || tfplan.At(req.SourceState.Raw, "vmid").IsNull() {
		return // another provider's has no vmid
	}
	resp.TargetState.Raw = req.SourceState.Raw
	m, diags := r.values().model(ctx, req.SourceState.Raw)
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
	theirs, err := foreign.Read(req.SourceProviderAddress, req.SourceTypeName, state)
	if err != nil {
		resp.Diagnostics.AddError("Cannot move a "+req.SourceTypeName+" to proxmox_vm", sentence(err.Error())+
			fmt.Sprintf(" Its schema has version %d. Nothing was moved. An import block takes any VM over by its id.", req.SourceSchemaVersion))
		return
	}
	if len(theirs.Odd) > 0 {
		resp.Diagnostics.AddWarning(fmt.Sprintf("Some of VM %d was not taken over", theirs.VMID),
			fmt.Sprintf("The state of the %s has %s in a form that this provider does not know, so what it says is not in the state now. "+
				"The plan shows what the configuration says of it.", req.SourceTypeName, strings.Join(theirs.Odd, ", ")))
	}
	raw, diags := r.values().raw(ctx, fromForeign(theirs))
	resp.Diagnostics.Append(diags...)
	if diags.HasError() {
		return
	}
	resp.TargetState.Raw = raw
	resp.Diagnostics.Append(identify(ctx, resp.TargetIdentity, &theirs.VMID)...)
	private := privateState{Managed: tfplan.Managed{}, Identity: guest.Identity{UUID: theirs.UUID},
		Moved: &moved{From: req.SourceTypeName, Name: theirs.Name, MACs: theirs.MACs, Slots: theirs.Slots}}
	resp.Diagnostics.Append(private.write(ctx, resp.TargetPrivate)...)
	resp.Diagnostics.Append(writeMoved(ctx, resp.TargetPrivate, private.Moved)...)
}

// fromForeign is the model of a VM of which the server was not asked yet.
func fromForeign(v foreign.VM) model {
	m := model{ID: new(strconv.FormatInt(v.VMID, 10)), VMID: &v.VMID, Node: &v.Node, Nodes: v.Nodes}
	if c := v.Clone; c != nil {
		m.Clone = &cloneModel{VMID: tfkit.NonZero(c.VMID), Name: tfkit.NonZero(c.Name), Node: tfkit.NonZero(c.Node), Full: &c.Full,
			Snapshot: tfkit.NonZero(c.Snapshot), Storage: tfkit.NonZero(c.Storage), Format: tfkit.NonZero(c.Format),
			BWLimit: tfkit.NonZero(c.BWLimit), SourceVMID: tfkit.NonZero(c.Source)}
	}
	for slot, image := range v.Images {
		put(&m.Disks, slot, diskModel{ImportFrom: &image})
	}
	if v.Stopped {
		m.PowerState = new(string(guest.Stopped))
	}
	if v.NoReboot {
		m.RebootPolicy = new("never")
	}
	if d := v.OnDestroy; d != (foreign.OnDestroy{}) {
		m.OnDestroy = &onDestroyModel{}
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
	if t := v.Timeouts; t != (foreign.Timeouts{}) {
		m.Timeouts = &tfkit.Timeouts{Create: tfkit.NonZero(t.Create), Read: tfkit.NonZero(t.Read), Update: tfkit.NonZero(t.Update),
			Delete: tfkit.NonZero(t.Delete)}
	}
	return m
}

// refuse is the error of a moved VM that is not taken over as the server has it.
func (m privateState) refuse(a tfkit.Attempt, found guest.Guest) diag.Diagnostics {
	var diags diag.Diagnostics
	if m.Moved == nil {
		return diags
	}
	if why := m.Moved.differs(found); why != "" {
		diags.AddError("Cannot take "+a.Thing+" over", why)
	}
	return diags
}

// differs says why what the server has at the id is not the VM that was moved: it is no whole one, or not the one that the other provider
// knew. Ids are used again; another name and none of its network devices tell another VM where there is no uuid to compare.
func (m *moved) differs(found guest.Guest) string {
	_, stamped := guest.ParseStamp(value(found.Spec.Description))
	switch {
	case guest.IsOwnLock(found.Lock), stamped:
		return "It is half made, or half destroyed. Wait for the task that is at work on it."
	case len(m.MACs) == 0, m.Name != "" && value(found.Spec.Name) == m.Name:
		return ""
	}
	var has []string
	for _, nic := range found.Spec.Networks {
		has = append(has, strings.ToUpper(value(nic.MACAddr)))
	}
	if slices.ContainsFunc(m.MACs, func(mac string) bool { return slices.Contains(has, mac) }) {
		return ""
	}
	slices.Sort(has)
	return fmt.Sprintf("It is called %q and has the MAC addresses [%s]. The VM of the %s was called %q and had [%s], so it is another "+
		"one. ", value(found.Spec.Name), strings.Join(has, " "), m.From, m.Name, strings.Join(m.MACs, " ")) +
		"If it is the one you mean all the same, \"terraform state rm\" and an import take it over."
}

// named is what the server says less the devices that the other provider left alone: they do not come into the state, so that a
// configuration need not say them either.
func (m *moved) named(all model) model {
	if m == nil || m.Slots == nil {
		return all
	}
	all.Disks, all.CDROMs, all.Networks = only(all.Disks, m.Slots), only(all.CDROMs, m.Slots), only(all.Networks, m.Slots)
	all.PCI, all.USB, all.VirtioFS = only(all.PCI, m.Slots), only(all.USB, m.Slots), only(all.VirtioFS, m.Slots)
	all.Serial = only(all.Serial, m.Slots)
	return all // with NUMA nodes, which bpg/proxmox loses in its refresh, and parallel ports, which neither knows
}

// only are some slots of a kind of device; nil for none.
func only[D any](devices map[string]D, slots []string) map[string]D {
	var some map[string]D
	for slot, device := range devices {
		if slices.Contains(slots, slot) {
			put(&some, slot, device)
		}
	}
	return some
}

// adopt is the state of a VM that another provider had, with all that the server says, and of what no server says what that provider did.
func (v values) adopt(prior, server tftypes.Value) tftypes.Value {
	power := tfplan.At(prior, "power_state")
	state := v.withDefaults(v.shape.Fill(prior, server)) // a configuration that names one is no change
	return tfplan.Replace(state, "power_state", power)
}

// unread is the error of a state with which nothing can be done: another provider has written it, or it came from one and the server
// was not asked since.
func (m *model) unread(a tfkit.Attempt, private privateState) diag.Diagnostics {
	var diags diag.Diagnostics
	switch {
	case m.VMID == nil:
		diags.AddError("The state is another provider's", "The state of this resource has no vmid, so this provider has not written it: "+
			"Terraform hands a state over as it is where the provider changes, but not the type of the resource, as by \"terraform state "+
			"replace-provider\". Nothing was done. Go back to the provider that has written it. A moved block to another address takes "+
			"the VM over, and so do \"terraform state rm\" and an import.")
	case private.Moved != nil:
		diags.AddError("Cannot "+a.Verb+" "+a.Thing, fmt.Sprintf("It was moved here from a %s, and the server was not asked about it since. "+
			"Nothing was done. Let Terraform refresh it first (no -refresh=false).", private.Moved.From))
	}
	return diags
}

// sentence makes a sentence of an error.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }
