package tfvm

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The slots of PVE by bus, with the number of each (qemu-server Drive.pm, QemuServer.pm).
func diskBuses() map[string]int  { return map[string]int{"ide": 4, "sata": 6, "scsi": 31, "virtio": 16} }
func cdromBuses() map[string]int { return map[string]int{"ide": 4, "sata": 6, "scsi": 31} }
func nicSlots() map[string]int   { return map[string]int{"net": 32} }

// The slots of what is passed through (qemu-server PCI.pm, USB.pm, Memory.pm, Virtiofs.pm, QemuServer.pm).
func pciSlots() map[string]int      { return map[string]int{"hostpci": 16} }
func usbSlots() map[string]int      { return map[string]int{"usb": 14} }
func numaSlots() map[string]int     { return map[string]int{"numa": 8} }
func virtioFSSlots() map[string]int { return map[string]int{"virtiofs": 10} }
func serialSlots() map[string]int   { return map[string]int{"serial": 4} }
func parallelSlots() map[string]int { return map[string]int{"parallel": 3} }

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

// sortedSlots are the keys of a map by slot in PVE's order.
func sortedSlots[V any](m map[string]V) []string { return slices.SortedFunc(maps.Keys(m), bySlot) }
