package tfvm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// diskOptions refuses options that the bus of a disk does not have, and limits that contradict each other (qemu-server
// Drive.pm).
func (c *validation) diskOptions(at, slot string) {
	bus, _ := splitSlot(slot)
	if bus == "virtio" && c.isSet(at+".ssd") {
		c.refuse(at+".ssd", "A virtio disk cannot be presented as a solid-state disk: ssd is for ide, sata and scsi.")
	}
	buses := vm.DiskOptionBuses()
	for _, option := range slices.Sorted(maps.Keys(buses)) {
		if option != "ssd" && c.isSet(at+"."+option) && !slices.Contains(buses[option], bus) {
			c.refuse(at+"."+option, "%s is only for %s disks.", option, strings.Join(buses[option], " and "))
		}
	}
	c.throttle(at + ".throttle")
}

func (c *validation) throttle(at string) {
	for _, unit := range []string{"mbps", "iops"} {
		for _, direction := range []string{"", "_rd", "_wr"} {
			limit := unit + direction
			if direction != "" && c.isSet(at+"."+limit) && c.isSet(at+"."+unit) {
				c.refuse(at+"."+limit, "%s limits both directions already: set it, or %s_rd and %s_wr.", unit, unit, unit)
			}
			inherits := c.copies() // the rest may be the template's
			if c.isSet(at+"."+limit+"_max") && c.isNull(at+"."+limit) && !inherits {
				c.refuse(at+"."+limit+"_max", "%s_max is what a burst may reach and needs %s, the limit itself.", limit, limit)
			}
			if c.isSet(at+"."+limit+"_max_length") && c.isNull(at+"."+limit+"_max") && !inherits {
				c.refuse(at+"."+limit+"_max_length", "%s_max_length is how long a burst may last and needs %s_max.", limit, limit)
			}
		}
	}
}

// processors refuses what the processor cannot have.
func (c *validation) processors() {
	if vcpus := c.number("cpu.vcpus"); vcpus > 0 && c.isDecided("cpu.sockets") && c.isDecided("cpu.cores") {
		if most := max(c.number("cpu.sockets"), 1) * max(c.number("cpu.cores"), 1); vcpus > most {
			c.refuse("cpu.vcpus", fmt.Sprintf("There are only %.0f processors (sockets × cores) to plug in.", most))
		}
	}
	if c.isSet("memory.hugepages") && c.text("memory.hugepages") != "" && c.isDecided("cpu.numa") && !c.isTrue("cpu.numa") {
		c.refuse("memory.hugepages", "Huge pages need cpu.numa = true.")
	}
	c.numaNodes()
}

// numaNodes refuses NUMA nodes with which PVE starts no VM (qemu-server QemuServer/Memory.pm config).
func (c *validation) numaNodes() {
	slots, known := c.keys("numa_nodes")
	if !known || len(slots) == 0 || c.copies() || !c.isTrue("cpu.numa") || !c.isDecided("memory.size") {
		return
	}
	sum, whole := 0.0, max(c.number("memory.size"), 0)
	for _, slot := range slots {
		at := "numa_nodes." + slot + ".memory"
		if c.isNull(at) && c.isNull("power_state") && !c.isTrue("template") {
			c.refuse(at, "With cpu.numa = true PVE starts a VM only if each NUMA node has memory: set it for %s.", slot)
		}
		if !c.isSet(at) {
			return
		}
		sum += c.number("numa_nodes." + slot + ".memory")
	}
	if whole == 0 {
		whole = 512
	}
	if sum != whole {
		c.refuse("numa_nodes", fmt.Sprintf("The NUMA nodes have %.0f MiB together and the VM has %.0f MiB: the two must be equal.", sum, whole))
	}
}

// groups demands the sub-keys that PVE wants with each group.
func (c *validation) groups() {
	for _, required := range []string{"audio.device", "rng.source", "ivshmem.size", "amd_sev.type", "intel_tdx.type"} {
		group, key, _ := strings.Cut(required, ".")
		if c.isSet(group) && c.isNull(required) && !c.copies() {
			c.refuse(required, "%s needs a %s.", group, key)
		}
	}
	if c.text("machine_options.viommu") == "intel" && c.isDecided("machine") && !isQ35(c.text("machine")) {
		c.refuse("machine_options.viommu", "The virtual IOMMU of Intel is only for machine = \"q35\".")
	}
	if c.isSet("machine_options.aw_bits") && c.isNull("machine_options.viommu") && !c.copies() {
		c.refuse("machine_options.aw_bits", "aw_bits is the address width of the virtual IOMMU: set machine_options.viommu too.")
	}
	display := c.text("vga.type")
	if ports, known := c.keys("serial"); known && strings.HasPrefix(display, "serial") && !c.copies() &&
		!slices.Contains(ports, display) {
		c.refuse("vga.type", "There is no serial port %s: serial has %s.", display, list(ports))
	}
	b := vm.SMBIOS{}
	for key, field := range map[string]**string{"uuid": &b.UUID, "manufacturer": &b.Manufacturer, "product": &b.Product,
		"version": &b.Version, "serial": &b.Serial, "sku": &b.SKU, "family": &b.Family} {
		if text := c.text("smbios." + key); text != "" {
			*field = &text
		}
	}
	if length := len(vm.Encode(vm.Spec{SMBIOS: b})["smbios1"]); length > 512 {
		c.refuse("smbios", fmt.Sprintf("The texts are too long: as PVE stores them they have %d characters, and 512 is the most.", length))
	}
}

// hostDevices demands one way to name each device, and the machine that it needs.
func (c *validation) hostDevices() {
	for _, family := range []string{"pci", "usb"} {
		slots, _ := c.keys(family)
		for _, slot := range slots {
			at := family + "." + slot
			switch {
			case c.isSet(at+".mapping") && c.isSet(at+".host"):
				c.refuse(at+".host", "%s is named twice: set either mapping or host.", slot)
			case c.isNull(at+".mapping") && c.isNull(at+".host") && !c.copies():
				c.refuse(at, "%s names no device: set either mapping or host.", slot)
			}
		}
	}
	slots, _ := c.keys("pci")
	for _, slot := range slots {
		at := "pci." + slot
		if c.isTrue(at+".pcie") && c.isDecided("machine") && !isQ35(c.text("machine")) {
			c.refuse(at+".pcie", "PCI Express needs machine = \"q35\".")
		}
		if c.isTrue(at+".legacy_igd") && c.isDecided("machine") && isQ35(c.text("machine")) {
			c.refuse(at+".legacy_igd", "The legacy mode needs machine = \"pc\".")
		}
	}
	slots, _ = c.keys("numa_nodes")
	for _, slot := range slots {
		at := "numa_nodes." + slot
		if c.isSet(at+".hostnodes") && c.isNull(at+".policy") && !c.copies() {
			c.refuse(at+".policy", "hostnodes needs a policy: preferred, bind or interleave.")
		}
	}
}

func isQ35(machine string) bool { return machine == "q35" || strings.HasPrefix(machine, "pc-q35-") }
