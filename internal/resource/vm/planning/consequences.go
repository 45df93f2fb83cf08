package planning

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// chooseNode plans the migration of a VM that is on none of the nodes that the configuration names.
func (p *Planning) chooseNode(ctx context.Context) {
	nodes := p.Config.At("nodes")
	if !nodes.IsFullyKnown() || nodes.IsNull() || p.Prior.Node == nil || slices.Contains(p.Plan.Nodes, *p.Prior.Node) ||
		p.Machines == nil {
		return
	}
	if to := p.Machines.Place(ctx, p.Plan.Nodes); to != "" {
		p.Value, p.changed = plan.Replace(p.Value, "node", model.Text(to)), true
		p.Plan.Node = &to
	}
}

// planPendingChanges plans the restart that an earlier apply owes.
func (p *Planning) planPendingChanges() {
	if len(model.PendingRestart(p.Prior, p.Plan, p.private.Managed)) > 0 {
		p.Value, p.changed = plan.Edit(p.Value, map[string]bool{"pending_changes": true}, nil), true
	}
}

// consequences are the attributes, by their dotted paths, that other changes make unknown or null.
type consequences struct{ unknown, null map[string]bool }

// PlanConsequences plans what follows from other changes: the volume of a disk that moves, the boot order when devices
// come and go, the machine type that PVE pins for Windows.
func (p *Planning) PlanConsequences() {
	c := consequences{unknown: map[string]bool{}, null: map[string]bool{}}
	migrates := model.Differ(p.Prior.Node, p.Plan.Node) // and its local volumes get new names
	p.consequencesForDisks(c, migrates)
	p.consequencesForCloudInit(c, migrates)
	if p.Config.At("boot_order").IsNull() && p.Plan.BootOrder != nil && !model.SameDevices(p.Prior, p.Plan) {
		c.unknown["boot_order"] = true
	}
	if p.Config.At("machine").IsNull() && model.Value(p.Prior.OSType) != model.Value(p.Plan.OSType) {
		c.unknown["machine"] = true
	}
	if p.changesUUID() {
		c.unknown["uuid"] = true
	}
	p.Value = plan.Edit(p.Value, c.unknown, c.null)
}

func (p *Planning) consequencesForDisks(c consequences, migrates bool) {
	for slot, d := range p.Plan.Disks {
		was, ok := p.Prior.Disks[slot]
		if !ok || !migrates && !model.Differ(was.Storage, d.Storage) && !model.Differ(was.Format, d.Format) {
			continue
		}
		if at := "disks." + slot + ".format"; p.Config.At(at).IsNull() {
			c.unknown[at] = true
		}
		if _, attached := p.volumes.attached[slot]; !attached {
			c.unknown["disks."+slot+".volume"] = true
		}
	}
	if was, is := p.Prior.EFIDisk, p.Plan.EFIDisk; was != nil && is != nil &&
		(migrates || model.Differ(was.Storage, is.Storage)) {
		c.unknown["efi_disk.volume"] = true
		c.unknown["efi_disk.format"] = p.Config.At("efi_disk.format").IsNull()
	}
	if was, is := p.Prior.TPMState, p.Plan.TPMState; was != nil && is != nil &&
		(migrates || model.Differ(was.Storage, is.Storage)) {
		c.unknown["tpm_state.volume"] = true
	}
}

// consequencesForCloudInit sees to the three attributes that are one thing on the server, the cloud-init drive.
func (p *Planning) consequencesForCloudInit(c consequences, migrates bool) {
	was, is := p.Prior.CloudInit, p.Plan.CloudInit
	switch {
	case was == nil || is == nil:
	case is.Storage == nil:
		c.null["cloud_init.slot"], c.null["cloud_init.format"], c.null["cloud_init.volume"] = true, true, true
	case was.Storage == nil && is.Slot == nil:
		c.unknown["cloud_init.slot"], c.unknown["cloud_init.volume"] = true, true
	case was.Storage == nil || model.Differ(was.Storage, is.Storage) || model.Differ(was.Slot, is.Slot):
		c.unknown["cloud_init.volume"] = true
	}
	if was != nil && is != nil && model.Differ(was.Storage, is.Storage) && p.Config.At("cloud_init.format").IsNull() {
		c.unknown["cloud_init.format"] = true
	}
	switch {
	case is == nil:
	case migrates && is.Storage != nil:
		c.unknown["cloud_init.volume"] = true
	case is.Storage == nil && is.HasOnlyDrive() && p.Config.At("cloud_init").IsNull():
		c.null["cloud_init"] = true // the drive went, and there was nothing else
	}
}

// changesUUID reports whether the plan gives the VM another SMBIOS uuid.
func (p *Planning) changesUUID() bool {
	was, is := p.Prior.SMBIOS, p.Plan.SMBIOS
	return was != nil && is != nil && model.Differ(was.UUID, is.UUID)
}

// The machine type. PVE pins its version for Windows, "pc-q35-9.2+pve1" for "q35" (qemu-server API2/Qemu.pm, create and
// change of ostype), so that the pin is no difference.

// withPinnedMachine is a configuration with what PVE has pinned already for what it asks for.
func (p *Planning) withPinnedMachine(config tftypes.Value) tftypes.Value {
	ostype := p.Config.At("ostype")
	if ostype.IsNull() {
		ostype = plan.At(p.State, "ostype")
	}
	machine := plan.At(p.State, "machine")
	if !ostype.IsKnown() || !vm.IsWindows(model.StringOf(ostype)) || !model.IsPinned(p.Config.Text("machine"),
		model.StringOf(machine)) {
		return config
	}
	return plan.Replace(config, "machine", machine)
}

// knowMachineOfNewVM says what is known of a new VM's machine type: nothing is pinned unless it is Windows.
func (p *Planning) knowMachineOfNewVM() {
	if p.Config.At("ostype").IsKnown() && !vm.IsWindows(p.Config.Text("ostype")) && !p.Config.Copies() &&
		p.Config.At("machine").IsNull() {
		p.Value = plan.Edit(p.Value, nil, map[string]bool{"machine": true})
	}
}
