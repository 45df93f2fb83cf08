package vmschema

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

const description = "A virtual machine. `terraform apply` makes it whole or not at all: when a step of a create " +
	"fails, everything that was made so far is removed again, and what cannot be removed is named together with the " +
	"command that removes it.\n\n**An option that is not configured is left alone**: PVE's default or the template's " +
	"value stands. A configured one is enforced, on clones too. An option that Terraform has set and that leaves the " +
	"configuration is reset to PVE's default, and the plan shows it. Disks, CD-ROM drives and network devices are " +
	"maps keyed by PVE's slot (`scsi0`, `ide2`, `net0`); a device that the configuration never named is not " +
	"touched.\n\nNeeds Privileges: `VM.Allocate`, `VM.Audit`, `VM.PowerMgmt` and the `VM.Config.*` privileges of the " +
	"options that are set, on `/vms` or the pool; `Datastore.AllocateSpace` and `Datastore.Audit` on every storage " +
	"used; `SDN.Use` on the bridges; `VM.Clone` on a template; `VM.Backup` on a VM whose backup is restored."

// New is the schema of proxmox_vm.
func New(ctx context.Context) schema.Schema {
	attributes := map[string]schema.Attribute{}
	for _, part := range []map[string]schema.Attribute{
		placeAttributes(), generalAttributes(), behaviourAttributes(), hardwareAttributes(), groupAttributes(),
		deviceAttributes(),
		passthroughAttributes(), cloudInitAttributes(), firewallAttributes(), haAttributes(), lifecycleAttributes(ctx),
		computedAttributes(),
	} {
		maps.Copy(attributes, part)
	}
	return schema.Schema{MarkdownDescription: description, Attributes: withFacts(attributes)}
}

// placeAttributes say which VM it is, its place, and its source.
func placeAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"vmid": schema.Int64Attribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Id of the VM, 100 to 999999999, unique in the cluster. Default: a free " +
				"one (of the provider's `vmid_range`, if set), also with several applies at the same time. " +
				"A free id may have backups of an earlier VM, and a backup job with a retention removes them in time with those " +
				"of the new one: protect them, or keep the ranges apart. " +
				"A change replaces the VM. An id that is taken is an error.",
			Validators: []validator.Int64{kit.VMID()},
		},
		"node": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Node that runs the VM. Configured, it is enforced: a change migrates the " +
				"VM, and one that was moved by hand is moved back; a running VM online, with its local " +
				"disks, each to its `storage`. Not configured, the VM is followed. " +
				"Default: the template's node, or the only node of the cluster. Needs `VM.Migrate` to change.",
			Validators: []validator.String{kit.NodeName()},
		},
		"nodes": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Nodes that may run the VM, instead of `node`: it is made on, and if it is " +
				"on none of them migrated to, the first one that is online.",
			Validators: []validator.List{listvalidator.SizeAtLeast(1), listvalidator.UniqueValues(),
				listvalidator.ValueStringsAre(kit.NodeName())},
		},
		"clone": schema.SingleNestedAttribute{
			Optional: true,
			MarkdownDescription: "Make the VM as a clone of a template or another VM, named by one of " +
				"`vmid`, `name` and `tags`. Values that are not configured stay as the source has them. Needs `VM.Clone` on the " +
				"source. On an imported VM setting this only records it.",
			Attributes: cloneAttributes(),
		},
		"restore": schema.SingleNestedAttribute{
			Optional: true,
			MarkdownDescription: "Make the VM of a backup. Everything that is not configured is as it was backed up, except " +
				"for new MAC addresses, a new uuid, and `template`. Needs `VM.Backup` on the VM that was backed up. On a VM " +
				"that is there setting this only records it.",
			Attributes: restoreAttributes(),
		},
	}
}

func cloneAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"vmid": schema.Int64Attribute{Optional: true, Validators: []validator.Int64{kit.VMID()},
			MarkdownDescription: "Id of the source. A change replaces the VM."},
		"name": schema.StringAttribute{Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
			MarkdownDescription: "Name of the source, looked up when the VM is made; several VMs of that " +
				"name are an error, and a warning names those of which PVE does not know the name at the moment. A change " +
				"replaces the VM."},
		"tags": schema.SetAttribute{Optional: true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(kit.Tag())},
			MarkdownDescription: "Tags of the source, the one template that has all of them, looked up when " +
				"the VM is made. " +
				"A change replaces the VM."},
		"node": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.NodeName()},
			MarkdownDescription: "Node of the source. Default: looked up. Needed only to tell several templates of one name " +
				"apart."},
		"full": schema.BoolAttribute{Optional: true,
			MarkdownDescription: "`true`: copy the disks; `false`: linked clone, whose disks depend on the template's. " +
				"Default: PVE's, linked for templates and full for VMs. A change replaces the VM."},
		"snapshot": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.SnapshotName()},
			MarkdownDescription: "Snapshot of the source to clone. Default: its current state. A change replaces the VM."},
		"storage": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.StorageID()},
			MarkdownDescription: "Storage for all disks of a full clone. Default: each disk stays on the source's storage. " +
				"Not for linked clones."},
		"format": schema.StringAttribute{Optional: true,
			Validators: []validator.String{stringvalidator.OneOf("raw", "qcow2", "vmdk")},
			MarkdownDescription: "Image format of a full clone on a file storage: `raw`, `qcow2` or `vmdk`. Default: the " +
				"storage's. Not for linked clones."},
		"bwlimit": schema.Int64Attribute{Optional: true, Validators: []validator.Int64{int64validator.AtLeast(0)},
			MarkdownDescription: "Limit for copying, in KiB/s; 0 = none. Default: the datacenter's."},
		"source_vmid": schema.Int64Attribute{Computed: true,
			MarkdownDescription: "Id of the VM that was really cloned."},
	}
}

func restoreAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"archive": schema.StringAttribute{Required: true,
			Validators: []validator.String{kit.Printable(), stringvalidator.LengthBetween(1, 255)},
			MarkdownDescription: "The backup: a file of vzdump (`local:backup/vzdump-qemu-100-2026_01_01-00_00_00.vma.zst`), " +
				"or a snapshot on a Proxmox Backup Server (`pbs:backup/vm/100/2026-01-01T00:00:00Z`). A change replaces the VM."},
		"storage": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.StorageID()},
			MarkdownDescription: "Storage for all disks. Default: each disk's former one. `storage` in " +
				"`disks` moves a disk afterwards."},
		"bwlimit": schema.Int64Attribute{Optional: true, Validators: []validator.Int64{int64validator.AtLeast(0)},
			MarkdownDescription: "Limit for reading and writing, in KiB/s; 0 = none. Default: the datacenter's or the " +
				"storage's."},
	}
}

// generalAttributes describe the VM to people and to the cluster.
func generalAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.DNSName()},
			MarkdownDescription: "Name, a DNS name. It need not be unique. Cloud-init makes it the host name. Default: " +
				"none; PVE names a clone `Copy-of-VM-<source>`."},
		"description": schema.StringAttribute{Optional: true, Computed: true,
			Validators: []validator.String{stringvalidator.UTF8LengthAtMost(8192), kit.Printable(), storedText()},
			MarkdownDescription: "Notes, Markdown, at most 8192 characters. White space at the end does not " +
				"count. While the VM is being made it names the transaction."},
		"tags": schema.SetAttribute{Optional: true, Computed: true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.ValueStringsAre(kit.Tag())},
			MarkdownDescription: "Tags of this VM, beside the provider's `default_tags`. PVE ignores case " +
				"unless the datacenter's tag style says otherwise."},
		"pool": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.PoolID()},
			MarkdownDescription: "Resource pool that the VM belongs to; it must exist. Needs `Pool.Allocate` on it to " +
				"change later."},
		"onboot": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Start the VM when its node boots."},
		"protection": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Refuse to destroy the VM and to remove its disks, in Terraform too."},
		"template": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Convert the VM to a template, for good. A clone is a template only if " +
				"this says so. A change back to `false` replaces the VM."},
		"boot_order": schema.ListAttribute{Optional: true, Computed: true, ElementType: types.StringType,
			Validators: []validator.List{listvalidator.UniqueValues(), listvalidator.ValueStringsAre(bootDevice())},
			MarkdownDescription: "Devices to boot from, first one first: `[\"scsi0\", \"net0\"]`. An empty list: boot from " +
				"nothing. Default: the first disk, CD-ROM drive and network device that a new VM is made with. An order that " +
				"leaves the configuration becomes that default, for the devices of then. A disk that comes later is not in " +
				"it."},
	}
}

// computedAttributes are what only the server knows.
func computedAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"tags_all": schema.SetAttribute{Computed: true, ElementType: types.StringType,
			MarkdownDescription: "All tags that the VM has: `tags`, and the provider's `default_tags` if the provider " +
				"made the VM."},
		"id": schema.StringAttribute{Computed: true, MarkdownDescription: "The VMID as a text."},
		"uuid": schema.StringAttribute{Computed: true,
			MarkdownDescription: "SMBIOS uuid, which tells this VM from a later one under the same id."},
		"status": schema.StringAttribute{Computed: true, MarkdownDescription: "`running` or `stopped`."},
		"ipv4_address": schema.StringAttribute{Computed: true,
			MarkdownDescription: "First IPv4 address of the first network device (`net0` before `net1`) that has one; see " +
				"`addresses`."},
		"ipv6_address": schema.StringAttribute{Computed: true,
			MarkdownDescription: "First IPv6 address, likewise; global ones come before unique local ones (`fc00::/7`)."},
		"addresses": schema.MapNestedAttribute{Computed: true,
			MarkdownDescription: "Addresses by network device, as the guest agent reports them. Interfaces " +
				"of the guest with the MAC address of the device count, so its bridges, bonds and VLANs do, " +
				"and `docker0`, `veth…`, `virbr0` and tunnels do not, nor do loopback and link-local " +
				"addresses, nor those with a zone. 256 of a device and family are kept. They are IP addresses " +
				"and no other texts, but the guest's administrator chooses them. A refresh asks the agent " +
				"once. While it is silent, its last answer stands; null if the VM is stopped, has no agent, or the " +
				"agent has never answered.",
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"mac": schema.StringAttribute{Computed: true, MarkdownDescription: "MAC address of the device."},
				"ipv4": schema.ListAttribute{Computed: true, ElementType: types.StringType,
					MarkdownDescription: "IPv4 addresses, without prefix length, in the agent's order; known ones keep theirs."},
				"ipv6": schema.ListAttribute{Computed: true, ElementType: types.StringType,
					MarkdownDescription: "IPv6 addresses, likewise; global ones before unique local ones."},
			}}},
		"unused_volumes": schema.MapAttribute{Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Detached volumes of the VM: `{ unused0 = \"local-zfs:vm-101-disk-1\" }`. " +
				"`disks.*.imported_disk.volume` puts one into a slot again. Null if there are none."},
		"pending_changes": schema.ListAttribute{Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Options of PVE that were changed and wait for the next stop and start of the VM."},
	}
}
