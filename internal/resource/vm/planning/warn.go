package planning

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/validation"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// warnings are the warnings about a change of a VM.
type warnings struct{ *Planning }

// warnMarked warns of the mark of a create that an untainted VM keeps: Terraform gives an attribute in ignore_changes
// the value in state for the configured one.
func (p warnings) warnMarked() {
	if !ownership.IsMark(model.Value(p.Plan.Description)) {
		return
	}
	p.diags.AddAttributeWarning(path.Root("description"), p.Prior.Thing()+" still bears the mark of its own create",
		"Its create failed, and it was untainted since. As long as the mark is in its description, the VM counts as a "+
			"leftover: the next create of an equal configuration completes it, and proxmox_orphan_delete may destroy it. "+
			"ignore_changes keeps the mark. Take description out of ignore_changes for one apply.")
}

// warnRemovedDisks tells of every drive that leaves the VM, with what becomes of its volume.
func (p warnings) warnRemovedDisks(ctx context.Context) {
	for _, of := range [][2]string{{"disks", "The disks of %s are"}, {"efi_disk", "The EFI disk of %s is"},
		{"tpm_state", "The TPM state of %s is"}} {
		at := of[0]
		if p.Config.At(at).IsKnown() || at != "disks" && !p.delta().was(at) {
			continue
		}
		loses := ""
		if at == "disks" {
			loses = p.unplugged(model.SortedSlots(p.Prior.Disks)...)
		}
		p.diags.AddAttributeWarning(path.Root(at), fmt.Sprintf(of[1], p.Prior.Thing())+" not known yet",
			"It follows from something else that this apply makes or changes. Whether a disk leaves the VM, only the apply "+
				"shows. Its volume is destroyed then, for good, if removed_disks is \"destroy\", and stays with the VM otherwise."+
				loses)
	}
	for _, slot := range model.SortedSlots(p.Prior.Disks) {
		disk := p.Prior.Disks[slot]
		if p.leaves(slot) && !p.volumes.attaches(model.Value(disk.Volume)) {
			p.warnRemovedVolume(ctx, path.Root("disks").AtMapKey(slot), slot, disk.Volume, disk.Size)
		}
	}
	if p.delta().goes("efi_disk") {
		p.warnRemovedVolume(ctx, path.Root("efi_disk"), "efidisk0", p.Prior.EFIDisk.Volume, nil)
	}
	if p.delta().goes("tpm_state") {
		p.warnRemovedVolume(ctx, path.Root("tpm_state"), "tpmstate0", p.Prior.TPMState.Volume, nil)
	}
	p.warnExchanged()
}

// warnTakenOver tells of devices that the state does not know and that the configuration takes over, since it names
// their slots; of disks also where that is not known yet.
func (p warnings) warnTakenOver() {
	for _, slot := range model.SortedSlots(p.private.Others) {
		has := p.private.Others[slot]
		a, _ := vm.AttributeOf(slot)
		name := strings.TrimSuffix(a.Path, ".*")
		dotted, at := name+"."+slot, path.Root(name).AtMapKey(slot)
		isNew := plan.At(p.State, strings.Split(dotted, ".")...).IsNull()
		isOpen := !p.Config.At(dotted).IsKnown()
		if has == "" || !isNew || p.Config.IsNull(dotted) || isOpen && !vm.IsSlot(slot) || p.isAsPlanned(slot) {
			continue
		}
		what := "The apply adds no new device, but gives this one the planned settings."
		if vm.IsSlot(slot) {
			what = "The apply makes no new disk, but takes this one over with its content."
		}
		is, text := " is not empty", has+" is in it, which the state does not know. "
		switch {
		case isOpen:
			text += dotted + " is not known yet. If it is configured: " + what
		case p.private.IsOwnDisk(&p.Prior, slot):
			is, text = " is the disk that the VM was made with", p.ownDisk(slot, has)
		case p.private.Made && p.Prior.Copies() && !vm.IsSlot(slot): // mostly of the source, and nothing is lost
			is, text = " is there already", has+" is in it. "+what
		default:
			text += what
		}
		p.diags.AddAttributeWarning(at, slot+" of "+p.Prior.Thing()+is, text)
	}
}

// ownDisk says what becomes of a disk that came with a copy and is configured for the first time.
func (p warnings) ownDisk(slot, volume string) string {
	is := volume
	if size := p.private.Sizes[volume]; size > 0 {
		is += " (" + property.FormatSize(size) + ")"
	}
	if storage := p.Config.Text("disks." + slot + ".storage"); storage != "" && storage != volid.Storage(volume) {
		return fmt.Sprintf("%s keeps its content, moves to %s and gets the planned settings.", is, storage)
	}
	return is + " keeps its content and gets the planned settings."
}

// warnEjected tells of media that the state does not know, in drives whose slots the configuration names.
func (p warnings) warnEjected() {
	was, is := refusals(p).opticalDrives(p.Prior), refusals(p).opticalDrives(p.Plan)
	for slot := range p.Plan.Disks {
		is[slot] = path.Root("disks").AtMapKey(slot)
	}
	for _, slot := range model.SortedSlots(p.private.Drives) {
		medium := p.private.Drives[slot]
		at, planned := is[slot]
		_, known := was[slot]
		drive, same := p.Plan.CDROMs[slot]
		if !planned || known || medium == model.NoMedium || same && model.Value(drive.File) == medium {
			continue
		}
		what := "The apply ejects it, and puts another drive in the place of this one."
		if same {
			what = "The apply makes no new drive, but ejects it from this one."
		}
		p.diags.AddAttributeWarning(at, slot+" of "+p.Prior.Thing()+" is not empty",
			"The medium "+medium+" is in it, which the state does not know. "+what)
	}
}

// isAsPlanned reports whether a device that was added by hand has the planned settings already, so that nothing is sent
// to it. A disk is none: it is taken over.
func (p warnings) isAsPlanned(slot string) bool {
	has := p.private.Others[slot]
	return has != "" && !vm.IsSlot(slot) && vm.MeansSame(slot, has, vm.Devices(p.Plan.Spec(false))[slot])
}

// warnAddedDisks names the disks that a destroy removes although no configuration has made them: what a third party has
// given the VM, or an earlier plan has forgotten. The plan shows none of them, since the state has none.
func (p warnings) warnAddedDisks() {
	p.warnDisksOf(model.Value(p.Prior.VMID), p.Prior.Thing(), p.private.Added,
		"The plan shows none of them, and they are destroyed with it")
}

// warnDisksOf warns once for each VM.
func (p warnings) warnDisksOf(vmid int64, thing string, added map[string]string, shows string) {
	lines := ownDisks(vmid, added)
	if len(lines) == 0 || !p.Run.IsFirstToTell(vmid) {
		return
	}
	p.diags.AddAttributeWarning(path.Root("disks"), thing+" has disks that the state does not have",
		fmt.Sprintf("%s:\n%s\n%s.", shows, strings.Join(lines, "\n"), howToKeep(vmid)))
}

// ownDisks are lines about the disks among some that carry the id of a VM, so that they go with it.
func ownDisks(vmid int64, added map[string]string) []string {
	var lines []string
	for _, slot := range model.SortedSlots(added) {
		volume := added[slot]
		if owner, _ := volid.Owner(volume); int64(owner) == vmid {
			lines = append(lines, "  "+slot+": "+volume)
		}
	}
	return lines
}

// howToKeep says how a disk does not go with its VM. PVE gives away none in a slot of a VM that runs (qemu-server
// API2/Qemu.pm move_vm_disk, "Cannot move disk to another VM while the source VM is running - detach first").
func howToKeep(vmid int64) string {
	return fmt.Sprintf("To keep one, give it to another VM first: \"Reassign Disk\" in PVE's interface, or "+
		"\"qm disk move %d <slot> --target-vmid <other>\". While the VM runs, detach the disk first, or shut the VM down: "+
		"one that waits to leave its slot is unusedN then", vmid)
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
		p.diags.AddAttributeWarning(at, detached, fmt.Sprintf("Its volume %s carries the id of another VM. This one lets go "+
			"of it and does not destroy it. Where its proxmox_disk is destroyed in the same apply, that comes first and is "+
			"refused, unless an earlier apply has seen lifecycle { create_before_destroy = true } in it.%s", what, loses))
	case !p.Config.At("removed_disks").IsKnown():
		p.diags.AddAttributeWarning(at, fmt.Sprintf("%s of %s may be destroyed with its data", slot, p.Prior.Thing()),
			fmt.Sprintf("The slot leaves the configuration, and removed_disks is not known yet. If it is \"destroy\", volume "+
				"%s is destroyed in the apply, for good; otherwise it stays with the VM as an unused disk.%s", what, loses))
	case model.Value(p.Plan.RemovedDisks) == "destroy" && p.keepsUntilStop(ctx, slot, name):
		p.diags.AddAttributeWarning(at, fmt.Sprintf("%s of %s is not destroyed", slot, p.Prior.Thing()),
			fmt.Sprintf("The slot leaves the configuration, and reboot_policy = \"never\" leaves the VM running: PVE takes "+
				"volume %s out of %s at its next stop only. It is an unused disk of the VM from then on, and is destroyed with "+
				"the VM.%s", what, slot, boots))
	case model.Value(p.Plan.RemovedDisks) == "destroy":
		p.diags.AddAttributeWarning(at, fmt.Sprintf("%s of %s is destroyed with its data", slot, p.Prior.Thing()),
			fmt.Sprintf("The slot leaves the configuration, and removed_disks = \"destroy\": volume %s is destroyed in the "+
				"apply, for good.%s", what, loses))
	default:
		p.diags.AddAttributeWarning(at, detached, fmt.Sprintf("Its volume %s stays with the VM as an unused disk, and is "+
			"destroyed with the VM. %s removed_disks = \"destroy\" destroys such volumes instead.%s", what,
			p.howToUseAgain(slot, name), loses))
	}
}

// keepsUntilStop reports whether the guest keeps a disk in its slot after the apply, since it is not restarted
// (qemu-server QemuServer.pm vmconfig_hotplug_pending). The update keeps to it: update.Request.keepsUntilStop. A disk
// that waits for its place is in no guest, and PVE notes it as unused at once (API2/Qemu.pm update_vm_api).
func (p warnings) keepsUntilStop(ctx context.Context, slot, volume string) bool {
	isOpen := !p.Config.At("power_state").IsKnown() || !p.Config.At("ha").IsKnown() || !p.Config.At("ha.state").IsKnown()
	if isOpen || !p.runs() || p.Plan.EndsStopped() || model.Value(p.Plan.RebootPolicy) != "never" ||
		vm.TakesDisk(slot, p.Prior.Hotplug) {
		return false
	}
	if p.Machines == nil || !slices.Contains(p.Prior.PendingChanges, slot) {
		return true
	}
	is, err := p.volumes.inForce(ctx)
	return err == nil && is.Spec.EveryDisk()[slot].Volume == volume
}

// leaves reports whether it is known that a disk in state leaves the VM.
func (p *Planning) leaves(slot string) bool {
	_, stays := p.Plan.Disks[slot]
	return !stays && p.Config.At("disks").IsKnown() && p.managed("disks."+slot)
}

// warnResets tells of options without which a guest may not start any more, where they leave the configuration.
func (p warnings) warnResets() {
	for _, option := range []struct{ name, byDefault string }{
		{"bios", "seabios, which starts no guest that was installed for OVMF"},
		{"machine", "pc (i440fx), where the guest's devices have other addresses"},
		{"scsihw", "lsi, for which a guest may have no driver"},
	} {
		was, is := model.StringOf(plan.At(p.State, option.name)), plan.At(p.Value, option.name)
		if was != "" && is.IsKnown() && is.IsNull() {
			p.diags.AddAttributeWarning(path.Root(option.name), fmt.Sprintf("%s of %s is reset", option.name, p.Prior.Thing()),
				fmt.Sprintf("It leaves the configuration, which has set it: %s becomes PVE's default, %s. Write %s = %q to keep "+
					"it.",
					was, option.byDefault, option.name, was))
		}
	}
}

// warnUnknownFirewall looks at the firewall of a VM that gets its first one by the configuration: the state of such a
// VM says nothing of one that was made by hand. It refuses to change options and to remove rules, since the plan would
// show none of them, and names those of which the configuration is not known yet. Terraform hands an apply nothing of
// what its plan has read, so the update looks again and refuses the same; the plan within the apply leaves it to that.
func (p warnings) warnUnknownFirewall(ctx context.Context) {
	isFirst := p.Prior.Firewall == nil && !p.Config.IsNull("firewall")
	if p.Machines == nil || p.Run.Acts() || !isFirst || p.diags.HasError() {
		return
	}
	has, err := p.Machines.ReadFirewall(ctx, model.Value(p.Prior.Node), int(model.Value(p.Prior.VMID)))
	if err != nil {
		return
	}
	want, at, thing := p.Plan.Firewall, path.Root("firewall"), p.Prior.Thing()
	rules, set := p.Config.At("firewall.rules"), firewall.OptionsSet(has)
	open := slices.DeleteFunc(firewall.OtherOptions(set, want), func(line string) bool {
		option, _, _ := strings.Cut(strings.Replace(line, "enable:", "enabled:", 1), ":")
		return p.Config.At("firewall." + option).IsKnown()
	})
	if !rules.IsFullyKnown() {
		open = append(open, firewall.UnknownRules(has, nil)...)
	} else if !rules.IsNull() {
		if unknown := firewall.UnknownRules(has, want.Rules); len(unknown) > 0 {
			p.diags.AddAttributeError(at.AtName("rules"), thing+" has firewall rules that the state does not know",
				firewall.WhyRulesStay(unknown)+".")
		}
	}
	if changed := firewall.ChangedOptions(set, want); len(changed) > 0 {
		p.diags.AddAttributeError(at, thing+" has firewall options that the state does not know",
			firewall.WhyOptionsStay(changed)+".")
	}
	if len(open) > 0 {
		p.diags.AddAttributeWarning(at, thing+" has a firewall that the state does not know",
			fmt.Sprintf("The configuration of these, in PVE's names, is not known yet:\n  %s\nThe apply leaves them as they "+
				"are, and fails where the configuration has others.", strings.Join(open, "\n  ")))
	}
}

// refuseWaitWithoutAgent refuses to wait for the agent of a VM that exists and has none.
func (p warnings) refuseWaitWithoutAgent() {
	what := p.Config.WaitedFor()
	if what == "" || !p.Config.At("agent.enabled").IsKnown() || p.Plan.Agent != nil && model.Value(p.Plan.Agent.Enabled) {
		return
	}
	c := &validation.Validation{}
	c.Refuse(what, validation.WaitNeedsAgent)
	p.diags.Append(c.Diags...)
}

// warnFormer tells, at the move of a VM, what its former configuration had set and this one does not name. A key that
// is misspelt inside an object looks like that, since Terraform drops it.
func (p warnings) warnFormer() {
	if p.private.Former == nil {
		return
	}
	var lines []string
	for _, s := range p.private.Former.Settings {
		if !p.Config.IsNull(s.Ours) || !p.isDeviceConfigured(s.Ours) {
			continue
		}
		line := fmt.Sprintf("  %s, here %s", s.Theirs, s.Ours)
		if s.Value != "" {
			line = fmt.Sprintf("  %s = %s, here %s", s.Theirs, s.Value, s.Ours)
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return
	}
	p.diags.AddWarning("The configuration of "+p.Prior.Thing()+" leaves out what its former one had set",
		fmt.Sprintf("The %s had these set, and the configuration names none of them:\n%s\nThe VM keeps its values, but "+
			"Terraform does not enforce them, and a new VM of the same configuration is made without them. If the "+
			"configuration seems to have one, its key is misspelt: Terraform drops an unknown key inside { } without a word. "+
			"\"terraform-provider-proxmox lint\" finds it. The first apply ends this warning.",
			p.private.Former.From, strings.Join(lines, "\n")))
}

// isDeviceConfigured reports whether the configuration names the device that an attribute belongs to. Other warnings
// tell of devices that it leaves out.
func (p warnings) isDeviceConfigured(at string) bool {
	steps := strings.Split(at, ".")
	families := []string{"disks", "cdroms", "networks", "pci", "usb", "serial", "virtiofs"}
	return !slices.Contains(families, steps[0]) || p.Config.IsSet(strings.Join(steps[:2], "."))
}
