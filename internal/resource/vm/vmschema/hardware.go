package vmschema

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/float64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// hardwareAttributes are the board, processor, memory and agent; ranges from qemu-server QemuServer.pm.
func hardwareAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"machine": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{machineType()},
			MarkdownDescription: "Machine type: `q35`, `pc`, or a version of one, `pc-q35-9.0`."},
		"bios": schema.StringAttribute{Optional: true, Computed: true,
			Validators:          []validator.String{stringvalidator.OneOf("seabios", "ovmf")},
			MarkdownDescription: "Firmware: `seabios` or `ovmf` (UEFI; it keeps its variables on `efi_disk`)."},
		"ostype": schema.StringAttribute{Optional: true, Computed: true,
			Validators: []validator.String{stringvalidator.OneOf("other", "wxp", "w2k", "w2k3", "w2k8", "wvista", "win7", "win8",
				"win10",
				"win11", "l24", "l26", "solaris")},
			MarkdownDescription: "Operating system family: `l26` (Linux), `win11` (Windows 11, 2022, 2025), `win10`, `win8`, " +
				"`win7`, `wvista`, `w2k8`, `w2k3`, `w2k`, `wxp`, `solaris`, `l24`, `other`."},
		"scsihw": schema.StringAttribute{Optional: true, Computed: true,
			Validators: []validator.String{stringvalidator.OneOf("lsi", "lsi53c810", "virtio-scsi-pci", "virtio-scsi-single",
				"megasas",
				"pvscsi")},
			MarkdownDescription: "SCSI controller: `virtio-scsi-single` (one per disk, needed for `iothread`), " +
				"`virtio-scsi-pci`, `lsi`, `lsi53c810`, `megasas`, `pvscsi`."},
		"cpu": schema.SingleNestedAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Processor.",
			Attributes:          cpuAttributes()},
		"memory": schema.SingleNestedAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Memory.",
			Attributes:          memoryAttributes()},
		"agent": schema.SingleNestedAttribute{Optional: true, Computed: true,
			MarkdownDescription: "The QEMU guest agent, which has to be installed in the guest.",
			Attributes: map[string]schema.Attribute{
				"enabled": schema.BoolAttribute{Optional: true, Computed: true,
					MarkdownDescription: "Talk to the agent: orderly shutdown and the addresses of the VM."},
				"type": schema.StringAttribute{Optional: true, Computed: true,
					Validators:          []validator.String{stringvalidator.OneOf("virtio", "isa")},
					MarkdownDescription: "Channel to the agent: `virtio` or `isa`."},
				"freeze_fs_on_backup": flagOption("Freeze the file systems while a backup begins."),
				"fstrim_cloned_disks": schema.BoolAttribute{Optional: true, Computed: true,
					MarkdownDescription: "Trim the disks after they were moved or the VM was migrated."},
			}},
	}
}

func cpuAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"type": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{cpuTypeName()},
			MarkdownDescription: "CPU model: `x86-64-v2-AES`, `host`, … or `custom-<name>`, which needs `Mapping.Use` on " +
				"`/mapping/cpu/<name>` since PVE 9.2."},
		"flags": schema.SetAttribute{Optional: true, Computed: true, ElementType: types.StringType,
			Validators:          []validator.Set{setvalidator.ValueStringsAre(cpuFlag())},
			MarkdownDescription: "Flags to add or take away: `[\"+aes\", \"-pcid\"]`. Only those that PVE knows."},
		"sockets": schema.Int64Attribute{Optional: true, Computed: true,
			Validators:          []validator.Int64{int64validator.AtLeast(1)},
			MarkdownDescription: "Sockets."},
		"cores": schema.Int64Attribute{Optional: true, Computed: true,
			Validators:          []validator.Int64{int64validator.AtLeast(1)},
			MarkdownDescription: "Cores of each socket."},
		"vcpus": schema.Int64Attribute{Optional: true, Computed: true,
			Validators:          []validator.Int64{int64validator.AtLeast(1)},
			MarkdownDescription: "How many of the sockets × cores are plugged in at start."},
		"limit": schema.Float64Attribute{Optional: true, Computed: true,
			Validators:          []validator.Float64{float64validator.Between(0, 128)},
			MarkdownDescription: "CPU time that the VM may use, in host CPUs: `1.5`; 0 = no limit. Takes effect at once."},
		"units": schema.Int64Attribute{Optional: true, Computed: true,
			Validators: []validator.Int64{int64validator.Between(2, 262144)},
			MarkdownDescription: "Weight of the VM among others, 2 to 262144; nodes with cgroup v2, the usual ones, count " +
				"10000 at most. Takes effect at once."},
		"affinity": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{hostCPUs()},
			MarkdownDescription: "Host CPUs that the VM may run on: `0,4-7`."},
		"hidden": flagOption("Hide from the guest that it runs under KVM."),
		"hv_vendor_id": textOption("Hyper-V vendor id that the guest sees, at most 12 letters and digits; some drivers "+
			"want one that is not KVM's.", stringvalidator.RegexMatches(hypervVendor, "must be at most 12 letters and digits")),
		"phys_bits": textOption("Width of physical addresses that the guest sees: 8 to 64, or `host`.",
			stringvalidator.RegexMatches(physBits, "must be a number from 8 to 64, or host")),
		"guest_phys_bits": countOption("Width of physical addresses that the guest may use, 32 to 64.", between(32, 64)),
		"level":           countOption("Highest CPUID level that the guest sees.", between(0, 255)),
		"reported_model": textOption("Model that a custom type reports to the guest. PVE takes it only in "+
			"the definition of such a type.", stringvalidator.RegexMatches(reportedModel,
			"must be the name of a CPU model")),
		"numa": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "NUMA in the guest; needed to hotplug memory."},
	}
}

func memoryAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"size": schema.Int64Attribute{Optional: true, Computed: true,
			Validators:          []validator.Int64{int64validator.AtLeast(16)},
			MarkdownDescription: "Memory in MiB, at least 16."},
		"balloon": schema.Int64Attribute{Optional: true, Computed: true,
			Validators: []validator.Int64{int64validator.AtLeast(0)},
			MarkdownDescription: "Memory in MiB that the VM keeps when the host is short of it, at most `size`; 0 switches " +
				"ballooning off."},
		"shares": schema.Int64Attribute{Optional: true, Computed: true,
			Validators:          []validator.Int64{int64validator.Between(0, 50000)},
			MarkdownDescription: "Weight of the VM when memory is taken back, 0 to 50000."},
		"hugepages": schema.StringAttribute{Optional: true, Computed: true,
			Validators:          []validator.String{stringvalidator.OneOf("any", "2", "1024")},
			MarkdownDescription: "Back the memory by huge pages of 2 or 1024 MiB, or `any`."},
		"allow_ksm": flagOption("Let the node merge equal pages of this VM with those of others (KSM)."),
		"keephugepages": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Keep the huge pages when the VM stops."},
	}
}
