package tfdisk

import (
	"context"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// defaultName is that of the VM that holds a disk: people see it in PVE's tree.
const defaultName = "data-disk"

func diskSchema(ctx context.Context) schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A disk that outlives the VMs which use it, and moves between them with its data. " +
			"A VM attaches it with `imported_disk = { volume = proxmox_disk.NAME.volume }`: the guide " +
			"[a data disk that survives](../guides/data-disk-that-survives.md) shows how, and what such a disk cannot do.\n\n" +
			"PVE destroys every volume that carries a VM's id together with that VM. So the disk is held by a VM of its own, which is protected, " +
			"never started, has 16 MiB of memory configured, and says in its description what it is there for.\n\n" +
			"It is destroyed only while no other guest has it: not in its configuration, not pending, and in no snapshot. " +
			"`lifecycle { prevent_destroy = true }` refuses that as well. No change of an attribute replaces it.\n\n" +
			"It takes what a VM takes: `VM.Allocate`, `VM.Config.Disk`, `VM.Config.Memory`, `VM.Config.Options` and `VM.Audit` on `/vms`, " +
			"`Datastore.AllocateSpace` and `Datastore.Audit` on the storage. To attach it, the VM's apply needs `VM.Config.Disk` on `/vms/VMID` " +
			"of the disk and `Datastore.Audit` on the storage, or `Datastore.Allocate` there.",
		Attributes: attributes(ctx),
	}
}

func attributes(ctx context.Context) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"vmid": schema.Int64Attribute{Optional: true, Computed: true, Validators: []validator.Int64{tfkit.VMID()},
			MarkdownDescription: "Id of the VM that holds the disk. Default: the next free one. It cannot change."},
		"node": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{tfkit.NodeName()},
			MarkdownDescription: "Node of the VM that holds the disk. On a storage that is not shared only VMs of that node can have it. " +
				"Default: the only node. Another one migrates the disk, while no VM has it."},
		"storage": schema.StringAttribute{Required: true, Validators: []validator.String{tfkit.StorageID()},
			MarkdownDescription: "Storage with content type `images`. Another one moves the disk there, while no VM has it: `volume` " +
				"changes with it."},
		"size": schema.StringAttribute{Required: true, Validators: []validator.String{tfkit.Size()},
			MarkdownDescription: "Size: `100G`. It can grow, never shrink. While one VM has the disk it grows by way of that, also while it runs."},
		"format": schema.StringAttribute{Optional: true, Computed: true,
			Validators:          []validator.String{stringvalidator.OneOf("raw", "qcow2", "vmdk")},
			MarkdownDescription: "`raw`, `qcow2` or `vmdk`. Default: the storage's. Another one converts the disk, while no VM has it."},
		"name": schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString(defaultName),
			Validators:          []validator.String{tfkit.DNSName()},
			MarkdownDescription: "Name of the VM that holds the disk. Default: `" + defaultName + "`."},
		"description": schema.StringAttribute{Optional: true, Validators: []validator.String{tfkit.Printable(), trimmed()},
			MarkdownDescription: "Text in the notes of that VM, after the sentence that says what it is."},
		"pool": schema.StringAttribute{Optional: true, Validators: []validator.String{tfkit.PoolID()},
			MarkdownDescription: "Resource pool of that VM."},
		"volume": schema.StringAttribute{Computed: true,
			MarkdownDescription: "Volume id, for `disks.*.imported_disk.volume` of a VM: `local-zfs:vm-120-disk-0`. It stays as it is while the " +
				"disk grows; it is another after a move."},
		"uuid": schema.StringAttribute{Computed: true,
			MarkdownDescription: "`uuid` of the VM that holds the disk. A VM with another one is another VM, though it has the id."},
		"timeouts": tfkit.TimeoutsAttribute(ctx, timeouts.Opts{Create: true, Read: true, Update: true, Delete: true}),
	}
}

// trimmed refuses what PVE would not store as it is written: it drops what is blank at the end of a description (qemu-server
// QemuServer.pm parse_vm_config). An empty one is none.
func trimmed() validator.String {
	return tfkit.Check{Want: "must be a text that does not end with a blank or a line break", Wrong: func(value string) string {
		if value == "" || value != strings.TrimRightFunc(value, unicode.IsSpace) {
			return "It is empty, or PVE drops what is blank at its end."
		}
		return ""
	}}
}
