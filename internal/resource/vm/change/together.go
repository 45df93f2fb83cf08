package change

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/validation"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Some values do not go together, and some of them the configuration does not name: the VM has them from its source, or
// from another tool. PVE refuses them, or stores them and does not start the VM any more, also in a restart.

// RefuseCombinations refuses such values where the plan sets one of them.
func (p *Change) RefuseCombinations() {
	c := &validation.Validation{Configuration: model.Configuration{Raw: p.Value}, Written: &p.Config}
	for _, source := range []string{"clone", "restore"} { // what they decide is in the plan
		c.Raw = plan.Replace(c.Raw, source, tftypes.NewValue(plan.At(c.Raw, source).Type(), nil))
	}
	if p.sets("memory.size") && c.IsSet("memory.size") || p.sets("memory.balloon") {
		c.Memory() // PVE compares what it is sent
	}
	c.Together(p.sets, refusals{p}.starts())
	p.Diags.Append(c.Diags...)
	if p.sets("cpu.vcpus") && p.Runs() && slices.Contains(p.Prior.Hotplug, "cpu") {
		refusals{p}.refusePluggingVCPUs()
	}
}

// refusePluggingVCPUs refuses to plug more of them than the running guest has processors, also where the same plan
// gives it more at its restart (qemu-server QemuServer.pm qemu_cpu_hotplug).
func (p refusals) refusePluggingVCPUs() {
	is, was := model.Value(p.Plan.CPU), model.Value(p.Prior.CPU)
	most := max(model.Value(was.Sockets), 1) * max(model.Value(was.Cores), 1)
	if vcpus := model.Value(is.VCPUs); vcpus > most {
		p.Refuse(path.Root("cpu").AtName("vcpus"), fmt.Sprintf("The VM runs with %d processors, and PVE plugs no more than "+
			"that. Change cpu.sockets or cpu.cores in an apply of its own first, or stop the VM, with power_state = "+
			"\"stopped\".", most))
	}
}

// sets reports whether the plan changes a value, or the configuration of a new VM names it.
func (p *Change) sets(at string) bool {
	if p.Creating() {
		return p.Config.IsSet(at)
	}
	return p.Compare(at) == Other
}

// starts reports whether the apply certainly starts or restarts the guest.
func (p refusals) starts() bool {
	for _, at := range []string{"power_state", "template", "reboot_policy", "ha"} {
		if !p.Config.At(at).IsFullyKnown() {
			return false
		}
	}
	switch {
	case p.Creating():
		return p.Plan.StartsWhenMade()
	case model.Value(p.Prior.Status) == string(guest.Running):
		return !p.Plan.EndsStopped() && model.Value(p.Plan.RebootPolicy) != "never"
	}
	return model.Value(p.Plan.PowerState) == string(guest.Running)
}

// refuseBootOrder refuses a boot order with a device that leaves the VM: PVE takes it out of the order (qemu-server
// API2/Qemu.pm update_vm_api).
func (p refusals) refuseBootOrder() {
	if !p.Config.IsSet("boot_order") {
		return
	}
	_, leave := model.ChangedDevices(p.Before, p.After)
	for _, device := range p.Plan.BootOrder {
		if slices.Contains(leave, device) {
			p.Refuse(path.Root("boot_order"), validation.Fill("%s leaves the VM, and PVE boots from no device that is not "+
				"there. Take it out of boot_order too.", []string{device}))
		}
	}
}

// bootsNoMore says that a disk which leaves is the one that the VM boots from, "" for another: the first one in the
// boot order. PVE takes it out of the order and puts no other disk there (qemu-server API2/Qemu.pm update_vm_api), and
// the firmware boots from nothing else (QemuServer.pm config_to_command, "strict=on"). An error tells of a running VM
// (refuseUnplugging), and a configured order is the user's choice.
func (p warnings) bootsNoMore(slot string) string {
	disks := slices.DeleteFunc(slices.Clone(p.Prior.BootOrder), func(device string) bool {
		_, isDisk := p.Prior.Disks[device]
		return !isDisk
	})
	told := p.Runs() && vm.TakesDisk(slot, p.Prior.Hotplug)
	if len(disks) == 0 || disks[0] != slot || told || !p.Config.IsNull("boot_order") {
		return ""
	}
	will := "will not"
	if p.Prior.BootOrder[0] != slot || slices.ContainsFunc(disks, func(other string) bool { return !p.Leaves(other) }) {
		will = "may not" // a network device or a medium of the order may do it
	}
	return fmt.Sprintf(" The VM boots from it, and %s boot without it.", will) + howToStay(p.Plan, "disks."+slot)
}

// refuseOtherMedia refuses a disk in the place of an optical drive of a running VM, and the reverse: PVE turns no drive
// into one of another kind while it is in use (qemu-server QemuServer.pm vmconfig_update_disk).
func (p refusals) refuseOtherMedia() {
	if !p.Runs() {
		return
	}
	was, is := p.opticalDrives(p.Prior), p.opticalDrives(p.Plan)
	swaps := func(at path.Path, slot, from, to string) {
		p.Refuse(at, validation.Fill("The VM runs, and %s has %s: PVE puts no %s in its place then. Choose another slot, or "+
			"stop the VM first, with power_state = \"stopped\".", []string{slot, from, to}))
	}
	for _, slot := range model.SortedSlots(p.Plan.Disks) {
		if _, optical := was[slot]; optical {
			swaps(path.Root("disks").AtMapKey(slot), slot, "an optical drive", "disk")
		}
	}
	for _, slot := range model.SortedSlots(is) {
		if _, disk := p.Prior.Disks[slot]; disk {
			swaps(is[slot], slot, "a disk", "optical drive")
		}
	}
}

// refuseColdSlots refuses another disk for a slot of IDE or SATA in which a running VM has one. Where its hotplug
// setting has disks, PVE tries to unplug that one, and cannot (qemu-server QemuServer.pm vmconfig_update_disk,
// vm_deviceunplug).
func (p refusals) refuseColdSlots() {
	for _, slot := range model.SortedSlots(p.Attached) {
		was, next := model.Value(p.Prior.Disks[slot].Volume), model.Value(p.Plan.Disks[slot].Volume)
		if was != "" && next != "" && was != next && vm.IsCold(slot) && vm.TakesDisk("scsi0", p.Prior.Hotplug) {
			at := path.Root("disks").AtMapKey(slot).AtName("imported_disk")
			p.Refuse(at, validation.Fill("The VM runs, and %s has %s: PVE takes no disk out of IDE or SATA then. Choose "+
				"another slot, or stop the VM first, with power_state = \"stopped\".", []string{slot, was}))
			return
		}
	}
}

// refuseDisplacing refuses an optical drive in a slot that has a disk which the state does not know, or which leaves it
// untouched: PVE would take the disk out of its slot (qemu-server QemuServer.pm vmconfig_update_disk,
// vmconfig_apply_pending), so the apply refuses it.
// Where the drive was configured before, a third party has put the disk in its place: that stops no other plan, and no
// destroy.
func (p refusals) refuseDisplacing() {
	is, cloudInit := p.opticalDrives(p.Plan), path.Root("cloud_init").AtName("slot")
	for _, slot := range model.SortedSlots(is) {
		disk := p.Private.Others[slot]
		if slices.Contains(p.Forgotten, "disks."+slot) {
			disk = model.Value(p.Prior.Disks[slot].Volume)
		}
		switch why := disk + " is in " + slot + ", and the configuration does not name it. "; {
		case disk == "":
		case p.Managed("cdroms." + slot), p.Managed("cloud_init.storage") && is[slot].Equal(cloudInit):
			p.Diags.AddAttributeWarning(is[slot], slot+" of "+p.Prior.Thing()+" has a disk", why+"It is in the place of the "+
				"configured drive, and the apply fails rather than take it out. Choose another slot, or take that disk out of "+
				"it.")
		default:
			p.Refuse(is[slot], "The slot is not empty: "+why+"Choose another slot, or take that disk out of it first.")
		}
	}
}

// refuseOverCloudInit refuses a disk or an optical drive in the slot of a cloud-init drive that stays: a slot has one
// device, and the apply would leave the cloud-init drive there. The configuration need not name that one, as where the
// VM has it from its template.
func (p refusals) refuseOverCloudInit() {
	if p.Plan.CloudInit == nil || p.Plan.CloudInit.Slot == nil || p.losesCloudInitDrive() {
		return
	}
	slot, volume := *p.Plan.CloudInit.Slot, cmp.Or(model.Value(p.Plan.CloudInit.Volume), "the cloud-init drive")
	for _, group := range []string{"disks", "cdroms"} {
		at, why := path.Root(group).AtMapKey(slot), volume+" is in "+slot+", and the configuration does not name it. "
		switch {
		case !p.Config.IsSet(group + "." + slot):
		case p.Managed(group + "." + slot):
			p.Diags.AddAttributeWarning(at, slot+" of "+p.Prior.Thing()+" has a cloud-init drive", why+"It is in the place of "+
				"the configured one, and the apply leaves it there. Choose another slot, or take that drive out of it.")
		default:
			p.Refuse(at, "The slot is not empty: "+why+"Choose another slot, or give the cloud-init drive another one with "+
				"cloud_init.slot.")
		}
	}
}

// opticalDrives are the drives of a VM with media=cdrom, that of cloud-init among them, and where they are configured.
func (p refusals) opticalDrives(m model.Model) map[string]path.Path {
	all := map[string]path.Path{}
	for slot := range m.CDROMs {
		all[slot] = path.Root("cdroms").AtMapKey(slot)
	}
	isOpen := m.CloudInit != nil && m.CloudInit.Slot == nil && !p.Config.At("cloud_init.slot").IsKnown()
	if c := m.CloudInit; c != nil && c.Storage != nil && !isOpen {
		all[cmp.Or(model.Value(c.Slot), vm.DefaultCloudInitSlot)] = path.Root("cloud_init").AtName("slot")
	}
	return all
}
