package tfvm

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// spec is what the model says about the VM itself. An empty text or list is a wish for none, nil is no wish. inherits: the VM
// begins as a copy of another, so what is not said stays open.
func (m *model) spec(inherits bool) vm.Spec {
	s := vm.Spec{
		Options:   m.Options,
		ExactTags: inherits, // sent as configured, where the template's are not

		CPU: value(m.CPU), Memory: value(m.Memory), Agent: value(m.Agent), MachineOptions: value(m.MachineOptions), Startup: value(m.Startup),
		SMBIOS: value(m.SMBIOS), VGA: value(m.VGA), Audio: value(m.Audio), RNG: value(m.RNG), Watchdog: value(m.Watchdog),
		SpiceEnhancements: value(m.SpiceEnhancements), IVSHMEM: value(m.IVSHMEM), AMDSEV: value(m.AMDSEV), IntelTDX: value(m.IntelTDX),

		PCI: m.PCI, USB: m.USB, NUMANodes: m.NUMANodes, VirtioFS: m.VirtioFS, Serial: ports(m.Serial), Parallel: ports(m.Parallel),
		CloudInit: m.CloudInit.spec(inherits), EFIDisk: m.EFIDisk.spec(), TPMState: m.TPMState.spec(),
	}
	for slot, d := range m.Disks {
		put(&s.Disks, slot, d.spec())
	}
	for slot, c := range m.CDROMs {
		put(&s.CDROMs, slot, vm.CDROM{File: value(c.File)})
	}
	for slot, n := range m.Networks {
		put(&s.Networks, slot, n.spec(inherits))
	}
	return s
}

func (d diskModel) spec() vm.Disk {
	disk := vm.Disk{Storage: value(d.Storage), Volume: value(d.Volume), Format: d.Format, DiskOptions: d.DiskOptions,
		Throttle: value(d.Throttle)}
	if d.Volume == nil {
		disk.ImportFrom = d.ImportFrom
	}
	if d.Size != nil {
		if bytes, err := vm.ParseSize(*d.Size); err == nil { // the validator has refused the rest
			disk.Size = &bytes
		}
	}
	return disk
}

func (n nicModel) spec(inherits bool) vm.NIC {
	nic := vm.NIC{Model: value(n.Model), NICOptions: n.NICOptions}
	if nic.Model == "" && !inherits {
		nic.Model = vm.DefaultNICModel
	}
	return nic
}

func (e *efiModel) spec() *vm.EFIDisk {
	if e == nil {
		return nil
	}
	disk := &vm.EFIDisk{Storage: value(e.Storage), Volume: value(e.Volume), Format: e.Format, EFIOptions: e.EFIOptions}
	if e.Volume == nil {
		disk.ImportFrom = e.ImportFrom
	}
	return disk
}

func (t *tpmModel) spec() *vm.TPMState {
	if t == nil {
		return nil
	}
	disk := &vm.TPMState{Storage: value(t.Storage), Volume: value(t.Volume), Version: t.Version}
	if t.Volume == nil {
		disk.ImportFrom = t.ImportFrom
	}
	return disk
}

func (c *cloudInitModel) spec(inherits bool) vm.CloudInit {
	if c == nil {
		return vm.CloudInit{}
	}
	ci := vm.CloudInit{Slot: value(c.Slot), Storage: value(c.Storage), Volume: value(c.Volume), Format: c.Format,
		CloudInitOptions: c.CloudInitOptions}
	ci.SSHKeys = trimmed(c.SSHKeys)
	if ci.Slot == "" && ci.Storage != "" && !inherits {
		ci.Slot = vm.DefaultCloudInitSlot
	}
	if ci.Custom != nil && *ci.Custom == (vm.CustomData{}) {
		ci.Custom = nil
	}
	return ci
}

func ports(models map[string]portModel) map[string]string {
	var devices map[string]string
	for slot, d := range models {
		put(&devices, slot, value(d.Device))
	}
	return devices
}
