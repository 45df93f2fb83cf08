package otherstate

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// bpg/proxmox writes every argument without configuration with its default (proxmoxtf/resource/vm/vm.go, v0.111.1).
const bpgTimeout = 1800 // seconds, of a clone, a create, a migration and a shutdown

// fromBPG reads the VMs of bpg/proxmox. That of the SDK has blocks, the others have attributes; they share most names.
func fromBPG(o object) VM {
	vmid := o.number("vm_id")
	if vmid <= 0 {
		vmid = o.number("id")
	}
	vm := VM{
		VMID: vmid, Node: o.text("node_name"), Name: o.text("name"),
		UUID:     strings.ToLower(o.group("smbios").text("uuid")),
		Stopped:  !o.truth("started", true) && !o.truth("template", false),
		NoReboot: !o.truth("reboot_after_update", true),
		OnDestroy: OnDestroy{Force: o.truth("stop_on_destroy", false), Timeout: changedSeconds(o, "timeout_shutdown_vm"),
			KeepReferences: !o.truth("purge_on_destroy", true)},
		Timeouts: timeouts(o.group("timeouts")),
		Images:   map[string]string{},
		Slots:    bpgSlots(o),
	}
	vm.MACs = o.texts("mac_addresses")
	for _, nic := range append(o.groups("network_device"), o.groups("network")...) {
		vm.MACs = append(vm.MACs, nic.text("mac_address"))
	}
	vm.MACs = macs(vm.MACs...)
	for _, disk := range o.groups("disk") {
		slot, image := firstOf(disk.key, disk.text("interface")), disk.text("import_from")
		if file := disk.text("file_id"); image == "" && strings.Contains(file, ":import/") {
			image = file // one of another content type is nothing that PVE imports by itself
		}
		if slot != "" && image != "" {
			vm.Images[slot] = image
		}
	}
	made := "timeout_create"
	if o.has("clone") {
		vm.Clone = bpgClone(o.group("clone"))
	}
	if vm.Clone != nil {
		made = "timeout_clone"
	}
	vm.Timeouts.Create = firstOf(vm.Timeouts.Create, inWords(changedSeconds(o, made)))
	vm.Timeouts.Update = firstOf(vm.Timeouts.Update, inWords(changedSeconds(o, "timeout_migrate")))
	return vm
}

// bpgSlots returns the slots of devices. Blocks without a name of their own are in the order of their slots.
func bpgSlots(o object) []string {
	slots := []string{}
	for _, family := range []struct{ block, named, counted string }{
		{block: "disk", named: "interface"}, {block: "cdrom", named: "interface"}, {block: "hostpci", named: "device"},
		{block: "network_device", counted: "net"}, {block: "network"}, {block: "usb", counted: "usb"},
		{block: "serial_device", counted: "serial"}, {block: "virtiofs", counted: "virtiofs"},
	} {
		for i, device := range o.groups(family.block) {
			slot := device.key
			if family.counted != "" {
				slot = family.counted + strconv.Itoa(i)
			}
			if slot == "" && family.named != "" {
				slot = device.text(family.named)
			}
			if slot != "" {
				slots = append(slots, slot)
			}
		}
	}
	slices.Sort(slots)
	return slots
}

func bpgClone(o object) *Clone {
	source := firstOf(o.number("vm_id"), o.number("source_vm_id"))
	if source <= 0 {
		return nil
	}
	return &Clone{VMID: source, Source: source, Full: o.truth("full", true), Node: firstOf(o.text("node_name"),
		o.text("source_node_name")),
		Storage: firstOf(o.text("datastore_id"), o.text("target_datastore")), Format: o.text("target_format"),
		Snapshot: o.text("snapshot_name"), BWLimit: o.number("bandwidth_limit")}
}

// changedSeconds returns a time limit that the configuration has set; 0 for the default.
func changedSeconds(o object, name string) time.Duration {
	if n := o.number(name); n != bpgTimeout && n > 0 {
		return time.Duration(n) * time.Second
	}
	return 0
}

func inWords(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
