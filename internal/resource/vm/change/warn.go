package change

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
type warnings struct{ *Change }

// WarnInPlace warns of all that a change in place brings with it, and tells whether it restarts the guest.
func (p *Change) WarnInPlace(ctx context.Context) {
	if p.Config.At("disks").IsKnown() { // else the apply looks
		p.Diags.Append(RefuseTaken(p.Prior, p.Plan)...)
	}
	warnings{p}.warnResets()
	warnings{p}.warnNotBooted()
	warnings{p}.warnNewKeys()
	warnings{p}.warnRemovedDisks(ctx)
	warnings{p}.warnTakenOver()
	warnings{p}.warnEjected()
	warnings{p}.warnNewEmptyDisks(ctx)
	warnings{p}.warnNewFirmware()
	warnings{p}.refuseWaitWithoutAgent()
	restart{p}.warn(ctx)
	restart{p}.warnOfCloudInit(ctx)
	restart{p}.warnReadAtStart(ctx)
	restart{p}.warnOfLostDisks(ctx)
	warnings{p}.warnMigrationUnderHA()
	warnings{p}.warnStopByHA()
	warnings{p}.warnUnknownFirewall(ctx)
}

// WarnMarked warns of the mark of a create that an untainted VM keeps: Terraform gives an attribute in ignore_changes
// the value in state for the configured one.
func (p *Change) WarnMarked() {
	if !ownership.IsMark(model.Value(p.Plan.Description)) {
		return
	}
	p.Diags.AddAttributeWarning(path.Root("description"), p.Prior.Thing()+" still bears the mark of its own create",
		"Its create failed, and it was untainted since. As long as the mark is in its description, the VM counts as a "+
			"leftover: the next create of an equal configuration completes it, and proxmox_orphan_delete may destroy it. "+
			"ignore_changes keeps the mark. Take description out of ignore_changes for one apply.")
}

// warnTakenOver tells of devices that the state does not know and that the configuration takes over, since it names
// their slots; of disks also where that is not known yet.
func (p warnings) warnTakenOver() {
	for _, slot := range model.SortedSlots(p.Private.Others) {
		has := p.Private.Others[slot]
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
		case p.Private.IsOwnDisk(&p.Prior, slot):
			is, text = " is the disk that the VM was made with", p.ownDisk(slot, has)
		case p.Private.Made && p.Prior.Copies() && !vm.IsSlot(slot): // mostly of the source, and nothing is lost
			is, text = " is there already", has+" is in it. "+what
		default:
			text += what
		}
		p.Diags.AddAttributeWarning(at, slot+" of "+p.Prior.Thing()+is, text)
	}
}

// ownDisk says what becomes of a disk that came with a copy and is configured for the first time.
func (p warnings) ownDisk(slot, volume string) string {
	is := volume
	if size := p.Private.Sizes[volume]; size > 0 {
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
	for _, slot := range model.SortedSlots(p.Private.Drives) {
		medium := p.Private.Drives[slot]
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
		p.Diags.AddAttributeWarning(at, slot+" of "+p.Prior.Thing()+" is not empty",
			"The medium "+medium+" is in it, which the state does not know. "+what)
	}
}

// isAsPlanned reports whether a device that was added by hand has the planned settings already, so that nothing is sent
// to it. A disk is none: it is taken over.
func (p warnings) isAsPlanned(slot string) bool {
	has := p.Private.Others[slot]
	return has != "" && !vm.IsSlot(slot) && vm.MeansSame(slot, has, vm.Devices(p.Plan.Spec(false))[slot])
}

// warnResets tells of options without which a guest may not start any more, where they leave the configuration.
func (p warnings) warnResets() {
	options := []struct{ name, byDefault string }{
		{"cpu.type", "kvm64, on which newer systems such as RHEL 9 or Windows 11 do not start"},
		{"bios", "seabios, which starts no guest that was installed for OVMF"},
		{"machine", "pc (i440fx), where the guest's devices have other addresses"},
		{"scsihw", "lsi, for which a guest may have no driver"},
	}
	if vm.IsWindows(model.Value(p.Prior.OSType)) {
		options = append(options, struct{ name, byDefault string }{"ostype",
			"other, with which Windows loses its Hyper-V features and the clock in local time"})
	}
	for _, option := range options {
		steps := strings.Split(option.name, ".")
		was, is := model.StringOf(plan.At(p.State, steps...)), plan.At(p.Value, steps...)
		if was != "" && is.IsKnown() && is.IsNull() {
			p.Diags.AddAttributeWarning(path.Root(steps[0]), fmt.Sprintf("%s of %s is reset", option.name, p.Prior.Thing()),
				fmt.Sprintf("It leaves the configuration, which has set it: %s becomes PVE's default, %s. Write %s = %q to keep "+
					"it.",
					was, option.byDefault, option.name, was))
		}
	}
}

// warnNewKeys says what PVE says of certificates that it enrols (qemu-server OVMF.pm drive_change; QemuServer.pm
// check_efi_vars). The firmware measures them, so the TPM no longer gives BitLocker its key.
func (p warnings) warnNewKeys() {
	was, is := p.Prior.EFIDisk, p.Plan.EFIDisk
	isWindows := vm.IsWindows(model.Value(p.Plan.OSType)) || p.Plan.TPMState != nil
	if was == nil || is == nil || !isWindows || !strings.HasPrefix(model.Value(is.MSCert), "2023") ||
		model.Value(was.MSCert) == model.Value(is.MSCert) {
		return
	}
	p.Diags.AddAttributeWarning(path.Root("efi_disk").AtName("ms_cert"),
		p.Prior.Thing()+" gets other keys for Secure Boot",
		"PVE enrols the certificates into the EFI disk, since 9.2. A Windows with BitLocker asks for its recovery key at "+
			"the next boot then. Before the apply run manage-bde -protectors -disable <drive> in the guest for each drive with "+
			"BitLocker, and have the recovery key at hand.")
}

// warnUnknownFirewall looks at the firewall of a VM that gets its first one by the configuration: the state of such a
// VM says nothing of one that was made by hand. It refuses to change options and to remove rules, since the plan would
// show none of them, and names those of which the configuration is not known yet. Terraform hands an apply nothing of
// what its plan has read, so the update looks again and refuses the same; the plan within the apply leaves it to that.
func (p warnings) warnUnknownFirewall(ctx context.Context) {
	isFirst := p.Prior.Firewall == nil && !p.Config.IsNull("firewall")
	if p.Facts == nil || p.Acting || !isFirst || p.Diags.HasError() {
		return
	}
	has, err := p.Facts.Firewall(ctx)
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
			p.Diags.AddAttributeError(at.AtName("rules"), thing+" has firewall rules that the state does not know",
				firewall.WhyRulesStay(unknown)+".")
		}
	}
	if changed := firewall.ChangedOptions(set, want); len(changed) > 0 {
		p.Diags.AddAttributeError(at, thing+" has firewall options that the state does not know",
			firewall.WhyOptionsStay(changed)+".")
	}
	if len(open) > 0 {
		p.Diags.AddAttributeWarning(at, thing+" has a firewall that the state does not know",
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
	p.Diags.Append(c.Diags...)
}

// WarnFormer tells, at the move of a VM, what its former configuration had set and this one does not name. A key that
// is misspelt inside an object looks like that, since Terraform drops it.
func (p *Change) WarnFormer() {
	if p.Private.Former == nil {
		return
	}
	families := []string{"disks", "cdroms", "networks", "pci", "usb", "serial", "virtiofs"}
	var lines []string
	for _, s := range p.Private.Former.Settings {
		steps := strings.Split(s.Ours, ".")
		isOfDevice := slices.Contains(families, steps[0]) // of one that it leaves out another warning tells
		if !p.Config.IsNull(s.Ours) || isOfDevice && !p.Config.IsSet(strings.Join(steps[:2], ".")) {
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
	p.Diags.AddWarning("The configuration of "+p.Prior.Thing()+" leaves out what its former one had set",
		fmt.Sprintf("The %s had these set, and the configuration names none of them:\n%s\nThe VM keeps its values, but "+
			"Terraform does not enforce them, and a new VM of the same configuration is made without them. If the "+
			"configuration seems to have one, its key is misspelt: Terraform drops an unknown key inside { } without a word. "+
			"\"terraform-provider-proxmox lint\" finds it. The first apply ends this warning.",
			p.Private.Former.From, strings.Join(lines, "\n")))
}

// warnMigrationUnderHA tells of a migration that HA may undo: the node of a guest under HA is HA's to choose.
func (p warnings) warnMigrationUnderHA() {
	if model.Differ(p.Prior.Node, p.Plan.Node) && p.Plan.StaysUnderHA(p.Prior) {
		p.Diags.AddAttributeWarning(path.Root("node"), p.Prior.Thing()+" is under HA",
			fmt.Sprintf("It is migrated to %s through the HA manager, which may move it elsewhere again: a group or a rule, "+
				"a failed node, a rebalance. Then the next plan migrates it back. Leave node out, or set nodes, to follow it "+
				"instead.", *p.Plan.Node))
	}
}

// warnStopByHA tells that HA will stop a running guest. Its manager stops it hard when its time is over (pve-ha-manager
// HA/Resources/PVEVM.pm shutdown). That is a minute, whatever shutdown_timeout says, unless PVE is asked to shut the
// guest down, which passes the request on (qemu-server API2/Qemu.pm vm_shutdown). An apply first takes the entry away
// that is not planned any more.
func (p warnings) warnStopByHA() {
	if p.Plan.IsStoppedByHA(p.Prior) {
		p.Diags.AddAttributeWarning(path.Root("ha").AtName("state"), p.Prior.Thing()+" will be stopped by HA",
			fmt.Sprintf("ha.state = %q has HA's manager shut the guest down, and cut it off when it is not off after 60 s. "+
				"power_state = \"stopped\" beside it gives the guest its shutdown_timeout first.", *p.Plan.HA.State))
	}
	if p.Plan.IsShutDownByHA(p.Prior) {
		p.Diags.AddAttributeWarning(path.Root("power_state"), p.Prior.Thing()+" will be stopped by HA",
			"It is under HA, and PVE passes the shutdown on to HA's manager. That cuts the guest off when it is not off within "+
				"shutdown_timeout, and sets the state of the HA entry to \"stopped\". To have only the guest itself end its work, "+
				"take the VM out of HA, or have HA ignore it, in an apply before this one.")
	}
	isKnown := p.Config.At("ha").IsKnown() && p.Config.At("ha.state").IsKnown()
	if !isKnown && model.Value(p.Prior.Status) == "running" && !p.Plan.EndsStopped() && !p.Prior.EndsStopped() {
		p.Diags.AddAttributeWarning(path.Root("ha").AtName("state"), p.Prior.Thing()+" may be stopped by HA",
			"The state is not known yet. If it is \"stopped\" or \"disabled\", HA's manager shuts the guest down, and cuts it "+
				"off when it is not off after 60 s.")
	}
}
