package handle

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// startChecks refuse what no command line is made of (qemu-server QemuServer.pm, config_to_command; QemuServer/Memory.pm, config).
// A template is none: it never starts.
func (p process) startChecks(g *state.Guest) error {
	c := g.Config
	if err := p.machineRuns(g); err != nil {
		return err
	}
	sockets, cores := max(1, number(c["sockets"])), max(1, number(c["cores"]))
	if cpus := p.W.Nodes[g.Node].CPUs; cpus > 0 && sockets*cores > cpus {
		return Die("MAX %d vcpus allowed per VM on this node", cpus)
	}
	if err := p.memoryFits(g, sockets); err != nil {
		return err
	}
	return numaFits(c, memoryOf(c))
}

// machineRuns compares a pinned machine with the QEMU that is installed.
func (p process) machineRuns(g *state.Guest) error {
	machine := p.Server.machineOf(p.W, g.Config)
	_, version, ok := strings.Cut(strings.TrimPrefix(machine, "pc-"), "-")
	if !ok {
		return nil
	}
	version, revision, _ := strings.Cut(version, "+pve")
	have := p.W.QEMUVersion()
	major, minor := versionPair(version)
	if m, n := versionPair(have); major > m || major == m && minor > n {
		return Die("Installed QEMU version '%s' is too old to run machine type '%s', please upgrade node '%s'", have, machine, g.Node)
	}
	if highest := p.W.MachineRevision(version); number(revision) > highest {
		return Die("Installed qemu-server (max feature level for %d.%d is pve%d) is too old to run machine type '%s', please upgrade node '%s'",
			major, minor, highest, machine, g.Node)
	}
	return nil
}

func versionPair(version string) (major, minor int) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return number(version), 0
	}
	return number(parts[0]), number(parts[1])
}

// machineOf is the machine type that a guest starts with: a version that PVE has no revision of counts as its first (Machine.pm,
// get_vm_machine).
func (s *Server) machineOf(w *state.World, conf map[string]string) string {
	typ := subvalue(conf["machine"], "type", true)
	switch typ {
	case "", "pc":
		return "pc-i440fx-" + w.MachineVersion()
	case "q35":
		return "pc-q35-" + w.MachineVersion()
	}
	if !strings.Contains(typ, "+pve") {
		typ += "+pve0"
	}
	return typ
}

func memoryOf(conf map[string]string) int {
	if n := number(subvalue(conf["memory"], "current", true)); n > 0 {
		return n
	}
	return 512
}

// staticMemory is what a guest with memory hotplug starts with at least, in MiB (Memory.pm, $STATICMEM).
const staticMemory = 1024

func (p process) memoryFits(g *state.Guest, sockets int) error {
	c, memory := g.Config, memoryOf(g.Config)
	if c["hugepages"] != "" && c["numa"] != "1" {
		return Die("numa needs to be enabled to use hugepages")
	}
	if !features(c)["memory"] {
		return nil
	}
	if c["numa"] != "1" {
		return Die("NUMA needs to be enabled for memory hotplug")
	}
	for n := range 8 {
		if c[fmt.Sprintf("numa%d", n)] != "" {
			return Die("cannot enable memory hotplugging with custom NUMA topology")
		}
	}
	static := staticMemory
	if c["hugepages"] == "1024" {
		static *= sockets
	}
	if memory < static {
		return Die("minimum memory must be %dMB", static)
	}
	for k := range c {
		if hasIndex(k, "virtiofs") {
			return Die("Memory hotplug does not work in combination with virtio-fs.")
		}
	}
	return alignedMemory(memory, static)
}

// alignedMemory lets the memory above the static one be made of DIMMs, 32 of a size, twice as large every time (Memory.pm,
// foreach_dimm).
func alignedMemory(memory, static int) error {
	for current, size := static, 512; current < memory; size *= 2 {
		for n := 0; n < 32 && current < memory; n++ {
			if current += size; current > memory {
				return Die("memory size (%d) must be aligned to %d for hotplugging", memory, size)
			}
		}
	}
	return nil
}

// numaFits checks a topology that the configuration describes itself.
func numaFits(c map[string]string, memory int) error {
	if c["numa"] != "1" {
		return nil
	}
	total := 0
	for n := range 8 {
		value := c[fmt.Sprintf("numa%d", n)]
		if value == "" {
			continue
		}
		node := subvalue(value, "memory", false)
		switch {
		case node == "":
			return Die("missing NUMA node%d memory value", n)
		case subvalue(value, "cpus", false) == "":
			return Die("missing NUMA node%d cpus", n)
		case subvalue(value, "hostnodes", false) != "" && subvalue(value, "policy", false) == "":
			return Die("you need to define a policy for hostnode %s", subvalue(value, "hostnodes", false))
		}
		size, _ := strconv.ParseFloat(node, 64) // a number, by the format
		total += int(size)
	}
	if total > 0 && total != memory {
		return Die("total memory for NUMA nodes must be equal to vm static memory")
	}
	return nil
}
