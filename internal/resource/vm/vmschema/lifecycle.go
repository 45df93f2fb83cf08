package vmschema

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// lifecycleAttributes say how the VM is made, run and removed. PVE does not know them, but for the power state.
func lifecycleAttributes(ctx context.Context) map[string]schema.Attribute {
	limits := timeouts.Opts{Create: true, Read: true, Update: true, Delete: true,
		CreateDescription: "Time for a create, such as `45m`. Default: 30 minutes. The rollback after a failure has ten " +
			"minutes of its own.",
		ReadDescription:   "Time for a refresh. Default: 2 minutes.",
		UpdateDescription: "Time for a change. Default: 30 minutes.",
		DeleteDescription: "Time for a destroy. Default: 15 minutes.",
	}
	return map[string]schema.Attribute{
		"power_state": schema.StringAttribute{Optional: true, Computed: true,
			Validators: []validator.String{stringvalidator.OneOf("running", "stopped")},
			MarkdownDescription: "`running` or `stopped`: a VM that is found otherwise is started or shut down. A VM that " +
				"was started after the plan is not shut down before the next one, nor is one started that went off after " +
				"it. A VM is shut " +
				"down, never cut off, except by HA: its manager cuts off a guest that does not obey within " +
				"`shutdown_timeout`. An apply starts no VM, and has HA start none, while another guest runs with one " +
				"of its disks. A paused VM counts as running. " +
				"Default: a new VM is started once (a template never), and its power is left alone afterwards."},
		"reboot_policy": schema.StringAttribute{Optional: true,
			Validators: []validator.String{stringvalidator.OneOf("auto", "never", "force")},
			MarkdownDescription: "What happens when a change waits for a restart of the running VM. `auto` " +
				"(default): PVE reboots it, through the agent or ACPI; a guest that does not obey within " +
				"`shutdown_timeout` is an error, keeps running, and the change stays pending. `never`: a " +
				"warning, and `pending_changes` lists what waits. `force`: a guest that does not obey is " +
				"cut off and started again. Nothing else restarts a VM. Needs `VM.PowerMgmt`."},
		"shutdown_timeout": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.PositiveDuration()},
			MarkdownDescription: "Time that the guest has to shut down, for a restart and for `power_state = \"stopped\"`, " +
				"such as `90s`. Default: 3 minutes."},
		"wait_for": waitAttribute(),
		"removed_disks": schema.StringAttribute{Optional: true,
			Validators: []validator.String{stringvalidator.OneOf("detach", "destroy")},
			MarkdownDescription: "What becomes of the volume of a disk, EFI disk or TPM state that leaves the configuration. " +
				"`detach` (default): it stays with the VM as `unusedN`. `destroy`: the same apply destroys " +
				"it with its data, as the plan announces; if a snapshot needs it, the apply fails before " +
				"any change. A volume with another VM's id is only detached. Needs `Datastore.AllocateSpace`."},
		"import_working_storage": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.StorageID()},
			MarkdownDescription: "Storage of files, with content type `images`, on which PVE unpacks a disk " +
				"of an OVA before it copies it. Default: the storage of the OVA. Needs " +
				"`Datastore.AllocateSpace`. PVE 8.3 or later."},
		"on_failure": schema.StringAttribute{Optional: true,
			Validators: []validator.String{stringvalidator.OneOf("rollback", "keep")},
			MarkdownDescription: "What a create that fails does: `rollback` (default) removes everything " +
				"that it made; `keep` leaves the VM, tainted."},
		"on_orphaned_volumes": schema.StringAttribute{Optional: true,
			Validators: []validator.String{stringvalidator.OneOf("fail", "destroy")},
			MarkdownDescription: "What a create does about volumes that carry the configured `vmid` " +
				"although no VM has it: `fail` (default) names those on the storages that it writes to, " +
				"`destroy` first destroys all on all storages of the node. It fails at one that may have an " +
				"owner elsewhere: on a shared storage that is not in the provider's `exclusive_storages`, " +
				"or with a name that PVE never gives, and at one that `import_from` names. The plan names those " +
				"that it finds; one that appears before the apply is destroyed as well. The create of a replacement " +
				"leaves those that the destroy has left, and names them. An automatic id never has such volumes."},
		"on_destroy": schema.SingleNestedAttribute{Optional: true,
			MarkdownDescription: "How the VM is destroyed. It must be applied before the destroy to count.",
			Attributes: map[string]schema.Attribute{
				"power_off": schema.StringAttribute{Optional: true, Validators: []validator.String{
					stringvalidator.OneOf("graceful", "graceful_only", "force")},
					MarkdownDescription: "`graceful` (default): ask the guest twice to shut down, then cut " +
						"it off with a warning; `graceful_only`: fail instead. `force`: cut it off, also if " +
						"it is paused, or if HA manages it and the identity may not take it out. `graceful` fails too " +
						"where one of the disks is not destroyed with the VM, such as that of a `proxmox_disk`: data that the " +
						"guest has not written there yet would be lost. So do both where such a guest is suspended to disk."},
				"timeout": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.PositiveDuration()},
					MarkdownDescription: "Time that the guest has to shut down, such as `90s`. Default: `shutdown_timeout`, else " +
						"3 minutes."},
				"purge": schema.BoolAttribute{Optional: true,
					MarkdownDescription: "Take the VM out of backup jobs, replication jobs and HA too. " +
						"`false`: PVE refuses the destroy if HA or replication names the VM, and backup " +
						"jobs keep its id. Default: " +
						"`true`."},
			}},
		"timeouts": kit.TimeoutsAttribute(ctx, limits),
	}
}

func waitAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{Optional: true,
		MarkdownDescription: "What a create, and an update of a VM that runs after it, waits for when its " +
			"work is done. Neither a timeout nor an interrupt removes the VM, and a guest that stops ends " +
			"the wait. Needs `agent.enabled`. Default: an update waits for nothing, a create up to two " +
			"minutes for an address, see [addresses](#addresses-in-outputs).",
		Attributes: map[string]schema.Attribute{
			"agent": schema.BoolAttribute{Optional: true,
				MarkdownDescription: "Until the guest agent answers. Default: `false`."},
			"ipv4": schema.BoolAttribute{Optional: true, MarkdownDescription: "Until the agent reports an " +
				"IPv4 address. If only a later network device has one, earlier ones get five seconds more. Default: " +
				"`false`."},
			"ipv6": schema.BoolAttribute{Optional: true, MarkdownDescription: "Until the agent reports an " +
				"IPv6 address, likewise. Default: `false`."},
			"timeout": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.PositiveDuration()},
				MarkdownDescription: "How long, such as `10m`; it ends with the operation's own timeout at the latest. Default: " +
					"5 minutes, 2 for the wait by default."},
			"on_timeout": schema.StringAttribute{Optional: true,
				Validators: []validator.String{stringvalidator.OneOf("fail", "warn")},
				MarkdownDescription: "`warn` (default): a failed or interrupted wait is a warning, and " +
					"unknown addresses are null. `fail`: an error; the VM stays, after a create tainted " +
					"(`terraform untaint`)."},
		}}
}
