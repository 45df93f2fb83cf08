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

// ReleaseOf is the release of a node: that of the world, unless it was upgraded before or after the others.
func ReleaseOf(w *World, node string) string {
	if n := w.Nodes[node]; n != nil && n.Release != "" {
		return n.Release
	}
	return w.Profile
}

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

// The facts that differ between the releases, each with the version of the package that brought it and the place in its
// source.
var (
	MoreSCSIDrives = Fact{Package: "qemu-server", Since: "6.1-7",
		Source: "QemuServer/Machine.pm, PVE_MACHINE_VERSION 4.1+pve2 (b8fb1c03)"}
	HostTunnelOff = Fact{Package: "qemu-server", Since: "9.1.18",
		Source: "QemuServer/Machine.pm, PVE_MACHINE_VERSION 11.0+pve1 (41734ab8)"}
	SleepStatesOff = Fact{Package: "qemu-server", Since: "8.3.10",
		Source: "QemuServer/Machine.pm, PVE_MACHINE_VERSION 9.2+pve1 (57db7085)"}
	HostMTUAlways = Fact{Package: "qemu-server", Since: "9.0.20",
		Source: "QemuServer/Machine.pm, PVE_MACHINE_VERSION 10.0+pve1 (ffa2fd05)"}
	EnlightenedVMCS = Fact{Package: "qemu-server", Since: "9.2.0",
		Source: "QemuServer/Machine.pm, PVE_MACHINE_VERSION 11.0+pve2 (30531026)"}

	CreateStartNeedsPower = Fact{Package: "qemu-server", Since: "9.1.10", Source: "API2/Qemu.pm, create_vm (5086f472)"}
	CPUMapping            = Fact{Package: "qemu-server", Since: "9.1.13",
		Source: "API2/Qemu.pm, check_cpu_model_access (229a32ed); of a clone since 9.1.15"}
	OfItsCreation = Fact{Package: "qemu-server", Since: "8.3.4",
		Source: "QemuServer/Machine.pm, get_vm_machine (455e1263): Windows since QEMU 9.1"}
	VCPUPlugFixed = Fact{Package: "qemu-server", Since: "8.0.8",
		Source: "QemuServer.pm, vmconfig_hotplug_pending (d797bb62)"}
	RNGMapping = Fact{Package: "qemu-server", Since: "8.3.10", Source: "API2/Qemu.pm, check_rng_perm (6a956f86)"}
	NoBridge   = Fact{Package: "qemu-server", Since: "9.0.25",
		Source: "QemuServer.pm, check_bridge_access (006dbac7)"}
	RollbackStartNeedsPower = Fact{Package: "qemu-server", Since: "9.1.10", Source: "API2/Qemu.pm, rollback (7ba9640b)"}
	PinIsLogged             = Fact{Package: "qemu-server", Since: "8.3.4",
		Source: "QemuServer/Machine.pm, pinning (55b277d2)"}
	ISOIsCDROM = Fact{Package: "qemu-server", Since: "8.3.10",
		Source: "API2/Qemu.pm, check_drive_param (481eca69)"}
	CreateChecksTags    = Fact{Package: "qemu-server", Since: "9.2.0", Source: "API2/Qemu.pm, create_vm (a929b3e0)"}
	ForksFirst          = Fact{Package: "qemu-server", Since: "9.2.0", Source: "API2/Qemu.pm, update_vm_api (797ab238)"}
	PinsMachineOnUpdate = Fact{Package: "qemu-server", Since: "8.3.4",
		Source: "API2/Qemu.pm, update_vm_api (7a9570f3)"}
)

// Of the HTTP layer.
var (
	ErrorsHaveMessages = Fact{Package: "pve-http-server", Since: "5.2.0",
		Source: "PVE/APIServer/Formatter/Standard.pm, prepare_response_data (9a2112e)"}
	ErrorsHaveBodies = Fact{Package: "pve-http-server", Since: "5.2.0",
		Source: "PVE/APIServer/AnyEvent.pm, error (9b59e1f, 169d42e)"}
	LargerBodies = Fact{Package: "pve-http-server", Since: "5.2.1",
		Source: "PVE/APIServer/AnyEvent.pm, limit_max_post (2650923)"}
	OneRefusalText = Fact{Package: "pve-manager", Since: "9.1.5", Backport: "8.4.17",
		Source: "PVE/HTTPServer.pm, auth_handler (26c10a2e; 8.4: d3973e63)"}
)

// Of nodes and identities.
var (
	CurrentKernel = Fact{Package: "pve-manager", Since: "8.1.0",
		Source: "PVE/API2/Nodes.pm, status (20ad4e0e, 81fd95cf)"}
	AvailableMemory = Fact{Package: "pve-manager", Since: "9.0.0", Source: "PVE/API2/Nodes.pm, status (8fd3420b)"}
	NodeHAState     = Fact{Package: "pve-manager", Since: "8.2.9", Source: "PVE/API2/Cluster.pm, resources (993d05ab)"}
	MACPrefix       = Fact{Package: "pve-cluster", Since: "8.0.5", Source: "PVE/DataCenterConfig.pm, mac_prefix (f40a6d9)"}
	ImportContent   = Fact{Package: "pve-storage", Since: "8.2.8",
		Source: "PVE/Storage/DirPlugin.pm, plugindata (d955a46)"}
	ListsApproximateSize = Fact{Package: "pve-storage", Since: "9.1.5",
		Source: "PVE/Storage/LVMPlugin.pm, list_images (225a872)"}
	ESXiStorage = Fact{Package: "pve-storage", Since: "8.1.1", Source: "PVE/Storage/ESXiPlugin.pm (a171036)"}
	NestedPools = Fact{Package: "pve-access-control", Since: "8.0.7",
		Source: "PVE/AccessControl.pm, verify_poolname (e7224f6)"}
)

// Of virtual machines and HA.
var (
	MemoryIsText    = Fact{Package: "qemu-server", Since: "8.0.8", Source: "PVE/QemuServer/Memory.pm, memory (7f8c8087)"}
	DumpChecksGuest = Fact{Package: "qemu-server", Since: "9.1.10",
		Source: "PVE/API2/Qemu.pm, cloudinit_generated_config_dump (0b36a0ba)"}
	CreateSortsTags = Fact{Package: "qemu-server", Since: "9.1.17", Source: "PVE/API2/Qemu.pm, create_vm (492347ae)"}
	DestroyWarns    = Fact{Package: "qemu-server", Since: "9.1.19",
		Source: "PVE/QemuServer.pm, destroy_vm (42e450dc, 2e85e6d7)"}
	MigrateTellsHA = Fact{Package: "qemu-server", Since: "9.0.14",
		Source: "PVE/API2/Qemu.pm, migrate_vm_precondition (96607104)"}
	MigrateTellsVMState = Fact{Package: "qemu-server", Since: "9.0.10",
		Source: "PVE/API2/Qemu.pm, migrate_vm_precondition (dc76a590)"}
	GroupsAreRules = Fact{Package: "pve-ha-manager", Since: "5.0.2",
		Source: "PVE/API2/HA/Groups.pm, index (0533db0, 1bc1db5)"}
	HAChecksType = Fact{Package: "pve-ha-manager", Since: "5.1.1",
		Source: "PVE/HA/Resources/PVEVM.pm and PVECT.pm, exists (18b3b09)"}
	HAPurgesRules = Fact{Package: "pve-ha-manager", Since: "5.0.7",
		Source: "PVE/HA/Config.pm, delete_service_from_config (8102199), API2/HA/Resources.pm, delete (c952c63)"}
	DestroyPurgesRules = Fact{Package: "qemu-server", Since: "9.0.26",
		Source: "PVE/API2/Qemu.pm, destroy_vm (8da59986)"}
	MoveAnswersRequested = Fact{Package: "pve-ha-manager", Since: "5.0.3",
		Source: "PVE/API2/HA/Resources.pm, migrate (47340b1)"}
)
