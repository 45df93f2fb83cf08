package tfvm

import (
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// spec is what the model says about the VM itself. An empty text or list is a wish for none, nil is no wish. inherits: the VM begins as a copy of another, so what is not said
// stays open.
func (m *model) spec(inherits bool) vm.Spec {
	s := vm.Spec{
		Name: m.Name, Description: m.Description, Tags: m.Tags,
		OnBoot: m.OnBoot, AutoStart: m.AutoStart, Protection: m.Protection, Template: m.Template,
		Machine: m.Machine, BIOS: m.BIOS, OSType: m.OSType, SCSIHW: m.SCSIHW, BootOrder: m.BootOrder,
		CPU: m.CPU.spec(), Memory: m.Memory.spec(), Agent: m.Agent.spec(),
		CloudInit: m.CloudInit.spec(inherits),
		ExactTags: inherits, // sent as configured, where the template's are not

		ACPI: m.ACPI, KVM: m.KVM, Tablet: m.Tablet, LocalTime: m.LocalTime, TDF: m.TDF, Reboot: m.Reboot, Freeze: m.Freeze,
		Keyboard: m.Keyboard, Hotplug: m.Hotplug, StartDate: m.StartDate, VMStateStorage: m.VMStateStorage,
		MigrateDowntime: m.MigrateDowntime, MigrateSpeed: m.MigrateSpeed, HookScript: m.HookScript, Args: m.Args,
		Arch: m.Arch, VMGenID: m.VMGenID,
	}
	m.groups(&s)
	m.passedThrough(&s)
	for slot, d := range m.Disks {
		put(&s.Disks, slot, d.spec())
	}
	for slot, c := range m.CDROMs {
		put(&s.CDROMs, slot, vm.CDROM{File: value(c.File)})
	}
	for slot, n := range m.Networks {
		put(&s.Networks, slot, n.spec(inherits))
	}
	if e := m.EFIDisk; e != nil {
		s.EFIDisk = e.spec()
	}
	if t := m.TPMState; t != nil {
		s.TPMState = t.spec()
	}
	return s
}

func (c *cpuModel) spec() vm.CPU {
	if c == nil {
		return vm.CPU{}
	}
	return vm.CPU(*c)
}

func (m *memoryModel) spec() vm.Memory {
	if m == nil {
		return vm.Memory{}
	}
	return vm.Memory(*m)
}

func (a *agentModel) spec() vm.Agent {
	if a == nil {
		return vm.Agent{}
	}
	return vm.Agent(*a)
}

func (d diskModel) spec() vm.Disk {
	disk := vm.Disk{Storage: value(d.Storage), Volume: value(d.Volume), Format: d.Format,
		Cache: d.Cache, AIO: d.AIO, Discard: d.Discard, SSD: d.SSD, IOThread: d.IOThread,
		Backup: d.Backup, Replicate: d.Replicate, ReadOnly: d.ReadOnly, Serial: d.Serial,
		Model: d.Model, WWN: d.WWN, Vendor: d.Vendor, Product: d.Product, Queues: d.Queues, SCSIBlock: d.SCSIBlock,
		Snapshot: d.Snapshot, Shared: d.Shared, DetectZeroes: d.DetectZeroes, RError: d.RError, WError: d.WError}
	if d.Throttle != nil {
		disk.Throttle = vm.Throttle(*d.Throttle)
	}
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
	nic := vm.NIC{Model: value(n.Model), MACAddr: n.MACAddr, Bridge: n.Bridge, Tag: n.Tag, Trunks: n.Trunks,
		Firewall: n.Firewall, LinkDown: n.LinkDown, MTU: n.MTU, Queues: n.Queues, Rate: n.Rate, HostTunnel: n.HostTunnel}
	if nic.Model == "" && !inherits {
		nic.Model = vm.DefaultNICModel
	}
	return nic
}

func (c *cloudInitModel) spec(inherits bool) vm.CloudInit {
	if c == nil {
		return vm.CloudInit{}
	}
	ci := vm.CloudInit{Slot: value(c.Slot), Storage: value(c.Storage), Volume: value(c.Volume), Format: c.Format,
		Type: c.Type, User: c.User, SSHKeys: trimmed(c.SSHKeys), Nameservers: c.Nameservers,
		SearchDomain: c.SearchDomain, Upgrade: c.Upgrade}
	if ci.Slot == "" && ci.Storage != "" && !inherits {
		ci.Slot = vm.DefaultCloudInitSlot
	}
	for nic, a := range c.Addresses {
		put(&ci.Addresses, nic, vm.Address{IPv4: a.IPv4, Gateway4: a.Gateway4, IPv6: a.IPv6, Gateway6: a.Gateway6})
	}
	if u := c.Custom; u != nil && *u != (customModel{}) {
		ci.Custom = &vm.CustomData{User: u.User, Network: u.Network, Meta: u.Meta, Vendor: u.Vendor}
	}
	return ci
}

// value is what a pointer points at, or the zero value.
func value[V string | bool | int64](p *V) V {
	if p == nil {
		var zero V
		return zero
	}
	return *p
}

// trimmed drops the line ends that file() leaves on keys. Nil stays nil, which is not the same as no keys.
func trimmed(list []string) []string {
	if list == nil {
		return nil
	}
	all := []string{}
	for _, text := range list {
		if text = strings.TrimSpace(text); text != "" {
			all = append(all, text)
		}
	}
	return all
}
