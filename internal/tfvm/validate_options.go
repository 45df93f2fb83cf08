package tfvm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// diskOptions refuses options that the bus of a disk does not have, and limits that contradict each other (qemu-server
// Drive.pm).
func (c *checker) diskOptions(at, slot string) {
	bus, _ := splitSlot(slot)
	if bus == "virtio" && c.set(at+".ssd") {
		c.refuse(at+".ssd", "A virtio disk cannot be presented as a solid-state disk: ssd is for ide, sata and scsi.")
	}
	buses := vm.DiskOptionBuses()
	for _, option := range slices.Sorted(maps.Keys(buses)) {
		if option != "ssd" && c.set(at+"."+option) && !slices.Contains(buses[option], bus) {
			c.refuse(at+"."+option, "%s is only for %s disks.", option, strings.Join(buses[option], " and "))
		}
	}
	c.throttle(at + ".throttle")
}

func (c *checker) throttle(at string) {
	for _, unit := range []string{"mbps", "iops"} {
		for _, direction := range []string{"", "_rd", "_wr"} {
			limit := unit + direction
			if direction != "" && c.set(at+"."+limit) && c.set(at+"."+unit) {
				c.refuse(at+"."+limit, "%s limits both directions already: set it, or %s_rd and %s_wr.", unit, unit, unit)
			}
			inherits := !c.missing("clone") // the rest may be the template's
			if c.set(at+"."+limit+"_max") && c.missing(at+"."+limit) && !inherits {
				c.refuse(at+"."+limit+"_max", "%s_max is what a burst may reach and needs %s, the limit itself.", limit, limit)
			}
			if c.set(at+"."+limit+"_max_length") && c.missing(at+"."+limit+"_max") && !inherits {
				c.refuse(at+"."+limit+"_max_length", "%s_max_length is how long a burst may last and needs %s_max.", limit, limit)
			}
		}
	}
}

// processors refuses what the processor cannot have.
func (c *checker) processors() {
	if vcpus := c.count("cpu.vcpus"); vcpus > 0 && c.settled("cpu.sockets") && c.settled("cpu.cores") {
		if most := max(c.count("cpu.sockets"), 1) * max(c.count("cpu.cores"), 1); vcpus > most {
			c.refuse("cpu.vcpus", fmt.Sprintf("There are only %.0f processors (sockets × cores) to plug in.", most))
		}
	}
	if c.set("memory.hugepages") && c.says("memory.hugepages") != "" && c.settled("cpu.numa") && !c.truth("cpu.numa") {
		c.refuse("memory.hugepages", "Huge pages need cpu.numa = true.")
	}
	slots, known := c.keys("numa_nodes")
	if !known || len(slots) == 0 || !c.missing("clone") || !c.truth("cpu.numa") || !c.settled("memory.size") {
		return
	}
	sum, whole := 0.0, max(c.count("memory.size"), 0)
	for _, slot := range slots {
		if !c.set("numa_nodes." + slot + ".memory") {
			return
		}
		sum += c.count("numa_nodes." + slot + ".memory")
	}
	if whole == 0 {
		whole = 512
	}
	if sum != whole {
		c.refuse("numa_nodes", fmt.Sprintf("The NUMA nodes have %.0f MiB together and the VM has %.0f MiB: the two must be equal.", sum, whole))
	}
}

// groups demands the sub-keys that PVE wants with each group.
func (c *checker) groups() {
	for _, required := range []string{"audio.device", "rng.source", "ivshmem.size", "amd_sev.type", "intel_tdx.type"} {
		group, key, _ := strings.Cut(required, ".")
		if c.set(group) && c.missing(required) && c.missing("clone") {
			c.refuse(required, "%s needs a %s.", group, key)
		}
	}
	if c.says("machine_options.viommu") == "intel" && c.settled("machine") && !isQ35(c.says("machine")) {
		c.refuse("machine_options.viommu", "The virtual IOMMU of Intel is only for machine = \"q35\".")
	}
	if c.set("machine_options.aw_bits") && c.missing("machine_options.viommu") && c.missing("clone") {
		c.refuse("machine_options.aw_bits", "aw_bits is the address width of the virtual IOMMU: set machine_options.viommu too.")
	}
	display := c.says("vga.type")
	if ports, known := c.keys("serial"); known && strings.HasPrefix(display, "serial") && c.missing("clone") && !slices.Contains(ports, display) {
		c.refuse("vga.type", "There is no serial port %s: serial has %s.", display, list(ports))
	}
	b := smbiosModel{}
	for key, field := range map[string]**string{"uuid": &b.UUID, "manufacturer": &b.Manufacturer, "product": &b.Product,
		"version": &b.Version, "serial": &b.Serial, "sku": &b.SKU, "family": &b.Family} {
		if text := c.says("smbios." + key); text != "" {
			*field = &text
		}
	}
	if length := len(vm.Encode(vm.Spec{SMBIOS: vm.SMBIOS(b)})["smbios1"]); length > 512 {
		c.refuse("smbios", fmt.Sprintf("The texts are too long: as PVE stores them they have %d characters, and 512 is the most.", length))
	}
}

// passedThrough demands one way to name each device, and the machine that it needs.
func (c *checker) passedThrough() {
	for _, family := range []string{"pci", "usb"} {
		slots, _ := c.keys(family)
		for _, slot := range slots {
			at := family + "." + slot
			switch {
			case c.set(at+".mapping") && c.set(at+".host"):
				c.refuse(at+".host", "%s is named twice: set either mapping or host.", slot)
			case c.missing(at+".mapping") && c.missing(at+".host") && c.missing("clone"):
				c.refuse(at, "%s names no device: set either mapping or host.", slot)
			}
		}
	}
	slots, _ := c.keys("pci")
	for _, slot := range slots {
		at := "pci." + slot
		if c.truth(at+".pcie") && c.settled("machine") && !isQ35(c.says("machine")) {
			c.refuse(at+".pcie", "PCI Express needs machine = \"q35\".")
		}
		if c.truth(at+".legacy_igd") && c.settled("machine") && isQ35(c.says("machine")) {
			c.refuse(at+".legacy_igd", "The legacy mode needs machine = \"pc\".")
		}
	}
	slots, _ = c.keys("numa_nodes")
	for _, slot := range slots {
		at := "numa_nodes." + slot
		if c.set(at+".hostnodes") && c.missing(at+".policy") && c.missing("clone") {
			c.refuse(at+".policy", "hostnodes needs a policy: preferred, bind or interleave.")
		}
	}
}

// settled reports whether the configuration decides a value: it is known, and if it is left out no template decides.
func (c *checker) settled(dotted string) bool {
	return c.set(dotted) || c.missing(dotted) && c.missing("clone")
}

// truth reports whether a flag is known to be true.
func (c *checker) truth(dotted string) bool {
	is := false
	return c.set(dotted) && c.at(dotted).As(&is) == nil && is
}

// count is a known number, or 0.
func (c *checker) count(dotted string) float64 {
	if v := c.at(dotted); c.set(dotted) && v.Type().Is(tftypes.Number) {
		return floatOf(v)
	}
	return 0
}

func isQ35(machine string) bool { return machine == "q35" || strings.HasPrefix(machine, "pc-q35-") }
