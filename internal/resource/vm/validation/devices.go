package validation

import (
	"slices"
	"strconv"
	"strings"
)

// pciExpress demands the machine that a PCI device needs.
func pciExpress(c *Validation) {
	slots, _ := c.Keys("pci")
	for _, slot := range slots {
		at := "pci." + slot
		if c.IsTrue(at+".pcie") && c.IsDecided("machine") && !isQ35(c.Text("machine")) {
			c.Refuse(at+".pcie", "PCI Express needs machine = \"q35\".")
		}
		if c.IsTrue(at+".legacy_igd") && c.IsDecided("machine") && isQ35(c.Text("machine")) {
			c.Refuse(at+".legacy_igd", "The legacy mode needs machine = \"pc\".")
		}
	}
}

// legacyIGD refuses what PVE does not take together with the legacy mode of an Intel GPU (QemuServer/PCI.pm
// parse_hostpci_devices).
func legacyIGD(c *Validation) {
	slots, _ := c.Keys("pci")
	slots = slices.DeleteFunc(slots, func(slot string) bool { return !c.IsTrue("pci." + slot + ".legacy_igd") })
	for i, slot := range slots {
		at := "pci." + slot
		switch {
		case i > 0:
			c.Refuse(at+".legacy_igd", "One device of a VM can be in the legacy mode, and %s is already.", slots[0])
		case c.IsDecided("vga.type") && c.Text("vga.type") != "none", c.IsSet("vga.memory"), c.IsSet("vga.clipboard"):
			c.Refuse(at+".legacy_igd", "The legacy mode needs vga = { type = \"none\" }, and nothing else in vga.")
		case c.IsFalse(at + ".rombar"):
			c.Refuse(at+".rombar", "The legacy mode needs the ROM of the device: leave rombar out.")
		case c.IsTrue(at + ".x_vga"):
			c.Refuse(at+".x_vga", "PVE takes either x_vga or legacy_igd.")
		case c.IsSet(at + ".mdev"):
			c.Refuse(at+".mdev", "PVE takes either mdev or legacy_igd.")
		}
	}
}

// samePCIDevice refuses one device of the node in two slots (QemuServer/PCI.pm choose_hostpci_devices). Instances of a
// mediated device are several.
func samePCIDevice(c *Validation) {
	has := map[string]string{}
	slots, _ := c.Keys("pci")
	for _, slot := range slots {
		at := "pci." + slot
		if !c.IsSet(at+".host") || !c.IsNull(at+".mdev") {
			continue
		}
		for device := range strings.SplitSeq(c.Text(at+".host"), ";") {
			device = strings.TrimPrefix(device, "0000:")
			if other := has[device]; other != "" {
				c.Refuse(at+".host", "%s has the device %s already, and PVE passes it through once.", other, device)
				return
			}
			has[device] = slot
		}
	}
}

// usbSlots refuses the slots that only the newer USB controller has (QemuServer/USB.pm assert_usb_index_is_useable).
func usbSlots(c *Validation) {
	slots, _ := c.Keys("usb")
	for _, slot := range slots {
		index, err := strconv.Atoi(strings.TrimPrefix(slot, "usb"))
		if err != nil || index < 5 {
			continue
		}
		takesMore := slices.Contains([]string{"l26", "win8", "win10", "win11"}, c.Text("ostype"))
		if c.IsDecided("ostype") && !takesMore {
			c.Refuse("usb."+slot, "PVE starts a VM with %s only if it knows the guest for Linux or for Windows 8 or later: set "+
				"ostype, or choose one of usb0 to usb4.", slot)
			return
		}
		if isBefore71(c.Text("machine")) {
			c.Refuse("usb."+slot, "PVE starts a VM with %s only on a machine of version 7.1 or later: choose one of usb0 to "+
				"usb4, or another machine.", slot)
			return
		}
	}
}

// isBefore71 reports whether a machine is pinned to a version before 7.1: "pc-q35-6.2+pve1".
func isBefore71(machine string) bool {
	version, _, _ := strings.Cut(machine[strings.LastIndex(machine, "-")+1:], "+")
	n, err := strconv.ParseFloat(version, 64)
	return err == nil && n < 7.1
}

// sharedACLs refuses POSIX ACLs for Windows (QemuServer/Virtiofs.pm assert_virtiofs_config).
func sharedACLs(c *Validation) {
	slots, _ := c.Keys("virtiofs")
	for _, slot := range slots {
		if at := "virtiofs." + slot + ".expose_acl"; c.IsTrue(at) && strings.HasPrefix(c.Text("ostype"), "w") {
			c.Refuse(at, "PVE shows no POSIX ACLs to a guest with Windows, which could not mount the directory: leave "+
				"expose_acl out.")
		}
	}
}

// smallMTU refuses what is too small for IP (QemuServer.pm print_netdevice_full); 1 stands for the bridge's.
func smallMTU(c *Validation) {
	slots, _ := c.Keys("networks")
	for _, slot := range slots {
		at := "networks." + slot
		if mtu := c.Number(at + ".mtu"); mtu > 1 && mtu < 576 && c.IsSet(at+".bridge") && c.IsDecided(at+".model") &&
			slices.Contains([]string{"", "virtio"}, c.Text(at+".model")) {
			c.Refuse(at+".mtu", "PVE starts no VM with an MTU below 576, which is the least for IP. 1 is the MTU of the bridge.")
		}
	}
}

func isQ35(machine string) bool { return machine == "q35" || strings.HasPrefix(machine, "pc-q35-") }
