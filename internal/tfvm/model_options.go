package tfvm

// The groups of options and the passed-through devices have the fields of their counterparts in package vm, name by name
// and in the same order, so that one converts into the other. Rest stays with the server; it is no attribute.

type machineOptionsModel struct {
	VIOMMU   *string `tfsdk:"viommu"`
	AWBits   *int64  `tfsdk:"aw_bits"`
	EnableS3 *bool   `tfsdk:"enable_s3"`
	EnableS4 *bool   `tfsdk:"enable_s4"`
}

type startupModel struct {
	Order *int64            `tfsdk:"order"`
	Up    *int64            `tfsdk:"up"`
	Down  *int64            `tfsdk:"down"`
	Rest  map[string]string `tfsdk:"-"`
}

type smbiosModel struct {
	UUID         *string           `tfsdk:"uuid"`
	Manufacturer *string           `tfsdk:"manufacturer"`
	Product      *string           `tfsdk:"product"`
	Version      *string           `tfsdk:"version"`
	Serial       *string           `tfsdk:"serial"`
	SKU          *string           `tfsdk:"sku"`
	Family       *string           `tfsdk:"family"`
	Base64       bool              `tfsdk:"-"`
	Rest         map[string]string `tfsdk:"-"`
}

type vgaModel struct {
	Type      *string           `tfsdk:"type"`
	Memory    *int64            `tfsdk:"memory"`
	Clipboard *string           `tfsdk:"clipboard"`
	Rest      map[string]string `tfsdk:"-"`
}

type audioModel struct {
	Device *string           `tfsdk:"device"`
	Driver *string           `tfsdk:"driver"`
	Rest   map[string]string `tfsdk:"-"`
}

type rngModel struct {
	Source   *string           `tfsdk:"source"`
	MaxBytes *int64            `tfsdk:"max_bytes"`
	Period   *int64            `tfsdk:"period"`
	Rest     map[string]string `tfsdk:"-"`
}

type watchdogModel struct {
	Model  *string           `tfsdk:"model"`
	Action *string           `tfsdk:"action"`
	Rest   map[string]string `tfsdk:"-"`
}

type spiceModel struct {
	FolderSharing  *bool             `tfsdk:"foldersharing"`
	VideoStreaming *string           `tfsdk:"videostreaming"`
	Rest           map[string]string `tfsdk:"-"`
}

type ivshmemModel struct {
	Size *int64            `tfsdk:"size"`
	Name *string           `tfsdk:"name"`
	Rest map[string]string `tfsdk:"-"`
}

type sevModel struct {
	Type         *string           `tfsdk:"type"`
	NoDebug      *bool             `tfsdk:"no_debug"`
	NoKeySharing *bool             `tfsdk:"no_key_sharing"`
	AllowSMT     *bool             `tfsdk:"allow_smt"`
	KernelHashes *bool             `tfsdk:"kernel_hashes"`
	Rest         map[string]string `tfsdk:"-"`
}

type tdxModel struct {
	Type        *string           `tfsdk:"type"`
	Attestation *bool             `tfsdk:"attestation"`
	VsockCID    *int64            `tfsdk:"vsock_cid"`
	VsockPort   *int64            `tfsdk:"vsock_port"`
	Rest        map[string]string `tfsdk:"-"`
}

type throttleModel struct {
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

type pciModel struct {
	Mapping     *string           `tfsdk:"mapping"`
	Host        *string           `tfsdk:"host"`
	PCIe        *bool             `tfsdk:"pcie"`
	ROMBar      *bool             `tfsdk:"rombar"`
	ROMFile     *string           `tfsdk:"romfile"`
	XVGA        *bool             `tfsdk:"x_vga"`
	LegacyIGD   *bool             `tfsdk:"legacy_igd"`
	MDev        *string           `tfsdk:"mdev"`
	VendorID    *string           `tfsdk:"vendor_id"`
	DeviceID    *string           `tfsdk:"device_id"`
	SubVendorID *string           `tfsdk:"sub_vendor_id"`
	SubDeviceID *string           `tfsdk:"sub_device_id"`
	Driver      *string           `tfsdk:"driver"`
	Rest        map[string]string `tfsdk:"-"`
}

type usbModel struct {
	Mapping *string           `tfsdk:"mapping"`
	Host    *string           `tfsdk:"host"`
	USB3    *bool             `tfsdk:"usb3"`
	Rest    map[string]string `tfsdk:"-"`
}

type numaNodeModel struct {
	CPUs      *string           `tfsdk:"cpus"`
	Memory    *int64            `tfsdk:"memory"`
	HostNodes *string           `tfsdk:"hostnodes"`
	Policy    *string           `tfsdk:"policy"`
	Rest      map[string]string `tfsdk:"-"`
}

type virtioFSModel struct {
	DirID       *string           `tfsdk:"dirid"`
	Cache       *string           `tfsdk:"cache"`
	DirectIO    *bool             `tfsdk:"direct_io"`
	ExposeXattr *bool             `tfsdk:"expose_xattr"`
	ExposeACL   *bool             `tfsdk:"expose_acl"`
	Rest        map[string]string `tfsdk:"-"`
}

// portModel is a serial or a parallel port.
type portModel struct {
	Device *string `tfsdk:"device"`
}
