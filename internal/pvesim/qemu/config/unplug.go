package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// unplug takes a device out of the running machine; the guest's operating system must let go of PCI devices. A SCSI
// disk goes without it, but not the controller that it was the last one of. A device that is gone is not asked for
// again, so that a second request succeeds (QemuServer.pm, vm_deviceunplug and qemu_deletescsihw).
func unplug(_ engine.Process, g *state.Guest, opt string) error {
	if booted(g)[opt] == "" && g.Running != nil {
		return nil
	}
	device := opt
	if drive.HasIndex(opt, "scsi") {
		delete(booted(g), opt)
		device = controllerLeft(g, opt)
	}
	if device != "" && slices.Contains(g.Ignores, "unplug") {
		return perl.Die("error on hot-unplugging device '%s'", device)
	}
	delete(booted(g), opt)
	noteUnplugged(g, opt)
	return nil
}

func noteUnplugged(g *state.Guest, opt string) {
	if g.Running != nil {
		g.Running.Unplugged = append(g.Running.Unplugged, opt)
	}
}

// unplugDrive takes a disk out of the running machine. It is asked for no disk of IDE or SATA whose removal waits, but
// for one that another is to take the place of: that change is refused, and waits (QemuServer.pm vmconfig_update_disk,
// vm_deviceunplug).
func unplugDrive(p engine.Process, g *state.Guest, opt string) error {
	switch {
	case booted(g)[opt] == "":
	case slices.Contains(drive.BootOrder(g.Config["boot"]), opt): // Drive.pm get_bootdisks
		return perl.Die("can't unplug bootdisk '%s'", opt)
	case drive.HasIndex(opt, "ide", "sata"):
		return perl.Die("can't unplug device '%s'", opt)
	}
	return unplug(p, g, opt)
}

// controllerLeft is the controller that has lost its last disk; "" if it has others.
func controllerLeft(g *state.Guest, opt string) string {
	index := perl.Number(strings.TrimPrefix(opt, "scsi"))
	if g.Config["scsihw"] == "virtio-scsi-single" {
		return "virtioscsi" + strconv.Itoa(index)
	}
	disks := 256
	if hw := g.Config["scsihw"]; hw == "" || strings.HasPrefix(hw, "lsi") {
		disks = 7
	}
	controller := index / disks
	for other := range booted(g) {
		n := perl.Number(strings.TrimPrefix(other, "scsi"))
		if drive.HasIndex(other, "scsi") && n < (disks-1)*(controller+1) {
			return ""
		}
	}
	return "scsihw" + strconv.Itoa(controller)
}

// inQEMU is a drive with the values that QEMU was started with, where PVE gives it no others and reports nothing
// (QemuServer.pm vmconfig_update_disk: its list of values that are not hotpluggable has none of them).
func inQEMU(p engine.Process, g *state.Guest, opt, value string) string {
	if !drive.IsDrive(opt) {
		return value
	}
	was, next := drive.Parse(p.Engine, opt, booted(g)[opt]), drive.Parse(p.Engine, opt, value)
	if was == nil || next == nil || was.File() != next.File() || next.IsCDROM() {
		return value
	}
	isOther := false
	for _, k := range []string{"detect_zeroes", "model", "rerror", "scsiblock", "serial", "snapshot", "werror", "wwn"} {
		if isOther = isOther || was[k] != next[k]; was[k] == "" {
			delete(next, k)
		} else {
			next[k] = was[k]
		}
	}
	if !isOther {
		return value
	}
	return drive.Print(p.Engine, opt, next)
}
