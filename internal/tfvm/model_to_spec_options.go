package tfvm

import "github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"

// groups puts the configured groups of options into s.
func (m *model) groups(s *vm.Spec) {
	if g := m.MachineOptions; g != nil {
		s.MachineOptions = vm.MachineOptions(*g)
	}
	if g := m.Startup; g != nil {
		s.Startup = vm.Startup(*g)
	}
	if g := m.SMBIOS; g != nil {
		s.SMBIOS = vm.SMBIOS(*g)
	}
	if g := m.VGA; g != nil {
		s.VGA = vm.VGA(*g)
	}
	if g := m.Audio; g != nil {
		s.Audio = vm.Audio(*g)
	}
	if g := m.RNG; g != nil {
		s.RNG = vm.RNG(*g)
	}
	if g := m.Watchdog; g != nil {
		s.Watchdog = vm.Watchdog(*g)
	}
	if g := m.SpiceEnhancements; g != nil {
		s.SpiceEnhancements = vm.SpiceEnhancements(*g)
	}
	if g := m.IVSHMEM; g != nil {
		s.IVSHMEM = vm.IVSHMEM(*g)
	}
	if g := m.AMDSEV; g != nil {
		s.AMDSEV = vm.AMDSEV(*g)
	}
	if g := m.IntelTDX; g != nil {
		s.IntelTDX = vm.IntelTDX(*g)
	}
}

// passedThrough puts the devices that are no drives and no network devices into s.
func (m *model) passedThrough(s *vm.Spec) {
	for slot, d := range m.PCI {
		put(&s.PCI, slot, vm.PCI(d))
	}
	for slot, d := range m.USB {
		put(&s.USB, slot, vm.USB(d))
	}
	for slot, d := range m.NUMANodes {
		put(&s.NUMANodes, slot, vm.NUMANode(d))
	}
	for slot, d := range m.VirtioFS {
		put(&s.VirtioFS, slot, vm.VirtioFS(d))
	}
	for slot, d := range m.Serial {
		put(&s.Serial, slot, value(d.Device))
	}
	for slot, d := range m.Parallel {
		put(&s.Parallel, slot, value(d.Device))
	}
}

func (e *efiModel) spec() *vm.EFIDisk {
	disk := &vm.EFIDisk{Storage: value(e.Storage), Volume: value(e.Volume), Format: e.Format, Type: e.Type,
		PreEnrolledKeys: e.PreEnrolledKeys, MSCert: e.MSCert}
	if e.Volume == nil {
		disk.ImportFrom = e.ImportFrom
	}
	return disk
}

func (t *tpmModel) spec() *vm.TPMState {
	disk := &vm.TPMState{Storage: value(t.Storage), Volume: value(t.Volume), Version: t.Version}
	if t.Volume == nil {
		disk.ImportFrom = t.ImportFrom
	}
	return disk
}

// slotted are the kinds of values that are kept by slot.
type slotted interface {
	vm.Disk | vm.CDROM | vm.NIC | vm.Address | vm.PCI | vm.USB | vm.NUMANode | vm.VirtioFS | string |
		diskModel | cdromModel | nicModel | addressModel | pciModel | usbModel | numaNodeModel | virtioFSModel | portModel | guestAddress
}

func put[V slotted](all *map[string]V, key string, v V) {
	if *all == nil {
		*all = map[string]V{}
	}
	(*all)[key] = v
}
