package state

import (
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
)

// Fact is something that holds for some releases and not for others.
type Fact = release.Fact

// Has reports whether the world's release has it.
func (w *World) Has(f Fact) bool { return f.Has(w.Profile) }

// PackageVersion is the version of one of PVE's packages in the world's release.
func (w *World) PackageVersion(name string) string { return release.Package(w.Profile, name) }

// QEMUVersion is that of the release's pve-qemu-kvm: it stands in meta and in pinned machines.
func (w *World) QEMUVersion() string { return w.PackageVersion("pve-qemu-kvm") }

// MachineVersion is what a machine is pinned to: QEMU's version and PVE's revision of it, if there is one.
func (w *World) MachineVersion() string {
	full := w.QEMUVersion()
	version := full[:strings.LastIndexByte(full, '.')]
	if n := w.MachineRevision(version); n > 0 {
		return version + "+pve" + strconv.Itoa(n)
	}
	return version
}

// MachineRevision is the highest of PVE's revisions of a machine version, 0 if it has none (qemu-server QemuServer/Machine.pm,
// PVE_MACHINE_VERSION).
func (w *World) MachineRevision(version string) int {
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
