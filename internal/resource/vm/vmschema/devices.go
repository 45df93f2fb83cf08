package vmschema

import (
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-validators/float64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

const (
	wantDisk  = "must be a disk slot: ide0-3, sata0-5, scsi0-30 or virtio0-15"
	wantCDROM = "must be a slot for a CD-ROM drive: ide0-3, sata0-5 or scsi0-30"
	wantNIC   = "must be a network slot: net0-31"
)

// deviceAttributes are the devices that have a slot, and the two special disks.
func deviceAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"disks": schema.MapNestedAttribute{Optional: true,
			MarkdownDescription: "Hard disks by slot: `ide0`–`3`, `sata0`–`5`, `scsi0`–`30`, `virtio0`–`15`. " +
				"A clone has its template's disk in a slot, changed as configured. A disk that leaves the " +
				"configuration is detached: its volume stays with the VM as `unusedN`, unless " +
				"`removed_disks` says otherwise.",
			Validators:   []validator.Map{mapvalidator.KeysAre(slotName(wantDisk, DiskBuses()...))},
			NestedObject: schema.NestedAttributeObject{Attributes: diskAttributes()}},
		"cdroms": schema.MapNestedAttribute{Optional: true,
			MarkdownDescription: "CD-ROM drives by slot: `ide0`–`3`, `sata0`–`5`, `scsi0`–`30`. Needs `VM.Config.CDROM`.",
			Validators:          []validator.Map{mapvalidator.KeysAre(slotName(wantCDROM, CDROMBuses()...))},
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"file": schema.StringAttribute{Required: true,
					Validators: []validator.String{medium()},
					MarkdownDescription: "What is in the drive: the id of an ISO image, `local:iso/debian.iso`; `none`: an empty " +
						"drive; `cdrom`: the drive of the node."},
			}}},
		"networks": schema.MapNestedAttribute{Optional: true,
			MarkdownDescription: "Network devices by slot: `net0`–`31`.",
			Validators:          []validator.Map{mapvalidator.KeysAre(slotName(wantNIC, "net"))},
			NestedObject:        schema.NestedAttributeObject{Attributes: nicAttributes()}},
		"efi_disk": schema.SingleNestedAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Disk for the variables of the UEFI firmware; used with `bios = \"ovmf\"`. Its size is " +
				"PVE's affair.",
			Attributes: map[string]schema.Attribute{
				"storage": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.StorageID()},
					MarkdownDescription: "Storage of the disk. Required unless the VM is a clone of a source that has one."},
				"format": schema.StringAttribute{Optional: true, Computed: true,
					Validators:          []validator.String{stringvalidator.OneOf("raw", "qcow2", "vmdk")},
					MarkdownDescription: "Image format on a file storage. Default: the storage's."},
				"type": schema.StringAttribute{Optional: true, Computed: true,
					Validators: []validator.String{stringvalidator.OneOf("2m", "4m")},
					MarkdownDescription: "Size of the firmware: `4m` (needed for Secure Boot) or `2m`. It cannot be changed later: " +
						"left out, it stays."},
				"pre_enrolled_keys": schema.BoolAttribute{Optional: true, Computed: true,
					MarkdownDescription: "Begin with the distributions' and Microsoft's keys enrolled and Secure Boot on. It " +
						"cannot be changed later: left out, it stays."},
				"ms_cert": textOption("Which of Microsoft's certificates are enrolled: `2011`, `2023`, `2023w` or `2023k`. A "+
					"recent PVE says it itself. Since PVE 9.2 a change to `2023k` enrolls them as soon as the VM is off, if "+
					"`pre_enrolled_keys` is set. PVE turns `2023` and `2023w` into it then.",
					oneWord("2011", "2023", "2023w", "2023k")),
				"import_from": importAttribute("variables"),
				"volume":      schema.StringAttribute{Computed: true, MarkdownDescription: "Id of the volume."},
			}},
		"tpm_state": schema.SingleNestedAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Disk for the state of a software TPM.",
			Attributes: map[string]schema.Attribute{
				"storage": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.StorageID()},
					MarkdownDescription: "Storage of the disk. Required unless the VM is a clone of a source that has one."},
				"version": schema.StringAttribute{Optional: true, Computed: true,
					Validators:          []validator.String{stringvalidator.OneOf("v1.2", "v2.0")},
					MarkdownDescription: "TPM version: `v2.0` or `v1.2`. It cannot be changed later: left out, it stays."},
				"import_from": importAttribute("state"),
				"volume":      schema.StringAttribute{Computed: true, MarkdownDescription: "Id of the volume."},
			}},
	}
}

func diskAttributes() map[string]schema.Attribute {
	all := diskDetails()
	maps.Copy(all, map[string]schema.Attribute{
		"storage": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.StorageID()},
			MarkdownDescription: "Storage of the disk. Required, except for a disk that a clone gets from its source. A " +
				"change moves the disk. Needs `Datastore.AllocateSpace`."},
		"size": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.Size()},
			MarkdownDescription: "Size with one of the units `K`, `M`, `G`, `T` (powers of 1024): `32G`. Required, except " +
				"with `import_from` and for a disk that a clone gets from its source. It can grow, never shrink."},
		"format": schema.StringAttribute{Optional: true, Computed: true,
			Validators: []validator.String{stringvalidator.OneOf("raw", "qcow2", "vmdk")},
			MarkdownDescription: "Image format on a file storage: `raw`, `qcow2`, `vmdk`. Default: the storage's, and of an " +
				"import that of its source. PVE resizes no `vmdk`: set `raw` or `qcow2` to import one with a larger `size`. A " +
				"change converts the disk."},
		"import_from": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.ImportSource()},
			MarkdownDescription: "Volume to copy the disk from, once, when it is made. It is an image of " +
				"content type `import` (`local:import/ubuntu.qcow2`, PVE 8.3 or later), a disk in an OVA " +
				"(`local:import/web.ova/disk1.vmdk`), another VM's disk, or one on a storage of type `esxi` " +
				"(PVE 8.2 or later). An image of ISO content (`local:iso/debian.img`) takes `ssh` in " +
				"the provider, or `root@pam`. A change replaces the VM. On an imported VM setting " +
				"this only records it."},
		"cache": schema.StringAttribute{Optional: true, Computed: true,
			Validators: []validator.String{stringvalidator.OneOf("none", "writethrough", "writeback", "unsafe",
				"directsync")},
			MarkdownDescription: "Cache mode: `none`, `writethrough`, `writeback`, `unsafe`, `directsync`."},
		"aio": schema.StringAttribute{Optional: true, Computed: true,
			Validators:          []validator.String{stringvalidator.OneOf("native", "threads", "io_uring")},
			MarkdownDescription: "Asynchronous input and output: `io_uring`, `native`, `threads`."},
		"discard": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Pass the guest's discards (trim) on to the storage."},
		"ssd": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Present the disk as a solid-state disk. Not for `virtio`."},
		"iothread": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Give the disk a thread of its own. For `virtio`, and for `scsi` with `scsihw = " +
				"\"virtio-scsi-single\"`."},
		"backup": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Include the disk in backups."},
		"replicate": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Include the disk in storage replication."},
		"ro": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Present the disk as read-only. Only for `scsi` and `virtio`."},
		"serial": schema.StringAttribute{Optional: true, Computed: true,
			Validators:          []validator.String{stringvalidator.LengthBetween(1, 20)},
			MarkdownDescription: "Serial number that the guest sees, at most 20 characters."},
		"imported_disk": importedDiskAttribute(),
		"volume": schema.StringAttribute{Computed: true,
			MarkdownDescription: "Id of the volume: `local-zfs:vm-101-disk-0`."},
	})
	return all
}

func nicAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"model": schema.StringAttribute{Optional: true, Computed: true,
			Validators: []validator.String{stringvalidator.OneOf("virtio", "e1000", "e1000e", "rtl8139", "vmxnet3",
				"e1000-82540em", "e1000-82544gc",
				"e1000-82545em", "i82551", "i82557b", "i82559er", "ne2k_isa", "ne2k_pci", "pcnet")},
			MarkdownDescription: "Model of the device: `virtio` (default), `e1000`, `e1000e`, `rtl8139`, `vmxnet3`, …"},
		"bridge": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{bridgeName()},
			MarkdownDescription: "Bridge or VNet to attach to. Without one the device uses NAT. Needs `SDN.Use` on it."},
		"macaddr": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{macAddress()},
			MarkdownDescription: "MAC address, unicast. Default: PVE makes one, and the device keeps it."},
		"tag": schema.Int64Attribute{Optional: true, Computed: true,
			Validators:          []validator.Int64{int64validator.Between(1, 4094)},
			MarkdownDescription: "VLAN of the device, 1 to 4094."},
		"trunks": schema.SetAttribute{Optional: true, Computed: true, ElementType: types.StringType,
			Validators:          []validator.Set{setvalidator.ValueStringsAre(vlanTrunk())},
			MarkdownDescription: "VLANs that pass through tagged: `[\"5\", \"10-20\"]`."},
		"firewall": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Send the traffic through PVE's firewall."},
		"link_down": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Pull the plug."},
		"mtu": schema.Int64Attribute{Optional: true, Computed: true,
			Validators:          []validator.Int64{int64validator.Between(1, 65520)},
			MarkdownDescription: "MTU, only for `virtio`; 1 = the bridge's."},
		"queues": schema.Int64Attribute{Optional: true, Computed: true,
			Validators:          []validator.Int64{int64validator.Between(0, 64)},
			MarkdownDescription: "Packet queues, 0 to 64, for `virtio`."},
		"rate": schema.Float64Attribute{Optional: true, Computed: true,
			Validators:          []validator.Float64{float64validator.AtLeast(0)},
			MarkdownDescription: "Limit in MB/s (10⁶ bytes); 0 = none."},
		"host_tunnel": flagOption("Let the node's network stack handle tunnelled traffic of the device."),
	}
}
