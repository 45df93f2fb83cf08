package vm

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
	Type      *string           `tfsdk:"type"` // std, cirrus, qxl, qxl2 … qxl4, virtio, virtio-gl, vmware, none, serial0 … serial3
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
