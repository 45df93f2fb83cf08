package config

import (
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func isWindows(ostype string) bool { return strings.HasPrefix(ostype, "w") }

// validMachine is assert_valid_machine_property (qemu-server QemuServer/Machine.pm).
func validMachine(machine string) error {
	if perl.Subvalue(machine, "viommu", false) == "intel" &&
		!strings.Contains(perl.Subvalue(machine, "type", true), "q35") {
		return perl.Die("to use Intel vIOMMU please set the machine type to q35")
	}
	switch bits := perl.Subvalue(machine, "aw-bits", false); {
	case bits == "":
		return nil
	case perl.Subvalue(machine, "viommu", false) == "":
		return perl.Die("cannot set aw-bits if no vIOMMU is configured")
	case perl.Subvalue(machine, "viommu", false) == "intel" && bits != "39" && bits != "48":
		return perl.Die("Intel vIOMMU supports only 39 or 48 bits as address width")
	}
	return nil
}

// CheckClipboard is assert_clipboard_config (qemu-server QemuServer.pm).
func CheckClipboard(vga string) error {
	display := perl.Subvalue(vga, "type", true)
	hasOne := slices.ContainsFunc([]string{"std", "cirrus", "vmware", "virtio", "qxl"}, func(kind string) bool {
		return strings.HasPrefix(display, kind)
	})
	if perl.Subvalue(vga, "clipboard", false) == "vnc" && display != "" && !hasOne {
		return perl.Die("vga type %s is not compatible with VNC clipboard", display)
	}
	return nil
}

// Pinned is the machine of a guest with the present version, if its ostype is a Windows and it names none (Machine.pm,
// check_and_pin_machine_string). The log of newer ones says so.
func Pinned(p engine.Process, machine, ostype string) (string, error) {
	if err := validMachine(machine); err != nil {
		return "", err
	}
	kind := perl.Subvalue(machine, "type", true)
	base, ok := map[string]string{"": "pc-i440fx", "pc": "pc-i440fx", "q35": "pc-q35", "virt": "virt"}[kind]
	if !ok || !isWindows(ostype) {
		return machine, nil
	}
	typ := base + "-" + state.MachineVersion(p.W)
	if p.W.Has(state.PinIsLogged) {
		p.Logf("pinning machine type to '%s' for Windows guest OS", typ)
	}
	further := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(machine, "type="), kind), ",")
	return strings.TrimSuffix(typ+","+further, ","), nil
}

// pinOnOSType pins the machine of a guest that is made a Windows, unless the request says something about the machine.
func (u *update) pinOnOSType(p engine.Process, g *state.Guest, ostype string, modified map[string]bool) error {
	_, asked := u.params["machine"]
	_, waits := g.Pending["machine"]
	if asked || waits || modified["machine"] || !u.W.Has(state.PinsMachineOnUpdate) {
		return nil
	}
	machine, err := Pinned(p, g.Config["machine"], ostype)
	if err == nil && machine != "" {
		g.Pending["machine"] = machine
	}
	return err
}

// checkDrivePerms asks for what a drive's kind takes (API2/Qemu.pm, update_vm_api).
func (u *update) checkDrivePerms(g *state.Guest, opt, value string) error {
	d := drive.Parse(u.Engine, opt, value)
	switch {
	case d != nil && d.IsCloudinit():
		return drive.CheckVM(u.Request, g.VMID, "", "VM.Config.Cloudinit", "VM.Config.CDROM")
	case d != nil && d.IsCDROM():
		return drive.CheckVM(u.Request, g.VMID, "", "VM.Config.CDROM")
	}
	return drive.CheckVM(u.Request, g.VMID, "", "VM.Config.Disk")
}

// tpmVersionChanges tells a change that would spoil the state (prohibit_tpm_version_change).
func (u *update) tpmVersionChanges(old, next string) bool {
	a, b := drive.Parse(u.Engine, "tpmstate0", old), drive.Parse(u.Engine, "tpmstate0", next)
	if a == nil || b == nil || a.File() != b.File() {
		return false
	}
	version := func(d drive.Drive) string {
		if d["version"] == "" {
			return "v1.2"
		}
		return d["version"]
	}
	return version(a) != version(b)
}

// RunningMachine is the machine that a guest's QEMU was started with.
func RunningMachine(e *engine.Engine, w *state.World, g *state.Guest) string {
	return MachineOf(e, w, booted(g))
}

// MachineOf is the machine type that a guest starts with: a version that PVE has no revision of counts as its first
// (Machine.pm, get_vm_machine).
func MachineOf(e *engine.Engine, w *state.World, conf map[string]string) string {
	typ := perl.Subvalue(conf["machine"], "type", true)
	switch typ {
	case "", "pc":
		return "pc-i440fx-" + state.MachineVersion(w)
	case "q35":
		return "pc-q35-" + state.MachineVersion(w)
	}
	if !strings.Contains(typ, "+pve") {
		typ += "+pve0"
	}
	return typ
}

// HasXHCI tells whether a guest has the controller that takes USB devices while it runs, and more than five of them:
// Linux and Windows after 7, on a machine of QEMU 7.1 or later (QemuServer.pm is_usb_hotplug_supported, USB.pm
// get_usb_controllers). The guest of the recordings had no ostype.
func HasXHCI(p engine.Process, conf map[string]string) bool {
	ostype, version := conf["ostype"], p.W.QEMUVersion()
	machine := perl.Subvalue(conf["machine"], "type", true)
	switch {
	case !slices.Contains([]string{"l26", "win8", "win10", "win11"}, ostype):
		return false
	case strings.Contains(machine, "-"):
		version = machine[strings.LastIndex(machine, "-")+1:]
	case isWindows(ostype): // QemuServer/Machine.pm, get_vm_machine
		version = "5.1"
		if made := perl.Subvalue(conf["meta"], "creation-qemu", false); p.W.Has(state.OfItsCreation) && atLeast(made, 9, 1) {
			version = made
		}
	}
	return atLeast(version, 7, 1)
}

// atLeast compares a version of QEMU.
func atLeast(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(strings.ReplaceAll(rest, "+", "."), ".")
	has := perl.Number(first)
	return has > major || has == major && perl.Number(second) >= minor
}
