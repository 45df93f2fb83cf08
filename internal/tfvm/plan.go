package tfvm

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
)

// ModifyPlan computes the whole plan from configuration, state and the managed paths, and checks it against the server.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	v := r.values()
	prior, diags := v.model(ctx, req.State.Raw)
	resp.Diagnostics.Append(diags...)
	kept, diags := recall(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if req.Plan.Raw.IsNull() {
		if kept.Proof == nil { // what a failed create left may have its template's protection; it is removed all the same
			resp.Diagnostics.Append(prior.guardProtection("destroy")...)
		}
		return
	}
	v = r.tagged(ctx, v, prior.Tags, configuredTags(req.Config.Raw))
	creating := req.State.Raw.IsNull()
	if creating {
		resp.Diagnostics.Append(r.run.passFailed(ctx, resp.Private)...)
	}
	config, seats := req.Config.Raw, &seating{}
	if !creating {
		config, seats = r.seat(ctx, req.Config.Raw, prior, kept)
		resp.Diagnostics.Append(seats.diags...)
	}
	planned := v.shape.Plan(tfplan.Input{
		Config: pinned(config, req.State.Raw), Prior: req.State.Raw, Managed: kept.Managed,
		Inherits: !tfplan.At(req.Config.Raw, "clone").IsNull(),
	})
	planned.Value = seats.open(planned.Value)
	resp.Plan.Raw = planned.Value
	plan, diags := v.model(ctx, planned.Value)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !creating {
		planned.Value, planned.Changed = r.place(ctx, req.Config.Raw, planned, prior, &plan, kept.Managed)
		resp.Plan.Raw = planned.Value
	}
	if !creating && kept.Gone {
		resp.Diagnostics.Append(anew(ctx, resp, planned.Value, prior)...)
		return
	}
	if !planned.Changed {
		return
	}
	if creating {
		resp.Plan.Raw = unpinned(req.Config.Raw, planned.Value)
	} else {
		resp.Plan.Raw = v.steady(reconsider(req.Config.Raw, planned.Value, prior, plan), req.State.Raw, prior, plan)
		resp.Diagnostics.Append(forgotten(seats.others(planned.Forgotten))...)
		resp.RequiresReplace = replacement(planned.Value, prior, plan)
	}
	switch {
	case len(resp.RequiresReplace) > 0:
		resp.Diagnostics.Append(prior.guardProtection("replace")...)
		resp.Diagnostics.Append(noteReplaced(ctx, resp.Private, prior)...)
		return // Terraform plans again, without the prior state
	case creating:
		c := &checker{config: req.Config.Raw}
		c.bootOrder()
		c.beginnings()
		c.firstVolumes()
		resp.Diagnostics.Append(c.diags...)
	default:
		resp.Diagnostics.Append(refused(req.Config.Raw, prior, plan, kept.Managed)...)
		resp.Diagnostics.Append(unmovable(prior, plan, seats)...)
		resp.Diagnostics.Append(departures(prior, plan, kept.Managed, seats)...)
		resp.Diagnostics.Append(confusions(req.Config.Raw, prior, plan, kept.Managed, seats)...)
		resp.Diagnostics.Append(unwaitable(req.Config.Raw, plan)...)
		resp.Diagnostics.Append(restarts(prior, plan, kept.Managed)...)
		resp.Diagnostics.Append(leavesHA(prior, plan)...)
	}
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(r.ask(ctx, req.Config.Raw, resp.Plan.Raw, req.State.Raw, prior, plan, kept)...)
	}
}

// guardProtection refuses what PVE would refuse at apply.
func (m *model) guardProtection(verb string) diag.Diagnostics {
	var diags diag.Diagnostics
	if value(m.Protection) {
		diags.AddAttributeError(path.Root("protection"), "Cannot "+verb+" "+m.thing(),
			"The VM is protected: PVE refuses to remove it. Set protection = false and apply, then "+verb+" it.")
	}
	return diags
}

// forgotten tells which devices leave the state without being touched.
func forgotten(slots []string) diag.Diagnostics {
	var diags diag.Diagnostics
	if len(slots) > 0 {
		diags.AddWarning("Devices that the configuration does not name are forgotten",
			"In state but not in the configuration, and never configured: "+strings.Join(slots, ", ")+
				". They stay on the VM as they are and leave the state. Name them in the configuration to manage them.")
	}
	return diags
}

// unpinned says what is known of a new VM's machine type: PVE pins it for Windows only (qemu-server API2/Qemu.pm).
func unpinned(config, planned tftypes.Value) tftypes.Value {
	ostype := tfplan.At(config, "ostype")
	windows := !ostype.IsKnown() || !ostype.IsNull() && strings.HasPrefix(stringOf(ostype), "w")
	if windows || !tfplan.At(config, "clone").IsNull() || !tfplan.At(config, "machine").IsNull() {
		return planned
	}
	return tfplan.Edit(planned, nil, map[string]bool{"machine": true})
}

// reconsider makes unknown what follows from other changes: the volume of a disk that moves, the boot order when devices
// come and go, the machine type that PVE pins for Windows.
func reconsider(config, planned tftypes.Value, prior, plan model) tftypes.Value {
	open, gone := map[string]bool{}, map[string]bool{}
	migrates := moved(prior.Node, plan.Node) // and its local volumes get new names
	for slot, d := range plan.Disks {
		if was, ok := prior.Disks[slot]; ok && (migrates || moved(was.Storage, d.Storage) || moved(was.Format, d.Format)) {
			if tfplan.At(config, "disks", slot, "volume").IsNull() { // else it says where the disk was
				open["disks."+slot+".volume"] = true
			}
			if tfplan.At(config, "disks", slot, "format").IsNull() {
				open["disks."+slot+".format"] = true
			}
		}
	}
	if was, is := prior.EFIDisk, plan.EFIDisk; was != nil && is != nil && (migrates || moved(was.Storage, is.Storage)) {
		open["efi_disk.volume"] = true
		open["efi_disk.format"] = tfplan.At(config, "efi_disk", "format").IsNull()
	}
	if was, is := prior.TPMState, plan.TPMState; was != nil && is != nil && (migrates || moved(was.Storage, is.Storage)) {
		open["tpm_state.volume"] = true
	}
	reconsiderDrive(prior.CloudInit, plan.CloudInit, open, gone)
	if was, is := prior.CloudInit, plan.CloudInit; was != nil && is != nil && moved(was.Storage, is.Storage) && tfplan.At(config, "cloud_init", "format").IsNull() {
		open["cloud_init.format"] = true
	}
	if migrates && plan.CloudInit != nil && plan.CloudInit.Storage != nil {
		open["cloud_init.volume"] = true
	}
	if is := plan.CloudInit; is != nil && is.Storage == nil && is.bare() && tfplan.At(config, "cloud_init").IsNull() {
		gone["cloud_init"] = true // the drive went, and there was nothing else
	}
	if tfplan.At(config, "boot_order").IsNull() && plan.BootOrder != nil && !sameDevices(prior, plan) {
		open["boot_order"] = true
	}
	if tfplan.At(config, "machine").IsNull() && value(prior.OSType) != value(plan.OSType) {
		open["machine"] = true
	}
	if was, is := prior.SMBIOS, plan.SMBIOS; was != nil && is != nil && moved(was.UUID, is.UUID) {
		open["uuid"] = true
	}
	return tfplan.Edit(planned, open, gone)
}

// reconsiderDrive sees to the three attributes that are one thing on the server, the cloud-init drive.
func reconsiderDrive(was, is *cloudInitModel, open, gone map[string]bool) {
	switch {
	case was == nil || is == nil:
	case is.Storage == nil:
		gone["cloud_init.slot"], gone["cloud_init.format"], gone["cloud_init.volume"] = true, true, true
	case was.Storage == nil && is.Slot == nil:
		open["cloud_init.slot"], open["cloud_init.volume"] = true, true
	case was.Storage == nil || moved(was.Storage, is.Storage) || moved(was.Slot, is.Slot):
		open["cloud_init.volume"] = true
	}
}

// bare reports whether nothing is said but for the drive itself.
func (c *cloudInitModel) bare() bool {
	return c.Type == nil && c.User == nil && c.SSHKeys == nil && c.Nameservers == nil && c.SearchDomain == nil &&
		c.Upgrade == nil && c.Addresses == nil && c.Custom == nil
}

// moved reports whether two known values differ.
func moved(was, is *string) bool { return was != nil && is != nil && *was != *is }

// sameDevices reports whether the same slots are in use before and after.
func sameDevices(prior, plan model) bool {
	before, after := prior.slots(), plan.slots()
	for slot := range before {
		if !after[slot] {
			return false
		}
	}
	return len(before) == len(after)
}

func (m *model) slots() map[string]bool {
	all := map[string]bool{}
	for slot := range m.Disks {
		all[slot] = true
	}
	for slot := range m.CDROMs {
		all[slot] = true
	}
	for slot := range m.Networks {
		all[slot] = true
	}
	if m.CloudInit != nil && m.CloudInit.Slot != nil {
		all[*m.CloudInit.Slot] = true
	}
	return all
}
