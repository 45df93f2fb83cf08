package validation

import (
	"fmt"
	"slices"
	"strings"
)

// combination is a rule about values that PVE takes one by one, and with which together it starts no VM.
type combination struct {
	of     []string // the attributes that take part
	check  func(*Validation)
	stored bool // false where PVE refuses to store them, too
}

// combinations are all such rules that a plan can judge without the node. PVE has them where it makes the command line
// of a guest (qemu-server QemuServer.pm config_to_command), and says nothing of most of them before.
func combinations() []combination {
	return []combination{
		{of: []string{"vga"}, check: clipboard},
		{of: []string{"machine_options", "machine"}, check: virtualIOMMU},
		{of: []string{"cpu.vcpus", "cpu.cores", "cpu.sockets"}, check: vcpus, stored: true},
		{of: []string{"hotplug", "cpu.numa", "memory.size", "numa_nodes", "virtiofs"}, check: memoryHotplug, stored: true},
		{of: []string{"numa_nodes", "cpu.numa", "memory.size"}, check: numaNodes, stored: true},
		{of: []string{"memory", "cpu.numa", "cpu.sockets", "numa_nodes"}, check: hugePages, stored: true},
		{of: []string{"pci", "machine"}, check: pciExpress, stored: true},
		{of: []string{"pci", "vga"}, check: legacyIGD, stored: true},
		{of: []string{"pci"}, check: samePCIDevice, stored: true},
		{of: []string{"bios", "cpu.type"}, check: firmwareOfCPU, stored: true},
		{of: []string{"bios", "amd_sev", "intel_tdx"}, check: firmwareOfEncryption, stored: true},
		{of: []string{"kvm", "cpu.type"}, check: emulatedCPU, stored: true},
		{of: []string{"usb", "ostype", "machine"}, check: usbSlots, stored: true},
		{of: []string{"virtiofs", "ostype"}, check: sharedACLs, stored: true},
		{of: []string{"networks"}, check: smallMTU, stored: true},
	}
}

// Together refuses values that do not go together where the plan sets one of them: what PVE only stores, where the
// apply starts the VM.
func (c *Validation) Together(sets func(attribute string) bool, starts bool) {
	for _, rule := range combinations() {
		if !rule.stored && slices.ContainsFunc(rule.of, sets) ||
			starts && slices.ContainsFunc(append(rule.of, "power_state"), sets) {
			rule.check(c)
		}
	}
}

// clipboard refuses the clipboard of VNC on a display that has none (QemuServer.pm assert_clipboard_config).
func clipboard(c *Validation) {
	display := c.Text("vga.type")
	if c.Text("vga.clipboard") == "vnc" && (strings.HasPrefix(display, "serial") || display == "none") {
		c.Refuse("vga.clipboard", "PVE has the clipboard of VNC only on a display with graphics, and not on %s: choose "+
			"another vga.type, or leave vga.clipboard out.", display)
	}
}

// virtualIOMMU refuses what PVE gives no virtual IOMMU (QemuServer/Machine.pm assert_valid_machine_property).
func virtualIOMMU(c *Validation) {
	if c.Text("machine_options.viommu") == "intel" && c.IsDecided("machine") && !isQ35(c.Text("machine")) {
		c.Refuse("machine_options.viommu", "The virtual IOMMU of Intel is only for machine = \"q35\".")
	}
	if c.IsSet("machine_options.aw_bits") && c.IsNull("machine_options.viommu") && !c.Copies() {
		c.Refuse("machine_options.aw_bits", "aw_bits is the address width of the virtual IOMMU: set "+
			"machine_options.viommu too.")
	}
	if bits := c.Number("machine_options.aw_bits"); c.Text("machine_options.viommu") == "intel" &&
		!slices.Contains([]float64{0, 39, 48}, bits) {
		c.Refuse("machine_options.aw_bits", "The virtual IOMMU of Intel has an address width of 39 or 48 bits.")
	}
}

// vcpus refuses more of them than there are processors, with which QEMU does not start.
func vcpus(c *Validation) {
	if vcpus := c.Number("cpu.vcpus"); vcpus > 0 && c.IsDecided("cpu.sockets") && c.IsDecided("cpu.cores") {
		if most := max(c.Number("cpu.sockets"), 1) * max(c.Number("cpu.cores"), 1); vcpus > most {
			c.Refuse("cpu.vcpus", fmt.Sprintf("There are only %.0f processors (sockets × cores) to plug in, and not %.0f.",
				most, vcpus))
		}
	}
}

// firmwareOfCPU refuses UEFI for a processor of 32 bits (QemuServer.pm config_to_command, CPUConfig.pm get_cpu_bitness;
// since qemu-server 8.1.0, and before that the firmware did not boot).
func firmwareOfCPU(c *Validation) {
	if kind := c.Text("cpu.type"); c.Text("bios") == "ovmf" && slices.Contains([]string{"486", "pentium", "pentium2",
		"pentium3", "coreduo", "athlon", "kvm32", "qemu32"}, kind) {
		c.Refuse("bios", "The processor %s has 32 bits, and PVE starts UEFI on 64 bits only: choose another cpu.type, or "+
			"bios = \"seabios\".", kind)
	}
}

// firmwareOfEncryption refuses encrypted memory without UEFI (CPUConfig.pm get_amd_sev_object, get_intel_tdx_object).
func firmwareOfEncryption(c *Validation) {
	for _, technology := range []string{"amd_sev", "intel_tdx"} {
		if c.IsSet(technology) && c.IsDecided("bios") && c.Text("bios") != "ovmf" {
			c.Refuse("bios", "PVE starts a VM with %s only with UEFI: set bios = \"ovmf\".", technology)
			return
		}
	}
}

// emulatedCPU refuses the processor of the host where QEMU emulates one: "CPU model 'host' requires KVM".
func emulatedCPU(c *Validation) {
	if c.IsFalse("kvm") && c.Text("cpu.type") == "host" {
		c.Refuse("cpu.type", "The processor of the host needs KVM: choose another cpu.type, or leave kvm out.")
	}
}
