package model

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/vmschema"
)

// IsDisk says whether disks attach to a bus of this name.
func IsDisk(bus string) bool { return slices.Contains(vmschema.DiskBuses(), bus) }

// SplitSlot takes "scsi10" apart into "scsi" and 10; -1: no number.
func SplitSlot(slot string) (string, int) {
	bus := strings.TrimRight(slot, "0123456789")
	n, err := strconv.Atoi(slot[len(bus):])
	if err != nil {
		return bus, -1
	}
	return bus, n
}

// BySlot orders net2 before net10.
func BySlot(a, b string) int {
	busA, numberA := SplitSlot(a)
	busB, numberB := SplitSlot(b)
	return cmp.Or(cmp.Compare(busA, busB), cmp.Compare(numberA, numberB))
}

// SortedSlots are the keys of a map by slot in that order.
func SortedSlots[V any](m map[string]V) []string { return slices.SortedFunc(maps.Keys(m), BySlot) }
