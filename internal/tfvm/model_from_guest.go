package tfvm

import (
	"reflect"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// fromGuest is everything that the server says about a VM, as a model. What only the configuration knows is nil in it.
func fromGuest(g guest.Guest) model {
	s := g.Spec
	m := model{
		ID: new(strconv.Itoa(g.VMID)), VMID: new(int64(g.VMID)), Node: tfkit.NonZero(g.Node), Pool: tfkit.NonZero(g.Pool), Options: s.Options,

		CPU: &s.CPU, Memory: &s.Memory, Agent: &s.Agent, SMBIOS: &s.SMBIOS, // every VM has them
		MachineOptions: unlessEmpty(&s.MachineOptions), Startup: unlessEmpty(&s.Startup), VGA: unlessEmpty(&s.VGA),
		Audio: unlessEmpty(&s.Audio), RNG: unlessEmpty(&s.RNG), Watchdog: unlessEmpty(&s.Watchdog),
		SpiceEnhancements: unlessEmpty(&s.SpiceEnhancements), IVSHMEM: unlessEmpty(&s.IVSHMEM), AMDSEV: unlessEmpty(&s.AMDSEV),
		IntelTDX: unlessEmpty(&s.IntelTDX),

		PCI: s.PCI, USB: s.USB, NUMANodes: s.NUMANodes, VirtioFS: s.VirtioFS, Serial: fromPorts(s.Serial), Parallel: fromPorts(s.Parallel),
		CloudInit: fromCloudInit(s.CloudInit), HA: g.HA,

		UUID: tfkit.NonZero(g.Identity.UUID), Status: tfkit.NonZero(g.Status), PowerState: powerState(g.Status), PendingChanges: g.Pending,
	}
	for slot, d := range s.Disks {
		put(&m.Disks, slot, fromDisk(d))
	}
	for slot, c := range s.CDROMs {
		put(&m.CDROMs, slot, cdromModel{File: tfkit.NonZero(c.File)})
	}
	for slot, n := range s.Networks {
		put(&m.Networks, slot, nicModel{Model: tfkit.NonZero(n.Model), NICOptions: n.NICOptions})
	}
	if e := s.EFIDisk; e != nil {
		m.EFIDisk = &efiModel{Storage: tfkit.NonZero(e.Storage), Format: e.Format, Volume: tfkit.NonZero(e.Volume), EFIOptions: e.EFIOptions}
	}
	if t := s.TPMState; t != nil {
		m.TPMState = &tpmModel{Storage: tfkit.NonZero(t.Storage), Volume: tfkit.NonZero(t.Volume), Version: t.Version}
	}
	if g.Firewall != nil {
		m.Firewall = fromFirewall(*g.Firewall)
	}
	if g.Source != 0 {
		m.Clone = &cloneModel{SourceVMID: new(int64(g.Source))}
	}
	for option, volume := range s.Rest {
		if family, number := splitSlot(option); family == "unused" && number >= 0 {
			put(&m.UnusedVolumes, option, volume)
		}
	}
	if m.PendingChanges == nil && g.Status != "" {
		m.PendingChanges = []string{}
	}
	m.setAddresses(g)
	return m
}

// unlessEmpty is nil for a group of which no attribute is set.
func unlessEmpty[G any](group *G) *G {
	v := reflect.ValueOf(group).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("tfsdk") != "-" && !v.Field(i).IsZero() {
			return group
		}
	}
	return nil
}

func fromDisk(d vm.Disk) diskModel {
	disk := diskModel{Storage: tfkit.NonZero(d.Storage), Format: d.Format, Volume: tfkit.NonZero(d.Volume), DiskOptions: d.DiskOptions,
		Throttle: unlessEmpty(&d.Throttle)}
	if vm.IsDevice(d.Volume) { // a configuration that is made of the state is to name it
		disk.Imported = &importedDisk{Volume: disk.Volume}
	}
	if d.Size != nil {
		disk.Size = new(vm.FormatSize(*d.Size))
	}
	return disk
}

// fromCloudInit is nil when the VM has neither a cloud-init drive nor an option of it.
func fromCloudInit(c vm.CloudInit) *cloudInitModel {
	if c.Slot == "" && unlessEmpty(&c.CloudInitOptions) == nil {
		return nil
	}
	return &cloudInitModel{Storage: tfkit.NonZero(c.Storage), Slot: tfkit.NonZero(c.Slot), Format: c.Format, Volume: tfkit.NonZero(c.Volume),
		CloudInitOptions: c.CloudInitOptions}
}

// fromFirewall is nil when the firewall has neither an option nor a rule.
func fromFirewall(f guest.Firewall) *guest.Firewall {
	if len(f.Rules) == 0 {
		f.Rules = nil
	}
	return unlessEmpty(&f)
}

func fromPorts(devices map[string]string) map[string]portModel {
	var ports map[string]portModel
	for slot, device := range devices {
		put(&ports, slot, portModel{Device: tfkit.NonZero(device)})
	}
	return ports
}
