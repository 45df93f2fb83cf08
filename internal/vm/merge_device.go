package vm

import "maps"

// WithServerDevices begins with the device that the server has in a slot, where planned adds a slot that prior does not know: such a
// device is configured as it is, never replaced by a new one. Both come back with it, planned merged onto it.
func WithServerDevices(server, prior, planned Spec) (before, after Spec) {
	before, after = prior, planned
	useServer(server.Disks, &before.Disks, &after.Disks, func(base, want Disk) Disk {
		want.ImportFrom = nil
		return mergeDisk(base, want)
	})
	useServer(server.CDROMs, &before.CDROMs, &after.CDROMs, func(_, want CDROM) CDROM { return want })
	for _, f := range families() {
		f.useServer(&server, &before, &after)
	}
	return before, after
}

func useServer[T any](server map[string]T, prior, planned *map[string]T, merge func(base, want T) T) {
	known := *prior
	*prior, *planned = maps.Clone(*prior), maps.Clone(*planned)
	for slot, want := range *planned {
		has, there := server[slot]
		if _, ours := known[slot]; there && !ours {
			put(prior, slot, has)
			(*planned)[slot] = merge(has, want)
		}
	}
}

func mergePCI(base, want PCI) PCI {
	oneName(&base.Mapping, &base.Host, want.Mapping, want.Host)
	pciFormat().merge(&base, &want)
	return base
}

func mergeUSB(base, want USB) USB {
	oneName(&base.Mapping, &base.Host, want.Mapping, want.Host)
	usbFormat().merge(&base, &want)
	return base
}

// oneName drops one of the two ways to name a device of the host where the other is wanted.
func oneName(mapping, host **string, wantMapping, wantHost *string) {
	switch {
	case wantMapping != nil:
		*host = nil
	case wantHost != nil:
		*mapping = nil
	}
}

// MergeDisk is Merge for one disk.
func MergeDisk(base, want Disk) Disk { return mergeDisk(base, want) }
