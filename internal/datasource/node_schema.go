package datasource

import (
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

func nodeSchema() schema.Schema {
	attributes := map[string]schema.Attribute{
		"name": schema.StringAttribute{Required: true, Validators: []validator.String{kit.NodeName()},
			MarkdownDescription: "Name of the node."},
		"status": kit.ComputedString("`online`, `offline` or `unknown` (its statistics are older than five " +
			"minutes)."),
		"online":          kit.ComputedBool("Whether the cluster sees the node."),
		"version":         kit.ComputedString("Version of Proxmox VE on this node: `8.4.1`."),
		"release":         kit.ComputedString("Its release: `8.4`."),
		"repoid":          kit.ComputedString("Its build."),
		"pveversion":      kit.ComputedString("Version of the manager: `pve-manager/8.4.1/…`."),
		"ssl_fingerprint": kit.ComputedString("Fingerprint of the node's certificate."),
		"level":           kit.ComputedString("Subscription level, if there is one."),
		"capabilities": schema.SingleNestedAttribute{Computed: true, Attributes: capabilityAttributes(),
			MarkdownDescription: "What a node of this version can do. Null when the node does not answer."},
	}
	maps.Copy(attributes, statusAttributes())
	return schema.Schema{
		MarkdownDescription: "A node of the cluster: whether it is there, its version and what follows from it, and its " +
			"status. The status needs `Sys.Audit` on `/nodes/<name>`. A node that is offline is no error: `online` is false " +
			"and what only it knows is null.",
		Attributes: attributes,
	}
}

func statusAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"uptime": kit.ComputedInt64("Seconds since the node booted."),
		"load_average": schema.ListAttribute{Computed: true, ElementType: types.Float64Type,
			MarkdownDescription: "Load average of 1, 5 and 15 minutes."},
		"cpu":         kit.ComputedFloat64("Load of the CPUs, 0 to 1."),
		"wait":        kit.ComputedFloat64("Share of time that the CPUs wait for storage, 0 to 1."),
		"idle":        kit.ComputedFloat64("Always 0; PVE sends it."),
		"ksm_shared":  kit.ComputedInt64("Bytes of memory saved by same-page merging."),
		"kversion":    kit.ComputedString("Kernel in one line."),
		"boot_mode":   kit.ComputedString("`efi` or `legacy-bios`. PVE 8.1 and later."),
		"secure_boot": kit.ComputedBool("Whether the node booted with Secure Boot. PVE 8.1 and later."),
		"memory":      memoryAttribute("Memory", "Null before PVE 9."),
		"swap":        memoryAttribute("Swap", "Always null."),
		"rootfs":      memoryAttribute("Root file system", "For users other than root."),
		"kernel": schema.SingleNestedAttribute{Computed: true, MarkdownDescription: "The running kernel. PVE 8.1 and later.",
			Attributes: map[string]schema.Attribute{
				"sysname": kit.ComputedString("`Linux`."), "release": kit.ComputedString("`6.8.12-9-pve`."),
				"version": kit.ComputedString("Its build."), "machine": kit.ComputedString("`x86_64`."),
			}},
		"cpuinfo": schema.SingleNestedAttribute{Computed: true, MarkdownDescription: "The processors.",
			Attributes: map[string]schema.Attribute{
				"model": kit.ComputedString("Model."), "sockets": kit.ComputedInt64("Sockets."),
				"cores": kit.ComputedInt64("Cores of all sockets."),
				"cpus":  kit.ComputedInt64("Threads of all cores."), "mhz": kit.ComputedFloat64("Clock in MHz."),
				"hvm":     kit.ComputedBool("Whether PVE reports hardware virtualisation."),
				"user_hz": kit.ComputedInt64("Clock ticks of the kernel a second."),
				"flags":   schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "CPU flags."},
			}},
	}
}

func memoryAttribute(what, available string) schema.Attribute {
	return schema.SingleNestedAttribute{Computed: true, MarkdownDescription: what + ", in bytes.",
		Attributes: map[string]schema.Attribute{
			"total": kit.ComputedInt64("All."), "used": kit.ComputedInt64("Used."), "free": kit.ComputedInt64("Free."),
			"available": kit.ComputedInt64("Available. " + available),
		}}
}
