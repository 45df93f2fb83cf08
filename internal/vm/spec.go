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

// Options are the options of a VM that are one value each. The tags "tfsdk", here and below, are the names of
// Terraform's attributes; what has the tag "-" is none.
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
	Enabled           *bool   `tfsdk:"enabled"`
	Type              *string `tfsdk:"type"` // virtio, isa
	FSTrimClonedDisks *bool   `tfsdk:"fstrim_cloned_disks"`
	// freeze-fs-on-backup, since PVE 9.2 also named freeze-fs
	FreezeFSOnBackup *bool             `tfsdk:"freeze_fs_on_backup"`
	Rest             map[string]string `tfsdk:"-"`
}

// MachineOptions are the sub-keys of machine beside its type.
type MachineOptions struct {
	VIOMMU   *string `tfsdk:"viommu"`    // intel, virtio; PVE 8.2 or later
	AWBits   *int64  `tfsdk:"aw_bits"`   // address width of the vIOMMU; PVE 9.1 or later
	EnableS3 *bool   `tfsdk:"enable_s3"` // PVE 8.4 or later
	EnableS4 *bool   `tfsdk:"enable_s4"` // PVE 8.4 or later
}

// Startup is the order in which a node starts its VMs; Up and Down in seconds.
type Startup struct {
	Order *int64            `tfsdk:"order"`
	Up    *int64            `tfsdk:"up"`
	Down  *int64            `tfsdk:"down"`
	Rest  map[string]string `tfsdk:"-"`
}

// SMBIOS is smbios1. The texts are plain; on the wire they are base64 where PVE's character set is too small for one of
// them.
type SMBIOS struct {
	UUID         *string `tfsdk:"uuid"` // case as stored
	Manufacturer *string `tfsdk:"manufacturer"`
	Product      *string `tfsdk:"product"`
	Version      *string `tfsdk:"version"`
	Serial       *string `tfsdk:"serial"`
	SKU          *string `tfsdk:"sku"`
	Family       *string `tfsdk:"family"`
	// Base64 says that the server has the texts in base64, needed or not. It is a spelling: Diff keeps what is there.
	Base64 bool              `tfsdk:"-"`
	Rest   map[string]string `tfsdk:"-"`
}

// VGA is the display; Memory in MiB.
type VGA struct {
	// std, cirrus, qxl, qxl2 … qxl4, virtio, virtio-gl, vmware, none, serial0 … serial3
	Type      *string           `tfsdk:"type"`
	Memory    *int64            `tfsdk:"memory"`
	Clipboard *string           `tfsdk:"clipboard"` // vnc; PVE 8.1 or later
	Rest      map[string]string `tfsdk:"-"`
}

// Audio is audio0.
type Audio struct {
	Device *string           `tfsdk:"device"` // ich9-intel-hda, intel-hda, AC97; required
	Driver *string           `tfsdk:"driver"` // spice, none
	Rest   map[string]string `tfsdk:"-"`
}

// RNG is rng0: at most MaxBytes in each Period of milliseconds.
type RNG struct {
	Source   *string           `tfsdk:"source"` // /dev/urandom, /dev/random, /dev/hwrng; required
	MaxBytes *int64            `tfsdk:"max_bytes"`
	Period   *int64            `tfsdk:"period"`
	Rest     map[string]string `tfsdk:"-"`
}

// Watchdog is the watchdog device and what it does.
type Watchdog struct {
	Model  *string           `tfsdk:"model"`  // i6300esb, ib700
	Action *string           `tfsdk:"action"` // reset, shutdown, poweroff, pause, debug, none
	Rest   map[string]string `tfsdk:"-"`
}

// SpiceEnhancements can be set by root@pam only.
type SpiceEnhancements struct {
	FolderSharing  *bool             `tfsdk:"foldersharing"`
	VideoStreaming *string           `tfsdk:"videostreaming"` // off, all, filter
	Rest           map[string]string `tfsdk:"-"`
}

// IVSHMEM is memory shared between VMs, Size in MiB (required). It can be set by root@pam only.
type IVSHMEM struct {
	Size *int64            `tfsdk:"size"`
	Name *string           `tfsdk:"name"`
	Rest map[string]string `tfsdk:"-"`
}

// AMDSEV is amd-sev, PVE 8.3 or later. It can be set by root@pam only.
type AMDSEV struct {
	Type         *string           `tfsdk:"type"` // std, es, snp; required
	NoDebug      *bool             `tfsdk:"no_debug"`
	NoKeySharing *bool             `tfsdk:"no_key_sharing"`
	AllowSMT     *bool             `tfsdk:"allow_smt"`
	KernelHashes *bool             `tfsdk:"kernel_hashes"`
	Rest         map[string]string `tfsdk:"-"`
}

// IntelTDX is intel-tdx, PVE 9.1 or later. It can be set by root@pam only.
type IntelTDX struct {
	Type        *string           `tfsdk:"type"` // tdx; required
	Attestation *bool             `tfsdk:"attestation"`
	VsockCID    *int64            `tfsdk:"vsock_cid"` // of the quote generation service
	VsockPort   *int64            `tfsdk:"vsock_port"`
	Rest        map[string]string `tfsdk:"-"`
}

// PCI is a device of the host that the guest gets: by Mapping, or by Host, which is for root@pam only.
type PCI struct {
	Mapping     *string           `tfsdk:"mapping"`
	Host        *string           `tfsdk:"host"` // "01:00.0", several separated by ";"
	PCIe        *bool             `tfsdk:"pcie"` // needs the machine type q35
	ROMBar      *bool             `tfsdk:"rombar"`
	ROMFile     *string           `tfsdk:"romfile"` // in /usr/share/kvm; root@pam only
	XVGA        *bool             `tfsdk:"x_vga"`   // the guest's primary display
	LegacyIGD   *bool             `tfsdk:"legacy_igd"`
	MDev        *string           `tfsdk:"mdev"`      // type of mediated device
	VendorID    *string           `tfsdk:"vendor_id"` // 0x and four hexadecimal digits, as the next three
	DeviceID    *string           `tfsdk:"device_id"`
	SubVendorID *string           `tfsdk:"sub_vendor_id"`
	SubDeviceID *string           `tfsdk:"sub_device_id"`
	Driver      *string           `tfsdk:"driver"` // vfio, keep; PVE 9.1 or later
	Rest        map[string]string `tfsdk:"-"`
}

// USB is a USB device that the guest gets.
type USB struct {
	Mapping *string           `tfsdk:"mapping"`
	Host    *string           `tfsdk:"host"` // "spice", or for root@pam "1234:abcd", "1-2.3"
	USB3    *bool             `tfsdk:"usb3"`
	Rest    map[string]string `tfsdk:"-"`
}

// NUMANode is a NUMA node of the guest; Memory in MiB.
type NUMANode struct {
	CPUs      *string           `tfsdk:"cpus"` // "0-3;6"; required
	Memory    *int64            `tfsdk:"memory"`
	HostNodes *string           `tfsdk:"hostnodes"` // "0-1"
	Policy    *string           `tfsdk:"policy"`    // preferred, bind, interleave
	Rest      map[string]string `tfsdk:"-"`
}

// VirtioFS is a directory of the host that the guest can mount; PVE 8.4 or later.
type VirtioFS struct {
	DirID       *string           `tfsdk:"dirid"` // the directory mapping; required
	Cache       *string           `tfsdk:"cache"` // auto, always, metadata, never
	DirectIO    *bool             `tfsdk:"direct_io"`
	ExposeXattr *bool             `tfsdk:"expose_xattr"`
	ExposeACL   *bool             `tfsdk:"expose_acl"`
	Rest        map[string]string `tfsdk:"-"`
}
