package model

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// Spec is what the model says about the VM itself. An empty text or list is a wish for none, nil is no wish. inherits:
// the VM begins as a copy of another, so what is not said stays open.
func (m *Model) Spec(inherits bool) vm.Spec {
	s := vm.Spec{
		Options:   m.Options,
		ExactTags: inherits, // sent as configured, where the template's are not

		CPU: Value(m.CPU), Memory: Value(m.Memory), Agent: Value(m.Agent), MachineOptions: Value(m.MachineOptions),
		Startup: Value(m.Startup),
		SMBIOS:  Value(m.SMBIOS), VGA: Value(m.VGA), Audio: Value(m.Audio), RNG: Value(m.RNG), Watchdog: Value(m.Watchdog),
		SpiceEnhancements: Value(m.SpiceEnhancements), IVSHMEM: Value(m.IVSHMEM), AMDSEV: Value(m.AMDSEV),
		IntelTDX: Value(m.IntelTDX),

		PCI: m.PCI, USB: m.USB, NUMANodes: m.NUMANodes, VirtioFS: m.VirtioFS, Serial: ports(m.Serial),
		Parallel:  ports(m.Parallel),
		CloudInit: m.CloudInit.spec(inherits), EFIDisk: m.EFIDisk.spec(), TPMState: m.TPMState.spec(),
	}
	s.Tags = m.AllTags()
	for slot, d := range m.Disks {
		Put(&s.Disks, slot, d.spec())
	}
	for slot, c := range m.CDROMs {
		Put(&s.CDROMs, slot, vm.CDROM{File: Value(c.File)})
	}
	for slot, n := range m.Networks {
		Put(&s.Networks, slot, n.spec(inherits))
	}
	return s
}

func (d Disk) spec() vm.Disk {
	disk := vm.Disk{Storage: Value(d.Storage), Volume: Value(d.Volume), Format: d.Format, DiskOptions: d.DiskOptions,
		Throttle: Value(d.Throttle)}
	if d.Volume == nil {
		disk.ImportFrom = d.ImportFrom
	}
	if d.Size != nil {
		if bytes, err := property.ParseSize(*d.Size); err == nil { // the validator has refused the rest
			disk.Size = &bytes
		}
	}
	return disk
}

func (n NIC) spec(inherits bool) vm.NIC {
	nic := vm.NIC{Model: Value(n.Model), NICOptions: n.NICOptions}
	if nic.Model == "" && !inherits {
		nic.Model = vm.DefaultNICModel
	}
	return nic
}

func (e *EFIDisk) spec() *vm.EFIDisk {
	if e == nil {
		return nil
	}
	disk := &vm.EFIDisk{Storage: Value(e.Storage), Volume: Value(e.Volume), Format: e.Format, EFIOptions: e.EFIOptions}
	if e.Volume == nil {
		disk.ImportFrom = e.ImportFrom
	}
	return disk
}

func (t *TPMState) spec() *vm.TPMState {
	if t == nil {
		return nil
	}
	disk := &vm.TPMState{Storage: Value(t.Storage), Volume: Value(t.Volume), Version: t.Version}
	if t.Volume == nil {
		disk.ImportFrom = t.ImportFrom
	}
	return disk
}

func (c *CloudInit) spec(inherits bool) vm.CloudInit {
	if c == nil {
		return vm.CloudInit{}
	}
	ci := vm.CloudInit{Slot: Value(c.Slot), Storage: Value(c.Storage), Volume: Value(c.Volume), Format: c.Format,
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

func ports(models map[string]Port) map[string]string {
	var devices map[string]string
	for slot, d := range models {
		Put(&devices, slot, Value(d.Device))
	}
	return devices
}
