package vm

import (
	"maps"
	"slices"
	"strings"
)

// Check says what PVE would refuse in s although every value by itself is allowed: a sub-key that its option needs and
// that is missing, two that exclude each other, a disk option that the bus has not. Option is the slot or option, Text
// begins with the sub-keys meant. On a clone it wants the merged Spec, since the source may have what is missing.
func Check(s Spec) []Problem {
	var c Change
	required(&c, "audio0", audioFormat(), s.Audio, "device")
	required(&c, "rng0", rngFormat(), s.RNG, "source")
	required(&c, "ivshmem", ivshmemFormat(), s.IVSHMEM, "size")
	required(&c, "amd-sev", sevFormat(), s.AMDSEV, "type")
	required(&c, "intel-tdx", tdxFormat(), s.IntelTDX, "type")
	required(&c, "agent", agentFormat(), s.Agent, "enabled")
	for slot, d := range s.PCI {
		oneSource(&c, slot, d.Mapping, d.Host)
	}
	for slot, d := range s.USB {
		oneSource(&c, slot, d.Mapping, d.Host)
	}
	for slot, d := range s.NUMANodes {
		needs(&c, slot, numaFormat().showAll(&d), "cpus")
	}
	for slot, d := range s.VirtioFS {
		needs(&c, slot, virtioFSFormat().showAll(&d), "dirid")
	}
	for slot, d := range s.Disks {
		checkDisk(&c, slot, d)
	}
	c.sort()
	return c.Problems
}

// required complains about a group that says something, but not what PVE needs.
func required[T holder](c *Change, option string, f format[T], t T, key string) {
	if properties := f.showAll(&t); len(properties) > 0 {
		needs(c, option, properties, key)
	}
}

func needs(c *Change, option string, properties map[string]string, key string) {
	if properties[key] == "" {
		c.problem(option, key+" is needed")
	}
}

func oneSource(c *Change, slot string, mapping, host *string) {
	switch {
	case mapping != nil && host != nil:
		c.problem(slot, "mapping and host exclude each other")
	case mapping == nil && host == nil:
		c.problem(slot, "mapping or host is needed")
	}
}

// checkDisk knows the buses of the options and the rules of the throttles (qemu-server Drive.pm parse_drive).
func checkDisk(c *Change, slot string, d Disk) {
	properties := diskFormat().showAll(&d)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if _, unknown := d.Rest[key]; !unknown && !HasKey(slot, key) {
			c.problem(slot, key+" is an option of "+strings.Join(diskBuses()[key], ", ")+" disks only")
		}
	}
	for _, limit := range []string{"mbps", "iops"} {
		if properties[limit] != "" && (properties[limit+"_rd"] != "" || properties[limit+"_wr"] != "") {
			c.problem(slot, limit+" excludes "+limit+"_rd and "+limit+"_wr")
		}
		for _, direction := range []string{"", "_rd", "_wr"} {
			if key := limit + direction; properties[key+"_max"] != "" && properties[key] == "" {
				c.problem(slot, key+"_max needs "+key)
			}
		}
	}
}
