package vm

import (
	"maps"
	"slices"
)

// BootOrderWith is the boot order that PVE would have given a VM by itself, had its disks been there when it was made: the first disk,
// then what order has beside disks (qemu-server QemuServer.pm get_default_bootdevices).
func BootOrderWith(order []string, disks map[string]Disk) []string {
	if len(disks) == 0 {
		return order
	}
	first := slices.MinFunc(slices.Sorted(maps.Keys(disks)), func(a, b string) int {
		x, _ := slotRank(a)
		y, _ := slotRank(b)
		return x - y
	})
	others := slices.DeleteFunc(slices.Clone(order), func(slot string) bool { _, disk := disks[slot]; return disk })
	return append([]string{first}, others...)
}
