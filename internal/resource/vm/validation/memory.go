package validation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// memoryHotplug refuses the hotplug of memory where PVE starts no VM with it (qemu-server QemuServer/Memory.pm config).
func memoryHotplug(c *Validation) {
	if !slices.Contains(model.Texts(c.At("hotplug")), "memory") {
		return
	}
	if c.IsDecided("cpu.numa") && !c.IsTrue("cpu.numa") {
		c.Refuse("hotplug", "PVE starts a VM with hotplug of memory only if it has NUMA: set cpu.numa = true, or take "+
			"memory out of hotplug.")
	}
	for _, family := range []string{"numa_nodes", "virtiofs"} {
		if slots, _ := c.Keys(family); len(slots) > 0 {
			c.Refuse("hotplug", "PVE starts no VM that has hotplug of memory and %s: take memory out of hotplug, or leave %s "+
				"out.", family, family)
		}
	}
	if size := cmp.Or(c.Number("memory.size"), defaultMemory); c.IsDecided("memory.size") &&
		c.IsNull("memory.hugepages") && !isPluggable(size) {
		c.Refuse("memory.size", fmt.Sprintf("PVE starts a VM with hotplug of memory only if it has 1024 MiB and whole "+
			"modules of 512 MiB, of 1024 MiB beyond 17408 MiB, and so on. It has %.0f MiB.", size))
	}
}

// defaultMemory is PVE's, in MiB.
const defaultMemory = 512.0

// isPluggable reports whether memory consists of the first GiB and of whole modules: 32 of each size, which doubles
// (qemu-server QemuServer/Memory.pm foreach_dimm).
func isPluggable(mib float64) bool {
	has := 1024.0
	for module := 512.0; has < mib; module *= 2 {
		for i := 0; i < 32 && has < mib; i++ {
			has += module
		}
	}
	return has == mib
}

// numaNodes refuses NUMA nodes with which PVE starts no VM (qemu-server QemuServer/Memory.pm config).
func numaNodes(c *Validation) {
	slots, known := c.Keys("numa_nodes")
	if !known || len(slots) == 0 || c.Copies() || !c.IsTrue("cpu.numa") || !c.IsDecided("memory.size") {
		return
	}
	sum, whole := 0.0, max(c.Number("memory.size"), 0)
	for _, slot := range slots {
		at := "numa_nodes." + slot + ".memory"
		if c.IsNull(at) && c.IsNull("power_state") && !c.IsTrue("template") {
			c.Refuse(at, "With cpu.numa = true PVE starts a VM only if each NUMA node has memory: set it for %s.", slot)
		}
		if !c.IsSet(at) {
			return
		}
		sum += c.Number("numa_nodes." + slot + ".memory")
	}
	if whole == 0 {
		whole = defaultMemory
	}
	if sum != whole {
		c.Refuse("numa_nodes", fmt.Sprintf("The NUMA nodes have %.0f MiB together and the VM has %.0f MiB: the two must "+
			"be equal.", sum, whole))
	}
}

// hugePages refuses memory that is not made of huge pages: of the NUMA nodes, or of the share of each socket
// (QemuServer/Memory.pm hugepages_topology, hugepages_size). Where memory is plugged in, the modules are.
func hugePages(c *Validation) {
	pages := c.Text("memory.hugepages")
	slots, known := c.Keys("numa_nodes")
	if pages == "" || !known || !c.IsTrue("cpu.numa") || !c.At("hotplug").IsFullyKnown() ||
		slices.Contains(model.Texts(c.At("hotplug")), "memory") {
		return
	}
	for _, slot := range slots {
		at := "numa_nodes." + slot
		nodes := c.Text(at + ".hostnodes")
		if c.At(at+".hostnodes").IsKnown() && (len(nodes) != 1 || nodes < "0" || nodes > "9") {
			c.Refuse(at+".hostnodes", "With huge pages PVE takes the memory of %s from one NUMA node of the host, 0 to 9: name "+
				"it.", slot)
			return
		}
		if c.IsSet(at+".memory") && c.inPages(at+".memory", c.Number(at+".memory"), pages) {
			return
		}
	}
	if len(slots) == 0 && c.IsDecided("cpu.sockets") && c.IsDecided("memory.size") {
		sockets := max(c.Number("cpu.sockets"), 1)
		c.inPages("memory.size", cmp.Or(c.Number("memory.size"), defaultMemory)/sockets, pages)
	}
}

// inPages refuses memory that does not consist of whole pages, and reports whether it has.
func (c *Validation) inPages(at string, mib float64, pages string) bool {
	size := 2.0 // "any" takes pages of 2 MiB where those of a GiB do not fit
	if pages == "1024" {
		size = 1024
	}
	if whole := mib / size; whole == float64(int64(whole)) {
		return false
	}
	c.Refuse(at, fmt.Sprintf("%s MiB are not made of huge pages of %.0f MiB, and PVE starts no VM with them. Each socket "+
		"has its share of memory.size, or each NUMA node its own.", strconv.FormatFloat(mib, 'f', -1, 64), size))
	return true
}
