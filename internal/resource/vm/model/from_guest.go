package model

import (
	"reflect"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// FromGuest is everything that the server says about a VM, as a model. A field that only the configuration knows is
// nil.
func FromGuest(g guest.Guest) Model {
	s := g.Spec
	m := Model{
		ID: new(strconv.Itoa(g.VMID)), VMID: new(int64(g.VMID)), Node: kit.NonZero(g.Node), Pool: kit.NonZero(g.Pool),
		Options: s.Options,

		CPU: &s.CPU, Memory: &s.Memory, Agent: &s.Agent, SMBIOS: &s.SMBIOS, // every VM has them
		MachineOptions: unlessEmpty(&s.MachineOptions), Startup: unlessEmpty(&s.Startup), VGA: unlessEmpty(&s.VGA),
		Audio: unlessEmpty(&s.Audio), RNG: unlessEmpty(&s.RNG), Watchdog: unlessEmpty(&s.Watchdog),
		SpiceEnhancements: unlessEmpty(&s.SpiceEnhancements), IVSHMEM: unlessEmpty(&s.IVSHMEM),
		AMDSEV:   unlessEmpty(&s.AMDSEV),
		IntelTDX: unlessEmpty(&s.IntelTDX),

		PCI: s.PCI, USB: s.USB, NUMANodes: s.NUMANodes, VirtioFS: s.VirtioFS, Serial: fromPorts(s.Serial),
		Parallel:  fromPorts(s.Parallel),
		CloudInit: fromCloudInit(s.CloudInit), HA: g.HA,

		TagsAll: s.Tags,
		UUID:    kit.NonZero(g.Identity.UUID), Status: kit.NonZero(g.Status), PowerState: powerState(g.Status),
		PendingChanges: g.Pending,
	}
	for slot, d := range s.Disks {
		Put(&m.Disks, slot, fromDisk(d))
	}
	for slot, c := range s.CDROMs {
		Put(&m.CDROMs, slot, CDROM{File: kit.NonZero(c.File)})
	}
	for slot, n := range s.Networks {
		Put(&m.Networks, slot, NIC{Model: kit.NonZero(n.Model), NICOptions: n.NICOptions})
	}
	if e := s.EFIDisk; e != nil {
		m.EFIDisk = &EFIDisk{Storage: kit.NonZero(e.Storage), Format: e.Format, Volume: kit.NonZero(e.Volume),
			EFIOptions: e.EFIOptions}
	}
	if t := s.TPMState; t != nil {
		m.TPMState = &TPMState{Storage: kit.NonZero(t.Storage), Volume: kit.NonZero(t.Volume), Version: t.Version}
	}
	if g.Firewall != nil {
		m.Firewall = fromFirewall(*g.Firewall)
	}
	if g.Source != 0 {
		m.Clone = &Clone{SourceVMID: new(int64(g.Source))}
	}
	for option, volume := range s.Rest {
		if family, number := SplitSlot(option); family == "unused" && number >= 0 {
			Put(&m.UnusedVolumes, option, volume)
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

func fromDisk(d vm.Disk) Disk {
	disk := Disk{Storage: kit.NonZero(d.Storage), Format: d.Format, Volume: kit.NonZero(d.Volume),
		DiskOptions: d.DiskOptions,
		Throttle:    unlessEmpty(&d.Throttle)}
	if volid.IsDevice(d.Volume) { // a configuration that is made of the state is to name it
		disk.Imported = &ImportedDisk{Volume: disk.Volume}
	}
	if d.Size != nil {
		disk.Size = new(property.FormatSize(*d.Size))
	}
	return disk
}

// fromCloudInit is nil when the VM has neither a cloud-init drive nor an option of it.
func fromCloudInit(c vm.CloudInit) *CloudInit {
	if c.Slot == "" && unlessEmpty(&c.CloudInitOptions) == nil {
		return nil
	}
	return &CloudInit{Storage: kit.NonZero(c.Storage), Slot: kit.NonZero(c.Slot), Format: c.Format,
		Volume:           kit.NonZero(c.Volume),
		CloudInitOptions: c.CloudInitOptions}
}

// fromFirewall is nil when the firewall has neither an option nor a rule.
func fromFirewall(f firewall.Settings) *firewall.Settings {
	if len(f.Rules) == 0 {
		f.Rules = nil
	}
	return unlessEmpty(&f)
}

func fromPorts(devices map[string]string) map[string]Port {
	var ports map[string]Port
	for slot, device := range devices {
		Put(&ports, slot, Port{Device: kit.NonZero(device)})
	}
	return ports
}

// LostDisk is a disk that a refresh has not found in the slot that it has in state.
type LostDisk struct {
	Volume string
	Now    string // the slot of the VM that it is in, or ""
	Size   string
	Leaves bool // it is in its slot until the next stop: an update that wants it keeps it
}

// LostDisks are the slots that have lost their disks since the state was written, or lose them at the next stop.
func (m *Model) LostDisks(now guest.Guest) map[string]LostDisk {
	lost := map[string]LostDisk{}
	for slot, disk := range m.Disks {
		volume := now.NameOf(Value(disk.Volume))
		if _, stays := now.Spec.Disks[slot]; stays || volume == "" {
			continue
		}
		gone := LostDisk{Volume: volume, Size: Value(disk.Size), Leaves: now.Leaving[slot] != ""}
		for other, is := range now.Spec.Disks {
			if is.Volume == volume {
				gone.Now = other
			}
		}
		lost[slot] = gone
	}
	return lost
}
