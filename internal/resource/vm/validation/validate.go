package validation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// EmptyObjects warns of objects that say nothing: most likely their keys are misspelt, which Terraform drops without a
// word.
func (c *Validation) EmptyObjects() {
	for _, name := range []string{"cpu", "memory", "agent", "vga", "startup", "smbios", "machine_options", "wait_for",
		"on_destroy"} {
		values := map[string]tftypes.Value{}
		if !c.IsSet(name) || c.At(name).As(&values) != nil {
			continue
		}
		says := false
		for _, v := range values {
			says = says || !v.IsKnown() || !v.IsNull()
		}
		if !says {
			c.Diags.AddAttributeWarning(path.Root(name), name+" is configured and says nothing",
				"No attribute of it is set. Terraform drops keys that an object does not have without a word, so one may be "+
					"misspelt: \"terraform-provider-proxmox lint\" finds it.")
		}
	}
}

// Nodes refuses a node that is none of nodes.
func (c *Validation) Nodes() {
	if node := c.Text("node"); node != "" && c.IsSet("nodes") && c.At("nodes").IsFullyKnown() &&
		!slices.Contains(model.Texts(c.At("nodes")), node) {
		c.Refuse("nodes", "The VM is to be on %s, which is none of these. Set node or nodes.", node)
	}
}

// CloneSource sees to it that a clone has exactly one source, and that nothing is asked of a linked clone that it
// cannot do.
func (c *Validation) CloneSource() {
	if !c.IsSet("clone") {
		return
	}
	var named []string
	open := false
	for _, selector := range []string{"vmid", "name", "tags"} {
		if c.IsSet("clone." + selector) {
			named = append(named, selector)
		}
		open = open || !c.At("clone."+selector).IsKnown()
	}
	switch {
	case len(named) > 1:
		c.Refuse("clone."+named[1], "A clone has exactly one source, but %s are set. Set one of vmid, name and tags.",
			strings.Join(named, " and "))
	case len(named) == 0 && !open:
		c.Refuse("clone", "A clone needs a source: set one of vmid, name and tags.")
	}
	if c.IsFalse("clone.full") {
		for _, option := range []string{"storage", "format"} {
			if c.IsSet("clone." + option) {
				c.Refuse("clone."+option, "A linked clone stays where its template is: %s is only for full = true.", option)
			}
		}
	}
}

// Backup sees to it that a restore has an archive of a VM, and is no clone too.
func (c *Validation) Backup() {
	if c.IsSet("restore") && c.IsSet("clone") {
		c.Refuse("restore", "A VM is a clone or made of a backup: set clone or restore.")
	}
	at := "restore.archive"
	storage, name, ok := strings.Cut(c.Text(at), ":")
	_, file, _ := strings.Cut(name, "/")
	switch {
	case !c.IsSet(at):
	case !ok || storage == "" || !strings.HasPrefix(name, "backup/") || file == "":
		c.Refuse(at, "It is no backup on a storage, such as local:backup/vzdump-qemu-100-2026_01_01-00_00_00.vma.zst or "+
			"pbs:backup/vm/100/2026-01-01T00:00:00Z.")
	case strings.HasPrefix(file, "ct/"), strings.HasPrefix(file, "vzdump-lxc-"), strings.HasPrefix(file, "vzdump-openvz-"):
		c.Refuse(at, "It is a backup of a container, of which no VM can be made.")
	case strings.HasPrefix(file, "host/"):
		c.Refuse(at, "It is a backup of a host, of which no VM can be made.")
	}
}

// Disks demands what a new disk cannot be made without. The source of a copy may give it.
func (c *Validation) Disks() {
	slots, _ := c.Keys("disks")
	for _, slot := range slots {
		at := "disks." + slot
		if !c.Copies() {
			if c.IsNull(at+".size") && c.IsNull(at+".import_from") && c.IsNull(at+".imported_disk") {
				c.Refuse(at+".size", "The disk %s needs a size, import_from to take it from an image, or imported_disk = "+
					"{ volume = … } for one that is there, such as that of a proxmox_disk.", slot)
			}
		}
		if c.IsSet(at+".import_from") && c.IsNull(at+".storage") && c.Copies() {
			c.Refuse(at+".storage", "The disk %s needs a storage: import_from makes a new disk.", slot)
		}
		c.diskOptions(at, slot)
	}
	c.namedVolumes(slots)
}

// namedVolumes refuses a volume beside an image to copy, and one volume in two slots.
func (c *Validation) namedVolumes(slots []string) {
	user := map[string]string{}
	for _, slot := range slots {
		at := "disks." + slot + ".imported_disk.volume"
		volume := c.Text(at)
		if c.IsSet(at) && c.IsSet("disks."+slot+".import_from") {
			c.Refuse(at, "The disk %s is either a volume that exists or a copy: set imported_disk or import_from.", slot)
		}
		if other := user[volume]; volume != "" && other != "" {
			c.Refuse(at, "The volume %s is named twice: for %s and here.", volume, other)
		}
		user[volume] = slot
	}
}

// EfiDisk warns of one without its firmware.
func (c *Validation) EfiDisk() {
	bios := c.At("bios")
	if c.IsSet("efi_disk") && bios.IsKnown() && !c.Copies() && c.Text("bios") != "ovmf" {
		c.Diags.AddAttributeWarning(path.Root("efi_disk"), "The EFI disk is not used",
			"Only the firmware ovmf uses it. Set bios = \"ovmf\", or leave efi_disk out.")
	}
}

// CloudInit ties addresses to network devices, and gateways to addresses.
func (c *Validation) CloudInit() {
	nics, known := c.Keys("networks")
	known = known && c.IsSet("networks")
	slots, _ := c.Keys("cloud_init.addresses")
	for _, slot := range slots {
		at := "cloud_init.addresses." + slot
		if known && !slices.Contains(nics, slot) {
			c.Refuse(at, "There is no network device %s: networks has %s.", slot, List(nics))
		}
		if c.IsSet(at) && c.IsNull(at+".ipv4") && c.IsNull(at+".ipv6") && c.IsNull(at+".gateway4") &&
			c.IsNull(at+".gateway6") {
			c.Refuse(at, "The entry is empty: set ipv4 or ipv6, to \"dhcp\" or an address, or leave %s out.", slot)
		}
		for _, family := range []string{"4", "6"} {
			address := c.Text(at + ".ipv" + family)
			fixed := address == "" && !c.IsNull(at+".ipv"+family) || strings.Contains(address, "/")
			if c.IsSet(at+".gateway"+family) && !fixed && c.At(at+".ipv"+family).IsKnown() {
				c.Refuse(at+".gateway"+family, "A gateway needs a fixed address in ipv%s; with dhcp or auto the network gives it.",
					family)
			}
		}
	}
}

// SlotsUsedOnce refuses a slot that two devices share.
func (c *Validation) SlotsUsedOnce() {
	user := map[string]string{}
	for _, group := range []string{"disks", "cdroms"} {
		slots, _ := c.Keys(group)
		for _, slot := range slots {
			if other := user[slot]; other != "" {
				c.Refuse(group+"."+slot, "The slot %s is used twice: in %s and here.", slot, other)
			}
			user[slot] = group
		}
	}
	slot := c.Text("cloud_init.slot")
	if slot == "" && c.IsSet("cloud_init.storage") && c.IsNull("cloud_init.slot") && !c.Copies() {
		slot = vm.DefaultCloudInitSlot
	}
	if other := user[slot]; slot != "" && other != "" {
		c.Refuse("cloud_init.slot", "The slot %s is used twice: in %s and for the cloud-init drive. Set cloud_init.slot "+
			"to another one.", slot,
			other)
	}
}

// Memory checks the memory attributes against each other.
func (c *Validation) Memory() {
	size, balloon := c.At("memory.size"), c.At("memory.balloon")
	if !c.IsSet("memory.size") || !c.IsSet("memory.balloon") {
		return
	}
	most, least := model.FloatOf(size), model.FloatOf(balloon)
	if least > most {
		c.Refuse("memory.balloon", fmt.Sprintf("The balloon (%.0f MiB) is larger than the memory (%.0f MiB).", least, most))
	}
}

// PowerState refuses a template that runs: PVE starts none.
func (c *Validation) PowerState() {
	if c.IsTrue("template") && c.Text("power_state") == "running" {
		c.Refuse("power_state", "A template cannot run. Leave power_state out, or set it to stopped.")
	}
}
