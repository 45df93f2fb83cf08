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
			MarkdownDescription: "`running` or `stopped`, enforced by every apply; a VM that runs is shut down, never cut " +
				"off, except by HA: its manager cuts off a guest that does not obey within `shutdown_timeout`. Default: the VM " +
				"is started once when it is made (a template never), and its power is left alone afterwards."},
		"reboot_policy": schema.StringAttribute{Optional: true,
			Validators: []validator.String{stringvalidator.OneOf("auto", "never", "force")},
			MarkdownDescription: "What happens after a change when PVE says that something waits for a restart of the " +
				"running VM. `auto` (default): PVE reboots it, through the agent or ACPI; a guest that does not obey within " +
				"`shutdown_timeout` is an error, keeps running, and the change stays pending. `never`: a warning, and " +
				"`pending_changes` lists what waits. `force`: a guest that does not obey is cut off and started again. Nothing " +
				"else ever restarts a VM. Needs `VM.PowerMgmt`."},
		"shutdown_timeout": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.PositiveDuration()},
			MarkdownDescription: "Time that the guest has to shut down, for a restart and for `power_state = \"stopped\"`, " +
				"such as `90s`. Default: 3 minutes."},
		"wait_for": waitAttribute(),
		"removed_disks": schema.StringAttribute{Optional: true,
			Validators: []validator.String{stringvalidator.OneOf("detach", "destroy")},
			MarkdownDescription: "What becomes of the volume of a disk, EFI disk or TPM state that leaves the configuration. " +
				"`detach` (default): it stays with the VM as `unusedN`. `destroy`: it is destroyed in the same apply, with its " +
				"data, which the plan announces; where a snapshot needs it, the apply fails before it changes anything. A volume " +
				"that carries another VM's id is only ever detached. Needs `Datastore.AllocateSpace`."},
		"import_working_storage": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.StorageID()},
			MarkdownDescription: "Storage on which PVE unpacks a disk that `import_from` takes out of an OVA, before it " +
				"copies it: one of files, with the content type `images`. Default: the storage of the OVA. Needs " +
				"`Datastore.AllocateSpace`. PVE 8.3 or later."},
		"on_failure": schema.StringAttribute{Optional: true,
			Validators: []validator.String{stringvalidator.OneOf("rollback", "keep")},
			MarkdownDescription: "How a create that fails leaves the server: `rollback` (default) removes everything that it " +
				"made; `keep` leaves the VM, tainted, to be looked at."},
		"on_orphaned_volumes": schema.StringAttribute{Optional: true,
			Validators: []validator.String{stringvalidator.OneOf("fail", "destroy")},
			MarkdownDescription: "What a create does about volumes that carry the configured `vmid` although no VM has it: " +
				"`fail` (default) names those on the storages that it writes to, `destroy` destroys all of them first, on " +
				"all storages of the node. A volume that may have an owner elsewhere makes it fail: one on a shared storage " +
				"that is not in the provider's `exclusive_storages`, and one with a name that PVE itself never gives. An " +
				"automatic id is never one with such volumes there."},
		"on_destroy": schema.SingleNestedAttribute{Optional: true,
			MarkdownDescription: "How the VM is destroyed. It must be applied before the destroy to count.",
			Attributes: map[string]schema.Attribute{
				"power_off": schema.StringAttribute{Optional: true, Validators: []validator.String{
					stringvalidator.OneOf("graceful", "graceful_only", "force")},
					MarkdownDescription: "`graceful` (default): ask the guest to shut down, twice, and cut it off with a warning " +
						"if it does not in time; `graceful_only`: fail instead. `force`: cut off a paused guest too, and one that HA " +
						"manages and that the identity may not take out of HA."},
				"timeout": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.PositiveDuration()},
					MarkdownDescription: "Time that the guest has to shut down, such as `90s`. Default: `shutdown_timeout`, else " +
						"3 minutes."},
				"purge": schema.BoolAttribute{Optional: true,
					MarkdownDescription: "Take the VM out of backup and replication jobs and out of HA as well. `false`: PVE " +
						"refuses to destroy a VM that HA or a replication job still names, and backup jobs keep its id. Default: " +
						"`true`."},
			}},
		"timeouts": kit.TimeoutsAttribute(ctx, limits),
	}
}

func waitAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{Optional: true,
		MarkdownDescription: "What a create, and an update of a VM that runs after it, waits for when its work is done. " +
			"The VM is complete by then: neither a timeout nor an interrupt removes it. A guest that stops meanwhile ends " +
			"the wait. Reading never waits. Needs `agent.enabled` and a VM that runs. Default: an update waits for " +
			"nothing. A create that starts the VM waits up to two minutes for an IPv4 or IPv6 address, if the configuration " +
			"itself has `agent = { enabled = true }`; `wait_for = { agent = false }` ends that, and `wait_for = { timeout " +
			"= \"10m\" }` changes the time.",
		Attributes: map[string]schema.Attribute{
			"agent": schema.BoolAttribute{Optional: true,
				MarkdownDescription: "Until the guest agent answers. Default: `false`."},
			"ipv4": schema.BoolAttribute{Optional: true, MarkdownDescription: "Until the agent reports an IPv4 address for " +
				"`ipv4_address`. When only a later network device has one, the earlier ones get five seconds more. Default: " +
				"`false`."},
			"ipv6": schema.BoolAttribute{Optional: true, MarkdownDescription: "Until the agent reports an IPv6 address for " +
				"`ipv6_address`, likewise. Default: `false`."},
			"timeout": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.PositiveDuration()},
				MarkdownDescription: "How long, such as `10m`; it ends with the operation's own timeout at the latest. Default: " +
					"5 minutes, 2 for the wait by default."},
			"on_timeout": schema.StringAttribute{Optional: true,
				Validators: []validator.String{stringvalidator.OneOf("fail", "warn")},
				MarkdownDescription: "`warn` (default): a wait that fails, or is interrupted, is a warning, and unknown " +
					"addresses are null. `fail`: an error; the VM is kept, after a create tainted (`terraform untaint` keeps the " +
					"next apply from replacing it)."},
		}}
}
