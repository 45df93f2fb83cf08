package tfvm

import (
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// fromGuest is everything that the server says about a VM, as a model. What only the configuration knows is nil in it.
func fromGuest(g provision.Guest) model {
	s := g.Spec
	m := model{
		ID: some(strconv.Itoa(g.VMID)), VMID: some(int64(g.VMID)), Node: filled(&g.Node), Pool: filled(&g.Pool),
		Name: s.Name, Description: s.Description, Tags: s.Tags,
		OnBoot: s.OnBoot, AutoStart: s.AutoStart, Protection: s.Protection, Template: s.Template,
		Machine: s.Machine, BIOS: s.BIOS, OSType: s.OSType, SCSIHW: s.SCSIHW, BootOrder: s.BootOrder,
		CPU: new(cpuModel(s.CPU)), Memory: new(memoryModel(s.Memory)), Agent: new(agentModel(s.Agent)), CloudInit: fromCloudInit(s.CloudInit),

		ACPI: s.ACPI, KVM: s.KVM, Tablet: s.Tablet, LocalTime: s.LocalTime, TDF: s.TDF, Reboot: s.Reboot, Freeze: s.Freeze,
		Keyboard: s.Keyboard, Hotplug: s.Hotplug, StartDate: s.StartDate, VMStateStorage: s.VMStateStorage,
		MigrateDowntime: s.MigrateDowntime, MigrateSpeed: s.MigrateSpeed, HookScript: s.HookScript, Args: s.Args,
		Arch: s.Arch, VMGenID: s.VMGenID,

		UUID: filled(&g.Identity.UUID), Status: filled(&g.Status), PowerState: powerState(g.Status), PendingChanges: g.Pending,
	}
	for option, volume := range s.Rest {
		if family, number := splitSlot(option); family == "unused" && number >= 0 {
			put(&m.UnusedVolumes, option, volume)
		}
	}
	m.setGroups(s)
	m.setHostDevices(s)
	if m.PendingChanges == nil && g.Status != "" {
		m.PendingChanges = []string{}
	}
	if g.Source != 0 {
		m.Clone = &cloneModel{SourceVMID: some(int64(g.Source))}
	}
	for slot, d := range s.Disks {
		put(&m.Disks, slot, fromDisk(d))
	}
	for slot, c := range s.CDROMs {
		put(&m.CDROMs, slot, cdromModel{File: filled(&c.File)})
	}
	for slot, n := range s.Networks {
		put(&m.Networks, slot, fromNIC(n))
	}
	if e := s.EFIDisk; e != nil {
		m.EFIDisk = &efiModel{Storage: filled(&e.Storage), Format: e.Format, Type: e.Type, PreEnrolledKeys: e.PreEnrolledKeys, MSCert: e.MSCert, Volume: filled(&e.Volume)}
	}
	if t := s.TPMState; t != nil {
		m.TPMState = &tpmModel{Storage: filled(&t.Storage), Version: t.Version, Volume: filled(&t.Volume)}
	}
	m.Firewall, m.HA = fromFirewall(g.Firewall), (*haModel)(g.HA)
	m.setAddresses(g)
	return m
}

func fromDisk(d vm.Disk) diskModel {
	disk := diskModel{Storage: filled(&d.Storage), Format: d.Format, Cache: d.Cache, AIO: d.AIO, Discard: d.Discard, SSD: d.SSD,
		IOThread: d.IOThread, Backup: d.Backup, Replicate: d.Replicate, ReadOnly: d.ReadOnly, Serial: d.Serial, Volume: filled(&d.Volume),
		Model: d.Model, WWN: d.WWN, Vendor: d.Vendor, Product: d.Product, Queues: d.Queues, SCSIBlock: d.SCSIBlock,
		Snapshot: d.Snapshot, Shared: d.Shared, DetectZeroes: d.DetectZeroes, RError: d.RError, WError: d.WError}
	if t := throttleModel(d.Throttle); t != (throttleModel{}) {
		disk.Throttle = &t
	}
	if d.Size != nil {
		disk.Size = some(vm.FormatSize(*d.Size))
	}
	return disk
}

func fromNIC(n vm.NIC) nicModel {
	return nicModel{Model: filled(&n.Model), Bridge: n.Bridge, MACAddr: n.MACAddr, Tag: n.Tag, Trunks: n.Trunks,
		Firewall: n.Firewall, LinkDown: n.LinkDown, MTU: n.MTU, Queues: n.Queues, Rate: n.Rate, HostTunnel: n.HostTunnel}
}

// fromCloudInit is nil when the VM has neither a cloud-init drive nor an option of it.
func fromCloudInit(c vm.CloudInit) *cloudInitModel {
	ci := cloudInitModel{Storage: filled(&c.Storage), Slot: filled(&c.Slot), Format: c.Format, Type: c.Type, User: c.User,
		SSHKeys: c.SSHKeys, Nameservers: c.Nameservers, SearchDomain: c.SearchDomain, Upgrade: c.Upgrade, Volume: filled(&c.Volume)}
	for nic, a := range c.Addresses {
		put(&ci.Addresses, nic, addressModel{IPv4: a.IPv4, Gateway4: a.Gateway4, IPv6: a.IPv6, Gateway6: a.Gateway6})
	}
	if u := c.Custom; u != nil {
		ci.Custom = &customModel{User: u.User, Network: u.Network, Meta: u.Meta, Vendor: u.Vendor}
	}
	if ci.Slot == nil && ci.hasOnlyDrive() {
		return nil
	}
	return &ci
}

// powerState is a status in the words of the power_state attribute.
func powerState(status string) *string {
	switch status {
	case "":
		return nil
	case string(provision.Running), "paused":
		return some(string(provision.Running))
	default:
		return some(string(provision.Stopped))
	}
}

func some[V string | bool | int64 | float64](v V) *V { return &v }

// filled takes an empty text for none.
func filled(p *string) *string {
	if *p == "" {
		return nil
	}
	return p
}
