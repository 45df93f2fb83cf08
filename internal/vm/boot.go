package vm

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// DefaultBootOrder is the boot order that PVE gives a VM with these slots when it is made: the first disk, optical
// drive and network device (qemu-server QemuServer.pm get_default_bootdevices). Of a drive the map tells whether it is
// an optical one, as that of cloud-init is.
func DefaultBootOrder(slots map[string]bool) []string {
	first := func(isKind func(slot string) bool) []string {
		all := slices.DeleteFunc(slices.SortedFunc(maps.Keys(slots), bySlot), func(s string) bool { return !isKind(s) })
		return all[:min(1, len(all))]
	}
	return slices.Concat(
		first(func(slot string) bool { return IsBusSlot(slot) && !slots[slot] }),
		first(func(slot string) bool { return IsBusSlot(slot) && slots[slot] }),
		first(func(slot string) bool { return strings.HasPrefix(slot, "net") }))
}

// BootOrderWith is the boot order that PVE would have given a VM by itself, had its disks been there when it was made:
// the first disk, then what order has beside disks (qemu-server QemuServer.pm get_default_bootdevices).
func BootOrderWith(order []string, disks map[string]Disk) []string {
	if len(disks) == 0 {
		return order
	}
	first := slices.MinFunc(slices.Sorted(maps.Keys(disks)), bySlot)
	others := slices.DeleteFunc(slices.Clone(order), func(slot string) bool { _, disk := disks[slot]; return disk })
	return append([]string{first}, others...)
}

// bootDiskOption is deprecated: the disk that "c" in the letters of boot means.
const bootDiskOption = "bootdisk"

// legacyBoot reads the boot order of an old VM, which has letters ("cdn": hard disk, CD-ROM drives, network) or only a
// bootdisk, as PVE does (qemu-server QemuServer.pm bootorder_from_legacy). A boot order that is written later takes
// their place: PVE removes bootdisk with it.
func legacyBoot(s *Spec) {
	letters, hasLetters := s.Rest["boot"]
	disk, hasDisk := s.Rest[bootDiskOption]
	if s.BootOrder != nil || !hasLetters && !hasDisk {
		return
	}
	letters = strings.TrimPrefix(letters, "legacy=")
	if !hasLetters {
		letters = "cdn" // PVE's default
	}
	if strings.Trim(letters, "acdn") != "" || letters == "" {
		return
	}
	order := []string{}
	for _, letter := range letters {
		order = append(order, s.legacyDevices(letter, disk)...)
	}
	s.BootOrder = uniqueInOrder(order)
	rest := maps.Clone(s.Rest)
	delete(rest, "boot")
	delete(rest, bootDiskOption)
	s.Rest = nonEmpty(rest)
}

// IsLegacyBoot reports whether a configuration has its boot order in the old notation.
func IsLegacyBoot(config map[string]string) bool {
	boot, has := config["boot"]
	_, hasDisk := config[bootDiskOption]
	return !strings.HasPrefix(boot, "order=") && (strings.TrimSpace(boot) != "" || hasDisk && !has)
}

// legacyDevices are the devices that a letter stands for. "a", the floppy drive, has none.
func (s *Spec) legacyDevices(letter rune, disk string) []string {
	switch letter {
	case 'c':
		if _, exists := s.Disks[disk]; exists || disk != "" && s.CloudInit.Slot == disk {
			return []string{disk}
		}
	case 'd':
		drives := slices.Collect(maps.Keys(s.CDROMs))
		slices.SortFunc(drives, bySlot)
		return drives
	case 'n':
		var nics []string
		for i := range 32 {
			if slot := "net" + strconv.Itoa(i); s.has(slot) {
				nics = append(nics, slot)
			}
		}
		return nics
	}
	return nil
}

func (s *Spec) has(nic string) bool {
	_, ok := s.Networks[nic]
	return ok
}

func uniqueInOrder(all []string) []string {
	out := []string{}
	for _, s := range all {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// BootOrder is the boot order of a configuration alone, in whichever spelling.
func BootOrder(config map[string]string) []string {
	if order, ok := strings.CutPrefix(config["boot"], "order="); ok && !strings.Contains(order, ",") {
		return property.SplitList(order)
	}
	return Decode(config).BootOrder
}
