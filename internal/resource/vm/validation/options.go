package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// diskOptions refuses options that the bus of a disk does not have (qemu-server Drive.pm), and contradictory limits.
func (c *Validation) diskOptions(at, slot string) {
	bus, _ := model.SplitSlot(slot)
	if bus == "virtio" && c.IsSet(at+".ssd") {
		c.Refuse(at+".ssd", "A virtio disk cannot be presented as a solid-state disk: ssd is for ide, sata and scsi. "+
			"Leave it out, or write null, for false too.")
	}
	buses := vm.DiskOptionBuses()
	for _, option := range slices.Sorted(maps.Keys(buses)) {
		if option != "ssd" && c.IsSet(at+"."+option) && !slices.Contains(buses[option], bus) {
			c.Refuse(at+"."+option, "%s is only for %s disks. Leave it out, or write null, for false too.", option,
				strings.Join(buses[option], " and "))
		}
	}
	c.Limits(at+".throttle", c.Configuration, c.Copies())
}

// Limits refuses limits of a disk that contradict each other (Drive.pm parse_drive), at what the configuration sets.
// Those that are not set may be inherited.
func (c *Validation) Limits(at string, config model.Configuration, inherits bool) {
	for _, unit := range []string{"mbps", "iops"} {
		for _, direction := range []string{"", "_rd", "_wr"} {
			limit := unit + direction
			if direction != "" && c.IsSet(at+"."+limit) && c.IsSet(at+"."+unit) {
				where := limit
				if config.IsNull(at + "." + limit) { // the disk has it from its source, or from another tool
					where = unit
				}
				c.Refuse(at+"."+where, "%s limits both directions already, and the disk has %s as well: PVE takes %s, or %s_rd "+
					"and %s_wr.", unit, limit, unit, unit, unit)
			}
			if c.IsSet(at+"."+limit+"_max") && c.IsNull(at+"."+limit) && !inherits {
				c.Refuse(at+"."+limit+"_max", "%s_max is what a burst may reach and needs %s, the limit itself.", limit, limit)
			}
			if c.IsSet(at+"."+limit+"_max_length") && c.IsNull(at+"."+limit+"_max") && !inherits {
				c.Refuse(at+"."+limit+"_max_length", "%s_max_length is how long a burst may last and needs %s_max.", limit, limit)
			}
		}
	}
}

// Processors refuses what the processor cannot have.
func (c *Validation) Processors() {
	vcpus(c)
	if c.IsSet("memory.hugepages") && c.Text("memory.hugepages") != "" && c.IsDecided("cpu.numa") &&
		!c.IsTrue("cpu.numa") {
		c.Refuse("memory.hugepages", "Huge pages need cpu.numa = true.")
	}
	numaNodes(c)
}

// Groups demands the sub-keys that PVE wants with each group.
func (c *Validation) Groups() {
	for _, required := range []string{"audio.device", "rng.source", "ivshmem.size", "amd_sev.type", "intel_tdx.type"} {
		group, key, _ := strings.Cut(required, ".")
		if c.IsSet(group) && c.IsNull(required) && !c.Copies() {
			c.Refuse(required, "%s needs a %s.", group, key)
		}
	}
	virtualIOMMU(c)
	clipboard(c)
	display := c.Text("vga.type")
	if ports, known := c.Keys("serial"); known && strings.HasPrefix(display, "serial") && !c.Copies() &&
		!slices.Contains(ports, display) {
		c.Refuse("vga.type", "There is no serial port %s: serial has %s.", display, List(ports))
	}
	c.smbios()
}

// smbios refuses texts that are too long together, on the longest.
func (c *Validation) smbios() {
	b, longest := vm.SMBIOS{}, ""
	for key, field := range map[string]**string{"uuid": &b.UUID, "manufacturer": &b.Manufacturer, "product": &b.Product,
		"version": &b.Version, "serial": &b.Serial, "sku": &b.SKU, "family": &b.Family} {
		if text := c.Text("smbios." + key); text != "" {
			*field = &text
			if more := len(text) - len(c.Text("smbios."+longest)); longest == "" || more > 0 || more == 0 && key < longest {
				longest = key
			}
		}
	}
	if length := len(vm.Encode(vm.Spec{SMBIOS: b})["smbios1"]); length > 512 {
		c.Refuse("smbios."+longest, fmt.Sprintf("The texts are too long: as PVE stores them they have %d characters, and "+
			"512 is the most.", length))
	}
}

// HostDevices demands one way to name each device, and the machine that it needs.
func (c *Validation) HostDevices() {
	for _, family := range []string{"pci", "usb"} {
		slots, _ := c.Keys(family)
		for _, slot := range slots {
			at := family + "." + slot
			switch {
			case c.IsSet(at+".mapping") && c.IsSet(at+".host"):
				c.Refuse(at+".host", "%s is named twice: set either mapping or host.", slot)
			case c.IsNull(at+".mapping") && c.IsNull(at+".host") && !c.Copies():
				c.Refuse(at, "%s names no device: set either mapping or host.", slot)
			}
		}
	}
	pciExpress(c)
	slots, _ := c.Keys("numa_nodes")
	for _, slot := range slots {
		at := "numa_nodes." + slot
		if c.IsSet(at+".hostnodes") && c.IsNull(at+".policy") && !c.Copies() {
			c.Refuse(at+".policy", "hostnodes needs a policy: preferred, bind or interleave.")
		}
	}
}
