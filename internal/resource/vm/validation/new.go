package validation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// CPUNeedsType is the error about details of a CPU without its model.
const CPUNeedsType = "PVE takes flags and other details only together with a CPU model: set cpu.type too."

// NewVM refuses what is wrong with a VM that is not there yet. One that exists may have what the configuration leaves
// out.
func (c *Validation) NewVM() {
	c.importedDisks()
	if c.Copies() {
		return // the source may have it
	}
	c.Storages()
	c.bootOrder()
	c.optionsThatNeedOthers()
	c.agentOfNewVM()
}

// optionsThatNeedOthers refuses options that PVE knows only together with others.
func (c *Validation) optionsThatNeedOthers() {
	if c.HasCPUDetails() && c.IsNull("cpu.type") {
		c.Refuse("cpu.type", CPUNeedsType)
	}
	for _, required := range []string{"efi_disk.type", "efi_disk.pre_enrolled_keys", "tpm_state.version"} {
		group, key, _ := strings.Cut(required, ".")
		if c.IsSet(group+".import_from") && c.IsNull(required) {
			c.Refuse(required, "PVE does not look into what is imported: %s needs %s to say what it is.", group, key)
		}
	}
	if (c.IsSet("agent.type") || c.IsSet("agent.fstrim_cloned_disks") || c.IsSet("agent.freeze_fs_on_backup")) &&
		c.IsNull("agent.enabled") {
		c.Refuse("agent.enabled", "PVE takes the agent's options only together with enabled: set it too.")
	}
}

// Storages refuses disks that nothing says the storage of: neither the configuration nor the provider's default.
func (c *Validation) Storages() {
	slots, _ := c.Keys("disks")
	for _, slot := range slots {
		if at := "disks." + slot; c.IsNull(at+".storage") && c.IsNull(at+".imported_disk") {
			c.Refuse(at+".storage", "The disk %s needs a storage.", slot)
		}
	}
	for _, group := range []string{"efi_disk", "tpm_state", "cloud_init"} {
		if c.IsSet(group) && c.IsNull(group+".storage") {
			c.Refuse(group+".storage", "%s needs a storage.", group)
		}
	}
}

// bootOrder refuses devices that the VM does not have.
func (c *Validation) bootOrder() {
	if !c.IsSet("boot_order") || !c.At("boot_order").IsFullyKnown() {
		return
	}
	var exist []string
	for _, group := range []string{"disks", "cdroms", "networks", "pci", "usb"} {
		slots, ok := c.Keys(group)
		if !ok {
			return
		}
		exist = append(exist, slots...)
	}
	switch {
	case !c.At("cloud_init").IsKnown() || !c.At("cloud_init.slot").IsKnown():
		return
	case c.Text("cloud_init.slot") != "":
		exist = append(exist, c.Text("cloud_init.slot"))
	case c.IsSet("cloud_init"):
		exist = append(exist, vm.DefaultCloudInitSlot)
	}
	for _, device := range model.Texts(c.At("boot_order")) {
		if !slices.Contains(exist, device) {
			c.Refuse("boot_order", "There is no device %s: the configuration has %s.", device, List(exist))
		}
	}
}

// agentOfNewVM refuses to wait for a VM without what is needed for it.
func (c *Validation) agentOfNewVM() {
	what := c.WaitedFor()
	if what == "" {
		return
	}
	if c.IsNull("agent.enabled") {
		c.Refuse(what, WaitNeedsAgent)
	}
	nics, known := c.Keys("networks")
	for _, family := range []string{"wait_for.ipv4", "wait_for.ipv6"} {
		if c.IsTrue(family) && known && len(nics) == 0 {
			c.Refuse(family, "The VM has no network device: networks is empty.")
		}
	}
}

// importedDisks refuses volumes that a VM which is not there yet cannot take over.
func (c *Validation) importedDisks() {
	slots, _ := c.Keys("disks")
	for _, slot := range slots {
		at := "disks." + slot + ".imported_disk.volume"
		volume := c.Text(at)
		if volume == "" || volid.IsDevice(volume) || c.Borrowed[volume] {
			continue
		}
		owner, ok := volid.Owner(volume)
		id := fmt.Sprint(owner)
		switch {
		case !ok:
			c.Refuse(at, "%s is no disk of a VM. import_from copies an image.", volume)
		case c.IsNull("vmid") || c.IsSet("vmid") && int(c.Number("vmid")) != owner:
			c.Refuse(at, "%s carries the id %s, and PVE destroys a volume with the VM whose id it carries: a VM adopts only "+
				"its own. %s", volume, id, WaysToTake(owner))
		case c.IsSet("restore"):
			c.Refuse(at, "A restore makes whatever carries the id an unused disk of the VM, which a create that fails would "+
				"destroy: %s cannot be taken over beside it.", volume)
		case c.IsSet("clone"):
			c.Refuse(at, "A clone gets its disks from its source. Leave clone out, or put %s into a slot once the VM is there.",
				volume)
		case c.IsTrue("template"):
			c.Refuse(at, "A template cannot be made of a volume that is there already. Adopt %s first, and set template "+
				"afterwards.", volume)
		case c.IsSet("disks."+slot+".storage") && c.Text("disks."+slot+".storage") != volid.Storage(volume):
			c.Refuse("disks."+slot+".storage", "%s is not there. Adopt the volume as it is first; a move is a change of its "+
				"own.", volume)
		case c.IsSet("disks."+slot+".format") && c.Text("disks."+slot+".format") != volid.Format(volume):
			c.Refuse("disks."+slot+".format", "%s is not of that format. Adopt the volume as it is first; a move is a change "+
				"of its own.", volume)
		}
	}
}

// WaysToTake says how a new VM gets a volume that carries another id than its own.
func WaysToTake(owner int) string {
	return fmt.Sprintf("Set vmid = %d, or copy it with import_from. A replacement destroys the old VM first: where that "+
		"is VM %d, copy the volume into a VM of another resource, and remove VM %d in a later apply.", owner, owner, owner)
}
