package vmschema

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/float64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// diskDetails are the rarer options of a disk (qemu-server Drive.pm).
func diskDetails() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"model": textOption("Model that the guest sees, at most 40 characters. Only for `ide`.",
			stringvalidator.LengthBetween(1, 40)),
		"wwn": textOption("World wide name that the guest sees: `0x` and 16 hexadecimal digits. Not for `virtio`.",
			stringvalidator.RegexMatches(worldWideName, "must be 0x and 16 hexadecimal digits")),
		"vendor": textOption("Vendor that the guest sees, at most 8 letters, digits, `-` and `_`. Only for `scsi`.",
			stringvalidator.RegexMatches(scsiVendor, "must be at most 8 letters, digits, hyphens and underscores")),
		"product": textOption("Product that the guest sees, at most 16 letters, digits, `-` and `_`. Only for `scsi`.",
			stringvalidator.RegexMatches(scsiProduct, "must be at most 16 letters, digits, hyphens and underscores")),
		"queues": countOption("Queues of the controller, 2 or more. Only for `scsi`.", atLeast(2)),
		"scsiblock": flagOption("Pass SCSI commands through to the host's device. Only for `scsi`; it can damage data " +
			"when the host runs short of memory."),
		"snapshot":      flagOption("Throw away what the guest writes when the VM ends."),
		"shared":        flagOption("The volume is the same on every node, although its storage is not marked shared."),
		"detect_zeroes": flagOption("Find blocks of zeroes and write them efficiently."),
		"rerror": textOption("What happens at a read error: `ignore`, `report`, `stop`.",
			oneWord("ignore", "report", "stop")),
		"werror": textOption("What happens at a write error: `enospc` (stop when the storage is full, else report), "+
			"`ignore`, `report`, `stop`.", oneWord("enospc", "ignore", "report", "stop")),
		"throttle": optionGroup("Limits. A limit for both directions excludes those of one direction; `…_max` is what a "+
			"burst may reach and needs the limit itself, `…_max_length` is how long it may last, in seconds, and needs "+
			"`…_max`.", throttleAttributes()),
	}
}

func throttleAttributes() map[string]schema.Attribute {
	all := map[string]schema.Attribute{}
	for suffix, direction := range map[string]string{"": "reading and writing", "_rd": "reading", "_wr": "writing"} {
		all["mbps"+suffix] = decimalOption("Limit for "+direction+" in MB/s.", float64validator.AtLeast(0.001))
		all["mbps"+suffix+"_max"] = decimalOption("Limit for bursts of "+direction+" in MB/s.",
			float64validator.AtLeast(0.001))
		all["mbps"+suffix+"_max_length"] = countOption("Longest burst of "+direction+" in seconds, for `mbps"+suffix+"_max`.",
			atLeast(1))
		all["iops"+suffix] = countOption("Limit for "+direction+" in operations per second.", atLeast(1))
		all["iops"+suffix+"_max"] = countOption("Limit for bursts of "+direction+" in operations per second.", atLeast(1))
		all["iops"+suffix+"_max_length"] = countOption("Longest burst of "+direction+" in seconds, for `iops"+suffix+"_max`.",
			atLeast(1))
	}
	return all
}

// importedDiskAttribute is the volume that a disk is, where it is there already.
func importedDiskAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{Optional: true,
		MarkdownDescription: "An existing volume instead of a new one: left by a VM that is gone, imported, " +
			"detached, or in another slot. It keeps its data and needs no `storage`; `size` grows it.",
		Attributes: map[string]schema.Attribute{
			"volume": schema.StringAttribute{Required: true,
				Validators: []validator.String{stringvalidator.Any(kit.VolumeID(), kit.HostPath())},
				MarkdownDescription: "Id of the volume: `local-zfs:vm-101-disk-7`. The `volume` of a " +
					"`proxmox_disk`, which outlives the VM, or one that carries the VM's own id (a new VM " +
					"then needs that `vmid`) and that no other guest uses. Another slot may give it up in " +
					"the same plan, so disks can swap slots. PVE destroys a volume with the VM whose id it " +
					"carries, but a create that fails leaves it. Once the disk was moved, converted or " +
					"migrated, the configured id is ignored. A path of the node, `/dev/disk/by-id/…`, " +
					"passes a device through that no other guest of the node has: **only `root@pam`**."},
			"sha256": schema.StringAttribute{Optional: true,
				Validators: []validator.String{stringvalidator.RegexMatches(checksum, "must be the 64 hexadecimal digits of a "+
					"sha256")},
				MarkdownDescription: "Checksum of the file or block device, verified on the node before a " +
					"new VM is made. Needs `ssh`, and the time to read it."},
			"source": schema.StringAttribute{Optional: true, MarkdownDescription: "Where the volume comes from, for people: " +
				"`migration`."},
		}}
}

// importAttribute is the source of one of the special disks.
func importAttribute(what string) schema.StringAttribute {
	attribute := textOption("Volume to copy the "+what+" from, once, when it is made, such as another VM's. A change "+
		"replaces the VM. On an imported VM setting this only records it.", kit.ImportSource())
	attribute.Computed = false
	return attribute
}
