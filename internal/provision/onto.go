package provision

import (
	"maps"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// onto begins with the device that the server has in a slot, where a plan adds a slot that state does not know: such a
// device is configured as it is, never replaced by a new one.
func onto(server, prior, planned vm.Spec) (before, after vm.Spec) {
	before, after = prior, planned
	before.Disks, before.CDROMs, before.Networks = maps.Clone(prior.Disks), maps.Clone(prior.CDROMs), maps.Clone(prior.Networks)
	after.Disks = maps.Clone(planned.Disks)
	for slot, disk := range after.Disks {
		if has, ok := server.Disks[slot]; ok && absent(prior.Disks, slot) {
			put(&before.Disks, slot, has)
			disk.ImportFrom = nil
			after.Disks[slot] = vm.MergeDisk(has, disk)
		} else if from := vm.SlotOf(server.Disks, disk.Volume); from != "" && !ok && absent(prior.Disks, slot) { // it brings its options
			after.Disks[slot] = vm.FitDisk(slot, vm.MergeDisk(server.Disks[from], disk))
		}
	}
	for slot := range planned.CDROMs {
		if has, ok := server.CDROMs[slot]; ok && absent(prior.CDROMs, slot) {
			put(&before.CDROMs, slot, has)
		}
	}
	after.Networks = maps.Clone(planned.Networks)
	for slot, nic := range after.Networks {
		if has, ok := server.Networks[slot]; ok && absent(prior.Networks, slot) {
			put(&before.Networks, slot, has)
			after.Networks[slot] = vm.MergeNIC(has, nic)
		}
	}
	complete(&after)
	return before, after
}

func absent[V vm.Disk | vm.CDROM | vm.NIC](devices map[string]V, slot string) bool {
	_, ok := devices[slot]
	return !ok
}

func put[V vm.Disk | vm.CDROM | vm.NIC](devices *map[string]V, slot string, device V) {
	if *devices == nil {
		*devices = map[string]V{}
	}
	(*devices)[slot] = device
}
