package vmschema

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// passthroughAttributes are the devices and resources of the node that the VM is given (qemu-server PCI.pm, USB.pm,
// Memory.pm, Virtiofs.pm).
func passthroughAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"pci": slotMap("PCI devices of the node by slot: `hostpci0`–`15`. Each has either `mapping` or `host`. A VM "+
			"with such a device cannot migrate while it runs.",
			"hostpci", "must be a slot for a PCI device: hostpci0-15", pciAttributes()),
		"usb": slotMap("USB devices by slot: `usb0`–`13`; `usb5` and up need a machine version of 7.1 or later and Linux "+
			"2.6 or Windows 8 or later. Each has either `mapping` or `host`.",
			"usb", "must be a USB slot: usb0-13", map[string]schema.Attribute{
				"mapping": textOption("Resource mapping of the datacenter that names the device.", configID()),
				"host": textOption("`spice`: a port for the devices of a SPICE client. A device of the node, `1234:abcd` "+
					"(vendor and product) or `1-2.3` (bus and port): only `root@pam`; others use `mapping`.",
					stringvalidator.RegexMatches(usbHost, "must be spice, vendor and product such as 1234:abcd, or bus and port "+
						"such as 1-2.3")),
				"usb3": flagOption("Attach it to a USB 3 controller; without effect with `usb5` and up and on recent machine " +
					"versions, which use USB 3 always."),
			}),
		"numa_nodes": slotMap("NUMA nodes of the guest by slot: `numa0`–`7`; used with `cpu.numa = true`, and their "+
			"memory adds up to `memory.size`.",
			"numa", "must be a NUMA node: numa0-7", map[string]schema.Attribute{
				"cpus": schema.StringAttribute{Required: true, Validators: []validator.String{cpuRanges()},
					MarkdownDescription: "Processors of the guest on this node: `0-3;6`."},
				"memory":    countOption("Memory of this node in MiB.", atLeast(1)),
				"hostnodes": textOption("NUMA nodes of the host that the memory comes from: `0-1`.", cpuRanges()),
				"policy": textOption("How the host allocates it: `preferred`, `bind` or `interleave`; only with `hostnodes`.",
					oneWord("preferred", "bind", "interleave")),
			}),
		"virtiofs": slotMap("Directories of the node that the guest can mount, by slot: `virtiofs0`–`9`. A VM with one "+
			"cannot migrate while it runs.",
			"virtiofs", "must be a slot for a shared directory: virtiofs0-9", map[string]schema.Attribute{
				"dirid": schema.StringAttribute{Required: true, Validators: []validator.String{configID()},
					MarkdownDescription: "Directory mapping of the datacenter; the guest mounts it by this name."},
				"cache": textOption("Caching in the guest: `auto`, `always`, `metadata`, `never`.",
					oneWord("auto", "always", "metadata", "never")),
				"direct_io":    flagOption("Let the guest bypass the cache with `O_DIRECT`."),
				"expose_xattr": flagOption("Show extended attributes to the guest."),
				"expose_acl":   flagOption("Show POSIX ACLs to the guest; it implies `expose_xattr`."),
			}),
		"serial": slotMap("Serial ports by slot: `serial0`–`3`.",
			"serial", "must be a serial port: serial0-3", map[string]schema.Attribute{
				"device": schema.StringAttribute{Required: true,
					Validators: []validator.String{stringvalidator.RegexMatches(serialDevice,
						"must be socket or a device of the node, such as /dev/ttyS0")},
					MarkdownDescription: "`socket`: a socket on the node, for `qm terminal` and the console. `/dev/…`: a device " +
						"of the node; only `root@pam`."},
			}),
		"parallel": slotMap("Parallel ports by slot: `parallel0`–`2`.",
			"parallel", "must be a parallel port: parallel0-2", map[string]schema.Attribute{
				"device": schema.StringAttribute{Required: true,
					Validators: []validator.String{stringvalidator.RegexMatches(parallelDevice,
						"must be a parallel port of the node, such as /dev/parport0 or /dev/usb/lp0")},
					MarkdownDescription: "Device of the node: `/dev/parport0`, `/dev/usb/lp0`."},
			}),
	}
}

func pciAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"mapping": textOption("Resource mapping of the datacenter that names the device on each node.", configID()),
		"host": textOption("Address of the device on the node, `01:00.0`, or of all its functions, `01:00`; several are "+
			"separated by `;`. Other identities use `mapping`.",
			stringvalidator.RegexMatches(pciHost, "must be PCI addresses such as 01:00.0 or 0000:01:00, in lower case, "+
				"separated by semicolons")),
		"pcie":   flagOption("Present it as a PCI Express device; needs `machine = \"q35\"`."),
		"rombar": flagOption("Show the device's ROM to the guest."),
		"romfile": textOption("File with a ROM, relative to `/usr/share/kvm/` of the node.",
			stringvalidator.RegexMatches(romFile, "must be a file name without commas and semicolons")),
		"x_vga": flagOption("Make it the primary display of the guest (GPU)."),
		"legacy_igd": flagOption("Pass an integrated Intel GPU through in legacy mode; needs `machine = \"pc\"` and " +
			"`vga.type = \"none\"`."),
		"mdev": textOption("Type of a mediated device (vGPU), such as `nvidia-63`; an instance is made at every start.",
			stringvalidator.RegexMatches(mdevType, "must be a type of mediated devices, without slashes, dots and colons")),
		"vendor_id":     textOption("Vendor id that the guest sees, `0x10de`.", pciID()),
		"device_id":     textOption("Device id that the guest sees.", pciID()),
		"sub_vendor_id": textOption("Subsystem vendor id that the guest sees.", pciID()),
		"sub_device_id": textOption("Subsystem device id that the guest sees.", pciID()),
		"driver": textOption("Driver of the node: `vfio` binds the device to vfio-pci, `keep` leaves it with its "+
			"own.", oneWord("vfio", "keep")),
	}
}

func pciID() validator.String {
	return stringvalidator.RegexMatches(pciNumber, "must be 0x and four hexadecimal digits")
}

func configID() validator.String {
	return stringvalidator.RegexMatches(mappingID, "must be the name of a mapping: a letter, then letters, digits, "+
		"hyphens and underscores")
}

func cpuRanges() validator.String {
	return stringvalidator.RegexMatches(ranges, "must be numbers and ranges separated by semicolons, such as 0-3;6")
}
