package tfvm

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// model is a configuration, a plan without unknowns, or a state of proxmox_vm. Nil is null. What is the same in Terraform and
// in PVE is a type of package vm or provision, whose fields carry the names of the attributes.
type model struct {
	ID    *string  `tfsdk:"id"`
	VMID  *int64   `tfsdk:"vmid"`
	Node  *string  `tfsdk:"node"`
	Nodes []string `tfsdk:"nodes"`
	Pool  *string  `tfsdk:"pool"`
	vm.Options

	CPU               *vm.CPU               `tfsdk:"cpu"`
	Memory            *vm.Memory            `tfsdk:"memory"`
	Agent             *vm.Agent             `tfsdk:"agent"`
	MachineOptions    *vm.MachineOptions    `tfsdk:"machine_options"`
	Startup           *vm.Startup           `tfsdk:"startup"`
	SMBIOS            *vm.SMBIOS            `tfsdk:"smbios"`
	VGA               *vm.VGA               `tfsdk:"vga"`
	Audio             *vm.Audio             `tfsdk:"audio"`
	RNG               *vm.RNG               `tfsdk:"rng"`
	Watchdog          *vm.Watchdog          `tfsdk:"watchdog"`
	SpiceEnhancements *vm.SpiceEnhancements `tfsdk:"spice_enhancements"`
	IVSHMEM           *vm.IVSHMEM           `tfsdk:"ivshmem"`
	AMDSEV            *vm.AMDSEV            `tfsdk:"amd_sev"`
	IntelTDX          *vm.IntelTDX          `tfsdk:"intel_tdx"`

	Disks     map[string]diskModel   `tfsdk:"disks"`
	CDROMs    map[string]cdromModel  `tfsdk:"cdroms"`
	Networks  map[string]nicModel    `tfsdk:"networks"`
	EFIDisk   *efiModel              `tfsdk:"efi_disk"`
	TPMState  *tpmModel              `tfsdk:"tpm_state"`
	CloudInit *cloudInitModel        `tfsdk:"cloud_init"`
	PCI       map[string]vm.PCI      `tfsdk:"pci"`
	USB       map[string]vm.USB      `tfsdk:"usb"`
	NUMANodes map[string]vm.NUMANode `tfsdk:"numa_nodes"`
	VirtioFS  map[string]vm.VirtioFS `tfsdk:"virtiofs"`
	Serial    map[string]portModel   `tfsdk:"serial"`
	Parallel  map[string]portModel   `tfsdk:"parallel"`

	Clone    *cloneModel     `tfsdk:"clone"`
	Restore  *restoreModel   `tfsdk:"restore"`
	Firewall *guest.Firewall `tfsdk:"firewall"`
	HA       *guest.HA       `tfsdk:"ha"`

	Password        *string `tfsdk:"cloud_init_password_wo"`
	PasswordVersion *int64  `tfsdk:"cloud_init_password_wo_version"`
	SnippetTrigger  *string `tfsdk:"cloud_init_trigger"`

	PowerState        *string         `tfsdk:"power_state"`
	RebootPolicy      *string         `tfsdk:"reboot_policy"`
	ShutdownTimeout   *string         `tfsdk:"shutdown_timeout"`
	WaitFor           *waitForModel   `tfsdk:"wait_for"`
	RemovedDisks      *string         `tfsdk:"removed_disks"`
	ImportStorage     *string         `tfsdk:"import_working_storage"`
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

type restoreModel struct {
	Archive *string `tfsdk:"archive"`
	Storage *string `tfsdk:"storage"`
	BWLimit *int64  `tfsdk:"bwlimit"`
}

// copies reports whether the VM is made of another one or of a backup.
func (m *model) copies() bool { return m.Clone != nil || m.Restore != nil }

// diskModel is a vm.Disk whose storage and volume may be left out and whose size has a unit.
type diskModel struct {
	Storage    *string       `tfsdk:"storage"`
	Size       *string       `tfsdk:"size"`
	Format     *string       `tfsdk:"format"`
	ImportFrom *string       `tfsdk:"import_from"`
	Imported   *importedDisk `tfsdk:"imported_disk"`
	Volume     *string       `tfsdk:"volume"`
	vm.DiskOptions
	Throttle *vm.Throttle `tfsdk:"throttle"`
}

// importedDisk is a volume that is there already.
type importedDisk struct {
	Volume *string `tfsdk:"volume"`
	SHA256 *string `tfsdk:"sha256"`
	Source *string `tfsdk:"source"`
}

type cdromModel struct {
	File *string `tfsdk:"file"`
}

// nicModel is a vm.NIC whose model may be left out.
type nicModel struct {
	Model *string `tfsdk:"model"`
	vm.NICOptions
}

// efiModel is a vm.EFIDisk whose storage and volume may be left out.
type efiModel struct {
	Storage    *string `tfsdk:"storage"`
	Format     *string `tfsdk:"format"`
	ImportFrom *string `tfsdk:"import_from"`
	Volume     *string `tfsdk:"volume"`
	vm.EFIOptions
}

// tpmModel is a vm.TPMState whose storage and volume may be left out.
type tpmModel struct {
	Storage    *string `tfsdk:"storage"`
	ImportFrom *string `tfsdk:"import_from"`
	Volume     *string `tfsdk:"volume"`
	Version    *string `tfsdk:"version"`
}

// cloudInitModel is a vm.CloudInit whose drive may be left out.
type cloudInitModel struct {
	Storage *string `tfsdk:"storage"`
	Slot    *string `tfsdk:"slot"`
	Format  *string `tfsdk:"format"`
	Volume  *string `tfsdk:"volume"`
	vm.CloudInitOptions
}

// portModel is a serial or a parallel port.
type portModel struct {
	Device *string `tfsdk:"device"`
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

// put adds to a map that may not be there yet.
func put[V any](all *map[string]V, key string, v V) {
	if *all == nil {
		*all = map[string]V{}
	}
	(*all)[key] = v
}

// value is what a pointer points at, or the zero value.
func value[V any](p *V) V {
	if p == nil {
		var zero V
		return zero
	}
	return *p
}

// powerState is a status in the words of the power_state attribute.
func powerState(status string) *string {
	switch status {
	case "":
		return nil
	case string(guest.Running), "paused":
		return new(string(guest.Running))
	default:
		return new(string(guest.Stopped))
	}
}

// differ reports whether two known values differ.
func differ(was, is *string) bool { return was != nil && is != nil && *was != *is }
