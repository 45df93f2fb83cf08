package vm

import (
	"maps"
	"strconv"
)

// family is a row of numbered slots ("hostpci0" … "hostpci15") that hold devices of one kind.
type family struct {
	prefix  string
	slots   int
	restart bool            // PVE gives and takes such devices at the start of a guest only
	keys    func() []string // sub-keys; nil: the device is one plain value

	read      func(s *Spec, slot, value string) bool // false: unreadable, the caller keeps the text
	show      func(s *Spec, config map[string]string)
	merge     func(out, want *Spec)              // out's map is replaced, never changed
	useServer func(server, prior, planned *Spec) // see WithServerDevices
	copyRest  func(from, to *Spec)               // as in leaf, for the slots that both have
	fillRest  func(s, server *Spec)
}

// families are the slotted devices that are no drives. How many slots there are: facts of qemu-server QemuServer.pm,
// PCI.pm, USB.pm, Virtiofs.pm. usb5 and up need a recent machine type.
func families() []family {
	return []family{
		networkFamily(),
		addressFamily(),
		atStartOnly(devices("hostpci", 16, pciFormat(), func(s *Spec) *map[string]PCI { return &s.PCI }, mergePCI)),
		devices("usb", 14, usbFormat(), func(s *Spec) *map[string]USB { return &s.USB }, mergeUSB),
		atStartOnly(devices("numa", 8, numaFormat(), func(s *Spec) *map[string]NUMANode { return &s.NUMANodes }, nil)),
		atStartOnly(devices("virtiofs", 10, virtioFSFormat(), func(s *Spec) *map[string]VirtioFS { return &s.VirtioFS }, nil)),
		atStartOnly(plainDevices("serial", 4, func(s *Spec) *map[string]string { return &s.Serial })),
		atStartOnly(plainDevices("parallel", 3, func(s *Spec) *map[string]string { return &s.Parallel })),
	}
}

// atStartOnly marks a family that has no hotplug.
func atStartOnly(f family) family {
	f.restart = true
	return f
}

// SlotCount is how many slots there are of a kind of device or on a bus: 32 of "net", 31 of "scsi"; 0 for what has none.
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
func familyOf(all []family, slot string) (family, bool) {
	for _, f := range all {
		if _, ok := indexOf(slot, f.prefix, f.slots); ok {
			return f, true
		}
	}
	return family{}, false
}

// devices makes a family of property strings. A nil merge is sub-key by sub-key.
func devices[T holder](prefix string, slots int, f format[T], at func(*Spec) *map[string]T, merge func(base, want T) T) family {
	if merge == nil {
		merge = func(base, want T) T {
			f.merge(&base, &want)
			return base
		}
	}
	return family{
		prefix: prefix, slots: slots, keys: f.keys,
		read: func(s *Spec, slot, value string) bool {
			var t T
			if !f.decode(&t, value) || f.encode(&t) == "" {
				return false
			}
			put(at(s), slot, t)
			return true
		},
		show: func(s *Spec, config map[string]string) {
			for slot, t := range *at(s) {
				if value := f.encode(&t); value != "" {
					config[slot] = value
				}
			}
		},
		merge:     func(out, want *Spec) { *at(out) = mergeSlots(*at(out), *at(want), merge) },
		useServer: func(server, prior, planned *Spec) { useServer(*at(server), at(prior), at(planned), merge) },
		copyRest:  func(from, to *Spec) { eachSlot(at(to), *at(from), func(t, has *T) { f.copyRest(has, t) }) },
		fillRest:  func(s, server *Spec) { eachSlot(at(s), *at(server), f.fillRest) },
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

// plainDevices makes a family of plain values.
func plainDevices(prefix string, slots int, at func(*Spec) *map[string]string) family {
	return family{
		prefix: prefix, slots: slots,
		read: func(s *Spec, slot, value string) bool {
			if value == "" {
				return false
			}
			put(at(s), slot, value)
			return true
		},
		show: func(s *Spec, config map[string]string) {
			for slot, value := range *at(s) {
				if value != "" {
					config[slot] = value
				}
			}
		},
		merge: func(out, want *Spec) { *at(out) = mergeRest(*at(out), *at(want)) },
		useServer: func(server, prior, planned *Spec) {
			useServer(*at(server), at(prior), at(planned), func(_, want string) string { return want })
		},
		copyRest: func(_, _ *Spec) {},
		fillRest: func(_, _ *Spec) {},
	}
}

// networkFamily is netN, whose model and MAC address have a syntax of their own.
func networkFamily() family {
	f := devices("net", 32, nicFormat(), func(s *Spec) *map[string]NIC { return &s.Networks }, mergeNIC)
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
	return f
}

// addressFamily is ipconfigN; Spec keys it by the network device.
func addressFamily() family {
	f := devices("ipconfig", 32, addressFormat(), func(s *Spec) *map[string]Address { return &s.CloudInit.Addresses }, nil)
	f.read = func(s *Spec, slot, value string) bool {
		var a Address
		ok := addressFormat().decode(&a, value)
		if ok && a != (Address{}) {
			n, _ := indexOf(slot, "ipconfig", 32)
			put(&s.CloudInit.Addresses, "net"+strconv.Itoa(n), a)
		}
		return ok
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
