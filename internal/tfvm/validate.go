package tfvm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// ValidateConfig refuses what no server could accept, with what is known of the configuration.
func (r *Resource) ValidateConfig(_ context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	c := &validation{configuration: configuration{req.Config.Raw}}
	c.emptyObjects()
	c.nodes()
	c.cloneSource()
	c.backup()
	c.disks()
	c.efiDisk()
	c.cloudInit()
	c.slotsUsedOnce()
	c.memory()
	c.processors()
	c.groups()
	c.hostDevices()
	c.powerState()
	c.waitFor()
	c.firewall()
	c.ha()
	resp.Diagnostics.Append(c.diags...)
}

// emptyObjects warns of objects that say nothing: most likely their keys are misspelt, which Terraform drops without a word.
func (c *validation) emptyObjects() {
	for _, name := range []string{"cpu", "memory", "agent", "vga", "startup", "smbios", "machine_options", "wait_for", "on_destroy"} {
		values := map[string]tftypes.Value{}
		if !c.isSet(name) || c.at(name).As(&values) != nil {
			continue
		}
		says := false
		for _, v := range values {
			says = says || !v.IsKnown() || !v.IsNull()
		}
		if !says {
			c.diags.AddAttributeWarning(path.Root(name), name+" is configured and says nothing",
				"No attribute of it is set. Terraform drops keys that an object does not have without a word, so one may be misspelt: "+
					"the documentation lists those that there are.")
		}
	}
}

// nodes refuses a node that is none of nodes.
func (c *validation) nodes() {
	if node := c.text("node"); node != "" && c.isSet("nodes") && c.at("nodes").IsFullyKnown() && !slices.Contains(texts(c.at("nodes")), node) {
		c.refuse("nodes", "The VM is to be on %s, which is none of these. Set node or nodes.", node)
	}
}

// cloneSource sees to it that a clone has exactly one source, and that a linked clone is not asked for what it cannot do.
func (c *validation) cloneSource() {
	if !c.isSet("clone") {
		return
	}
	var named []string
	open := false
	for _, selector := range []string{"vmid", "name", "tags"} {
		if c.isSet("clone." + selector) {
			named = append(named, selector)
		}
		open = open || !c.at("clone."+selector).IsKnown()
	}
	switch {
	case len(named) > 1:
		c.refuse("clone."+named[1], "A clone has exactly one source, but %s are set. Set one of vmid, name and tags.",
			strings.Join(named, " and "))
	case len(named) == 0 && !open:
		c.refuse("clone", "A clone needs a source: set one of vmid, name and tags.")
	}
	if c.isFalse("clone.full") {
		for _, option := range []string{"storage", "format"} {
			if c.isSet("clone." + option) {
				c.refuse("clone."+option, "A linked clone stays where its template is: %s is only for full = true.", option)
			}
		}
	}
}

// backup sees to it that a restore has an archive of a VM, and is no clone too.
func (c *validation) backup() {
	if c.isSet("restore") && c.isSet("clone") {
		c.refuse("restore", "A VM is a clone or made of a backup: set clone or restore.")
	}
	at := "restore.archive"
	storage, name, ok := strings.Cut(c.text(at), ":")
	_, file, _ := strings.Cut(name, "/")
	switch {
	case !c.isSet(at):
	case !ok || storage == "" || !strings.HasPrefix(name, "backup/") || file == "":
		c.refuse(at, "It is no backup on a storage, such as local:backup/vzdump-qemu-100-2026_01_01-00_00_00.vma.zst or "+
			"pbs:backup/vm/100/2026-01-01T00:00:00Z.")
	case strings.HasPrefix(file, "ct/"), strings.HasPrefix(file, "vzdump-lxc-"), strings.HasPrefix(file, "vzdump-openvz-"):
		c.refuse(at, "It is a backup of a container, of which no VM can be made.")
	case strings.HasPrefix(file, "host/"):
		c.refuse(at, "It is a backup of a host, of which no VM can be made.")
	}
}

// disks demands what a new disk cannot be made without. The source of a copy may give it.
func (c *validation) disks() {
	slots, _ := c.keys("disks")
	for _, slot := range slots {
		at := "disks." + slot
		if !c.copies() {
			if c.isNull(at+".size") && c.isNull(at+".import_from") && c.isNull(at+".imported_disk") {
				c.refuse(at+".size", "The disk %s needs a size, or import_from to take it from an image.", slot)
			}
		}
		if c.isSet(at+".import_from") && c.isNull(at+".storage") && c.copies() {
			c.refuse(at+".storage", "The disk %s needs a storage: import_from makes a new disk.", slot)
		}
		c.diskOptions(at, slot)
	}
	c.namedVolumes(slots)
}

// namedVolumes refuses a volume beside an image to copy, and one volume in two slots.
func (c *validation) namedVolumes(slots []string) {
	user := map[string]string{}
	for _, slot := range slots {
		at := "disks." + slot + ".imported_disk.volume"
		volume := c.text(at)
		if c.isSet(at) && c.isSet("disks."+slot+".import_from") {
			c.refuse(at, "The disk %s is either a volume that exists or a copy: set imported_disk or import_from.", slot)
		}
		if other := user[volume]; volume != "" && other != "" {
			c.refuse(at, "The volume %s is named twice: for %s and here.", volume, other)
		}
		user[volume] = slot
	}
}

// efiDisk warns of one without its firmware.
func (c *validation) efiDisk() {
	bios := c.at("bios")
	if c.isSet("efi_disk") && bios.IsKnown() && !c.copies() && c.text("bios") != "ovmf" {
		c.diags.AddAttributeWarning(path.Root("efi_disk"), "The EFI disk is not used",
			"Only the firmware ovmf uses it. Set bios = \"ovmf\", or leave efi_disk out.")
	}
}

// cloudInit ties addresses to network devices, and gateways to addresses.
func (c *validation) cloudInit() {
	nics, known := c.keys("networks")
	known = known && c.isSet("networks")
	slots, _ := c.keys("cloud_init.addresses")
	for _, slot := range slots {
		at := "cloud_init.addresses." + slot
		if known && !slices.Contains(nics, slot) {
			c.refuse(at, "There is no network device %s: networks has %s.", slot, list(nics))
		}
		if c.isSet(at) && c.isNull(at+".ipv4") && c.isNull(at+".ipv6") && c.isNull(at+".gateway4") && c.isNull(at+".gateway6") {
			c.refuse(at, "The entry is empty: set ipv4 or ipv6, or leave %s out.", slot)
		}
		for _, family := range []string{"4", "6"} {
			address := c.text(at + ".ipv" + family)
			fixed := strings.Contains(address, "/")
			if c.isSet(at+".gateway"+family) && !fixed && c.at(at+".ipv"+family).IsKnown() {
				c.refuse(at+".gateway"+family, "A gateway needs a fixed address in ipv%s; with dhcp or auto the network gives it.", family)
			}
		}
	}
}

// slotsUsedOnce refuses a slot that two devices share.
func (c *validation) slotsUsedOnce() {
	user := map[string]string{}
	for _, group := range []string{"disks", "cdroms"} {
		slots, _ := c.keys(group)
		for _, slot := range slots {
			if other := user[slot]; other != "" {
				c.refuse(group+"."+slot, "The slot %s is used twice: in %s and here.", slot, other)
			}
			user[slot] = group
		}
	}
	slot := c.text("cloud_init.slot")
	if slot == "" && c.isSet("cloud_init.storage") && c.isNull("cloud_init.slot") && !c.copies() {
		slot = vm.DefaultCloudInitSlot
	}
	if other := user[slot]; slot != "" && other != "" {
		c.refuse("cloud_init.slot", "The slot %s is used twice: in %s and for the cloud-init drive. Set cloud_init.slot to another one.", slot,
			other)
	}
}

func (c *validation) memory() {
	size, balloon := c.at("memory.size"), c.at("memory.balloon")
	if !c.isSet("memory.size") || !c.isSet("memory.balloon") {
		return
	}
	most, least := floatOf(size), floatOf(balloon)
	if least > most {
		c.refuse("memory.balloon", fmt.Sprintf("The balloon (%.0f MiB) is larger than the memory (%.0f MiB).", least, most))
	}
}

// powerState refuses a template that runs: PVE starts none.
func (c *validation) powerState() {
	if c.isTrue("template") && c.text("power_state") == "running" {
		c.refuse("power_state", "A template cannot run. Leave power_state out, or set it to stopped.")
	}
}
