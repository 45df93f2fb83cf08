// Package model holds a VM in Terraform's values: configuration, state, private state, and their conversion to vm.Spec
// and to the requests of package service.
package model

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// Model is a configuration, a plan without unknowns, or a state of proxmox_vm. Nil is null. A group that is the
// same in Terraform and in PVE is a type of package vm or provision, whose fields carry the names of the attributes.
type Model struct {
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

	Disks     map[string]Disk        `tfsdk:"disks"`
	CDROMs    map[string]CDROM       `tfsdk:"cdroms"`
	Networks  map[string]NIC         `tfsdk:"networks"`
	EFIDisk   *EFIDisk               `tfsdk:"efi_disk"`
	TPMState  *TPMState              `tfsdk:"tpm_state"`
	CloudInit *CloudInit             `tfsdk:"cloud_init"`
	PCI       map[string]vm.PCI      `tfsdk:"pci"`
	USB       map[string]vm.USB      `tfsdk:"usb"`
	NUMANodes map[string]vm.NUMANode `tfsdk:"numa_nodes"`
	VirtioFS  map[string]vm.VirtioFS `tfsdk:"virtiofs"`
	Serial    map[string]Port        `tfsdk:"serial"`
	Parallel  map[string]Port        `tfsdk:"parallel"`

	Clone    *Clone             `tfsdk:"clone"`
	Restore  *Restore           `tfsdk:"restore"`
	Firewall *firewall.Settings `tfsdk:"firewall"`
	HA       *guest.HA          `tfsdk:"ha"`

	Password        *string `tfsdk:"cloud_init_password_wo"`
	PasswordVersion *int64  `tfsdk:"cloud_init_password_wo_version"`
	SnippetTrigger  *string `tfsdk:"cloud_init_trigger"`

	PowerState        *string       `tfsdk:"power_state"`
	RebootPolicy      *string       `tfsdk:"reboot_policy"`
	ShutdownTimeout   *string       `tfsdk:"shutdown_timeout"`
	WaitFor           *WaitFor      `tfsdk:"wait_for"`
	RemovedDisks      *string       `tfsdk:"removed_disks"`
	ImportStorage     *string       `tfsdk:"import_working_storage"`
	OnFailure         *string       `tfsdk:"on_failure"`
	OnOrphanedVolumes *string       `tfsdk:"on_orphaned_volumes"`
	OnDestroy         *OnDestroy    `tfsdk:"on_destroy"`
	Timeouts          *kit.Timeouts `tfsdk:"timeouts"`

	TagsAll        []string                `tfsdk:"tags_all"`
	UUID           *string                 `tfsdk:"uuid"`
	Status         *string                 `tfsdk:"status"`
	IPv4Address    *string                 `tfsdk:"ipv4_address"`
	IPv6Address    *string                 `tfsdk:"ipv6_address"`
	Addresses      map[string]guestAddress `tfsdk:"addresses"`
	UnusedVolumes  map[string]string       `tfsdk:"unused_volumes"`
	PendingChanges []string                `tfsdk:"pending_changes"`
}

// Clone is the attribute clone: the VM to copy, and how.
type Clone struct {
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

// Restore is the attribute restore: the backup that the VM is made from.
type Restore struct {
	Archive *string `tfsdk:"archive"`
	Storage *string `tfsdk:"storage"`
	BWLimit *int64  `tfsdk:"bwlimit"`
}

// Copies reports whether the VM is made of another one or of a backup.
func (m *Model) Copies() bool { return m.Clone != nil || m.Restore != nil }

// Disk is a vm.Disk whose storage and volume may be left out and whose size has a unit.
type Disk struct {
	Storage    *string       `tfsdk:"storage"`
	Size       *string       `tfsdk:"size"`
	Format     *string       `tfsdk:"format"`
	ImportFrom *string       `tfsdk:"import_from"`
	Imported   *ImportedDisk `tfsdk:"imported_disk"`
	Volume     *string       `tfsdk:"volume"`
	vm.DiskOptions
	Throttle *vm.Throttle `tfsdk:"throttle"`
}

// ImportedDisk is a volume that is there already.
type ImportedDisk struct {
	Volume *string `tfsdk:"volume"`
	SHA256 *string `tfsdk:"sha256"`
	Source *string `tfsdk:"source"`
}

// CDROM is an element of the attribute cdroms.
type CDROM struct {
	File *string `tfsdk:"file"`
}

// NIC is a vm.NIC whose model may be left out.
type NIC struct {
	Model *string `tfsdk:"model"`
	vm.NICOptions
}

// EFIDisk is a vm.EFIDisk whose storage and volume may be left out.
type EFIDisk struct {
	Storage    *string `tfsdk:"storage"`
	Format     *string `tfsdk:"format"`
	ImportFrom *string `tfsdk:"import_from"`
	Volume     *string `tfsdk:"volume"`
	vm.EFIOptions
}

// TPMState is a vm.TPMState whose storage and volume may be left out.
type TPMState struct {
	Storage    *string `tfsdk:"storage"`
	ImportFrom *string `tfsdk:"import_from"`
	Volume     *string `tfsdk:"volume"`
	Version    *string `tfsdk:"version"`
}

// CloudInit is a vm.CloudInit whose drive may be left out.
type CloudInit struct {
	Storage *string `tfsdk:"storage"`
	Slot    *string `tfsdk:"slot"`
	Format  *string `tfsdk:"format"`
	Volume  *string `tfsdk:"volume"`
	vm.CloudInitOptions
}

// Port is a serial or a parallel port.
type Port struct {
	Device *string `tfsdk:"device"`
}

// OnDestroy is the attribute on_destroy: the treatment of the VM and its volumes at a destroy.
type OnDestroy struct {
	PowerOff *string `tfsdk:"power_off"`
	Timeout  *string `tfsdk:"timeout"`
	Purge    *bool   `tfsdk:"purge"`
}

// IsForced reports whether a destroy cuts the guest off.
func (d *OnDestroy) IsForced() bool { return d != nil && Value(d.PowerOff) == "force" }

// WaitFor is the attribute wait_for: the conditions that the apply awaits.
type WaitFor struct {
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

// Put adds to a map that may not be there yet.
func Put[V any](all *map[string]V, key string, v V) {
	if *all == nil {
		*all = map[string]V{}
	}
	(*all)[key] = v
}

// Value is what a pointer points at, or the zero value.
func Value[V any](p *V) V {
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

// WishPower leaves the power alone where the configuration does not name it: the state of an import says how it is.
func (m *Model) WishPower(c Configuration) {
	if c.IsNull("power_state") {
		m.PowerState = nil
	}
}

// Differ reports whether two known values differ.
func Differ(was, is *string) bool { return was != nil && is != nil && *was != *is }

// HasOnlyDrive reports whether nothing is said but for the drive itself.
func (c *CloudInit) HasOnlyDrive() bool {
	return c.Type == nil && c.User == nil && c.SSHKeys == nil && c.Nameservers == nil && c.SearchDomain == nil &&
		c.Upgrade == nil && c.Addresses == nil && c.Custom == nil
}

// slots are those that a boot order can name.
func (m *Model) slots() map[string]bool {
	all := map[string]bool{}
	for slot := range m.Disks {
		all[slot] = true
	}
	for slot := range m.CDROMs {
		all[slot] = true
	}
	for slot := range m.Networks {
		all[slot] = true
	}
	for slot := range m.PCI {
		all[slot] = true
	}
	for slot := range m.USB {
		all[slot] = true
	}
	if m.CloudInit != nil && m.CloudInit.Slot != nil {
		all[*m.CloudInit.Slot] = true
	}
	return all
}

// Custom is the cloud-init data of the configuration's own.
func (m *Model) Custom() vm.CustomData {
	if m.CloudInit == nil || m.CloudInit.Custom == nil {
		return vm.CustomData{}
	}
	return *m.CloudInit.Custom
}

// SpecialStorages are the storages outside disks.
func (m *Model) SpecialStorages() map[string]*string {
	all := map[string]*string{"vmstatestorage": m.VMStateStorage}
	if m.EFIDisk != nil {
		all["efi_disk.storage"] = m.EFIDisk.Storage
	}
	if m.TPMState != nil {
		all["tpm_state.storage"] = m.TPMState.Storage
	}
	if m.CloudInit != nil {
		all["cloud_init.storage"] = m.CloudInit.Storage
	}
	return all
}
