package tfvm

import (
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

const cpuNeedsType = "PVE takes flags and other details only together with a CPU model: set cpu.type too."

// newVM refuses what is wrong with a VM that is not there yet. One that exists may have what the configuration leaves out.
func (c *validation) newVM() {
	c.importedDisks()
	if !c.isNull("clone") {
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

// hasCPUDetails reports whether there is something about the CPU that PVE takes only together with a model.
func (c configuration) hasCPUDetails() bool {
	details := c.isSet("cpu.flags") && len(texts(c.at("cpu.flags"))) > 0
	for _, key := range []string{"hidden", "hv_vendor_id", "phys_bits", "guest_phys_bits", "level", "reported_model"} {
		details = details || c.isSet("cpu."+key)
	}
	return details
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
