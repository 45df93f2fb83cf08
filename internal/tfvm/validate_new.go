package tfvm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

const cpuNeedsType = "PVE takes flags and other details only together with a CPU model: set cpu.type too."

// newVM refuses what is wrong with a VM that is not there yet. One that exists may have what the configuration leaves out.
func (c *validation) newVM() {
	c.importedDisks()
	if c.copies() {
		return // the source may have it
	}
	c.storages()
	c.bootOrder()
	c.optionsThatNeedOthers()
	c.agentOfNewVM()
}

// optionsThatNeedOthers refuses options that PVE knows only together with others.
func (c *validation) optionsThatNeedOthers() {
	if c.hasCPUDetails() && c.isNull("cpu.type") {
		c.refuse("cpu.type", cpuNeedsType)
	}
	for _, required := range []string{"efi_disk.type", "efi_disk.pre_enrolled_keys", "tpm_state.version"} {
		group, key, _ := strings.Cut(required, ".")
		if c.isSet(group+".import_from") && c.isNull(required) {
			c.refuse(required, "PVE does not look into what is imported: %s needs %s to say what it is.", group, key)
		}
	}
	if (c.isSet("agent.type") || c.isSet("agent.fstrim_cloned_disks") || c.isSet("agent.freeze_fs_on_backup")) && c.isNull("agent.enabled") {
		c.refuse("agent.enabled", "PVE takes the agent's options only together with enabled: set it too.")
	}
}

// storages refuses disks that nothing says the storage of: neither the configuration nor the provider's default.
func (c *validation) storages() {
	slots, _ := c.keys("disks")
	for _, slot := range slots {
		if at := "disks." + slot; c.isNull(at+".storage") && c.isNull(at+".imported_disk") {
			c.refuse(at+".storage", "The disk %s needs a storage.", slot)
		}
	}
	for _, group := range []string{"efi_disk", "tpm_state", "cloud_init"} {
		if c.isSet(group) && c.isNull(group+".storage") {
			c.refuse(group+".storage", "%s needs a storage.", group)
		}
	}
}

// bootOrder refuses devices that the VM does not have.
func (c *validation) bootOrder() {
	if !c.isSet("boot_order") || !c.at("boot_order").IsFullyKnown() {
		return
	}
	var exist []string
	for _, group := range []string{"disks", "cdroms", "networks"} {
		slots, ok := c.keys(group)
		if !ok {
			return
		}
		exist = append(exist, slots...)
	}
	switch {
	case !c.at("cloud_init").IsKnown() || !c.at("cloud_init.slot").IsKnown():
		return
	case c.text("cloud_init.slot") != "":
		exist = append(exist, c.text("cloud_init.slot"))
	case c.isSet("cloud_init"):
		exist = append(exist, vm.DefaultCloudInitSlot)
	}
	for _, device := range texts(c.at("boot_order")) {
		if !slices.Contains(exist, device) {
			c.refuse("boot_order", "There is no device %s: the configuration has %s.", device, list(exist))
		}
	}
}

// agentOfNewVM refuses to wait for a VM without what is needed for it.
func (c *validation) agentOfNewVM() {
	what := c.waitedFor()
	if what == "" {
		return
	}
	if c.isNull("agent.enabled") {
		c.refuse(what, waitNeedsAgent)
	}
	nics, known := c.keys("networks")
	for _, family := range []string{"wait_for.ipv4", "wait_for.ipv6"} {
		if c.isTrue(family) && known && len(nics) == 0 {
			c.refuse(family, "The VM has no network device: networks is empty.")
		}
	}
}

// importedDisks refuses volumes that a VM which is not there yet cannot take over.
func (c *validation) importedDisks() {
	slots, _ := c.keys("disks")
	for _, slot := range slots {
		at := "disks." + slot + ".imported_disk.volume"
		volume := c.text(at)
		if volume == "" || vm.IsDevice(volume) || c.borrowed[volume] {
			continue
		}
		owner, ok := vm.VolumeOwner(volume)
		id := fmt.Sprint(owner)
		switch {
		case !ok:
			c.refuse(at, "%s is no disk of a VM. import_from copies an image.", volume)
		case c.isNull("vmid") || c.isSet("vmid") && int(c.number("vmid")) != owner:
			c.refuse(at, "%s carries the id %s, and PVE destroys a volume with the VM whose id it carries: a VM adopts only its own. "+
				"Set vmid = %s, or copy it with import_from.", volume, id, id)
		case c.isSet("restore"):
			c.refuse(at, "A restore makes whatever carries the id an unused disk of the VM, which a create that fails would destroy: %s cannot "+
				"be taken over beside it.", volume)
		case c.isSet("clone"):
			c.refuse(at, "A clone gets its disks from its source. Leave clone out, or put %s into a slot once the VM is there.", volume)
		case c.isTrue("template"):
			c.refuse(at, "A template cannot be made of a volume that is there already. Adopt %s first, and set template afterwards.", volume)
		case c.isSet("disks."+slot+".storage") && c.text("disks."+slot+".storage") != vm.VolumeStorage(volume):
			c.refuse("disks."+slot+".storage", "%s is not there. Adopt the volume as it is first; a move is a change of its own.", volume)
		case c.isSet("disks."+slot+".format") && c.text("disks."+slot+".format") != vm.VolumeFormat(volume):
			c.refuse("disks."+slot+".format", "%s is not of that format. Adopt the volume as it is first; a move is a change of its own.", volume)
		}
	}
}
