package state

// The facts that differ between the releases, each with the version of the package that brought it and the place in its source.
var (
	MoreSCSIDrives  = Fact{Package: "qemu-server", Since: "6.1-7", Source: "QemuServer/Machine.pm, PVE_MACHINE_VERSION 4.1+pve2 (b8fb1c03)"}
	HostTunnelOff   = Fact{Package: "qemu-server", Since: "9.1.18", Source: "QemuServer/Machine.pm, PVE_MACHINE_VERSION 11.0+pve1 (41734ab8)"}
	SleepStatesOff  = Fact{Package: "qemu-server", Since: "8.3.10", Source: "QemuServer/Machine.pm, PVE_MACHINE_VERSION 9.2+pve1 (57db7085)"}
	HostMTUAlways   = Fact{Package: "qemu-server", Since: "9.0.20", Source: "QemuServer/Machine.pm, PVE_MACHINE_VERSION 10.0+pve1 (ffa2fd05)"}
	EnlightenedVMCS = Fact{Package: "qemu-server", Since: "9.2.0", Source: "QemuServer/Machine.pm, PVE_MACHINE_VERSION 11.0+pve2 (30531026)"}

	CreateStartNeedsPower   = Fact{Package: "qemu-server", Since: "9.1.10", Source: "API2/Qemu.pm, create_vm (5086f472)"}
	RollbackStartNeedsPower = Fact{Package: "qemu-server", Since: "9.1.10", Source: "API2/Qemu.pm, rollback (7ba9640b)"}
	PinsMachineOnUpdate     = Fact{Package: "qemu-server", Since: "8.3.4", Source: "API2/Qemu.pm, update_vm_api (7a9570f3)"}
)
