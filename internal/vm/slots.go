package vm

import (
	"slices"
	"strconv"
	"strings"
)

// The slots of drives that stand alone.
const (
	efiSlot = "efidisk0"
	tpmSlot = "tpmstate0"
)

// bus is a family of slots and how many there are.
type bus struct {
	name  string
	slots int
}

// buses are the disk buses in PVE's order (qemu-server Drive.pm valid_drive_names).
func buses() []bus { return []bus{{"ide", 4}, {"scsi", 31}, {"virtio", 16}, {"sata", 6}} }

// indexOf gives the number in a slot name ("net0"), or false if name is not prefix plus a number below limit.
func indexOf(name, prefix string, limit int) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok || !allDigits(digits) || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n < limit
}

func ipConfigOf(network string) string { return "ipconfig" + strings.TrimPrefix(network, "net") }

// slotRank orders drive slots as PVE does; false means that key is no drive.
func slotRank(key string) (int, bool) {
	switch key {
	case efiSlot:
		return 1000, true
	case tpmSlot:
		return 1001, true
	}
	for i, b := range buses() {
		if n, ok := indexOf(key, b.name, b.slots); ok {
			return i*100 + n, true
		}
	}
	return 0, false
}

// IsSlot reports whether an option is that of a drive.
func IsSlot(option string) bool {
	_, ok := slotRank(option)
	return ok
}

// Slots lists the drives of a configuration in PVE's order: ide, scsi, virtio, sata, each by number, then efidisk0 and
// tpmstate0. Optical and cloud-init drives count, unusedN does not.
func Slots(config map[string]string) []string {
	var slots []string
	for key := range config {
		if _, ok := slotRank(key); ok {
			slots = append(slots, key)
		}
	}
	slices.SortFunc(slots, func(a, b string) int {
		x, _ := slotRank(a)
		y, _ := slotRank(b)
		return x - y
	})
	return slots
}
