package tfvm

import (
	"cmp"
	"iter"
	"maps"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// The slots of PVE by bus, with the number of each (qemu-server Drive.pm, QemuServer.pm).
func diskBuses() map[string]int  { return map[string]int{"ide": 4, "sata": 6, "scsi": 31, "virtio": 16} }
func cdromBuses() map[string]int { return map[string]int{"ide": 4, "sata": 6, "scsi": 31} }
func nicSlots() map[string]int   { return map[string]int{"net": 32} }

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

func mapKeys[V vm.NIC | diskModel | cdromModel | nicModel | addressModel](m map[string]V) iter.Seq[string] {
	return maps.Keys(m)
}
