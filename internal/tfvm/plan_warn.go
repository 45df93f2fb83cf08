package tfvm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// warnRemovedDisks tells of every drive that leaves the VM, with what becomes of its volume.
func (p *planning) warnRemovedDisks() {
	if !p.config.at("disks").IsKnown() {
		p.diags.AddAttributeWarning(path.Root("disks"), "The disks of "+p.prior.thing()+" are not known yet",
			"They follow from something else that this apply makes or changes. Whether a disk leaves the VM, only the apply shows; "+
				"what becomes of its volume is up to removed_disks then.")
	}
	for _, slot := range sortedSlots(p.prior.Disks) {
		disk := p.prior.Disks[slot]
		if p.leaves(slot) && !p.volumes.attaches(value(disk.Volume)) {
			p.warnRemovedVolume(path.Root("disks").AtMapKey(slot), slot, disk.Volume, disk.Size)
		}
	}
	if p.prior.EFIDisk != nil && p.plan.EFIDisk == nil {
		p.warnRemovedVolume(path.Root("efi_disk"), "efidisk0", p.prior.EFIDisk.Volume, nil)
	}
	if p.prior.TPMState != nil && p.plan.TPMState == nil {
		p.warnRemovedVolume(path.Root("tpm_state"), "tpmstate0", p.prior.TPMState.Volume, nil)
	}
	for _, slot := range sortedSlots(p.plan.Disks) {
		now, was := value(p.plan.Disks[slot].Volume), value(p.prior.Disks[slot].Volume)
		if _, attached := p.volumes.attached[slot]; attached && was != "" && now != was && !p.volumes.attaches(was) {
			stays := "with the VM"
			if p.prior.borrows(was) {
				stays = "on its storage: it carries the id of another VM"
			}
			p.diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot).AtName("imported_disk"),
				fmt.Sprintf("%s of %s gets another volume", slot, p.prior.thing()),
				fmt.Sprintf("%s is detached for it and stays %s.", was, stays))
		}
	}
}

func (p *planning) warnRemovedVolume(at path.Path, slot string, volume, size *string) {
	if volume == nil {
		return
	}
	name, what := *volume, *volume
	if size != nil {
		what += " (" + *size + ")"
	}
	detached := fmt.Sprintf("%s of %s is detached", slot, p.prior.thing())
	owner, _ := vm.VolumeOwner(name)
	switch {
	case int64(owner) != value(p.prior.VMID):
		p.diags.AddAttributeWarning(at, detached, fmt.Sprintf("Its volume %s carries the id of another VM. It is never destroyed: "+
			"the VM lets go of it, and it stays on its storage.", what))
	case value(p.plan.RemovedDisks) == "destroy":
		p.diags.AddAttributeWarning(at, fmt.Sprintf("%s of %s is destroyed with its data", slot, p.prior.thing()),
			fmt.Sprintf("The slot leaves the configuration, and removed_disks = \"destroy\": volume %s is destroyed in the apply, for good.", what))
	default:
		p.diags.AddAttributeWarning(at, detached, fmt.Sprintf("Its volume %s stays with the VM as an unused disk, and is destroyed with the VM. "+
			"To use it again name it in a slot: imported_disk = { volume = %q }. removed_disks = \"destroy\" destroys such volumes "+
			"instead.", what, name))
	}
}

// warnNewEmptyDisks tells where a new, empty disk is to be made although one like it leaves another slot: most likely the
// disk was to be moved.
func (p *planning) warnNewEmptyDisks() {
	for _, slot := range sortedSlots(p.plan.Disks) {
		at := "disks." + slot
		if _, existed := p.prior.Disks[slot]; existed || !p.config.at(at+".imported_disk").IsNull() || !p.config.at(at+".import_from").IsNull() {
			continue
		}
		for _, old := range sortedSlots(p.prior.Disks) {
			if !p.leavesLike(old, p.plan.Disks[slot]) {
				continue
			}
			volume := *p.prior.Disks[old].Volume
			p.diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot), fmt.Sprintf("%s of %s will be a new, empty disk", slot, p.prior.thing()),
				fmt.Sprintf("%s leaves the configuration, with %s on the same storage and of the same size. "+
					"To move that disk with its data from %s to %s instead, name its volume: disks.%s.imported_disk = { volume = %q }.",
					old, volume, old, slot, slot, volume))
			break
		}
	}
}

// leaves reports whether it is known that a disk in state leaves the VM.
func (p *planning) leaves(slot string) bool {
	_, stays := p.plan.Disks[slot]
	return !stays && p.config.at("disks").IsKnown() && p.managed("disks."+slot)
}

// leavesLike reports whether the disk in a slot leaves the VM and is of the storage and size of another one.
func (p *planning) leavesLike(slot string, is diskModel) bool {
	was := p.prior.Disks[slot]
	return p.leaves(slot) && was.Volume != nil && !p.volumes.attaches(*was.Volume) &&
		value(was.Storage) == value(is.Storage) && was.Size != nil && is.Size != nil && sameSize(text(*was.Size), text(*is.Size))
}

// warnResets tells of options without which a guest may not start any more, where they leave the configuration.
func (p *planning) warnResets() {
	for _, option := range []struct{ name, byDefault string }{
		{"bios", "seabios, which starts no guest that was installed for OVMF"},
		{"machine", "pc (i440fx), where the guest's devices have other addresses"},
		{"scsihw", "lsi, for which a guest may have no driver"},
	} {
		was, is := stringOf(tfplan.At(p.state, option.name)), tfplan.At(p.value, option.name)
		if was != "" && is.IsKnown() && is.IsNull() {
			p.diags.AddAttributeWarning(path.Root(option.name), fmt.Sprintf("%s of %s is reset", option.name, p.prior.thing()),
				fmt.Sprintf("It leaves the configuration, which has set it: %s becomes PVE's default, %s. Write %s = %q to keep it.",
					was, option.byDefault, option.name, was))
		}
	}
}

// warnRestart tells before the running VM is restarted, where the plan can know it. What PVE takes from a running guest
// depends on its hotplug setting and its devices, so not every restart is foreseen; PVE decides.
func (p *planning) warnRestart() {
	if value(p.prior.Status) != "running" || p.plan.endsStopped() {
		return
	}
	options := vm.NeedsRestart(p.before.spec(false), p.after.spec(false))
	options = append(options, pendingRestart(p.prior, p.plan, p.private.Managed)...)
	if len(options) == 0 {
		return
	}
	slices.Sort(options)
	what := strings.Join(slices.Compact(options), ", ")
	policy := value(p.plan.RebootPolicy)
	if policy == "never" {
		p.diags.AddAttributeWarning(path.Root("reboot_policy"), p.prior.thing()+" keeps running with the old values",
			fmt.Sprintf("%s takes effect at the next stop and start of the VM, which reboot_policy = \"never\" leaves to you.", what))
		return
	}
	disobedient := "a guest that does not obey keeps running, and the apply fails"
	if policy == "force" {
		disobedient = "a guest that does not obey is cut off"
	}
	p.diags.AddWarning(p.prior.thing()+" will be restarted", fmt.Sprintf("PVE changes %s on a running VM at its restart only. "+
		"The apply asks the guest to restart; %s. Set reboot_policy = \"never\" to leave it running.", what, disobedient))
}

// warnMigrationUnderHA tells of a migration that HA may undo: the node of a guest under HA is HA's to choose.
func (p *planning) warnMigrationUnderHA() {
	if differ(p.prior.Node, p.plan.Node) && p.prior.HA != nil && p.plan.HA != nil {
		p.diags.AddAttributeWarning(path.Root("node"), p.prior.thing()+" is under HA",
			fmt.Sprintf("It is migrated to %s through the HA manager, which may move it elsewhere again: a group or a rule, "+
				"a failed node, a rebalance. Then the next plan migrates it back. Leave node out, or set nodes, to follow it instead.", *p.plan.Node))
	}
}

// refuseWaitWithoutAgent refuses to wait for the agent of a VM that exists and has none.
func (p *planning) refuseWaitWithoutAgent() {
	what := p.config.waitedFor()
	if what == "" || !p.config.at("agent.enabled").IsKnown() || p.plan.Agent != nil && value(p.plan.Agent.Enabled) {
		return
	}
	c := &validation{}
	c.refuse(what, waitNeedsAgent)
	p.diags.Append(c.diags...)
}
