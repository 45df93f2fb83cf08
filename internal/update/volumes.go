package update

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// checkVolumes refuses volumes that this VM may not attach: PVE itself attaches any volume of any guest without a word
// (qemu-server API2/Qemu.pm create_disks). It does not empty a slot that a third party has filled since. loose are the
// volumes that are not in the VM's configuration but were shown to be attachable.
func checkVolumes(vmid int, config pve.PendingConfig, server, prior, planned vm.Spec, loose map[string]bool) error {
	var held guest.Holdings
	for _, slot := range slices.Sorted(maps.Keys(planned.Disks)) {
		volume := planned.Disks[slot].Volume
		was, known := prior.Disks[slot]
		if volume == "" || volume == was.Volume || server.Disks[slot].Volume == volume {
			continue
		}
		if held.Slots == nil {
			held = guest.HoldingsOf(config)
		}
		refuse := func(why string) error {
			return &guest.FieldError{Path: "disks." + slot + ".imported_disk.volume",
				Summary: fmt.Sprintf("%s of VM %d cannot get volume %s", slot, vmid, volume), Detail: why}
		}
		owner, owned := volid.Owner(volume)
		if !owned && !volid.IsDevice(volume) || owner != vmid && !loose[volume] && held.SlotOf(volume) == "" {
			return refuse("A VM attaches only volumes that carry its own id, disks of proxmox_disk, and devices of its node")
		}
		if other := held.Slots[slot]; other != "" && !known {
			return refuse("The slot is not empty: " + other + " is in it, which this configuration has not put there")
		}
		if _, unused := held.Unused[volume]; !unused && held.SlotOf(volume) == "" && !loose[volume] {
			return refuse("The VM has no such volume; detached it has " + listed(slices.Sorted(maps.Keys(held.Unused))))
		}
	}
	return nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// unusedEntry is the unusedN option that holds a detached volume, "" if none does.
func unusedEntry(config map[string]string, volume string) string {
	for _, option := range slices.Sorted(maps.Keys(config)) {
		if vm.IsUnused(option) && guest.VolumeOf(config[option]) == volume {
			return option
		}
	}
	return ""
}
