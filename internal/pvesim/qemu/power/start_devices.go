package power

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// devicesFit refuses values that PVE stores and makes no command line of (qemu-server QemuServer.pm config_to_command).
func devicesFit(p engine.Process, g *state.Guest) error {
	c := g.Config
	for _, check := range []func(map[string]string) error{firmwareFits, displayFits, pciFits, sharesFit} {
		if err := check(c); err != nil {
			return err
		}
	}
	return usbFits(p, g)
}

// firmwareFits is what the firmware needs (CPUConfig.pm get_cpu_bitness, get_amd_sev_object, get_intel_tdx_object).
func firmwareFits(c map[string]string) error {
	kind := perl.Subvalue(c["cpu"], "cputype", true)
	if c["bios"] == "ovmf" && slices.Contains([]string{"486", "pentium", "pentium2", "pentium3", "coreduo", "athlon",
		"kvm32", "qemu32"}, kind) {
		return perl.Die("OVMF (UEFI) BIOS is not supported on 32-bit CPU types")
	}
	for option, name := range map[string]string{"amd-sev": "AMD SEV", "intel-tdx": "Intel TDX"} {
		if c[option] != "" && c["bios"] != "ovmf" {
			return perl.Die("To use %s, you need to change the BIOS to OVMF.", name)
		}
	}
	return nil
}

func displayFits(c map[string]string) error { return config.CheckClipboard(c["vga"]) }

// pciFits is parse_hostpci_devices and choose_hostpci_devices (QemuServer/PCI.pm), as far as they do not ask the
// hardware.
func pciFits(c map[string]string) error {
	used, legacy := map[string]bool{}, false
	for n := range 16 {
		value := c[fmt.Sprintf("hostpci%d", n)]
		has := func(key string) string { return perl.Subvalue(value, key, key == "host") }
		q35 := strings.Contains(perl.Subvalue(c["machine"], "type", true), "q35")
		if value == "" {
			continue
		}
		if has("pcie") == "1" && !q35 {
			return perl.Die("q35 machine model is not enabled")
		}
		if has("legacy-igd") == "1" {
			switch {
			case legacy:
				return perl.Die("only one device can be assigned in legacy-igd mode")
			case c["vga"] != "none":
				return perl.Die("legacy IGD assignment requires VGA mode to be 'none'")
			case has("rombar") == "0":
				return perl.Die("legacy IGD assignment requires rombar to be enabled")
			case has("x-vga") == "1":
				return perl.Die("legacy IGD assignment is not compatible with x-vga")
			case has("mdev") != "":
				return perl.Die("legacy IGD assignment is not compatible with mdev")
			case q35:
				return perl.Die("legacy IGD assignment is not compatible with q35")
			}
			legacy = true
		}
		if has("host") == "" || has("mdev") != "" {
			continue
		}
		for id := range strings.SplitSeq(has("host"), ";") {
			if id = "0000:" + strings.TrimPrefix(id, "0000:"); used[id] {
				return perl.Die("device '%s' assigned more than once", id)
			}
			used[id] = true
		}
	}
	return nil
}

// sharesFit is assert_virtiofs_config (QemuServer/Virtiofs.pm).
func sharesFit(c map[string]string) error {
	for n := range 10 {
		if perl.Subvalue(c[fmt.Sprintf("virtiofs%d", n)], "expose-acl", false) == "1" && strings.HasPrefix(c["ostype"], "w") {
			return perl.Die("Please disable ACLs for virtiofs on Windows VMs, otherwise the virtiofs shared directory cannot " +
				"be mounted.")
		}
	}
	return nil
}

// usbFits is assert_usb_index_is_useable (QemuServer/USB.pm).
func usbFits(p engine.Process, g *state.Guest) error {
	for n := 5; n < 14; n++ {
		if g.Config[fmt.Sprintf("usb%d", n)] != "" && !config.HasXHCI(p, g.Config) {
			return perl.Die("using usb%d is only possible with machine type >= 7.1 and ostype l26 or windows > 7", n)
		}
	}
	return nil
}

// hugePagesFit is hugepages_topology (QemuServer/Memory.pm) for memory that is there at the start.
func hugePagesFit(c map[string]string, memory, sockets int) error {
	if c["hugepages"] == "" {
		return nil
	}
	custom := false
	for n := range 8 {
		value := c[fmt.Sprintf("numa%d", n)]
		if value == "" {
			continue
		}
		custom = true
		switch nodes := perl.Subvalue(value, "hostnodes", false); {
		case nodes == "":
			return perl.Die("numa hostnodes need to be defined to use hugepages")
		case len(nodes) != 1:
			return perl.Die("more than 1 hostnode value in numa node is not supported when hugepages are enabled")
		}
		if err := inPages(perl.Number(perl.Subvalue(value, "memory", false)), c["hugepages"]); err != nil {
			return err
		}
	}
	switch {
	case custom:
		return nil
	case memory%sockets != 0:
		return perl.Die("memory size '%.3f' is not a positive even integer; cannot use for hugepages",
			float64(memory)/float64(sockets))
	}
	return inPages(memory/sockets, c["hugepages"])
}

// inPages is hugepages_size on a host that has pages of both sizes.
func inPages(mib int, pages string) error {
	switch {
	case mib <= 0 || mib%2 != 0:
		return perl.Die("memory size '%d' is not a positive even integer; cannot use for hugepages", mib)
	case pages == "1024" && mib%1024 != 0:
		return perl.Die("Memory size %d is not a multiple of the requested hugepages size %s", mib, pages)
	}
	return nil
}
