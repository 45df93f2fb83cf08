// Package vm says what a virtual machine is: Spec, a codec between Spec and PVE's configuration, and the difference of
// two Specs as the change to send. It is pure: no input, no output, no Terraform.
package vm

// Spec is the configuration of a VM as far as this provider models it. A nil pointer, slice, map or group means "not
// set": PVE's default or the template's value stands. Everything not modelled is carried in Rest and never touched.
type Spec struct {
	Options
	// ExactTags says that the case of Tags counts; else a difference of case is none, as with PVE's default tag style.
	// Decode does not know it.
	ExactTags   bool
	MachineRest map[string]string // further sub-keys of machine

	MachineOptions    MachineOptions
	Startup           Startup
	SMBIOS            SMBIOS
	VGA               VGA
	Audio             Audio
	RNG               RNG
	Watchdog          Watchdog
	SpiceEnhancements SpiceEnhancements
	IVSHMEM           IVSHMEM
	AMDSEV            AMDSEV
	IntelTDX          IntelTDX

	CPU    CPU
	Memory Memory
	Agent  Agent

	Disks     map[string]Disk  // by slot: scsi0, virtio1, sata2, ide3
	CDROMs    map[string]CDROM // by slot
	Networks  map[string]NIC   // by slot: net0
	EFIDisk   *EFIDisk
	TPMState  *TPMState
	CloudInit CloudInit

	PCI       map[string]PCI      // by slot: hostpci0
	USB       map[string]USB      // by slot: usb0
	NUMANodes map[string]NUMANode // by slot: numa0
	VirtioFS  map[string]VirtioFS // by slot: virtiofs0
	Serial    map[string]string   // by slot: serial0; "socket" or a device of the host (root@pam only)
	Parallel  map[string]string   // by slot: parallel0; a device of the host (root@pam only)

	// Rest holds the options that no field above expresses, verbatim.
	Rest map[string]string
}

// Options are the options of a VM that are one value each. The tags "tfsdk", here and below, are the names of Terraform's
// attributes; what has the tag "-" is none.
type Options struct {
	Name        *string  `tfsdk:"name"`
	Description *string  `tfsdk:"description"` // without trailing newlines, as PVE reads it back
	Tags        []string `tfsdk:"tags"`        // sorted, unique
	OnBoot      *bool    `tfsdk:"onboot"`
	AutoStart   *bool    `tfsdk:"autostart"` // stored by PVE and ignored
	Protection  *bool    `tfsdk:"protection"`
	Template    *bool    `tfsdk:"template"`
	Machine     *string  `tfsdk:"machine"` // type: pc, q35, pc-q35-9.0, …
	BIOS        *string  `tfsdk:"bios"`
	OSType      *string  `tfsdk:"ostype"`
	SCSIHW      *string  `tfsdk:"scsihw"`
	BootOrder   []string `tfsdk:"boot_order"` // device keys; empty but not nil: boot from nothing

	ACPI            *bool    `tfsdk:"acpi"`
	KVM             *bool    `tfsdk:"kvm"`       // hardware virtualisation
	Tablet          *bool    `tfsdk:"tablet"`    // USB tablet as pointer
	LocalTime       *bool    `tfsdk:"localtime"` // RTC in local time; PVE's default is yes for Windows
	TDF             *bool    `tfsdk:"tdf"`       // time drift fix
	Reboot          *bool    `tfsdk:"reboot"`    // no: the VM ends where the guest reboots
	Freeze          *bool    `tfsdk:"freeze"`    // CPU frozen at start
	Keyboard        *string  `tfsdk:"keyboard"`  // layout of the VNC console
	Hotplug         []string `tfsdk:"hotplug"`   // features, sorted; empty but not nil: none
	StartDate       *string  `tfsdk:"startdate"` // now, 2006-06-17, 2006-06-17T16:01:21
	VMStateStorage  *string  `tfsdk:"vmstatestorage"`
	MigrateDowntime *float64 `tfsdk:"migrate_downtime"` // seconds
	MigrateSpeed    *int64   `tfsdk:"migrate_speed"`    // MB/s, 0 = no limit
	HookScript      *string  `tfsdk:"hookscript"`       // volume id; root@pam only
	Args            *string  `tfsdk:"args"`             // QEMU's command line; root@pam only
	Arch            *string  `tfsdk:"arch"`             // x86_64, aarch64; root@pam only
	VMGenID         *string  `tfsdk:"vmgenid"`          // UUID, "0" = none, "1" = PVE is to make one; root@pam only
}

// CPU is the processor group: cpu, sockets, cores, vcpus, cpulimit, cpuunits, affinity, numa.
type CPU struct {
	Type     *string  `tfsdk:"type"`  // cputype
	Flags    []string `tfsdk:"flags"` // "+aes", "-pcid"; sorted
	Sockets  *int64   `tfsdk:"sockets"`
	Cores    *int64   `tfsdk:"cores"` // per socket
	VCPUs    *int64   `tfsdk:"vcpus"` // hotplugged at start
	Limit    *float64 `tfsdk:"limit"`
	Units    *int64   `tfsdk:"units"`
	Affinity *string  `tfsdk:"affinity"` // root@pam only
	NUMA     *bool    `tfsdk:"numa"`

	Hidden        *bool   `tfsdk:"hidden"`          // hide KVM from the guest
	HVVendorID    *string `tfsdk:"hv_vendor_id"`    // Hyper-V vendor id
	PhysBits      *string `tfsdk:"phys_bits"`       // 8 to 64, or "host"
	GuestPhysBits *int64  `tfsdk:"guest_phys_bits"` // PVE 9.1 or later
	Level         *int64  `tfsdk:"level"`           // CPUID level; PVE 9.2 or later
	ReportedModel *string `tfsdk:"reported_model"`  // custom models only

	Rest map[string]string `tfsdk:"-"` // further sub-keys of cpu
}

// Memory is the memory group; sizes in MiB.
type Memory struct {
	Size          *int64  `tfsdk:"size"`
	Balloon       *int64  `tfsdk:"balloon"` // 0 switches ballooning off
	Shares        *int64  `tfsdk:"shares"`
	Hugepages     *string `tfsdk:"hugepages"`     // root@pam only
	KeepHugepages *bool   `tfsdk:"keephugepages"` // root@pam only
	AllowKSM      *bool   `tfsdk:"allow_ksm"`     // PVE 9.1 or later
}

// Agent is the guest agent option.
type Agent struct {
	Enabled           *bool             `tfsdk:"enabled"`
	Type              *string           `tfsdk:"type"` // virtio, isa
	FSTrimClonedDisks *bool             `tfsdk:"fstrim_cloned_disks"`
	FreezeFSOnBackup  *bool             `tfsdk:"freeze_fs_on_backup"` // freeze-fs-on-backup, since PVE 9.2 also named freeze-fs
	Rest              map[string]string `tfsdk:"-"`
}
