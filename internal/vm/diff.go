package vm

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// Diff says how to turn a VM that is from into to. Exactly the options whose meaning differs are written: spelling,
// order, case, encodings and units do not count. An option, sub-key or device that from has and to has not is reset or
// detached.
//
// Values that a configuration cannot say or need not repeat are kept: Rest everywhere (to's is ignored, except in new
// devices), MAC address and model of a NIC, uuid of smbios1, vmgenid, volume, storage, size and format of a disk, type,
// keys and certificate of the EFI disk, version of the TPM. PasswordHash counts only where to has one; an empty one
// takes the password away.
//
// Diff(Spec{}, s) makes everything: its Set is Encode(s) without Rest, its Grow what imports need.
func Diff(from, to Spec) Change {
	var c Change
	to.Rest = from.Rest
	for _, o := range options() {
		if o.copyRest != nil {
			o.copyRest(&from, &to)
		}
	}
	for _, f := range families() {
		f.copyRest(&from, &to)
	}
	carryAgent(from.Agent, &to.Agent)
	carryCPU(from.CPU, &to.CPU)
	carryMachine(from, &to)
	carryIdentity(from, &to)
	carryTags(from, &to)
	carryCPUUnits(from.CPU, &to.CPU)
	carryTemplate(&c, from, &to)
	to.Networks = carryNetworks(from.Networks, to.Networks)
	carryHostDevices(from, &to)
	to.Disks = carryDisks(&c, from.Disks, to.Disks)
	to.CDROMs = carryCDROMs(from.CDROMs, to.CDROMs)
	to.EFIDisk = carryEFIDisk(&c, from.EFIDisk, to.EFIDisk)
	to.TPMState = carryTPMState(&c, from.TPMState, to.TPMState)
	carryCloudInitDrive(&c, from.CloudInit, &to.CloudInit)
	carryPassword(&c, &from.CloudInit, &to.CloudInit)
	c.compare(Encode(from), Encode(to))
	c.resetBalloonFirst(from.Memory, to.Memory)
	c.sort()
	return c
}

// compare fills Set and Delete.
func (c *Change) compare(from, to map[string]string) {
	for key, value := range to {
		if have, ok := from[key]; !ok || have != value {
			if c.Set == nil {
				c.Set = map[string]string{}
			}
			c.Set[key] = value
		}
	}
	for key := range from {
		if _, kept := to[key]; !kept && !slices.Contains(c.DeleteFirst, key) {
			c.Delete = append(c.Delete, key)
		}
	}
}

// resetBalloonFirst resets a balloon that is larger than the memory is to be: PVE compares new memory with the balloon
// that the VM has, even with one that the same request deletes (qemu-server API2/Qemu.pm update_vm_api).
func (c *Change) resetBalloonFirst(from, to Memory) {
	at := slices.Index(c.Delete, "balloon")
	if _, sized := c.Set["memory"]; at >= 0 && sized && from.Balloon != nil && *from.Balloon > *to.Size {
		c.Delete = slices.Delete(c.Delete, at, at+1)
		c.DeleteFirst = append(c.DeleteFirst, "balloon")
	}
}

// carryAgent keeps the agent option valid: its sub-keys need "enabled", whose reset is an explicit no.
func carryAgent(from Agent, to *Agent) {
	if from.Enabled != nil && to.Enabled == nil && agentFormat().encode(to) != "" {
		to.Enabled = new(false)
	}
}

// defaultCPU is PVE's default type (qemu-server CPUConfig.pm).
const defaultCPU = "kvm64"

// carryCPU keeps the cpu option valid: its sub-keys need a type, whose reset is PVE's default said explicitly.
func carryCPU(from CPU, to *CPU) {
	if from.Type != nil && to.Type == nil && cpuFormat().encode(to) != "" {
		to.Type = new(defaultCPU)
	}
}

// carryMachine keeps a version that PVE pinned: it does so for Windows guests on "pc", "q35" and none at all.
func carryMachine(from Spec, to *Spec) {
	if from.Machine == nil || to.Machine == nil || to.OSType == nil || !IsWindows(*to.OSType) {
		return
	}
	if *to.Machine == "q35" && strings.HasPrefix(*from.Machine, "pc-q35-") ||
		*to.Machine == "pc" && strings.HasPrefix(*from.Machine, "pc-i440fx-") {
		to.Machine = from.Machine
	}
}

// IsWindows tells whether an ostype is one of Windows' (qemu-server QemuServer/Helpers.pm windows_version).
func IsWindows(ostype string) bool {
	return strings.HasPrefix(ostype, "w") // wxp, w2k…, wvista, win7…win11
}

// carryTemplate: "no template" and "template=0" are one; a template cannot become an ordinary VM, its volumes are base
// images.
func carryTemplate(c *Change, from Spec, to *Spec) {
	was, is := from.Template != nil && *from.Template, to.Template != nil && *to.Template
	if was && !is {
		c.problem("template", "", "a template cannot be turned back into a virtual machine")
	}
	if was || !is {
		to.Template = from.Template
	}
}

// carryNetworks keeps MAC addresses: PVE makes a new one for every write without.
func carryNetworks(from, to map[string]NIC) map[string]NIC {
	to = maps.Clone(to)
	for slot, n := range to {
		f, ok := from[slot]
		if !ok {
			continue
		}
		if n.Model == "" {
			n.Model = f.Model
		}
		if n.MACAddr == nil || f.MACAddr != nil && strings.EqualFold(*n.MACAddr, *f.MACAddr) {
			n.MACAddr = f.MACAddr
		}
		to[slot] = n
	}
	return to
}

func carryCDROMs(from, to map[string]CDROM) map[string]CDROM {
	to = maps.Clone(to)
	for slot, d := range to {
		f, ok := from[slot]
		if !ok {
			continue
		}
		d.Rest = f.Rest
		if d.File == "" {
			d.File = f.File
		}
		if d.File != f.File { // the size is the old medium's
			d.Rest = maps.Clone(f.Rest)
			delete(d.Rest, "size")
		}
		to[slot] = d
	}
	return to
}

// carryPassword takes the password out of both unless it is to be written.
func carryPassword(c *Change, from, to *CloudInit) {
	have := from.PasswordHash
	from.PasswordHash = nil
	switch {
	case to.PasswordHash == nil:
	case have != nil && *have == *to.PasswordHash:
		to.PasswordHash = nil
	case *to.PasswordHash == "":
		c.Delete = append(c.Delete, passwordOption)
	}
}

// carryIdentity keeps what PVE makes itself: the uuid and the generation id, which change only for a value that is
// given. How the texts of smbios1 are spelt stays too.
func carryIdentity(from Spec, to *Spec) {
	if from.SMBIOS.UUID != nil && (to.SMBIOS.UUID == nil || strings.EqualFold(*to.SMBIOS.UUID, *from.SMBIOS.UUID)) {
		to.SMBIOS.UUID = from.SMBIOS.UUID
	}
	if encodeSMBIOS(from.SMBIOS) != "" {
		to.SMBIOS.Base64 = from.SMBIOS.Base64
	}
	has, want := from.VMGenID, to.VMGenID
	switch {
	case has == nil:
	case want == nil, strings.EqualFold(*want, *has), *want == "1" && *has != "0": // "1" asks for one, and there is one
		to.VMGenID = has
	}
}

// carryCPUUnits knows the ends of PVE's ranges: a kernel with cgroup v2 takes 1 to 10000, one with v1 2 and more, and
// PVE stores what is beyond as the end (qemu-server, pve-common CGroup.pm clamp_cpu_shares).
func carryCPUUnits(from CPU, to *CPU) {
	if from.Units == nil || to.Units == nil {
		return
	}
	if *from.Units == 10000 && *to.Units > 10000 || *from.Units == 2 && *to.Units == 1 {
		to.Units = from.Units
	}
}

// carryHostDevices keeps the spelling of hexadecimal numbers and of "spice", which PVE stores as it was sent.
func carryHostDevices(from Spec, to *Spec) {
	eachSlot(&to.USB, from.USB, func(d, has *USB) { sameText(&d.Host, has.Host) })
	eachSlot(&to.PCI, from.PCI, func(d, has *PCI) {
		sameText(&d.Host, has.Host)
		sameText(&d.VendorID, has.VendorID)
		sameText(&d.DeviceID, has.DeviceID)
		sameText(&d.SubVendorID, has.SubVendorID)
		sameText(&d.SubDeviceID, has.SubDeviceID)
	})
}

// sameText makes want what there is where only the case differs.
func sameText(want **string, has *string) {
	if *want != nil && has != nil && strings.EqualFold(**want, *has) {
		*want = has
	}
}

// carryTags keeps the spelling of tags that differ in case only, unless that counts.
func carryTags(from Spec, to *Spec) {
	if !to.ExactTags && slices.Equal(lowerTags(from.Tags), lowerTags(to.Tags)) {
		to.Tags = from.Tags
	}
}

func lowerTags(tags []string) []string {
	return property.NormalTags(strings.ToLower(strings.Join(tags, ";")))
}
