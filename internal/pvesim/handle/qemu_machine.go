package handle

import (
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func isWindows(ostype string) bool { return strings.HasPrefix(ostype, "w") }

// validMachine is assert_valid_machine_property (qemu-server QemuServer/Machine.pm).
func validMachine(machine string) error {
	if subvalue(machine, "viommu", false) == "intel" && !strings.Contains(subvalue(machine, "type", true), "q35") {
		return Die("to use Intel vIOMMU please set the machine type to q35")
	}
	return nil
}

// pinned is the machine of a guest with the present version, if its ostype is a Windows and it names none (Machine.pm,
// check_and_pin_machine_string). The log of newer ones says so.
func (p process) pinned(machine, ostype string) (string, error) {
	if err := validMachine(machine); err != nil {
		return "", err
	}
	kind := subvalue(machine, "type", true)
	base, ok := map[string]string{"": "pc-i440fx", "pc": "pc-i440fx", "q35": "pc-q35", "virt": "virt"}[kind]
	if !ok || !isWindows(ostype) {
		return machine, nil
	}
	typ := base + "-" + p.W.MachineVersion()
	if p.W.Has(state.PinIsLogged) {
		p.logf("pinning machine type to '%s' for Windows guest OS", typ)
	}
	further := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(machine, "type="), kind), ",")
	return strings.TrimSuffix(typ+","+further, ","), nil
}

// pinOnOSType pins the machine of a guest that is made a Windows, unless the request says something about the machine.
func (u *update) pinOnOSType(p process, g *state.Guest, ostype string, modified map[string]bool) error {
	_, asked := u.params["machine"]
	_, waits := g.Pending["machine"]
	if asked || waits || modified["machine"] || !u.W.Has(state.PinsMachineOnUpdate) {
		return nil
	}
	machine, err := p.pinned(g.Config["machine"], ostype)
	if err == nil && machine != "" {
		g.Pending["machine"] = machine
	}
	return err
}

// checkDrivePerms asks for what a drive's kind takes (API2/Qemu.pm, update_vm_api).
func (u *update) checkDrivePerms(g *state.Guest, opt, value string) error {
	d := u.Server.parseDrive(opt, value)
	switch {
	case d != nil && d.isCloudinit():
		return u.checkVM(g.VMID, "", "VM.Config.Cloudinit", "VM.Config.CDROM")
	case d != nil && d.isCDROM():
		return u.checkVM(g.VMID, "", "VM.Config.CDROM")
	}
	return u.checkVM(g.VMID, "", "VM.Config.Disk")
}

// tpmVersionChanges tells a change that would spoil the state (prohibit_tpm_version_change).
func (u *update) tpmVersionChanges(old, next string) bool {
	a, b := u.Server.parseDrive("tpmstate0", old), u.Server.parseDrive("tpmstate0", next)
	if a == nil || b == nil || a.file() != b.file() {
		return false
	}
	version := func(d drive) string {
		if d["version"] == "" {
			return "v1.2"
		}
		return d["version"]
	}
	return version(a) != version(b)
}

// runningMachine is the machine that a guest's QEMU was started with.
func (s *Server) runningMachine(w *state.World, g *state.Guest) string {
	return s.machineOf(w, booted(g))
}
