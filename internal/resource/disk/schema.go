package disk

import (
	"context"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

func diskSchema(ctx context.Context) schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A disk that outlives the VMs that use it, and moves between them with its data. A VM " +
			"attaches it with `imported_disk = { volume = proxmox_disk.NAME.volume }`: the guide [a data disk that " +
			"survives](../guides/data-disk-that-survives.md) shows how, and what such a disk cannot do.\n\n" +
			"PVE destroys every volume that carries a VM's id together with that VM. Therefore a VM of its own holds the " +
			"disk. That VM is protected and never started. It has 16 MiB of memory, and its description states its " +
			"purpose.\n\n" +
			"The disk is destroyed only while no other guest has it: neither in its configuration, nor pending, nor in a " +
			"snapshot. `lifecycle { prevent_destroy = true }` prevents even that. " + kit.DestroyedFirst +
			" No change of an attribute replaces the " +
			"disk. Do not migrate that VM, nor move its disk, outside Terraform while a VM has it; a bulk migration of its " +
			"node does. The VM goes on with the old disk then, and the plan refuses to exchange it for the copy.\n\n" +
			"It requires the privileges of a VM: `VM.Allocate`, `VM.Config.Disk`, `VM.Config.Memory`, `VM.Config.Options` and " +
			"`VM.Audit` on `/vms`, `Datastore.AllocateSpace` and `Datastore.Audit` on the storage. The apply " +
			"of a VM that attaches it requires `VM.Config.Disk` on `/vms/VMID` of the disk. It also requires " +
			"`Datastore.Audit` on the storage, or `Datastore.Allocate` there.",
		Attributes: attributes(ctx),
	}
}

func attributes(ctx context.Context) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"vmid": schema.Int64Attribute{Optional: true, Computed: true, Validators: []validator.Int64{kit.VMID()},
			MarkdownDescription: "Id of the VM that holds the disk. Default: the next free id. It cannot change."},
		"node": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.NodeName()},
			MarkdownDescription: "Node of the VM that holds the disk. On a storage that is not shared, only VMs of that node " +
				"can use it. Default: the only node. A change migrates the disk; no VM may use it then."},
		"storage": schema.StringAttribute{Required: true, Validators: []validator.String{kit.StorageID()},
			MarkdownDescription: "Storage with content type `images`. A change moves the disk, and changes " +
				"`volume`; no VM may use the disk then."},
		"size": schema.StringAttribute{Required: true, Validators: []validator.String{kit.Size()},
			MarkdownDescription: "Size, such as `100G`, in the units `K`, `M`, `G`, `T` (powers of 1024). It can grow, never " +
				"shrink. A disk that one VM uses grows through that VM, even while it runs."},
		"format": schema.StringAttribute{Optional: true, Computed: true,
			Validators: []validator.String{stringvalidator.OneOf("raw", "qcow2", "vmdk")},
			MarkdownDescription: "`raw`, `qcow2` or `vmdk`. Default: that of the storage. A change converts the disk; no VM " +
				"may use it then."},
		"name": schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString(vm.HolderName),
			Validators:          []validator.String{kit.DNSName()},
			MarkdownDescription: "Name of the VM that holds the disk. Default: `" + vm.HolderName + "`."},
		"description": schema.StringAttribute{Optional: true, Validators: []validator.String{
			stringvalidator.UTF8LengthAtMost(vm.MaxHolderText), kit.Printable(), trimmed()},
			MarkdownDescription: "Text in the notes of that VM, after the sentence that states its purpose. Default: none."},
		"pool": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.PoolID()},
			MarkdownDescription: "Resource pool of that VM. Default: none."},
		"volume": schema.StringAttribute{Computed: true,
			MarkdownDescription: "Volume id, for `disks.*.imported_disk.volume` of a VM: `local-zfs:vm-120-disk-0`. It stays " +
				"the same when the disk grows, and changes when it moves."},
		"uuid": schema.StringAttribute{Computed: true,
			MarkdownDescription: "`uuid` of the VM that holds the disk. A VM with another uuid is another VM, even if it has " +
				"the id."},
		"timeouts": kit.TimeoutsAttribute(ctx, timeouts.Opts{Create: true, Read: true, Update: true, Delete: true}),
	}
}

// trimmed refuses a text that PVE would change: it drops white space at the end of a description (qemu-server
// QemuServer.pm parse_vm_config). An empty description is the same as none.
func trimmed() validator.String {
	return kit.Check{Want: "must be a text that does not end with a blank or a line break",
		Wrong: func(value string) string {
			if value == "" || value != strings.TrimRightFunc(value, unicode.IsSpace) {
				return "It is empty, or PVE drops the white space at its end."
			}
			return ""
		}}
}
