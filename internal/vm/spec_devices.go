package vm

// MachineOptions are the sub-keys of machine beside its type.
type MachineOptions struct {
	VIOMMU   *string // intel, virtio; PVE 8.2 or later
	AWBits   *int64  // address width of the vIOMMU; PVE 9.1 or later
	EnableS3 *bool   // PVE 8.4 or later
	EnableS4 *bool   // PVE 8.4 or later
}

// Startup is the order in which a node starts its VMs; Up and Down in seconds.
type Startup struct {
	Order, Up, Down *int64
	Rest            map[string]string
}

// SMBIOS is smbios1. The texts are plain; on the wire they are base64 where PVE's character set is too small for one of
// them.
type SMBIOS struct {
	UUID         *string // case as stored
	Manufacturer *string
	Product      *string
	Version      *string
	Serial       *string
	SKU          *string
	Family       *string
	// Base64 says that the server has the texts in base64, needed or not. It is a spelling: Diff keeps what is there.
	Base64 bool
	Rest   map[string]string
}

// VGA is the display; Memory in MiB.
type VGA struct {
	Type      *string // std, cirrus, qxl, qxl2 … qxl4, virtio, virtio-gl, vmware, none, serial0 … serial3
	Memory    *int64
	Clipboard *string // vnc; PVE 8.1 or later
	Rest      map[string]string
}

// Audio is audio0.
type Audio struct {
	Device *string // ich9-intel-hda, intel-hda, AC97; required
	Driver *string // spice, none
	Rest   map[string]string
}

// RNG is rng0: at most MaxBytes in each Period of milliseconds.
type RNG struct {
	Source           *string // /dev/urandom, /dev/random, /dev/hwrng; required
	MaxBytes, Period *int64
	Rest             map[string]string
}

// Watchdog is the watchdog device and what it does.
type Watchdog struct {
	Model  *string // i6300esb, ib700
	Action *string // reset, shutdown, poweroff, pause, debug, none
	Rest   map[string]string
}

// SpiceEnhancements can be set by root@pam only.
type SpiceEnhancements struct {
	FolderSharing  *bool
	VideoStreaming *string // off, all, filter
	Rest           map[string]string
}

// IVSHMEM is memory shared between VMs, Size in MiB (required). It can be set by root@pam only.
type IVSHMEM struct {
	Size *int64
	Name *string
	Rest map[string]string
}

// AMDSEV is amd-sev, PVE 8.3 or later. It can be set by root@pam only.
type AMDSEV struct {
	Type         *string // std, es, snp; required
	NoDebug      *bool
	NoKeySharing *bool
	AllowSMT     *bool
	KernelHashes *bool
	Rest         map[string]string
}

// IntelTDX is intel-tdx, PVE 9.1 or later. It can be set by root@pam only.
type IntelTDX struct {
	Type        *string // tdx; required
	Attestation *bool
	VsockCID    *int64 // of the quote generation service
	VsockPort   *int64
	Rest        map[string]string
}

// PCI is a device of the host that the guest gets: by Mapping, or by Host, which is for root@pam only.
type PCI struct {
	Mapping     *string
	Host        *string // "01:00.0", several separated by ";"
	PCIe        *bool   // needs the machine type q35
	ROMBar      *bool
	ROMFile     *string // in /usr/share/kvm; root@pam only
	XVGA        *bool   // the guest's primary display
	LegacyIGD   *bool
	MDev        *string // type of mediated device
	VendorID    *string // 0x and four hexadecimal digits, as the next three
	DeviceID    *string
	SubVendorID *string
	SubDeviceID *string
	Driver      *string // vfio, keep; PVE 9.1 or later
	Rest        map[string]string
}

// USB is a USB device that the guest gets.
type USB struct {
	Mapping *string
	Host    *string // "spice", or for root@pam "1234:abcd", "1-2.3"
	USB3    *bool
	Rest    map[string]string
}

// NUMANode is a NUMA node of the guest; Memory in MiB.
type NUMANode struct {
	CPUs      *string // "0-3;6"; required
	Memory    *int64
	HostNodes *string // "0-1"
	Policy    *string // preferred, bind, interleave
	Rest      map[string]string
}

// VirtioFS is a directory of the host that the guest can mount; PVE 8.4 or later.
type VirtioFS struct {
	DirID       *string // the directory mapping; required
	Cache       *string // auto, always, metadata, never
	DirectIO    *bool
	ExposeXattr *bool
	ExposeACL   *bool
	Rest        map[string]string
}
