package vm

import (
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// A disk that outlives VMs is held by a VM that is never started: PVE destroys every volume that carries a VM's id
// together with that VM, and hands an id without a VM, with what still carries it, to the next comer (qemu-server
// QemuServer.pm destroy_vm, pve-manager API2/Cluster.pm nextid). So the volume has a VM of its own, and the others
// attach what is not theirs.

// HolderSlot is where the VM that holds a disk has it.
const HolderSlot = "scsi0"

// HolderName is the name of a VM that holds a disk, unless its user gives it one. PVE's tree shows it.
const HolderName = "data-disk"

// holderTitle opens the description of a VM that holds a disk. By it the disk may be attached to others.
const holderTitle = "This VM holds a disk that other VMs use (Terraform, proxmox_disk). It is never started. " +
	"Removing it destroys the disk."

// MaxHolderText is the number of characters that the user's text may have in it: PVE takes 8192 (qemu-server
// QemuServer.pm $confdesc).
const MaxHolderText = 8192 - len(holderTitle+"\n\n")

// HolderDescription is the description of a VM that holds a disk, with what its user says of it.
func HolderDescription(text string) string {
	if text == "" {
		return holderTitle
	}
	return holderTitle + "\n\n" + text
}

// HolderText is what the user says of it in such a description. It is false for the description of any other VM.
func HolderText(description string) (string, bool) {
	rest, ok := strings.CutPrefix(strings.TrimRight(description, " \n"), holderTitle)
	return strings.TrimPrefix(rest, "\n\n"), ok
}

// HeldVolume is the volume that a VM holds for others, "" if it is none that does.
func HeldVolume(vmid int, config map[string]string) string {
	_, holds := HolderText(config["description"])
	volume := Decode(config).Disks[HolderSlot].Volume
	if owner, ok := volid.Owner(volume); !holds || !ok || owner != vmid || config["template"] == "1" {
		return ""
	}
	return volume
}

// Borrowed are the slots of a VM whose volumes carry the id of another, in order.
func Borrowed(vmid int, disks map[string]Disk) []string {
	var slots []string
	for slot, d := range disks {
		if owner, ok := volid.Owner(d.Volume); ok && owner != vmid {
			slots = append(slots, slot)
		}
	}
	slices.Sort(slots)
	return slots
}

// IsForeign reports whether a disk of a VM is not its own: it carries the id of another, or is a device of the node.
func IsForeign(vmid int, volume string) bool {
	owner, ok := volid.Owner(volume)
	return ok && owner != vmid || volid.IsDevice(volume)
}
