package power

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// startChecks refuse what no command line is made of (qemu-server QemuServer.pm, config_to_command;
// QemuServer/Memory.pm, config). A template is none: it never starts.
func startChecks(p engine.Process, g *state.Guest) error {
	c := g.Config
	if err := machineRuns(p, g); err != nil {
		return err
	}
	if err := chainsFit(p, g); err != nil {
		return err
	}
	sockets, cores := max(1, perl.Number(c["sockets"])), max(1, perl.Number(c["cores"]))
	if cpus := p.W.Nodes[g.Node].CPUs; cpus > 0 && sockets*cores > cpus {
		return perl.Die("MAX %d vcpus allowed per VM on this node", cpus)
	}
	if err := memoryFits(p, g, sockets); err != nil {
		return err
	}
	if err := devicesFit(p, g); err != nil {
		return err
	}
	return numaFits(c, memoryOf(c))
}

// machineRuns compares a pinned machine with the QEMU that is installed.
func machineRuns(p engine.Process, g *state.Guest) error {
	machine := config.MachineOf(p.Engine, p.W, g.Config)
	_, version, ok := strings.Cut(strings.TrimPrefix(machine, "pc-"), "-")
	if !ok {
		return nil
	}
	version, revision, _ := strings.Cut(version, "+pve")
	have := p.W.QEMUVersion()
	major, minor := versionPair(version)
	if m, n := versionPair(have); major > m || major == m && minor > n {
		return perl.Die("Installed QEMU version '%s' is too old to run machine type '%s', please upgrade node '%s'", have,
			machine, g.Node)
	}
	if highest := state.MachineRevision(p.W, version); perl.Number(revision) > highest {
		return perl.Die("Installed qemu-server (max feature level for %d.%d is pve%d) is too old to run machine type "+
			"'%s', please upgrade node '%s'",
			major, minor, highest, machine, g.Node)
	}
	return nil
}

// chainsFit refuses a machine before 10.0 with a qcow2 drive on a storage with snapshot-as-volume-chain (qemu-server
// QemuServer.pm, print_drive_commandline_full).
func chainsFit(p engine.Process, g *state.Guest) error {
	machine := perl.Subvalue(g.Config["machine"], "type", true) // one that is not pinned is of the installed QEMU
	_, version, isPinned := strings.Cut(strings.TrimPrefix(machine, "pc-"), "-")
	if major, _ := versionPair(version); !isPinned || major >= 10 {
		return nil
	}
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		file, _, _ := strings.Cut(g.Config[opt], ",")
		id, name, _ := state.SplitVolid(file)
		if s := p.W.Storages[id]; drive.IsDrive(opt) && opt != "efidisk0" && opt != "tpmstate0" && s != nil &&
			s.Options["snapshot-as-volume-chain"] == "1" && strings.HasSuffix(name, ".qcow2") {
			return perl.Die("storage for '%s' is configured for snapshots as a volume chain - this requires QEMU machine "+
				"version >= 10.0. See https://pve.proxmox.com/wiki/QEMU_Machine_Version_Upgrade", file)
		}
	}
	return nil
}

func versionPair(version string) (major, minor int) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return perl.Number(version), 0
	}
	return perl.Number(parts[0]), perl.Number(parts[1])
}

func memoryOf(conf map[string]string) int {
	if n := perl.Number(perl.Subvalue(conf["memory"], "current", true)); n > 0 {
		return n
	}
	return 512
}

// staticMemory is what a guest with memory hotplug starts with at least, in MiB (Memory.pm, $STATICMEM).
const staticMemory = 1024

func memoryFits(p engine.Process, g *state.Guest, sockets int) error {
	c, memory := g.Config, memoryOf(g.Config)
	if c["hugepages"] != "" && c["numa"] != "1" {
		return perl.Die("numa needs to be enabled to use hugepages")
	}
	if !config.Features(c)["memory"] {
		return hugePagesFit(c, memory, sockets)
	}
	if c["numa"] != "1" {
		return perl.Die("NUMA needs to be enabled for memory hotplug")
	}
	for n := range 8 {
		if c[fmt.Sprintf("numa%d", n)] != "" {
			return perl.Die("cannot enable memory hotplugging with custom NUMA topology")
		}
	}
	static := staticMemory
	if c["hugepages"] == "1024" {
		static *= sockets
	}
	if memory < static {
		return perl.Die("minimum memory must be %dMB", static)
	}
	for k := range c {
		if drive.HasIndex(k, "virtiofs") {
			return perl.Die("Memory hotplug does not work in combination with virtio-fs.")
		}
	}
	return alignedMemory(memory, static)
}

// alignedMemory lets the memory above the static one be made of DIMMs, 32 of a size, twice as large every time
// (Memory.pm, foreach_dimm).
func alignedMemory(memory, static int) error {
	for current, size := static, 512; current < memory; size *= 2 {
		for n := 0; n < 32 && current < memory; n++ {
			if current += size; current > memory {
				return perl.Die("memory size (%d) must be aligned to %d for hotplugging", memory, size)
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
		node := perl.Subvalue(value, "memory", false)
		switch {
		case node == "":
			return perl.Die("missing NUMA node%d memory value", n)
		case perl.Subvalue(value, "cpus", false) == "":
			return perl.Die("missing NUMA node%d cpus", n)
		case perl.Subvalue(value, "hostnodes", false) != "" && perl.Subvalue(value, "policy", false) == "":
			return perl.Die("you need to define a policy for hostnode %s", perl.Subvalue(value, "hostnodes", false))
		}
		size, _ := strconv.ParseFloat(node, 64) // a number, by the format
		total += int(size)
	}
	if total > 0 && total != memory {
		return perl.Die("total memory for NUMA nodes must be equal to vm static memory")
	}
	return nil
}
