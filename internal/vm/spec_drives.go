package vm

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Disk is a hard disk in a slot. Volume is empty until it exists.
type Disk struct {
	Storage    string
	Volume     string  // volume id, "local-zfs:vm-100-disk-0"
	Size       *int64  // bytes
	Format     *string // raw, qcow2, vmdk; of an existing volume it follows from the volume id
	ImportFrom *string // at creation only
	DiskOptions
	Throttle Throttle
	Rest     map[string]string // further sub-keys
}

// Bytes is the size of the disk; 0: not known.
func (d Disk) Bytes() int64 {
	if d.Size == nil {
		return 0
	}
	return *d.Size
}

// SourcesOf are the volumes with a VMID that the disks of a new VM are copied of.
func (s Spec) SourcesOf(vmid int) []string {
	named := []*string{}
	for _, d := range s.Disks {
		named = append(named, d.ImportFrom)
	}
	if s.EFIDisk != nil {
		named = append(named, s.EFIDisk.ImportFrom)
	}
	if s.TPMState != nil {
		named = append(named, s.TPMState.ImportFrom)
	}
	var all []string
	for _, volume := range named {
		if volume == nil {
			continue
		}
		if owner, ok := volid.Owner(*volume); ok && owner == vmid {
			all = append(all, *volume)
		}
	}
	return all
}

// FitsSize reports whether a disk of a size, in bytes, can be one of a former size, or one that was asked for: storages
// round up, LVM to 4 MiB, ZFS to 1 MiB (pve-storage ZFSPoolPlugin.pm alloc_image). A size that is not known, 0, fits.
func FitsSize(is, was int64) bool {
	const extent = 4 << 20
	return is == 0 || was == 0 || is >= was && is-was < extent
}

// Named is the volume of the disk with its size, where that is known.
func (d Disk) Named() string {
	if d.Size == nil {
		return d.Volume
	}
	return d.Volume + " (" + property.FormatSize(*d.Size) + ")"
}

// EveryDisk are the disks of a VM by slot, the EFI disk and the state of the TPM among them: these have a storage, a
// volume and a format, and no size.
func (s Spec) EveryDisk() map[string]Disk {
	all := map[string]Disk{}
	maps.Copy(all, s.Disks)
	if e := s.EFIDisk; e != nil {
		all[efiSlot] = Disk{Storage: e.Storage, Volume: e.Volume, Format: e.Format}
	}
	if t := s.TPMState; t != nil {
		all[tpmSlot] = Disk{Storage: t.Storage, Volume: t.Volume}
	}
	return all
}

// CanStay reports whether the disk that a VM has in a slot can be the wanted one, which the slot has lost in state: it
// was noted with a size, since PVE gives a name that came free to the next disk, and PVE moves and grows a disk, but
// shrinks none. A size that is not known, 0, fits. An EFI disk and the state of a TPM stay of their type.
func CanStay(slot string, noted int64, has, wanted Spec) bool {
	switch slot {
	case efiSlot:
		return len(Diff(Spec{EFIDisk: has.EFIDisk}, Spec{EFIDisk: wanted.EFIDisk}).Problems) == 0
	case tpmSlot:
		return len(Diff(Spec{TPMState: has.TPMState}, Spec{TPMState: wanted.TPMState}).Problems) == 0
	}
	is, goal := has.Disks[slot], wanted.Disks[slot]
	return FitsSize(is.Bytes(), noted) && (goal.Size == nil || is.Size != nil && *is.Size <= *goal.Size)
}

// DiskOptions are the sub-keys of a disk that are one value each.
type DiskOptions struct {
	Cache     *string `tfsdk:"cache"`
	AIO       *string `tfsdk:"aio"`
	Discard   *bool   `tfsdk:"discard"` // on / ignore
	SSD       *bool   `tfsdk:"ssd"`
	IOThread  *bool   `tfsdk:"iothread"`
	Backup    *bool   `tfsdk:"backup"`
	Replicate *bool   `tfsdk:"replicate"`
	ReadOnly  *bool   `tfsdk:"ro"`
	Serial    *string `tfsdk:"serial"` // plain text; percent-encoded on the wire

	Model        *string `tfsdk:"model"`     // plain text; ide
	WWN          *string `tfsdk:"wwn"`       // 0x and 16 hexadecimal digits
	Vendor       *string `tfsdk:"vendor"`    // scsi
	Product      *string `tfsdk:"product"`   // scsi
	Queues       *int64  `tfsdk:"queues"`    // scsi
	SCSIBlock    *bool   `tfsdk:"scsiblock"` // scsi
	Snapshot     *bool   `tfsdk:"snapshot"`  // writes are thrown away when the VM ends
	Shared       *bool   `tfsdk:"shared"`    // the volume is on every node
	DetectZeroes *bool   `tfsdk:"detect_zeroes"`
	RError       *string `tfsdk:"rerror"` // ignore, report, stop
	WError       *string `tfsdk:"werror"` // enospc, ignore, report, stop
}

// Throttle limits a disk: MBps in MB/s, IOPS in operations per second. Max is what a burst may reach, MaxLength how
// long it may last, in seconds (bps_max_length, bps_rd_max_length, bps_wr_max_length). A limit of both directions
// excludes those of one.
type Throttle struct {
	MBps               *float64 `tfsdk:"mbps"`
	MBpsRead           *float64 `tfsdk:"mbps_rd"`
	MBpsWrite          *float64 `tfsdk:"mbps_wr"`
	MBpsMax            *float64 `tfsdk:"mbps_max"`
	MBpsReadMax        *float64 `tfsdk:"mbps_rd_max"`
	MBpsWriteMax       *float64 `tfsdk:"mbps_wr_max"`
	MBpsMaxLength      *int64   `tfsdk:"mbps_max_length"`
	MBpsReadMaxLength  *int64   `tfsdk:"mbps_rd_max_length"`
	MBpsWriteMaxLength *int64   `tfsdk:"mbps_wr_max_length"`
	IOPS               *int64   `tfsdk:"iops"`
	IOPSRead           *int64   `tfsdk:"iops_rd"`
	IOPSWrite          *int64   `tfsdk:"iops_wr"`
	IOPSMax            *int64   `tfsdk:"iops_max"`
	IOPSReadMax        *int64   `tfsdk:"iops_rd_max"`
	IOPSWriteMax       *int64   `tfsdk:"iops_wr_max"`
	IOPSMaxLength      *int64   `tfsdk:"iops_max_length"`
	IOPSReadMaxLength  *int64   `tfsdk:"iops_rd_max_length"`
	IOPSWriteMaxLength *int64   `tfsdk:"iops_wr_max_length"`
}

// CDROM is an optical drive. File is a volume id, "none" (empty drive) or "cdrom" (the host's drive).
type CDROM struct {
	File string
	Rest map[string]string
}

// NIC is a network device.
type NIC struct {
	Model string
	NICOptions
	Rest map[string]string
}

// NICOptions are the sub-keys of a network device beside its model.
type NICOptions struct {
	MACAddr    *string  `tfsdk:"macaddr"` // case as stored
	Bridge     *string  `tfsdk:"bridge"`
	Tag        *int64   `tfsdk:"tag"`
	Trunks     []string `tfsdk:"trunks"` // "5", "10-20"; sorted by number
	Firewall   *bool    `tfsdk:"firewall"`
	LinkDown   *bool    `tfsdk:"link_down"`
	MTU        *int64   `tfsdk:"mtu"`
	Queues     *int64   `tfsdk:"queues"`
	Rate       *float64 `tfsdk:"rate"`        // MB/s
	HostTunnel *bool    `tfsdk:"host_tunnel"` // PVE 9.2 or later
}

// EFIDisk is the disk of OVMF's variables. Its size is PVE's.
type EFIDisk struct {
	Storage    string
	Volume     string
	Format     *string
	ImportFrom *string // at creation only
	EFIOptions
	Rest map[string]string
}

// EFIOptions are the sub-keys of an EFI disk.
type EFIOptions struct {
	Type            *string `tfsdk:"type"` // efitype: 2m, 4m
	PreEnrolledKeys *bool   `tfsdk:"pre_enrolled_keys"`
	MSCert          *string `tfsdk:"ms_cert"` // ms-cert: 2011, 2023, 2023w, 2023k; PVE writes it itself; PVE 9.1 or later
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
	PasswordHash *string           // cipassword, write-only: never decoded
	CloudInitOptions
}

// CloudInitOptions are what the cloud-init drive says.
type CloudInitOptions struct {
	Type         *string            `tfsdk:"type"` // citype
	User         *string            `tfsdk:"user"`
	SSHKeys      []string           `tfsdk:"ssh_keys"`
	Nameservers  []string           `tfsdk:"nameservers"`
	SearchDomain *string            `tfsdk:"searchdomain"`
	Upgrade      *bool              `tfsdk:"upgrade"`
	Addresses    map[string]Address `tfsdk:"addresses"` // by NIC slot: net0
	Custom       *CustomData        `tfsdk:"custom"`
}

// Address is the ipconfig of one NIC.
type Address struct {
	IPv4     *string `tfsdk:"ipv4"` // CIDR, dhcp or manual
	Gateway4 *string `tfsdk:"gateway4"`
	IPv6     *string `tfsdk:"ipv6"` // CIDR, dhcp, auto or manual
	Gateway6 *string `tfsdk:"gateway6"`
}

// CustomData are snippets that replace the generated cloud-init documents; volume ids.
type CustomData struct {
	User    *string `tfsdk:"user"`
	Network *string `tfsdk:"network"`
	Meta    *string `tfsdk:"meta"`
	Vendor  *string `tfsdk:"vendor"`
}

// StorageMap says where the disks of each storage go. A disk that the plan leaves on the storage of the prior state
// stays where it is by now. Two disks of one storage cannot part on the way: the first slot decides, and the other is
// moved afterwards.
func StorageMap(has, prior, planned Spec) map[string]string {
	pairs := map[string]string{}
	note := func(from, was, to string) {
		if was == to && was != "" {
			to = from
		}
		if _, decided := pairs[from]; !decided && from != "" && to != "" {
			pairs[from] = to
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(has.Disks)) {
		note(has.Disks[slot].Storage, prior.Disks[slot].Storage, planned.Disks[slot].Storage)
	}
	if has.EFIDisk != nil && prior.EFIDisk != nil && planned.EFIDisk != nil {
		note(has.EFIDisk.Storage, prior.EFIDisk.Storage, planned.EFIDisk.Storage)
	}
	if has.TPMState != nil && prior.TPMState != nil && planned.TPMState != nil {
		note(has.TPMState.Storage, prior.TPMState.Storage, planned.TPMState.Storage)
	}
	note(has.CloudInit.Storage, prior.CloudInit.Storage, planned.CloudInit.Storage)
	return pairs
}

// Storages are those that the drives of a VM are on, or are to be on, sorted, each once.
func (s *Spec) Storages() []string {
	all := []string{s.CloudInit.Storage}
	for _, d := range s.Disks {
		all = append(all, d.Storage)
	}
	if s.EFIDisk != nil {
		all = append(all, s.EFIDisk.Storage)
	}
	if s.TPMState != nil {
		all = append(all, s.TPMState.Storage)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(id string) bool { return id == "" })
}

// BeforeChains are the storages of the qcow2 disks, by slot, of a VM whose machine is of a version before 10.0. PVE
// starts no such guest, and takes no snapshot of it while it runs, where one of the storages has
// snapshot-as-volume-chain (qemu-server QemuServer.pm, print_drive_commandline_full and qemu_volume_snapshot).
func (s Spec) BeforeChains() map[string]string {
	all := map[string]string{}
	if s.Machine == nil {
		return all
	}
	_, version, _ := strings.Cut(strings.TrimPrefix(*s.Machine, "pc-"), "-")
	major, _, isPinned := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); !isPinned || err != nil || n >= 10 {
		return all
	}
	for slot, d := range s.Disks {
		format := volid.Format(d.Volume)
		if d.Format != nil {
			format = *d.Format
		}
		if format == "qcow2" {
			all[slot] = cmp.Or(d.Storage, volid.Storage(d.Volume))
		}
	}
	return all
}
