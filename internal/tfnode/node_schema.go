package tfnode

import (
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

func nodeSchema() schema.Schema {
	attributes := map[string]schema.Attribute{
		"name": schema.StringAttribute{Required: true, Validators: []validator.String{tfkit.NodeName()},
			MarkdownDescription: "Name of the node."},
		"status":          tfkit.ComputedString("`online`, `offline` or `unknown` (its statistics are older than five minutes)."),
		"online":          tfkit.ComputedBool("Whether the cluster sees the node."),
		"version":         tfkit.ComputedString("Version of Proxmox VE on this node: `8.4.1`."),
		"release":         tfkit.ComputedString("Its release: `8.4`."),
		"repoid":          tfkit.ComputedString("Its build."),
		"pveversion":      tfkit.ComputedString("Version of the manager: `pve-manager/8.4.1/…`."),
		"ssl_fingerprint": tfkit.ComputedString("Fingerprint of the node's certificate. Needs `Sys.Audit`."),
		"level":           tfkit.ComputedString("Subscription level, if there is one."),
		"capabilities": schema.SingleNestedAttribute{Computed: true, Attributes: capabilityAttributes(),
			MarkdownDescription: "What a node of this version can do. Null when the node does not answer."},
	}
	maps.Copy(attributes, statusAttributes())
	return schema.Schema{
		MarkdownDescription: "A node of the cluster: whether it is there, its version and what follows from it, and its status. " +
			"The status needs `Sys.Audit` on `/nodes/<name>`. A node that is offline is no error: `online` is false and what only it knows is null.",
		Attributes: attributes,
	}
}

func statusAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"uptime": tfkit.ComputedInt64("Seconds since the node booted."),
		"load_average": schema.ListAttribute{Computed: true, ElementType: types.Float64Type,
			MarkdownDescription: "Load average of 1, 5 and 15 minutes."},
		"cpu":         tfkit.ComputedFloat64("Load of the CPUs, 0 to 1."),
		"wait":        tfkit.ComputedFloat64("Share of time that the CPUs wait for storage, 0 to 1."),
		"idle":        tfkit.ComputedFloat64("Always 0; PVE sends it."),
		"ksm_shared":  tfkit.ComputedInt64("Bytes of memory saved by same-page merging."),
		"kversion":    tfkit.ComputedString("Kernel in one line."),
		"boot_mode":   tfkit.ComputedString("`efi` or `legacy-bios`. PVE 8.1 and later."),
		"secure_boot": tfkit.ComputedBool("Whether the node booted with Secure Boot. PVE 8.1 and later."),
		"memory":      memory("Memory", "Null before PVE 9."),
		"swap":        memory("Swap", "Always null."),
		"rootfs":      memory("Root file system", "For users other than root."),
		"kernel": schema.SingleNestedAttribute{Computed: true, MarkdownDescription: "The running kernel. PVE 8.1 and later.",
			Attributes: map[string]schema.Attribute{
				"sysname": tfkit.ComputedString("`Linux`."), "release": tfkit.ComputedString("`6.8.12-9-pve`."),
				"version": tfkit.ComputedString("Its build."), "machine": tfkit.ComputedString("`x86_64`."),
			}},
		"cpuinfo": schema.SingleNestedAttribute{Computed: true, MarkdownDescription: "The processors.",
			Attributes: map[string]schema.Attribute{
				"model": tfkit.ComputedString("Model."), "sockets": tfkit.ComputedInt64("Sockets."),
				"cores": tfkit.ComputedInt64("Cores of all sockets."),
				"cpus":  tfkit.ComputedInt64("Threads of all cores."), "mhz": tfkit.ComputedFloat64("Clock in MHz."),
				"hvm":     tfkit.ComputedBool("Whether PVE reports hardware virtualisation."),
				"user_hz": tfkit.ComputedInt64("Clock ticks of the kernel a second."),
				"flags":   schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "CPU flags."},
			}},
	}
}

func memory(what, available string) schema.Attribute {
	return schema.SingleNestedAttribute{Computed: true, MarkdownDescription: what + ", in bytes.",
		Attributes: map[string]schema.Attribute{
			"total": tfkit.ComputedInt64("All."), "used": tfkit.ComputedInt64("Used."), "free": tfkit.ComputedInt64("Free."),
			"available": tfkit.ComputedInt64("Available. " + available),
		}}
}
