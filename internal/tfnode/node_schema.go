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
		"status":          text("`online`, `offline` or `unknown` (its statistics are older than five minutes)."),
		"online":          schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the cluster sees the node."},
		"version":         text("Version of Proxmox VE on this node: `8.4.1`."),
		"release":         text("Its release: `8.4`."),
		"repoid":          text("Its build."),
		"pveversion":      text("Version of the manager: `pve-manager/8.4.1/…`."),
		"ssl_fingerprint": text("Fingerprint of the node's certificate. Needs `Sys.Audit`."),
		"level":           text("Subscription level, if there is one."),
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
		"uptime": integer("Seconds since the node booted."),
		"load_average": schema.ListAttribute{Computed: true, ElementType: types.Float64Type,
			MarkdownDescription: "Load average of 1, 5 and 15 minutes."},
		"cpu":         decimal("Load of the CPUs, 0 to 1."),
		"wait":        decimal("Share of time that the CPUs wait for storage, 0 to 1."),
		"idle":        decimal("Always 0; PVE sends it."),
		"ksm_shared":  integer("Bytes of memory saved by same-page merging."),
		"kversion":    text("Kernel in one line."),
		"boot_mode":   text("`efi` or `legacy-bios`. PVE 8.1 and later."),
		"secure_boot": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the node booted with Secure Boot. PVE 8.1 and later."},
		"memory":      memory("Memory", "Null before PVE 9."),
		"swap":        memory("Swap", "Always null."),
		"rootfs":      memory("Root file system", "For users other than root."),
		"kernel": schema.SingleNestedAttribute{Computed: true, MarkdownDescription: "The running kernel. PVE 8.1 and later.",
			Attributes: map[string]schema.Attribute{
				"sysname": text("`Linux`."), "release": text("`6.8.12-9-pve`."), "version": text("Its build."), "machine": text("`x86_64`."),
			}},
		"cpuinfo": schema.SingleNestedAttribute{Computed: true, MarkdownDescription: "The processors.",
			Attributes: map[string]schema.Attribute{
				"model": text("Model."), "sockets": integer("Sockets."), "cores": integer("Cores of all sockets."),
				"cpus": integer("Threads of all cores."), "mhz": decimal("Clock in MHz."),
				"hvm":     schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether PVE reports hardware virtualisation."},
				"user_hz": integer("Clock ticks of the kernel a second."),
				"flags":   schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "CPU flags."},
			}},
	}
}

func memory(what, available string) schema.Attribute {
	return schema.SingleNestedAttribute{Computed: true, MarkdownDescription: what + ", in bytes.",
		Attributes: map[string]schema.Attribute{
			"total": integer("All."), "used": integer("Used."), "free": integer("Free."), "available": integer("Available. " + available),
		}}
}

func text(what string) schema.Attribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: what}
}

func integer(what string) schema.Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: what}
}

func decimal(what string) schema.Attribute {
	return schema.Float64Attribute{Computed: true, MarkdownDescription: what}
}
