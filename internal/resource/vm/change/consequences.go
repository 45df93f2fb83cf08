package change

import (
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// PlanPendingChanges plans the restart that an earlier apply owes. It also has Terraform keep notes, which it does of
// an update only: those that were lost and are made again, and that a boot order which is the default is configured no
// more. It reports whether it plans one of them.
func (p *Change) PlanPendingChanges() bool {
	owed := model.PendingRestart(p.Prior, p.Plan, p.Private)
	if len(owed) == 0 && !p.Private.Lost && !forgetsBootOrder(p) {
		return false
	}
	unknown := map[string]bool{"pending_changes": true}
	if slices.ContainsFunc(owed, vm.IsSlot) { // a drive that leaves its slot then is an unused disk
		unknown["unused_volumes"] = true
	}
	p.Value = plan.Edit(p.Value, unknown, nil)
	return true
}

// consequences are the attributes, by their dotted paths, that other changes make unknown or null.
type consequences struct{ unknown, null map[string]bool }

// PlanConsequences plans what follows from other changes: the volume of a disk that moves, its name when the VM becomes
// a template, the boot order when devices come and go. The consequences of a change that is not known yet are not known
// either. So is the machine that PVE pins when a guest becomes a Windows, since 8.4 (qemu-server API2/Qemu.pm,
// update_vm_api). A version of the one in state counts as that one (model.WithoutPinnedMachine).
func (p *Change) PlanConsequences(grows func(volume string) bool) {
	c := consequences{unknown: map[string]bool{}, null: map[string]bool{}}
	migrates := p.Swaps("node") // and its local volumes get new names
	p.consequencesForDisks(c, migrates, grows)
	p.consequencesForCloudInit(c, migrates)
	switch isOpen := p.Config.At("boot_order").IsNull() && p.Prior.BootOrder != nil && !resetsBootOrder(p); {
	case isOpen && p.changesBootOrder():
		c.unknown["boot_order"] = !c.bootsFromMoved(p)
	case isOpen:
		c.bootsFromExchanged(p)
	}
	if p.Swaps("smbios.uuid") != Same || p.Prior.UUID == nil { // a create that failed has not read it
		c.unknown["uuid"] = true
	}
	ostype := plan.At(p.Value, "ostype")
	c.unknown["machine"] = p.Config.At("machine").IsNull() && p.Prior.Machine == nil && p.Compare("ostype") != Same &&
		(!ostype.IsKnown() || vm.IsWindows(model.StringOf(ostype)))
	c.forFirewall(p)
	p.Value = plan.Edit(p.Value, c.unknown, c.null)
}

// forFirewall leaves open the options that the configuration does not name of a firewall that is new in state: the VM
// may have one that was made by hand.
func (c consequences) forFirewall(p *Change) {
	if p.Prior.Firewall != nil || p.Config.IsNull("firewall") {
		return
	}
	options, _ := p.Config.Keys("firewall")
	for _, option := range options {
		c.unknown["firewall."+option] = p.Config.IsNull("firewall." + option)
	}
}

// changesBootOrder reports whether PVE changes the boot order by itself, or may: it takes a device that goes out of
// it, and appends a new CD-ROM drive, which that of cloud-init is not (qemu-server API2/Qemu.pm, update_vm_api). A disk
// that is wanted again while its removal waits returns to its place. An order in the old notation is one of kinds of
// devices, so each new device may be in it.
func (p *Change) changesBootOrder() bool {
	if p.hasOpenDevices() {
		return true
	}
	come, leave := p.changedDevices()
	if p.Private.LegacyBoot || p.Private.Lost {
		return len(come)+len(leave) > 0
	}
	isBooted := func(slot string) bool { return slices.Contains(p.Prior.BootOrder, slot) }
	newDrive := slices.ContainsFunc(model.SortedSlots(p.Plan.CDROMs), func(slot string) bool {
		_, was := p.Prior.CDROMs[slot]
		return !was
	})
	waits := func(option string) bool { return slices.Contains(p.Prior.PendingChanges, option) }
	return slices.ContainsFunc(leave, isBooted) || newDrive || waits("boot") && slices.ContainsFunc(come, waits)
}

func (p *Change) hasOpenDevices() bool {
	all := []string{"disks", "cdroms", "networks", "pci", "usb", "cloud_init", "cloud_init.slot"}
	return slices.ContainsFunc(all, func(at string) bool { return p.Compare(at) == Open })
}

// changedDevices are the slots of the devices that come, and of those that leave.
func (p *Change) changedDevices() (come, leave []string) {
	come, leave = model.ChangedDevices(p.Prior, p.Plan)
	if p.losesCloudInitDrive() {
		leave = append(leave, *p.Prior.CloudInit.Slot)
	}
	return come, leave
}

// losesCloudInitDrive reports whether the drive goes while its slot is still planned: the slot follows its storage.
func (p *Change) losesCloudInitDrive() bool {
	was, is := p.Prior.CloudInit, p.Plan.CloudInit
	return was != nil && was.Slot != nil && is != nil && is.Storage == nil
}

// bootsFromMoved plans the boot order with the new slots of the disks in it that change theirs, and reports whether it
// has any: PVE takes the old slot out of the order and puts the new one nowhere (qemu-server API2/Qemu.pm
// update_vm_api), so the VM would not boot.
func (consequences) bootsFromMoved(p *Change) bool {
	waits := slices.Contains(p.Prior.PendingChanges, "boot")
	if waits || p.Private.LegacyBoot || p.Private.Lost || p.hasOpenDevices() {
		return false
	}
	_, leave := p.changedDevices()
	hasMoved, order := false, []tftypes.Value{}
	for _, device := range p.Prior.BootOrder {
		if slices.Contains(leave, device) {
			was := model.Value(p.Prior.Disks[device].Volume)
			device = ""
			for slot, volume := range p.Attached {
				switch {
				case volume != was || was == "":
				case slices.Contains(p.Prior.BootOrder, slot): // which one is to boot first cannot be told
					return false
				default:
					device, hasMoved = slot, true
				}
			}
		}
		if device != "" {
			order = append(order, tftypes.NewValue(tftypes.String, device))
		}
	}
	if hasMoved {
		p.Value = plan.Replace(p.Value, "boot_order", tftypes.NewValue(plan.At(p.Value, "boot_order").Type(), order))
	}
	return hasMoved
}

// bootsFromExchanged keeps disks in their places of the boot order where they exchange their slots. PVE leaves the
// order with the slots, so the VM would boot from another disk.
func (consequences) bootsFromExchanged(p *Change) {
	if p.Private.LegacyBoot || p.Private.Lost || slices.Contains(p.Prior.PendingChanges, "boot") {
		return
	}
	to, order, hasMoved := map[string]string{}, []tftypes.Value{}, false
	for slot, volume := range p.Attached {
		for old, disk := range p.Prior.Disks {
			if old != slot && volume != "" && model.Value(disk.Volume) == volume {
				to[old] = slot
			}
		}
	}
	for _, device := range p.Prior.BootOrder {
		if slot := to[device]; slot != "" {
			if to[slot] == "" { // no exchange: the disk that was there goes
				return
			}
			device, hasMoved = slot, true
		}
		order = append(order, tftypes.NewValue(tftypes.String, device))
	}
	if hasMoved {
		p.Value = plan.Replace(p.Value, "boot_order", tftypes.NewValue(plan.At(p.Value, "boot_order").Type(), order))
	}
}

// consequencesForDisks sees to the names and formats of volumes. PVE renames each volume of a VM that becomes a
// template to base-<vmid>-disk-<n>, except those of optical drives (qemu-server QemuServer.pm, template_create).
func (p *Change) consequencesForDisks(c consequences, migrates Comparison, grows func(volume string) bool) {
	moves := func(at string) bool {
		return migrates != Same || p.Swaps(at+".storage") != Same || p.Swaps(at+".format") != Same
	}
	renamed := p.Compare("template") != Same
	for slot, disk := range p.Plan.Disks {
		at := "disks." + slot
		if _, existed := p.Prior.Disks[slot]; !existed {
			continue
		}
		if grows(model.Value(disk.Volume)) {
			c.unknown[at+".size"] = p.Config.At(at + ".size").IsNull()
		}
		c.unknown[at+".volume"] = renamed
		if moves(at) {
			c.unknown[at+".format"] = p.Config.At(at + ".format").IsNull()
			_, attached := p.Attached[slot]
			c.unknown[at+".volume"] = renamed || !attached
		}
	}
	for _, group := range []string{"efi_disk", "tpm_state"} {
		if p.Stays(group) && (renamed || moves(group)) {
			c.unknown[group+".volume"] = true
			c.unknown[group+".format"] = moves(group) && p.Config.At(group+".format").IsNull()
		}
	}
}

// consequencesForCloudInit sees to the three attributes that are one thing on the server, the cloud-init drive.
func (p *Change) consequencesForCloudInit(c consequences, migrates Comparison) {
	const volume, slot, format = "cloud_init.volume", "cloud_init.slot", "cloud_init.format"
	is, had := p.Plan.CloudInit, p.Prior.CloudInit != nil
	storage := p.Compare("cloud_init.storage")
	drive := had && p.Prior.CloudInit.Storage != nil
	switch {
	case is == nil: // it goes as a whole, or nothing of it is known
	case had && (storage == Open || !drive && is.Storage != nil): // it comes, or may go or move
		c.unknown[volume] = true
		c.unknown[slot], c.unknown[format] = p.Config.At(slot).IsNull(), p.Config.At(format).IsNull()
	case is.Storage == nil:
		if had {
			c.null[volume], c.null[slot], c.null[format] = true, true, true
		}
		c.null["cloud_init"] = is.HasOnlyDrive() && p.Config.At("cloud_init").IsNull() // nothing is left of it
	case migrates != Same, had && storage != Same, had && p.Swaps(slot) != Same, had && p.Swaps(format) != Same:
		c.unknown[volume] = true
		c.unknown[format] = storage != Same && p.Config.At(format).IsNull()
	}
}

// The machine type. PVE pins its version for Windows, "pc-q35-9.2+pve1" for "q35" (qemu-server API2/Qemu.pm, create and
// change of ostype), so that the pin is no difference.

// WithPinnedMachine is a configuration with the machine type that PVE has pinned already for the configured one.
func (p *Change) WithPinnedMachine(config tftypes.Value) tftypes.Value {
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

// KnowNewVM plans what is known of a new VM. PVE pins no machine type unless it is Windows. One that is made from
// scratch has no detached volumes, and its network devices are of the model that the provider chooses.
func (p *Change) KnowNewVM() {
	if p.Config.At("ostype").IsKnown() && !vm.IsWindows(p.Config.Text("ostype")) && !p.Config.Copies() &&
		p.Config.At("machine").IsNull() {
		p.Value = plan.Edit(p.Value, nil, map[string]bool{"machine": true})
	}
	if p.Config.Copies() {
		return
	}
	p.Value = plan.Edit(p.Value, nil, map[string]bool{"unused_volumes": true})
	networks := map[string]tftypes.Value{}
	if all := plan.At(p.Value, "networks"); !all.IsKnown() || all.IsNull() || all.As(&networks) != nil {
		return
	}
	networks = maps.Clone(networks)
	for slot, nic := range networks {
		fields := map[string]tftypes.Value{}
		if nic.IsKnown() && !nic.IsNull() && p.Config.IsNull("networks."+slot+".model") && nic.As(&fields) == nil {
			fields = maps.Clone(fields)
			fields["model"] = model.Text(vm.DefaultNICModel)
			networks[slot] = tftypes.NewValue(nic.Type(), fields)
		}
	}
	p.Value = plan.Replace(p.Value, "networks", tftypes.NewValue(plan.At(p.Value, "networks").Type(), networks))
}
