package vm

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Displaced are the drives that a copy would lose because want has another drive in their slot: Merge takes the slot
// over, and PVE detaches a disk and drops a cloud-init drive without a word (qemu-server API2/Qemu.pm update_vm_api).
//
// The problems are disks of base, and its cloud-init drive where want configures cloud-init and names no other slot.
// drive is the slot of a cloud-init drive that only goes, "" for none.
func Displaced(base, want Spec) (problems []Problem, drive string) {
	refuse := func(slot, at string) {
		if disk := base.Disks[slot]; disk.Volume != "" {
			problems = append(problems, Problem{Option: slot, At: at, Text: fmt.Sprintf("the slot is not empty: %s is in %s, "+
				"and it would be taken out. Choose another slot", disk.Volume, slot)})
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(want.CDROMs)) {
		refuse(slot, "cdroms."+slot)
	}
	has, wants := base.CloudInit.Slot, want.CloudInit.Slot
	if wants == "" && has == "" && want.CloudInit.Storage != "" {
		wants = DefaultCloudInitSlot
	}
	if wants != "" {
		refuse(wants, "cloud_init.slot")
		return problems, ""
	}
	if has == "" {
		return problems, ""
	}
	at := ""
	if _, isDisk := want.Disks[has]; isDisk {
		at = "disks." + has
	} else if _, isCDROM := want.CDROMs[has]; isCDROM {
		at = "cdroms." + has
	}
	switch {
	case at == "":
		return problems, ""
	case reflect.DeepEqual(want.CloudInit, CloudInit{}):
		return problems, has
	}
	return append(problems, Problem{Option: has, At: at, Text: fmt.Sprintf("the cloud-init drive is in %s, and cloud_init "+
		"needs one. Choose another slot, or set cloud_init.slot to another one", has)}), ""
}
