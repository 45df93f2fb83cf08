package tfvm

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfvm/vmschema"
)

func isDisk(bus string) bool { return slices.Contains(vmschema.DiskBuses(), bus) }

// splitSlot takes "scsi10" apart into "scsi" and 10; -1: no number.
func splitSlot(slot string) (string, int) {
	bus := strings.TrimRight(slot, "0123456789")
	n, err := strconv.Atoi(slot[len(bus):])
	if err != nil {
		return bus, -1
	}
	return bus, n
}

// bySlot orders net2 before net10.
func bySlot(a, b string) int {
	busA, numberA := splitSlot(a)
	busB, numberB := splitSlot(b)
	return cmp.Or(cmp.Compare(busA, busB), cmp.Compare(numberA, numberB))
}

// sortedSlots are the keys of a map by slot in that order.
func sortedSlots[V any](m map[string]V) []string { return slices.SortedFunc(maps.Keys(m), bySlot) }
