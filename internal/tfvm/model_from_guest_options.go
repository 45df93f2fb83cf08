package tfvm

import "github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"

// setGroups takes the groups of options over. A group of which the server says nothing is nil; the uuid of smbios1 is
// always there.
func (m *model) setGroups(s vm.Spec) {
	m.SMBIOS = new(smbiosModel(s.SMBIOS))
	if g := machineOptionsModel(s.MachineOptions); g != (machineOptionsModel{}) {
		m.MachineOptions = &g
	}
	if g := startupModel(s.Startup); g.Order != nil || g.Up != nil || g.Down != nil {
		m.Startup = &g
	}
	if g := vgaModel(s.VGA); g.Type != nil || g.Memory != nil || g.Clipboard != nil {
		m.VGA = &g
	}
	if g := audioModel(s.Audio); g.Device != nil || g.Driver != nil {
		m.Audio = &g
	}
	if g := rngModel(s.RNG); g.Source != nil || g.MaxBytes != nil || g.Period != nil {
		m.RNG = &g
	}
	if g := watchdogModel(s.Watchdog); g.Model != nil || g.Action != nil {
		m.Watchdog = &g
	}
	if g := spiceModel(s.SpiceEnhancements); g.FolderSharing != nil || g.VideoStreaming != nil {
		m.SpiceEnhancements = &g
	}
	if g := ivshmemModel(s.IVSHMEM); g.Size != nil || g.Name != nil {
		m.IVSHMEM = &g
	}
	if g := sevModel(s.AMDSEV); g.Type != nil {
		m.AMDSEV = &g
	}
	if g := tdxModel(s.IntelTDX); g.Type != nil {
		m.IntelTDX = &g
	}
}

// setHostDevices takes the devices over that are no drives and no network devices.
func (m *model) setHostDevices(s vm.Spec) {
	for slot, d := range s.PCI {
		put(&m.PCI, slot, pciModel(d))
	}
	for slot, d := range s.USB {
		put(&m.USB, slot, usbModel(d))
	}
	for slot, d := range s.NUMANodes {
		put(&m.NUMANodes, slot, numaNodeModel(d))
	}
	for slot, d := range s.VirtioFS {
		put(&m.VirtioFS, slot, virtioFSModel(d))
	}
	for slot, d := range s.Serial {
		put(&m.Serial, slot, portModel{Device: filled(&d)})
	}
	for slot, d := range s.Parallel {
		put(&m.Parallel, slot, portModel{Device: filled(&d)})
	}
}
