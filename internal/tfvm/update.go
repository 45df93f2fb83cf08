package tfvm

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Update changes the VM in place. When it fails in the middle the state says what is true on the server by then.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	v := r.values()
	prior, diags := v.model(ctx, req.State.Raw)
	resp.Diagnostics.Append(diags...)
	plan, diags := v.model(ctx, req.Plan.Raw)
	resp.Diagnostics.Append(diags...)
	kept, diags := recall(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	password := secret(ctx, req.Config, &resp.Diagnostics)
	attempt := r.attempt("update", &prior, password)
	attempt.At = plan.locator()
	switch {
	case resp.Diagnostics.HasError():
		return
	case r.machines == nil:
		resp.Diagnostics.Append(tfkit.NotConfigured(attempt.Verb, attempt.Thing))
		return
	}
	ctx, cancel := context.WithTimeout(discreet(ctx, password), tfkit.Duration(plan.limits().Update, tfkit.UpdateTimeout))
	defer cancel()

	request := change(prior, plan, kept, password)
	if idle(request, prior) {
		resp.State.Raw = v.shape.Settle(req.Plan.Raw, req.State.Raw)
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, keyManaged, v.shape.Managed(req.Config.Raw).JSON())...)
		return
	}
	guest, warnings, err := r.machines.Update(ctx, request)
	resp.Diagnostics.Append(tfkit.Warn(warnings)...)
	resp.Diagnostics.Append(tfkit.Diagnose(waited(attempt, err), err)...)
	configured, guest := v.shape.Managed(req.Config.Raw), prior.remind(guest)
	if err == nil || isWaiting(err) {
		resp.State.Raw, diags = v.settle(ctx, req.Plan.Raw, guest)
		resp.Diagnostics.Append(diags...)
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, keyManaged, configured.JSON())...)
		if was, is := prior.SMBIOS, plan.SMBIOS; was != nil && is != nil && moved(was.UUID, is.UUID) && !guest.Identity.IsZero() {
			resp.Diagnostics.Append(noteIdentity(ctx, resp.Private, guest.Identity)...)
		}
		return
	}
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, keyManaged, kept.Managed.Union(configured).JSON())...)
	if guest.VMID == 0 {
		return // the state stays as it was, and the next refresh tells
	}
	server, diags := v.server(ctx, guest)
	resp.Diagnostics.Append(diags...)
	if !diags.HasError() {
		resp.State.Raw = v.shape.Between(req.State.Raw, req.Plan.Raw, unpin(req.Plan.Raw, server))
	}
}

// idle reports whether an update only changes what the provider notes: no request is made then.
func idle(r provision.UpdateRequest, prior model) bool {
	power := r.PowerState == provision.Unmanaged || string(r.PowerState) == value(powerState(value(prior.Status)))
	stays := r.Node == "" || r.Node == r.Ref.Node
	return power && stays && len(r.Due) == 0 && r.Pool == r.PriorPool && reflect.DeepEqual(r.PriorFirewall, r.Firewall) && reflect.DeepEqual(r.PriorHA, r.HA) && vm.Diff(r.Prior, r.Planned).Empty()
}

// change is the difference between state and plan as a request.
func change(prior, plan model, kept memory, password *string) provision.UpdateRequest {
	before, after := alike(prior, plan, kept.Managed)
	if has := value(prior.Machine); isWindowsType(value(prior.OSType)) && !isWindowsType(value(plan.OSType)) && (has == "q35" || has == "pc") {
		before.Machine = nil // what PVE pinned for Windows; the wish holds from now on
	}
	request := provision.UpdateRequest{
		Ref:       prior.ref(kept),
		Prior:     before.spec(false),
		Planned:   after.spec(false),
		PriorPool: value(prior.Pool), Pool: value(plan.Pool),
		PriorHA: (*provision.HA)(prior.HA), HA: (*provision.HA)(plan.HA),
		PriorFirewall: prior.Firewall.request(), Firewall: plan.Firewall.request(),
		BootOrder:  plan.BootOrder,
		PowerState: provision.PowerState(value(plan.PowerState)), Due: due(prior, plan, kept.Managed),
	}
	if moved(prior.Node, plan.Node) { // one that is somewhere else by now for another reason is followed
		request.Node = *plan.Node
	}
	for slot, nic := range request.Planned.Networks { // a slot that is new in state may be there on the server
		if _, known := before.Networks[slot]; !known {
			nic.Model = value(after.Networks[slot].Model)
			request.Planned.Networks[slot] = nic
		}
	}
	if version := plan.PasswordVersion; version != nil && (prior.PasswordVersion == nil || *prior.PasswordVersion != *version) {
		request.Planned.CloudInit.PasswordHash = hashed(password, value(plan.OSType))
	}
	if plan.PasswordVersion == nil && prior.PasswordVersion != nil {
		request.Planned.CloudInit.PasswordHash = some("") // takes it away
	}
	request.Planned.ExactTags = slices.Equal(lowered(prior.Tags), lowered(plan.Tags)) // else the plan would have left them alone
	request.DestroyRemoved = value(plan.RemovedDisks) == "destroy"
	request.StopTimeout, request.Wait = tfkit.Duration(plan.ShutdownTimeout, 0), plan.WaitFor.request()
	switch value(plan.RebootPolicy) {
	case "never":
		request.Restart = provision.RestartNever
	case "force":
		request.Restart = provision.RestartForcibly
	}
	return request
}

// alike takes out of state and plan what is no difference for the server: slots that are forgotten, sources of disks
// that exist already, and volume ids that the plan leaves open.
func alike(prior, plan model, managed tfplan.Managed) (before, after model) {
	before, after = prior, plan
	before.Disks = forget(prior.Disks, plan.Disks, "disks", managed)
	for slot, was := range prior.Disks { // its volume goes to another slot
		if _, stays := plan.Disks[slot]; !stays && plan.names(was.Volume) {
			put(&before.Disks, slot, was)
		}
	}
	before.CDROMs = forget(prior.CDROMs, plan.CDROMs, "cdroms", managed)
	before.Networks = forget(prior.Networks, plan.Networks, "networks", managed)
	before.PCI = forget(prior.PCI, plan.PCI, "pci", managed)
	before.USB = forget(prior.USB, plan.USB, "usb", managed)
	before.NUMANodes = forget(prior.NUMANodes, plan.NUMANodes, "numa_nodes", managed)
	before.VirtioFS = forget(prior.VirtioFS, plan.VirtioFS, "virtiofs", managed)
	before.Serial = forget(prior.Serial, plan.Serial, "serial", managed)
	before.Parallel = forget(prior.Parallel, plan.Parallel, "parallel", managed)
	after.Disks = maps.Clone(plan.Disks)
	for slot, d := range after.Disks {
		if was, ok := before.Disks[slot]; ok {
			d.ImportFrom, was.ImportFrom = nil, nil
			if !moved(was.Volume, d.Volume) { // another volume has a size and a format of its own
				d.Volume, d.Size = or(d.Volume, was.Volume), or(d.Size, was.Size)
				if !moved(was.Storage, d.Storage) { // another storage may have none of that format
					d.Format = or(d.Format, was.Format)
				}
			}
			before.Disks[slot], after.Disks[slot] = was, d
		}
	}
	if plan.BootOrder == nil && !managed["boot_order"] { // open in the plan, and left to PVE
		after.BootOrder = prior.BootOrder
	}
	if plan.Machine == nil && !managed["machine"] {
		after.Machine = prior.Machine
	}
	if was, is := prior.EFIDisk, plan.EFIDisk; was != nil && is != nil {
		disk, had := *is, *was
		disk.Volume = or(is.Volume, was.Volume)
		if !moved(was.Storage, is.Storage) {
			disk.Format = or(is.Format, was.Format)
		}
		disk.ImportFrom, had.ImportFrom = nil, nil
		before.EFIDisk, after.EFIDisk = &had, &disk
	}
	if was, is := prior.TPMState, plan.TPMState; was != nil && is != nil {
		disk, had := *is, *was
		disk.Volume = or(is.Volume, was.Volume)
		disk.ImportFrom, had.ImportFrom = nil, nil
		before.TPMState, after.TPMState = &had, &disk
	}
	if was, is := prior.CloudInit, plan.CloudInit; was != nil && is != nil {
		drive, had := *is, *was
		if is.Storage != nil && was.Slot != nil {
			drive.Slot = or(is.Slot, was.Slot)
		}
		if value(drive.Slot) == value(was.Slot) && value(is.Storage) == value(was.Storage) {
			drive.Volume, drive.Format = or(is.Volume, was.Volume), or(is.Format, was.Format)
		}
		had.Addresses = forget(was.Addresses, is.Addresses, "cloud_init.addresses", managed)
		before.CloudInit, after.CloudInit = &had, &drive
	}
	return before, after
}

// names reports whether a disk is to have a volume.
func (m *model) names(volume *string) bool {
	for _, d := range m.Disks {
		if volume != nil && value(d.Volume) == *volume {
			return true
		}
	}
	return false
}

// or is what the plan says, or what was, where the plan leaves it open.
func or(planned, was *string) *string {
	if planned != nil {
		return planned
	}
	return was
}

// forget leaves out the slots in state that are neither planned nor managed. It copies.
func forget[V slotted](prior, plan map[string]V, at string, managed tfplan.Managed) map[string]V {
	all := maps.Clone(prior)
	for slot := range prior {
		if _, planned := plan[slot]; !planned && !managed[at+"."+slot] {
			delete(all, slot)
		}
	}
	return all
}
