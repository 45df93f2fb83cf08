package vm

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
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
	if !ok || !property.AllDigits(digits) || len(digits) > 1 && digits[0] == '0' {
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

// IsUnused reports whether an option is that of a detached disk, unusedN.
func IsUnused(option string) bool { return strings.HasPrefix(option, "unused") }

// IsOptical reports whether the value of a drive says that it is an optical one, that of cloud-init among them.
func IsOptical(drive string) bool { return strings.Contains(drive, ",media=cdrom") }

// IsBusSlot reports whether an option is that of a drive on a bus: no EFI disk, and no state of a TPM.
func IsBusSlot(option string) bool { return IsSlot(option) && option != efiSlot && option != tpmSlot }

// Slots lists the drives of a configuration in PVE's order: ide, scsi, virtio, sata, each by number, then efidisk0 and
// tpmstate0. Optical and cloud-init drives count, unusedN does not.
func Slots(config map[string]string) []string {
	var slots []string
	for key := range config {
		if _, ok := slotRank(key); ok {
			slots = append(slots, key)
		}
	}
	slices.SortFunc(slots, bySlot)
	return slots
}

// bySlot compares slots of drives in PVE's order, and others of one kind by their numbers.
func bySlot(a, b string) int {
	x, _ := slotRank(a)
	y, _ := slotRank(b)
	return cmp.Or(x-y, len(a)-len(b), strings.Compare(a, b))
}

// family is a row of numbered slots ("hostpci0" … "hostpci15") that hold devices of one kind.
type family struct {
	prefix string
	slots  int
	facts  Facts
	keys   func() []string // sub-keys; nil: the device is one plain value
	rows   func() []row    // the facts of the sub-keys, or of the one value

	read      func(s *Spec, slot, value string) bool // false: unreadable, the caller keeps the text
	show      func(s *Spec, config map[string]string)
	merge     func(out, want *Spec)              // out's map is replaced, never changed
	useServer func(server, prior, planned *Spec) // see WithServerDevices
	copyRest  func(from, to *Spec)               // as in leaf, for the slots that both have
	fillRest  func(s, server *Spec)
	rebase    func(server, prior, planned *Spec) // see Rebase
}

// families are the slotted devices that are no drives. How many slots there are: facts of qemu-server QemuServer.pm,
// PCI.pm, USB.pm, Virtiofs.pm. usb5 and up need a recent machine type.
var families = sync.OnceValue(func() []family {
	return []family{
		networkFamily(),
		addressFamily(),
		devices("hostpci", 16, pciFormat(), func(s *Spec) *map[string]PCI { return &s.PCI }, mergePCI,
			at("pci"), configHWType, atStart),
		devices("usb", 14, usbFormat(), func(s *Spec) *map[string]USB { return &s.USB }, mergeUSB, configHWType),
		devices("numa", 8, numaFormat(), func(s *Spec) *map[string]NUMANode { return &s.NUMANodes }, nil,
			at("numa_nodes"), configCPU, atStart),
		devices("virtiofs", 10, virtioFSFormat(), func(s *Spec) *map[string]VirtioFS { return &s.VirtioFS }, nil,
			at("virtiofs"), configDisk, atStart, since(8, 3, 5, "8.4", "qemu-server 8.3.11: QemuServer/Virtiofs.pm (87b22e38)")),
		plainDevices("serial", 4, func(s *Spec) *map[string]string { return &s.Serial },
			collect(rootValues("use device = \"socket\", or "+withQM, allBut("socket"))), configHWType, atStart, namesVolume),
		plainDevices("parallel", 3, func(s *Spec) *map[string]string { return &s.Parallel }, Facts{}, rootOnly(withQM),
			atStart, namesVolume),
	}
})

// allBut are the values of a device other than one that every identity may set.
func allBut(free string) func(string) bool {
	return func(value string) bool { return !strings.EqualFold(value, free) }
}

// SlotCount is how many slots there are of a kind of device or on a bus: 32 of "net", 31 of "scsi"; 0 for other
// kinds.
func SlotCount(prefix string) int {
	for _, f := range families() {
		if f.prefix == prefix {
			return f.slots
		}
	}
	for _, b := range buses() {
		if b.name == prefix {
			return b.slots
		}
	}
	return 0
}

// familyOf finds the family of a slot.
func familyOf(slot string) (family, bool) {
	for _, f := range families() {
		if _, ok := indexOf(slot, f.prefix, f.slots); ok {
			return f, true
		}
	}
	return family{}, false
}

// devices makes a family of property strings. A nil merge is sub-key by sub-key.
func devices[T holder](prefix string, slots int, f format[T], field func(*Spec) *map[string]T,
	merge func(base, want T) T, facts ...Fact,
) family {
	if merge == nil {
		merge = func(base, want T) T {
			f.merge(&base, &want)
			return base
		}
	}
	return family{
		prefix: prefix, slots: slots, facts: collect(facts...), keys: f.keys, rows: f.rows,
		read: func(s *Spec, slot, value string) bool {
			var t T
			if !f.decode(&t, value) || f.encode(&t) == "" {
				return false
			}
			put(field(s), slot, t)
			return true
		},
		show: func(s *Spec, config map[string]string) {
			for slot, t := range *field(s) {
				if value := f.encode(&t); value != "" {
					config[slot] = value
				}
			}
		},
		merge:     func(out, want *Spec) { *field(out) = mergeSlots(*field(out), *field(want), merge) },
		useServer: func(server, prior, planned *Spec) { useServer(*field(server), field(prior), field(planned), merge) },
		copyRest:  func(from, to *Spec) { eachSlot(field(to), *field(from), func(t, has *T) { f.copyRest(has, t) }) },
		fillRest:  func(s, server *Spec) { eachSlot(field(s), *field(server), f.fillRest) },
		rebase: func(server, prior, planned *Spec) {
			rebaseSlots(*field(server), field(prior), field(planned), f.rebase)
		},
	}
}

// eachSlot changes the devices of m that other has too, in a copy of m.
func eachSlot[T any](m *map[string]T, other map[string]T, change func(t, has *T)) {
	*m = maps.Clone(*m)
	for slot, t := range *m {
		if has, ok := other[slot]; ok {
			change(&t, &has)
			(*m)[slot] = t
		}
	}
}

// plainDevices makes a family of plain values, which stand in the attribute device.
func plainDevices(prefix string, slots int, field func(*Spec) *map[string]string, device Facts, facts ...Fact) family {
	device.Path = "device"
	return family{
		prefix: prefix, slots: slots, facts: collect(facts...), rows: func() []row { return []row{{facts: device}} },
		read: func(s *Spec, slot, value string) bool {
			if value == "" {
				return false
			}
			put(field(s), slot, value)
			return true
		},
		show: func(s *Spec, config map[string]string) {
			for slot, value := range *field(s) {
				if value != "" {
					config[slot] = value
				}
			}
		},
		merge: func(out, want *Spec) { *field(out) = mergeRest(*field(out), *field(want)) },
		useServer: func(server, prior, planned *Spec) {
			useServer(*field(server), field(prior), field(planned), func(_, want string) string { return want })
		},
		copyRest: func(_, _ *Spec) {},
		fillRest: func(_, _ *Spec) {},
		rebase:   func(_, _, _ *Spec) {},
	}
}

// networkFamily is netN, whose model and MAC address have a syntax of their own.
func networkFamily() family {
	f := devices("net", 32, nicFormat(), func(s *Spec) *map[string]NIC { return &s.Networks }, mergeNIC,
		at("networks"), configNetwork, plugged("network"))
	f.keys = func() []string { return append(append(nicFormat().keys(), "model"), models()...) }
	f.read = func(s *Spec, slot, value string) bool {
		n, ok := decodeNIC(value)
		if ok {
			put(&s.Networks, slot, n)
		}
		return ok
	}
	f.show = func(s *Spec, config map[string]string) {
		for slot, n := range s.Networks {
			config[slot] = encodeNIC(n)
		}
	}
	f.rebase = func(server, prior, planned *Spec) {
		rebaseSlots(server.Networks, &prior.Networks, &planned.Networks, rebaseNIC)
	}
	return f
}

// addressFamily is ipconfigN; Spec keys it by the network device.
func addressFamily() family {
	f := devices("ipconfig", 32, addressFormat(), func(s *Spec) *map[string]Address { return &s.CloudInit.Addresses }, nil,
		at("cloud_init.addresses"), configCloudInit)
	f.read = func(s *Spec, slot, value string) bool {
		var a Address
		ok := addressFormat().decode(&a, value)
		if ok && a != (Address{}) {
			n, _ := indexOf(slot, "ipconfig", 32)
			put(&s.CloudInit.Addresses, "net"+strconv.Itoa(n), a)
		}
		return ok
	}
	f.rebase = func(server, prior, planned *Spec) {
		rebaseSlots(server.CloudInit.Addresses, &prior.CloudInit.Addresses, &planned.CloudInit.Addresses, rebaseAddress)
	}
	f.show = func(s *Spec, config map[string]string) {
		for network, a := range s.CloudInit.Addresses {
			if value := addressFormat().encode(&a); value != "" {
				config[ipConfigOf(network)] = value
			}
		}
	}
	return f
}

// Undriven is the problem of a copy that is to have cloud-init data and no drive to read them from: base has none, and
// want does not say where to make one. PVE takes the options all the same, and the guest sees nothing of them.
func Undriven(base, want Spec) []Problem {
	data := want.CloudInit
	data.Storage = ""
	told := Encode(Spec{CloudInit: data})
	maps.DeleteFunc(told, func(_, value string) bool { return value == "" })
	if base.CloudInit.Slot != "" || want.CloudInit.Storage != "" || len(told) == 0 && want.CloudInit.Slot == "" {
		return nil
	}
	return []Problem{{Option: "cloud_init", At: "cloud_init.storage", Text: "the source has no cloud-init drive, and " +
		"without one the guest reads no user, password, keys and addresses. Set cloud_init.storage to the storage of a new " +
		"one"}}
}
