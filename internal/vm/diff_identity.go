package vm

import (
	"slices"
	"strings"
)

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

// carryCPUUnits knows the ends of PVE's ranges: a kernel with cgroup v2 takes 1 to 10000, one with v1 2 and more, and PVE
// stores what is beyond as the end (qemu-server, pve-common CGroup.pm clamp_cpu_shares).
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

func lowerTags(tags []string) []string { return normalTags(strings.ToLower(strings.Join(tags, ";"))) }
