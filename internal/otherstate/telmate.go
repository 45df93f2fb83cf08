package otherstate

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// fromTelmate reads proxmox_vm_qemu of Telmate/proxmox (proxmox/resource_vm_qemu.go, 2.9 to 3.0.2-rc). Its id is
// "node/qemu/vmid".
func fromTelmate(o object) VM {
	node, vmid := telmateID(o.text("id"))
	vm := VM{
		VMID: firstOf(o.number("vmid"), vmid), Node: firstOf(o.text("current_node"), o.text("target_node"), node),
		Name: o.text("name"),
		UUID: strings.ToLower(o.group("smbios").text("uuid")), Nodes: o.texts("target_nodes"),
		Stopped:  firstOf(o.text("power_state"), o.text("vm_state")) == "stopped",
		NoReboot: !o.truth("automatic_reboot", true),
		Timeouts: timeouts(o.group("timeouts")),
	}
	for _, nic := range o.groups("network") {
		vm.MACs = append(vm.MACs, nic.text("macaddr"))
	}
	vm.MACs = macs(vm.MACs...)
	vm.Slots = telmateSlots(o)
	if o.has("clone") && o.text("clone") != "" || o.number("clone_id") > 0 {
		vm.Clone = &Clone{VMID: max(0, o.number("clone_id")), Name: o.text("clone"), Full: o.truth("full_clone", true),
			Source: max(0, firstOf(o.number("clone_id"), o.number("linked_vmid")))}
	}
	return vm
}

// telmateSlots returns the slots of devices, except those that the configuration ignores. Version 3 has disks with a
// slot, or in a block for each slot. Version 2 has them in order, each with its bus and a number.
func telmateSlots(o object) []string {
	slots := []string{}
	count := map[string]int{}
	for _, disk := range o.groups("disk") {
		slot, bus := disk.text("slot"), disk.text("type")
		if !strings.ContainsAny(slot, "0123456789") {
			slot = strconv.Itoa(count[bus])
		}
		count[bus]++
		if _, err := strconv.Atoi(slot); err == nil {
			slot = bus + slot
		}
		if bus != "ignore" {
			slots = append(slots, slot)
		}
	}
	for _, bus := range []string{"ide", "sata", "scsi", "virtio"} {
		slots = append(slots, filled(o.group("disks").group(bus), "disk", "passthrough", "cdrom", "cloudinit")...)
	}
	slots = append(slots, numbered(o, "network", "net")...)
	slots = append(slots, numbered(o, "pci", "hostpci")...)
	slots = append(slots, numbered(o, "usb", "usb")...)
	slots = append(slots, numbered(o, "serial", "serial")...)
	for _, slot := range filled(o.group("pcis"), "mapping", "raw") {
		slots = append(slots, "host"+slot)
	}
	slots = append(slots, filled(o.group("usbs"), "device", "mapping", "port", "spice")...)
	slices.Sort(slots)
	return slots
}

// filled returns the names of the blocks that contain one of the given blocks.
func filled(o object, with ...string) []string {
	var slots []string
	for _, slot := range slices.Sorted(maps.Keys(o.attributes)) {
		in := o.group(slot)
		if slices.ContainsFunc(with, func(name string) bool { return len(in.groups(name)) > 0 }) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// numbered returns the slots of blocks with an id. A block without one has its place in the list.
func numbered(o object, name, family string) []string {
	var slots []string
	for i, device := range o.groups(name) {
		number := int64(i)
		if device.has("id") {
			number = device.number("id")
		}
		slots = append(slots, family+strconv.FormatInt(number, 10))
	}
	return slots
}

func telmateID(id string) (node string, vmid int64) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 {
		return "", 0
	}
	vmid, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return "", 0
	}
	return parts[0], vmid
}
