package tfvm

import "github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"

// model is a configuration, a plan without unknowns, or a state of proxmox_vm. Nil is null.
type model struct {
	ID          *string  `tfsdk:"id"`
	VMID        *int64   `tfsdk:"vmid"`
	Node        *string  `tfsdk:"node"`
	Nodes       []string `tfsdk:"nodes"`
	Name        *string  `tfsdk:"name"`
	Description *string  `tfsdk:"description"`
	Tags        []string `tfsdk:"tags"`
	Pool        *string  `tfsdk:"pool"`
	OnBoot      *bool    `tfsdk:"onboot"`
	AutoStart   *bool    `tfsdk:"autostart"`
	Protection  *bool    `tfsdk:"protection"`
	Template    *bool    `tfsdk:"template"`
	Machine     *string  `tfsdk:"machine"`
	BIOS        *string  `tfsdk:"bios"`
	OSType      *string  `tfsdk:"ostype"`
	SCSIHW      *string  `tfsdk:"scsihw"`
	BootOrder   []string `tfsdk:"boot_order"`

	ACPI            *bool    `tfsdk:"acpi"`
	KVM             *bool    `tfsdk:"kvm"`
	Tablet          *bool    `tfsdk:"tablet"`
	LocalTime       *bool    `tfsdk:"localtime"`
	TDF             *bool    `tfsdk:"tdf"`
	Reboot          *bool    `tfsdk:"reboot"`
	Freeze          *bool    `tfsdk:"freeze"`
	Keyboard        *string  `tfsdk:"keyboard"`
	Hotplug         []string `tfsdk:"hotplug"`
	StartDate       *string  `tfsdk:"startdate"`
	VMStateStorage  *string  `tfsdk:"vmstatestorage"`
	MigrateDowntime *float64 `tfsdk:"migrate_downtime"`
	MigrateSpeed    *int64   `tfsdk:"migrate_speed"`
	HookScript      *string  `tfsdk:"hookscript"`
	Args            *string  `tfsdk:"args"`
	Arch            *string  `tfsdk:"arch"`
	VMGenID         *string  `tfsdk:"vmgenid"`

	MachineOptions    *machineOptionsModel `tfsdk:"machine_options"`
	Startup           *startupModel        `tfsdk:"startup"`
	SMBIOS            *smbiosModel         `tfsdk:"smbios"`
	VGA               *vgaModel            `tfsdk:"vga"`
	Audio             *audioModel          `tfsdk:"audio"`
	RNG               *rngModel            `tfsdk:"rng"`
	Watchdog          *watchdogModel       `tfsdk:"watchdog"`
	SpiceEnhancements *spiceModel          `tfsdk:"spice_enhancements"`
	IVSHMEM           *ivshmemModel        `tfsdk:"ivshmem"`
	AMDSEV            *sevModel            `tfsdk:"amd_sev"`
	IntelTDX          *tdxModel            `tfsdk:"intel_tdx"`

	PCI       map[string]pciModel      `tfsdk:"pci"`
	USB       map[string]usbModel      `tfsdk:"usb"`
	NUMANodes map[string]numaNodeModel `tfsdk:"numa_nodes"`
	VirtioFS  map[string]virtioFSModel `tfsdk:"virtiofs"`
	Serial    map[string]portModel     `tfsdk:"serial"`
	Parallel  map[string]portModel     `tfsdk:"parallel"`

	Clone     *cloneModel           `tfsdk:"clone"`
	CPU       *cpuModel             `tfsdk:"cpu"`
	Memory    *memoryModel          `tfsdk:"memory"`
	Agent     *agentModel           `tfsdk:"agent"`
	Disks     map[string]diskModel  `tfsdk:"disks"`
	CDROMs    map[string]cdromModel `tfsdk:"cdroms"`
	Networks  map[string]nicModel   `tfsdk:"networks"`
	EFIDisk   *efiModel             `tfsdk:"efi_disk"`
	TPMState  *tpmModel             `tfsdk:"tpm_state"`
	CloudInit *cloudInitModel       `tfsdk:"cloud_init"`
	Firewall  *firewallModel        `tfsdk:"firewall"`
	HA        *haModel              `tfsdk:"ha"`

	Password        *string `tfsdk:"cloud_init_password_wo"`
	PasswordVersion *int64  `tfsdk:"cloud_init_password_wo_version"`

	PowerState        *string         `tfsdk:"power_state"`
	RebootPolicy      *string         `tfsdk:"reboot_policy"`
	ShutdownTimeout   *string         `tfsdk:"shutdown_timeout"`
	WaitFor           *waitForModel   `tfsdk:"wait_for"`
	RemovedDisks      *string         `tfsdk:"removed_disks"`
	OnFailure         *string         `tfsdk:"on_failure"`
	OnOrphanedVolumes *string         `tfsdk:"on_orphaned_volumes"`
	OnDestroy         *onDestroyModel `tfsdk:"on_destroy"`
	Timeouts          *tfkit.Timeouts `tfsdk:"timeouts"`

	UUID           *string                 `tfsdk:"uuid"`
	Status         *string                 `tfsdk:"status"`
	IPv4Address    *string                 `tfsdk:"ipv4_address"`
	IPv6Address    *string                 `tfsdk:"ipv6_address"`
	Addresses      map[string]guestAddress `tfsdk:"addresses"`
	UnusedVolumes  map[string]string       `tfsdk:"unused_volumes"`
	PendingChanges []string                `tfsdk:"pending_changes"`
}

type cloneModel struct {
	VMID       *int64   `tfsdk:"vmid"`
	Name       *string  `tfsdk:"name"`
	Tags       []string `tfsdk:"tags"`
	Node       *string  `tfsdk:"node"`
	Full       *bool    `tfsdk:"full"`
	Snapshot   *string  `tfsdk:"snapshot"`
	Storage    *string  `tfsdk:"storage"`
	Format     *string  `tfsdk:"format"`
	BWLimit    *int64   `tfsdk:"bwlimit"`
	SourceVMID *int64   `tfsdk:"source_vmid"`
}

type cpuModel struct {
	Type     *string  `tfsdk:"type"`
	Flags    []string `tfsdk:"flags"`
	Sockets  *int64   `tfsdk:"sockets"`
	Cores    *int64   `tfsdk:"cores"`
	VCPUs    *int64   `tfsdk:"vcpus"`
	Limit    *float64 `tfsdk:"limit"`
	Units    *int64   `tfsdk:"units"`
	Affinity *string  `tfsdk:"affinity"`
	NUMA     *bool    `tfsdk:"numa"`

	Hidden        *bool   `tfsdk:"hidden"`
	HVVendorID    *string `tfsdk:"hv_vendor_id"`
	PhysBits      *string `tfsdk:"phys_bits"`
	GuestPhysBits *int64  `tfsdk:"guest_phys_bits"`
	Level         *int64  `tfsdk:"level"`
	ReportedModel *string `tfsdk:"reported_model"`

	Rest map[string]string `tfsdk:"-"`
}

type memoryModel struct {
	Size          *int64  `tfsdk:"size"`
	Balloon       *int64  `tfsdk:"balloon"`
	Shares        *int64  `tfsdk:"shares"`
	Hugepages     *string `tfsdk:"hugepages"`
	KeepHugepages *bool   `tfsdk:"keephugepages"`
	AllowKSM      *bool   `tfsdk:"allow_ksm"`
}

type agentModel struct {
	Enabled           *bool   `tfsdk:"enabled"`
	Type              *string `tfsdk:"type"`
	FSTrimClonedDisks *bool   `tfsdk:"fstrim_cloned_disks"`
	FreezeFSOnBackup  *bool   `tfsdk:"freeze_fs_on_backup"`

	Rest map[string]string `tfsdk:"-"`
}

type diskModel struct {
	Storage    *string `tfsdk:"storage"`
	Size       *string `tfsdk:"size"`
	Format     *string `tfsdk:"format"`
	ImportFrom *string `tfsdk:"import_from"`
	Cache      *string `tfsdk:"cache"`
	AIO        *string `tfsdk:"aio"`
	Discard    *bool   `tfsdk:"discard"`
	SSD        *bool   `tfsdk:"ssd"`
	IOThread   *bool   `tfsdk:"iothread"`
	Backup     *bool   `tfsdk:"backup"`
	Replicate  *bool   `tfsdk:"replicate"`
	ReadOnly   *bool   `tfsdk:"ro"`
	Serial     *string `tfsdk:"serial"`
	Volume     *string `tfsdk:"volume"`

	Model        *string        `tfsdk:"model"`
	WWN          *string        `tfsdk:"wwn"`
	Vendor       *string        `tfsdk:"vendor"`
	Product      *string        `tfsdk:"product"`
	Queues       *int64         `tfsdk:"queues"`
	SCSIBlock    *bool          `tfsdk:"scsiblock"`
	Snapshot     *bool          `tfsdk:"snapshot"`
	Shared       *bool          `tfsdk:"shared"`
	DetectZeroes *bool          `tfsdk:"detect_zeroes"`
	RError       *string        `tfsdk:"rerror"`
	WError       *string        `tfsdk:"werror"`
	Throttle     *throttleModel `tfsdk:"throttle"`
}

type cdromModel struct {
	File *string `tfsdk:"file"`
}

type nicModel struct {
	Model    *string  `tfsdk:"model"`
	Bridge   *string  `tfsdk:"bridge"`
	MACAddr  *string  `tfsdk:"macaddr"`
	Tag      *int64   `tfsdk:"tag"`
	Trunks   []string `tfsdk:"trunks"`
	Firewall *bool    `tfsdk:"firewall"`
	LinkDown *bool    `tfsdk:"link_down"`
	MTU      *int64   `tfsdk:"mtu"`
	Queues   *int64   `tfsdk:"queues"`
	Rate     *float64 `tfsdk:"rate"`

	HostTunnel *bool `tfsdk:"host_tunnel"`
}

type efiModel struct {
	Storage         *string `tfsdk:"storage"`
	Format          *string `tfsdk:"format"`
	Type            *string `tfsdk:"type"`
	PreEnrolledKeys *bool   `tfsdk:"pre_enrolled_keys"`
	MSCert          *string `tfsdk:"ms_cert"`
	ImportFrom      *string `tfsdk:"import_from"`
	Volume          *string `tfsdk:"volume"`
}

type tpmModel struct {
	Storage *string `tfsdk:"storage"`
	Version *string `tfsdk:"version"`
	Volume  *string `tfsdk:"volume"`

	ImportFrom *string `tfsdk:"import_from"`
}

type cloudInitModel struct {
	Storage      *string                 `tfsdk:"storage"`
	Slot         *string                 `tfsdk:"slot"`
	Format       *string                 `tfsdk:"format"`
	Type         *string                 `tfsdk:"type"`
	User         *string                 `tfsdk:"user"`
	SSHKeys      []string                `tfsdk:"ssh_keys"`
	Nameservers  []string                `tfsdk:"nameservers"`
	SearchDomain *string                 `tfsdk:"searchdomain"`
	Upgrade      *bool                   `tfsdk:"upgrade"`
	Addresses    map[string]addressModel `tfsdk:"addresses"`
	Custom       *customModel            `tfsdk:"custom"`
	Volume       *string                 `tfsdk:"volume"`
}

type addressModel struct {
	IPv4     *string `tfsdk:"ipv4"`
	Gateway4 *string `tfsdk:"gateway4"`
	IPv6     *string `tfsdk:"ipv6"`
	Gateway6 *string `tfsdk:"gateway6"`
}

type customModel struct {
	User    *string `tfsdk:"user"`
	Network *string `tfsdk:"network"`
	Meta    *string `tfsdk:"meta"`
	Vendor  *string `tfsdk:"vendor"`
}

type onDestroyModel struct {
	PowerOff *string `tfsdk:"power_off"`
	Timeout  *string `tfsdk:"timeout"`
	Purge    *bool   `tfsdk:"purge"`
}

type waitForModel struct {
	Agent     *bool   `tfsdk:"agent"`
	IPv4      *bool   `tfsdk:"ipv4"`
	IPv6      *bool   `tfsdk:"ipv6"`
	Timeout   *string `tfsdk:"timeout"`
	OnTimeout *string `tfsdk:"on_timeout"`
}

// guestAddress is what the agent says of one network device.
type guestAddress struct {
	MAC  *string  `tfsdk:"mac"`
	IPv4 []string `tfsdk:"ipv4"`
	IPv6 []string `tfsdk:"ipv6"`
}
