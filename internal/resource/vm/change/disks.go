package change

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// warnRemovedDisks tells of every drive that leaves the VM, with what becomes of its volume.
func (p warnings) warnRemovedDisks(ctx context.Context) {
	for _, of := range [][2]string{{"disks", "The disks of %s are"}, {"efi_disk", "The EFI disk of %s is"},
		{"tpm_state", "The TPM state of %s is"}} {
		at := of[0]
		if p.Config.At(at).IsKnown() || at != "disks" && !p.Was(at) {
			continue
		}
		loses := ""
		if at == "disks" {
			loses = p.unplugged(model.SortedSlots(p.Prior.Disks)...)
		}
		p.Diags.AddAttributeWarning(path.Root(at), fmt.Sprintf(of[1], p.Prior.Thing())+" not known yet",
			"It follows from something else that this apply makes or changes. Whether a disk leaves the VM, only the apply "+
				"shows. Its volume is destroyed then, for good, if removed_disks is \"destroy\", and stays with the VM otherwise."+
				loses)
	}
	for _, slot := range model.SortedSlots(p.Prior.Disks) {
		disk := p.Prior.Disks[slot]
		if p.Leaves(slot) && !p.Attaches(model.Value(disk.Volume)) {
			p.warnRemovedVolume(ctx, path.Root("disks").AtMapKey(slot), slot, disk.Volume, disk.Size)
		}
	}
	if p.Goes("efi_disk") {
		p.warnRemovedVolume(ctx, path.Root("efi_disk"), "efidisk0", p.Prior.EFIDisk.Volume, nil)
	}
	if p.Goes("tpm_state") {
		p.warnRemovedVolume(ctx, path.Root("tpm_state"), "tpmstate0", p.Prior.TPMState.Volume, nil)
	}
	p.warnExchanged()
}

func (p warnings) warnRemovedVolume(ctx context.Context, at path.Path, slot string, volume, size *string) {
	if volume == nil {
		return
	}
	name, what := *volume, *volume
	if size != nil {
		what += " (" + *size + ")"
	}
	detached := fmt.Sprintf("%s of %s is detached", slot, p.Prior.Thing())
	boots := p.bootsNoMore(slot)
	loses := p.unplugged(slot) + boots
	owner, _ := volid.Owner(name)
	switch {
	case int64(owner) != model.Value(p.Prior.VMID):
		p.Diags.AddAttributeWarning(at, detached, fmt.Sprintf("Its volume %s carries the id of another VM. This one lets go "+
			"of it and does not destroy it. Where its proxmox_disk is destroyed in the same apply, that comes first and is "+
			"refused, unless an earlier apply has seen lifecycle { create_before_destroy = true } in it.%s", what, loses))
	case !p.Config.At("removed_disks").IsKnown():
		p.Diags.AddAttributeWarning(at, fmt.Sprintf("%s of %s may be destroyed with its data", slot, p.Prior.Thing()),
			fmt.Sprintf("The slot leaves the configuration, and removed_disks is not known yet. If it is \"destroy\", volume "+
				"%s is destroyed in the apply, for good; otherwise it stays with the VM as an unused disk.%s", what, loses))
	case model.Value(p.Plan.RemovedDisks) == "destroy" && p.keepsUntilStop(ctx, slot, name):
		p.Diags.AddAttributeWarning(at, fmt.Sprintf("%s of %s is not destroyed", slot, p.Prior.Thing()),
			fmt.Sprintf("The slot leaves the configuration, and reboot_policy = \"never\" leaves the VM running: PVE takes "+
				"volume %s out of %s at its next stop only. It is an unused disk of the VM from then on, and is destroyed with "+
				"the VM.%s", what, slot, boots))
	case model.Value(p.Plan.RemovedDisks) == "destroy":
		p.Diags.AddAttributeWarning(at, fmt.Sprintf("%s of %s is destroyed with its data", slot, p.Prior.Thing()),
			fmt.Sprintf("The slot leaves the configuration, and removed_disks = \"destroy\": volume %s is destroyed in the "+
				"apply, for good.%s", what, loses))
	default:
		p.Diags.AddAttributeWarning(at, detached, fmt.Sprintf("Its volume %s stays with the VM as an unused disk, and is "+
			"destroyed with the VM. %s removed_disks = \"destroy\" destroys such volumes instead.%s", what,
			p.howToUseAgain(slot, name), loses))
	}
}

// keepsUntilStop reports whether the guest keeps a disk in its slot after the apply, since it is not restarted
// (qemu-server QemuServer.pm vmconfig_hotplug_pending). The update keeps to it: update.Request.keepsUntilStop. A disk
// that waits for its place is in no guest, and PVE notes it as unused at once (API2/Qemu.pm update_vm_api).
func (p warnings) keepsUntilStop(ctx context.Context, slot, volume string) bool {
	isOpen := !p.Config.At("power_state").IsKnown() || !p.Config.At("ha").IsKnown() || !p.Config.At("ha.state").IsKnown()
	if isOpen || !p.Runs() || p.Plan.EndsStopped() || model.Value(p.Plan.RebootPolicy) != "never" ||
		vm.TakesDisk(slot, p.Prior.Hotplug) {
		return false
	}
	if p.Facts == nil || !slices.Contains(p.Prior.PendingChanges, slot) {
		return true
	}
	is, err := p.Facts.InForce(ctx)
	return err == nil && is.Spec.EveryDisk()[slot].Volume == volume
}

// howToUseAgain says how a configuration gets back the volume of a slot that is detached. An EFI disk and a TPM state
// attach none by its name: a new one may be a copy of it, of the type that PVE is to be told with import-from
// (qemu-server API2/Qemu.pm).
func (p warnings) howToUseAgain(slot, volume string) string {
	again := fmt.Sprintf("storage = %q, import_from = %q", volid.Storage(volume), volume)
	switch was := p.Prior; {
	case slot == "efidisk0":
		again = fmt.Sprintf("efi_disk = { %s, type = %q, pre_enrolled_keys = %t }", again,
			cmp.Or(model.Value(was.EFIDisk.Type), "2m"), model.Value(was.EFIDisk.PreEnrolledKeys))
	case slot == "tpmstate0":
		again = fmt.Sprintf("tpm_state = { %s, version = %q }", again, cmp.Or(model.Value(was.TPMState.Version), "v1.2"))
	default:
		return fmt.Sprintf("To use it again name it in a slot: imported_disk = { volume = %q }.", volume)
	}
	return "To have a copy of it again: " + again + "."
}

// warnExchanged tells of the disks that make room for another volume in their slots, or may, since it is not known yet.
// A running guest loses such a disk at once where it lets go of it.
func (p warnings) warnExchanged() {
	for _, slot := range model.SortedSlots(p.Plan.Disks) {
		was := model.Value(p.Prior.Disks[slot].Volume)
		_, attached := p.Attached[slot]
		isOpen := !p.Config.At("disks." + slot + ".imported_disk.volume").IsKnown()
		if was == "" || !isOpen && (!attached || model.Value(p.Plan.Disks[slot].Volume) == was) || p.Attaches(was) {
			continue
		}
		gets, when, stays := "gets", "", "with the VM as an unused disk, and is destroyed with the VM"
		if isOpen {
			gets, when = "may get", "Which one it gets is not known yet. If it is another one: "
		}
		switch {
		case volid.IsDevice(was):
			stays = "on its node"
		case p.Prior.Borrows(was):
			stays = "on its storage: it carries the id of another VM"
		}
		p.Diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot).AtName("imported_disk"),
			fmt.Sprintf("%s of %s %s another volume", slot, p.Prior.Thing(), gets),
			fmt.Sprintf("%s%s is detached for it and stays %s.%s", when, was, stays, p.unplugged(slot)))
	}
}

// unplugged says what a running guest loses at once where a disk leaves one of some slots, "" where it loses nothing:
// PVE does not ask whether it is mounted (qemu-server QemuServer.pm vmconfig_hotplug_pending, vm_deviceunplug).
func (p warnings) unplugged(slots ...string) string {
	if p.Runs() && slices.ContainsFunc(slots, func(slot string) bool { return vm.TakesDisk(slot, p.Prior.Hotplug) }) {
		return " PVE takes it from the running guest, mounted or not. Unmount it in the guest first."
	}
	return ""
}

// WarnForgotten tells which devices leave the state without being touched, and which disks among them a replacement
// destroys all the same. A disk whose volume goes to another slot is none.
func (p *Change) WarnForgotten(isReplaced bool) {
	disks := map[string]string{}
	forgotten := slices.DeleteFunc(slices.Clone(p.Forgotten), func(at string) bool {
		slot, isDisk := strings.CutPrefix(at, "disks.")
		volume := model.Value(p.Prior.Disks[slot].Volume)
		if isDisk && !p.Attaches(volume) {
			disks[slot] = volume
		}
		return isDisk && p.Attaches(volume)
	})
	own := OwnDisks(model.Value(p.Prior.VMID), disks)
	switch {
	case isReplaced && len(own) > 0:
		p.Diags.AddAttributeWarning(path.Root("disks"), "Disks that the configuration does not name are destroyed",
			fmt.Sprintf("%s is replaced. They are destroyed with it, and the VM that takes its place is made without "+
				"them:\n%s\n%s.", p.Prior.Thing(), strings.Join(own, "\n"), HowToKeep(model.Value(p.Prior.VMID))))
	case isReplaced:
	case p.Private.Lost:
		p.warnLost(forgotten)
	case len(forgotten) > 0:
		p.Diags.AddWarning("Devices that the configuration does not name are forgotten",
			"In state but not in the configuration, and never configured: "+strings.Join(forgotten, ", ")+
				". They leave the state and stay on the VM as they are, unless it is replaced: -replace destroys disks with "+
				"the VM. Name them in the configuration to manage them.")
	}
}

// warnLost tells what the update leaves alone since nothing tells whether it was configured.
func (p *Change) warnLost(forgotten []string) {
	text := "Terraform forgets what a provider has noted beside the state when the provider is killed during an update. " +
		"This apply notes again what is configured."
	if len(forgotten) > 0 {
		text += " Devices that are not configured, and of which it is not known whether they were: " +
			strings.Join(forgotten, ", ") +
			". They leave the state and stay on the VM, unless it is replaced: -replace destroys disks with the VM. One that " +
			"is to go must be in the configuration for one apply, and out of it for the next."
	}
	if len(p.Doubtful) > 0 {
		text += " Values of which the same is not known: " + strings.Join(p.Doubtful, ", ") +
			". They stay as they are. Where one is to be another, say so in the configuration, or change it on the server."
	}
	if waiting := p.Private.Foreign(p.Prior); len(waiting) > 0 {
		text += " Options that wait for a restart, and of which it is not known who has changed them: " +
			strings.Join(waiting, ", ") + ". No apply restarts the VM for them; its next stop and start puts them in force."
	}
	p.Diags.AddWarning("What the provider knew of "+p.Prior.Thing()+" is lost", text)
}

// OwnDisks are lines about the disks among some that carry the id of a VM, so that they go with it.
func OwnDisks(vmid int64, added map[string]string) []string {
	var lines []string
	for _, slot := range model.SortedSlots(added) {
		volume := added[slot]
		if owner, _ := volid.Owner(volume); int64(owner) == vmid {
			lines = append(lines, "  "+slot+": "+volume)
		}
	}
	return lines
}

// HowToKeep says how a disk does not go with its VM. PVE gives away none in a slot of a VM that runs (qemu-server
// API2/Qemu.pm move_vm_disk, "Cannot move disk to another VM while the source VM is running - detach first").
func HowToKeep(vmid int64) string {
	return fmt.Sprintf("To keep one, give it to another VM first: \"Reassign Disk\" in PVE's interface, or "+
		"\"qm disk move %d <slot> --target-vmid <other>\". While the VM runs, detach the disk first, or shut the VM down: "+
		"one that waits to leave its slot is unusedN then", vmid)
}

// ErrTaken is the error of a plan that would destroy such data, or exchange them.
func ErrTaken(t volumeuse.Taken) diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(path.Root("disks").AtMapKey(t.Slot).AtName("imported_disk"), t.Summary(),
		t.Detail("Nothing was touched")+".")
}

// RefuseTaken refuses an update that would exchange such data, or destroy them since their slot leaves the
// configuration. It also refuses one after which they could not be told from the VM's own any more.
func RefuseTaken(prior, planned model.Model) diag.Diagnostics {
	diags := refuseUnnamed(prior, planned)
	for _, t := range prior.Taken() {
		now, stays := planned.Disks[t.Slot]
		exchanged := now.Imported != nil && model.Value(now.Imported.Volume) != t.Own
		for _, disk := range planned.Disks { // in another slot
			exchanged = exchanged || disk.Imported != nil && model.Value(disk.Imported.Volume) == t.Held
		}
		if exchanged || !stays && model.Value(planned.RemovedDisks) == "destroy" {
			diags.Append(ErrTaken(t))
		}
	}
	return diags
}

// refuseUnnamed refuses that a slot keeps the disk of another VM and stops naming it: only the name in state shows that
// data which are moved in this VM later are that disk's.
func refuseUnnamed(prior, planned model.Model) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, slot := range model.SortedSlots(prior.Disks) {
		was, has := prior.Disks[slot].Imported, model.Value(prior.Disks[slot].Volume)
		now, stays := planned.Disks[slot]
		if !stays || now.Imported != nil || was == nil || !prior.Borrows(model.Value(was.Volume)) || !prior.Borrows(has) {
			continue
		}
		diags.AddAttributeError(path.Root("disks").AtMapKey(slot), "Cannot change "+prior.Thing(),
			fmt.Sprintf("%s has %s, which carries the id of another VM, and imported_disk is not set any more. Without it "+
				"nothing would show whose data they are once the disk is moved in this VM, and they would be destroyed with "+
				"it. Nothing was touched. Keep imported_disk, and leave out storage and size. To have another disk in %s, take "+
				"the slot out of disks in one apply, and give it the new disk in the next.", slot, has, slot))
	}
	return diags
}
