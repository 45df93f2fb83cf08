package tfvm

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// chooseNode plans the migration of a VM that is on none of the nodes that the configuration names.
func (p *planning) chooseNode(ctx context.Context) {
	nodes := p.config.at("nodes")
	if !nodes.IsFullyKnown() || nodes.IsNull() || p.prior.Node == nil || slices.Contains(p.plan.Nodes, *p.prior.Node) || p.r.machines == nil {
		return
	}
	if to := p.r.machines.Place(ctx, p.plan.Nodes); to != "" {
		p.value, p.changed = tfplan.Replace(p.value, "node", text(to)), true
		p.plan.Node = &to
	}
}

// planPendingChanges plans the restart that an earlier apply owes.
func (p *planning) planPendingChanges() {
	if len(pendingRestart(p.prior, p.plan, p.private.Managed)) > 0 {
		p.value, p.changed = tfplan.Edit(p.value, map[string]bool{"pending_changes": true}, nil), true
	}
}

// consequences are the attributes, by their dotted paths, that other changes make unknown or null.
type consequences struct{ unknown, null map[string]bool }

// planConsequences plans what follows from other changes: the volume of a disk that moves, the boot order when devices come
// and go, the machine type that PVE pins for Windows.
func (p *planning) planConsequences() {
	c := consequences{unknown: map[string]bool{}, null: map[string]bool{}}
	migrates := differ(p.prior.Node, p.plan.Node) // and its local volumes get new names
	p.consequencesForDisks(c, migrates)
	p.consequencesForCloudInit(c, migrates)
	if p.config.at("boot_order").IsNull() && p.plan.BootOrder != nil && !sameDevices(p.prior, p.plan) {
		c.unknown["boot_order"] = true
	}
	if p.config.at("machine").IsNull() && value(p.prior.OSType) != value(p.plan.OSType) {
		c.unknown["machine"] = true
	}
	if p.changesUUID() {
		c.unknown["uuid"] = true
	}
	p.value = tfplan.Edit(p.value, c.unknown, c.null)
}

func (p *planning) consequencesForDisks(c consequences, migrates bool) {
	for slot, d := range p.plan.Disks {
		was, ok := p.prior.Disks[slot]
		if !ok || !migrates && !differ(was.Storage, d.Storage) && !differ(was.Format, d.Format) {
			continue
		}
		if at := "disks." + slot + ".format"; p.config.at(at).IsNull() {
			c.unknown[at] = true
		}
		if _, attached := p.volumes.attached[slot]; !attached {
			c.unknown["disks."+slot+".volume"] = true
		}
	}
	if was, is := p.prior.EFIDisk, p.plan.EFIDisk; was != nil && is != nil && (migrates || differ(was.Storage, is.Storage)) {
		c.unknown["efi_disk.volume"] = true
		c.unknown["efi_disk.format"] = p.config.at("efi_disk.format").IsNull()
	}
	if was, is := p.prior.TPMState, p.plan.TPMState; was != nil && is != nil && (migrates || differ(was.Storage, is.Storage)) {
		c.unknown["tpm_state.volume"] = true
	}
}

// consequencesForCloudInit sees to the three attributes that are one thing on the server, the cloud-init drive.
func (p *planning) consequencesForCloudInit(c consequences, migrates bool) {
	was, is := p.prior.CloudInit, p.plan.CloudInit
	switch {
	case was == nil || is == nil:
	case is.Storage == nil:
		c.null["cloud_init.slot"], c.null["cloud_init.format"], c.null["cloud_init.volume"] = true, true, true
	case was.Storage == nil && is.Slot == nil:
		c.unknown["cloud_init.slot"], c.unknown["cloud_init.volume"] = true, true
	case was.Storage == nil || differ(was.Storage, is.Storage) || differ(was.Slot, is.Slot):
		c.unknown["cloud_init.volume"] = true
	}
	if was != nil && is != nil && differ(was.Storage, is.Storage) && p.config.at("cloud_init.format").IsNull() {
		c.unknown["cloud_init.format"] = true
	}
	switch {
	case is == nil:
	case migrates && is.Storage != nil:
		c.unknown["cloud_init.volume"] = true
	case is.Storage == nil && is.hasOnlyDrive() && p.config.at("cloud_init").IsNull():
		c.null["cloud_init"] = true // the drive went, and there was nothing else
	}
}

// changesUUID reports whether the plan gives the VM another SMBIOS uuid.
func (p *planning) changesUUID() bool {
	was, is := p.prior.SMBIOS, p.plan.SMBIOS
	return was != nil && is != nil && differ(was.UUID, is.UUID)
}

// hasOnlyDrive reports whether nothing is said but for the drive itself.
func (c *cloudInitModel) hasOnlyDrive() bool {
	return c.Type == nil && c.User == nil && c.SSHKeys == nil && c.Nameservers == nil && c.SearchDomain == nil &&
		c.Upgrade == nil && c.Addresses == nil && c.Custom == nil
}

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

// slots are those that a boot order can name.
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

// The machine type. PVE pins its version for Windows, "pc-q35-9.2+pve1" for "q35" (qemu-server API2/Qemu.pm, create and
// change of ostype), so that the pin is no difference.

// withoutPinnedMachine is what the server says with the machine type as it is wished for.
func withoutPinnedMachine(wish, server tftypes.Value) tftypes.Value {
	machine := tfplan.At(wish, "machine")
	if !vm.IsWindows(stringOf(tfplan.At(server, "ostype"))) || !isPinned(stringOf(machine), stringOf(tfplan.At(server, "machine"))) {
		return server
	}
	return tfplan.Replace(server, "machine", machine)
}

// withPinnedMachine is a configuration with what PVE has pinned already for what it asks for.
func (p *planning) withPinnedMachine(config tftypes.Value) tftypes.Value {
	ostype := p.config.at("ostype")
	if ostype.IsNull() {
		ostype = tfplan.At(p.state, "ostype")
	}
	machine := tfplan.At(p.state, "machine")
	if !ostype.IsKnown() || !vm.IsWindows(stringOf(ostype)) || !isPinned(p.config.text("machine"), stringOf(machine)) {
		return config
	}
	return tfplan.Replace(config, "machine", machine)
}

// knowMachineOfNewVM says what is known of a new VM's machine type: nothing is pinned unless it is Windows.
func (p *planning) knowMachineOfNewVM() {
	if p.config.at("ostype").IsKnown() && !vm.IsWindows(p.config.text("ostype")) && !p.config.copies() &&
		p.config.at("machine").IsNull() {
		p.value = tfplan.Edit(p.value, nil, map[string]bool{"machine": true})
	}
}

// isPinned reports whether a machine type is a version of the one that is wished for.
func isPinned(wish, machine string) bool {
	return wish == "q35" && strings.HasPrefix(machine, "pc-q35-") || wish == "pc" && strings.HasPrefix(machine, "pc-i440fx-")
}
