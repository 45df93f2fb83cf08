// Package vm says what a virtual machine is: Spec, a codec between Spec and PVE's configuration, and the difference of
// two Specs as the change to send. It is pure: no input, no output, no Terraform.
package vm

// Spec is the configuration of a VM as far as this provider models it. A nil pointer, slice, map or group means "not
// set": PVE's default or the template's value stands. Everything not modelled is carried in Rest and never touched.
type Spec struct {
	Name        *string
	Description *string  // without trailing newlines, as PVE reads it back
	Tags        []string // sorted, unique
	// ExactTags says that the case of Tags counts; else a difference of case is none, as with PVE's default tag style.
	// Decode does not know it.
	ExactTags   bool
	OnBoot      *bool
	AutoStart   *bool // stored by PVE and ignored
	Protection  *bool
	Template    *bool
	Machine     *string           // type: pc, q35, pc-q35-9.0, …
	MachineRest map[string]string // further sub-keys of machine
	BIOS        *string
	OSType      *string
	SCSIHW      *string
	BootOrder   []string // device keys; empty but not nil: boot from nothing

	ACPI            *bool
	KVM             *bool    // hardware virtualisation
	Tablet          *bool    // USB tablet as pointer
	LocalTime       *bool    // RTC in local time; PVE's default is yes for Windows
	TDF             *bool    // time drift fix
	Reboot          *bool    // no: the VM ends where the guest reboots
	Freeze          *bool    // CPU frozen at start
	Keyboard        *string  // layout of the VNC console
	Hotplug         []string // features, sorted; empty but not nil: none
	StartDate       *string  // now, 2006-06-17, 2006-06-17T16:01:21
	VMStateStorage  *string
	MigrateDowntime *float64 // seconds
	MigrateSpeed    *int64   // MB/s, 0 = no limit
	HookScript      *string  // volume id; root@pam only
	Args            *string  // QEMU's command line; root@pam only
	Arch            *string  // x86_64, aarch64; root@pam only
	VMGenID         *string  // UUID, "0" = none, "1" = PVE is to make one; root@pam only

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

// CPU is the processor group: cpu, sockets, cores, vcpus, cpulimit, cpuunits, affinity, numa.
type CPU struct {
	Type     *string  // cputype
	Flags    []string // "+aes", "-pcid"; sorted
	Sockets  *int64
	Cores    *int64 // per socket
	VCPUs    *int64 // hotplugged at start
	Limit    *float64
	Units    *int64
	Affinity *string // root@pam only
	NUMA     *bool

	Hidden        *bool   // hide KVM from the guest
	HVVendorID    *string // Hyper-V vendor id
	PhysBits      *string // 8 to 64, or "host"
	GuestPhysBits *int64  // PVE 9.1 or later
	Level         *int64  // CPUID level; PVE 9.2 or later
	ReportedModel *string // custom models only

	Rest map[string]string // further sub-keys of cpu
}

// Memory is the memory group; sizes in MiB.
type Memory struct {
	Size          *int64
	Balloon       *int64 // 0 switches ballooning off
	Shares        *int64
	Hugepages     *string // root@pam only
	KeepHugepages *bool   // root@pam only
	AllowKSM      *bool   // PVE 9.1 or later
}

// Agent is the guest agent option.
type Agent struct {
	Enabled           *bool
	Type              *string // virtio, isa
	FSTrimClonedDisks *bool
	FreezeFSOnBackup  *bool // freeze-fs-on-backup, since PVE 9.2 also named freeze-fs
	Rest              map[string]string
}

// Disk is a hard disk in a slot. Volume is empty until it exists.
type Disk struct {
	Storage    string
	Volume     string  // volume id, "local-zfs:vm-100-disk-0"
	Size       *int64  // bytes
	Format     *string // raw, qcow2, vmdk; of an existing volume it follows from the volume id
	ImportFrom *string // at creation only
	Cache      *string
	AIO        *string
	Discard    *bool // on / ignore
	SSD        *bool
	IOThread   *bool
	Backup     *bool
	Replicate  *bool
	ReadOnly   *bool
	Serial     *string // plain text; percent-encoded on the wire

	Model        *string // plain text; ide
	WWN          *string // 0x and 16 hexadecimal digits
	Vendor       *string // scsi
	Product      *string // scsi
	Queues       *int64  // scsi
	SCSIBlock    *bool   // scsi
	Snapshot     *bool   // writes are thrown away when the VM ends
	Shared       *bool   // the volume is on every node
	DetectZeroes *bool
	RError       *string // ignore, report, stop
	WError       *string // enospc, ignore, report, stop
	Throttle     Throttle

	Rest map[string]string // further sub-keys
}

// Throttle limits a disk: MBps in MB/s, IOPS in operations per second. Max is what a burst may reach, MaxLength how long
// it may last, in seconds. A limit of both directions excludes those of one.
type Throttle struct {
	MBps, MBpsRead, MBpsWrite                            *float64
	MBpsMax, MBpsReadMax, MBpsWriteMax                   *float64
	MBpsMaxLength, MBpsReadMaxLength, MBpsWriteMaxLength *int64 // bps_max_length, bps_rd_max_length, bps_wr_max_length
	IOPS, IOPSRead, IOPSWrite                            *int64
	IOPSMax, IOPSReadMax, IOPSWriteMax                   *int64
	IOPSMaxLength, IOPSReadMaxLength, IOPSWriteMaxLength *int64
}

// CDROM is an optical drive. File is a volume id, "none" (empty drive) or "cdrom" (the host's drive).
type CDROM struct {
	File string
	Rest map[string]string
}

// NIC is a network device.
type NIC struct {
	Model    string
	MACAddr  *string // case as stored
	Bridge   *string
	Tag      *int64
	Trunks   []string // "5", "10-20"; sorted by number
	Firewall *bool
	LinkDown *bool
	MTU      *int64
	Queues   *int64
	Rate     *float64 // MB/s

	HostTunnel *bool // PVE 9.2 or later
	Rest       map[string]string
}

// EFIDisk is the disk of OVMF's variables. Its size is PVE's.
type EFIDisk struct {
	Storage         string
	Volume          string
	Format          *string
	Type            *string // efitype: 2m, 4m
	PreEnrolledKeys *bool
	MSCert          *string // ms-cert: 2011, 2023, 2023w, 2023k; PVE writes it itself; PVE 9.1 or later
	ImportFrom      *string // at creation only
	Rest            map[string]string
}

// TPMState is the disk of the software TPM. Its version cannot change.
type TPMState struct {
	Storage string
	Volume  string
	Version *string // v1.2, v2.0

	ImportFrom *string // at creation only
	Rest       map[string]string
}

// CloudInit is the cloud-init drive and what it says.
type CloudInit struct {
	Slot         string // "" = no drive
	Storage      string
	Volume       string
	Format       *string
	Rest         map[string]string // further sub-keys of the drive
	Type         *string           // citype
	User         *string
	PasswordHash *string // cipassword, write-only: never decoded
	SSHKeys      []string
	Nameservers  []string
	SearchDomain *string
	Upgrade      *bool
	Addresses    map[string]Address // by NIC slot: net0
	Custom       *CustomData
}

// Address is the ipconfig of one NIC.
type Address struct {
	IPv4, Gateway4 *string // CIDR or dhcp
	IPv6, Gateway6 *string // CIDR, dhcp or auto
}

// CustomData are snippets that replace the generated cloud-init documents; volume ids.
type CustomData struct{ User, Network, Meta, Vendor *string }
