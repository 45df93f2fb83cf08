package tfvm

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
)

// oldest is the first PVE release that the provider works with.
const oldest = 8

// ask checks a plan against the server, as far as its values are known. Only what changes is asked about, so a plan
// without such changes makes no request.
func (r *Resource) ask(ctx context.Context, config, planned, state tftypes.Value, prior, plan model, kept memory) diag.Diagnostics {
	var diags diag.Diagnostics
	if r.machines == nil {
		return diags
	}
	creating := prior.VMID == nil
	diags.Append(r.bridgeless(planned, prior, plan)...)
	diags.Append(r.restricted(ctx, planned, state, kept.Managed, plan.locator())...)
	request := plan.question(prior, creating)
	if request.Moving != nil {
		before, after := alike(prior, plan, kept.Managed)
		request.Moving.Prior, request.Moving.Planned = before.spec(false), after.spec(false)
	}
	if !creating && request.Moving == nil && len(request.Storages)+len(request.Bridges)+len(request.Images) == 0 && request.Pool == "" {
		return diags
	}
	if creating && (kept.Replaces == request.VMID || r.run.wasRefreshed(request.VMID)) {
		request.VMID = 0 // ours: it is replaced
	}
	if creating && plan.Clone != nil && config.IsFullyKnown() {
		spec := plan.spec(true)
		request.Spec = &spec
	}
	placed := tfplan.At(config, "node").IsKnown() && tfplan.At(config, "nodes").IsFullyKnown()
	if !sourceKnown(config) || creating && r.clonesPlanned(plan.Clone) {
		request.Clone, request.Spec, placed = nil, nil, false
	}
	if creating {
		r.run.notePlanned(plannedVM{VMID: int(value(plan.VMID)), Name: value(plan.Name), Tags: plan.Tags})
	}
	diags.Append(r.version(ctx, creating)...)
	problems := r.machines.Check(ctx, request)
	if !placed { // the node follows from values that are not known yet
		problems = slices.DeleteFunc(problems, func(p *provision.FieldError) bool { return p.Path == "node" })
	}
	diags.Append(tfkit.Refuse(r.attempt("plan", &plan, nil), problems)...)
	return diags
}

// clonesPlanned reports whether the source of a clone is made by the same plan, so that it cannot be there yet.
func (r *Resource) clonesPlanned(c *cloneModel) bool {
	return c != nil && r.run.isPlanned(plannedVM{VMID: int(value(c.VMID)), Name: value(c.Name), Tags: c.Tags})
}

// sourceKnown reports whether the configuration says which VM is cloned, if any.
func sourceKnown(config tftypes.Value) bool {
	for _, selector := range []string{"vmid", "name", "tags", "node"} {
		if !tfplan.At(config, "clone", selector).IsFullyKnown() {
			return false
		}
	}
	return true
}

// question is what the server can be asked about the plan.
func (m *model) question(prior model, creating bool) provision.PlanRequest {
	q := provision.PlanRequest{Creating: creating, Node: value(m.Node), Nodes: m.Nodes, Storages: map[string]string{}, Bridges: map[string]string{}, Images: map[string]string{}}
	if moved(prior.Node, m.Node) { // everything is asked of the node that it goes to
		q.Moving = &provision.Moving{VMID: int(value(prior.VMID)), From: *prior.Node, Running: value(prior.Status) == "running" && value(m.PowerState) != "stopped"}
		prior = model{Pool: prior.Pool, CDROMs: prior.CDROMs, VMStateStorage: prior.VMStateStorage}
	}
	if creating {
		q.VMID, q.Clone = int(value(m.VMID)), m.Clone.request()
		if m.Clone != nil {
			changed(q.Storages, "clone.storage", nil, m.Clone.Storage)
		}
	}
	if value(m.Pool) != value(prior.Pool) {
		q.Pool = value(m.Pool)
	}
	for slot, d := range m.Disks {
		was := prior.Disks[slot]
		changed(q.Storages, "disks."+slot+".storage", was.Storage, d.Storage)
		if was.Volume == nil && q.Moving == nil {
			changed(q.Images, "disks."+slot+".import_from", was.ImportFrom, d.ImportFrom)
		}
	}
	for slot, c := range m.CDROMs {
		if file := value(c.File); file != "none" && file != "cdrom" {
			changed(q.Images, "cdroms."+slot+".file", prior.CDROMs[slot].File, c.File)
		}
	}
	if is := m.EFIDisk; is != nil && is.ImportFrom != nil && is.Volume == nil {
		q.Images["efi_disk.import_from"] = *is.ImportFrom
	}
	if is := m.TPMState; is != nil && is.ImportFrom != nil && is.Volume == nil {
		q.Images["tpm_state.import_from"] = *is.ImportFrom
	}
	changed(q.Storages, "vmstatestorage", prior.VMStateStorage, m.VMStateStorage)
	for slot, n := range m.Networks {
		changed(q.Bridges, "networks."+slot+".bridge", prior.Networks[slot].Bridge, n.Bridge)
	}
	for at, storage := range m.specialStorages() {
		changed(q.Storages, at, prior.specialStorages()[at], storage)
	}
	return q
}

// specialStorages are the storages outside disks.
func (m *model) specialStorages() map[string]*string {
	all := map[string]*string{}
	if m.EFIDisk != nil {
		all["efi_disk.storage"] = m.EFIDisk.Storage
	}
	if m.TPMState != nil {
		all["tpm_state.storage"] = m.TPMState.Storage
	}
	if m.CloudInit != nil {
		all["cloud_init.storage"] = m.CloudInit.Storage
	}
	return all
}

// changed notes a value that is not in state yet.
func changed(all map[string]string, at string, was, is *string) {
	if is != nil && (was == nil || *was != *is) {
		all[at] = *is
	}
}

// bridgeless refuses network devices without a bridge, which PVE gives to root@pam with a password only (qemu-server
// API2/Qemu.pm, check_vm_modify_config_perm).
func (r *Resource) bridgeless(planned tftypes.Value, prior, plan model) diag.Diagnostics {
	var diags diag.Diagnostics
	if !r.Session.Known() || r.Session.API.Identity().IsRootTicket() {
		return diags
	}
	for _, slot := range slices.SortedFunc(mapKeys(plan.Networks), bySlot) {
		was, existed := prior.Networks[slot]
		if plan.Networks[slot].Bridge != nil || existed && was.Bridge == nil || !tfplan.At(planned, "networks", slot, "bridge").IsKnown() {
			continue
		}
		at, _ := plan.locator().Attribute("networks." + slot + ".bridge")
		diags.AddAttributeError(at, "Only root@pam may attach a network device to no bridge",
			fmt.Sprintf("PVE lets nobody but the user root@pam with a password make a device without a bridge (\"no sdn vnet ID specified\"); the provider acts as %s. "+
				"Give %s a bridge, or give the provider username = \"root@pam\" and a password.", r.Session.API.Identity().User, slot))
	}
	return diags
}

// version refuses servers that are too old. What the server does not tell is left to the requests that need it.
func (r *Resource) version(ctx context.Context, creating bool) diag.Diagnostics {
	var diags diag.Diagnostics
	if !creating || !r.Session.Known() {
		return diags
	}
	if v, err := r.Session.API.Version(ctx); err == nil && v.Major > 0 && !v.AtLeast(oldest, 0) {
		diags.AddError("This Proxmox VE is too old", fmt.Sprintf("The server at %s runs Proxmox VE %s; the provider needs %d.0 or later.",
			r.Session.API.Endpoint(), v.Version, oldest))
	}
	return diags
}
