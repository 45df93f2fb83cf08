package state

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
)

// Fact is something that holds for some releases and not for others.
type Fact = release.Fact

// Has reports whether the world's release has it.
func (w *World) Has(f Fact) bool { return f.Has(w.Profile) }

// PackageVersion is the version of one of PVE's packages in the world's release.
func PackageVersion(w *World, name string) string { return release.Package(w.Profile, name) }

// QEMUVersion is that of the release's pve-qemu-kvm: it stands in meta and in pinned machines.
func (w *World) QEMUVersion() string { return PackageVersion(w, "pve-qemu-kvm") }

// MachineVersion is what a machine is pinned to: QEMU's version and PVE's revision of it, if there is one.
func MachineVersion(w *World) string {
	full := w.QEMUVersion()
	version := full[:strings.LastIndexByte(full, '.')]
	if n := MachineRevision(w, version); n > 0 {
		return version + "+pve" + strconv.Itoa(n)
	}
	return version
}

// MachineRevision is the highest of PVE's revisions of a machine version, 0 if it has none (qemu-server
// QemuServer/Machine.pm, PVE_MACHINE_VERSION).
func MachineRevision(w *World, version string) int {
	highest := 0
	for _, revision := range []struct {
		version string
		number  int
		since   Fact
	}{
		{"4.1", 2, MoreSCSIDrives}, {"9.2", 1, SleepStatesOff}, {"10.0", 1, HostMTUAlways}, {"11.0", 1, HostTunnelOff},
		{"11.0", 2, EnlightenedVMCS},
	} {
		if version == revision.version && w.Has(revision.since) {
			highest = max(highest, revision.number)
		}
	}
	return highest
}

// Adapt takes away what the profile's release does not know: storages of type esxi, content of type import on others.
func (w *World) Adapt() {
	for id, s := range w.Storages {
		switch {
		case s.Type == "esxi" && !w.Has(ESXiStorage):
			maps.DeleteFunc(w.Volumes, func(at VolumeKey, _ *Volume) bool { return at.Storage == id })
			delete(w.Storages, id)
		case s.Type != "esxi" && !w.Has(ImportContent):
			s.Content = slices.DeleteFunc(slices.Clone(s.Content), func(c string) bool { return c == "import" })
			maps.DeleteFunc(w.Volumes, func(at VolumeKey, v *Volume) bool { return at.Storage == id && v.Content == "import" })
		}
	}
}
