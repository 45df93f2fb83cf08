package vmschema

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// cloudInitAttributes are the cloud-init drive, what it says, and the password, which stands outside because a
// write-only attribute cannot live in a computed one.
func cloudInitAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"cloud_init": schema.SingleNestedAttribute{Optional: true, Computed: true,
			MarkdownDescription: "The cloud-init drive, which PVE writes at every start. A running guest reads a change at " +
				"its next start: the plan says so, and no apply restarts it for that. The drive itself needs " +
				"`VM.Config.Cloudinit` and `VM.Config.CDROM`. PVE makes the instance-id of user data and network data: " +
				"of `name`, `user`, password, `ssh_keys`, `upgrade`, `addresses`, DNS and MAC addresses. After a change of " +
				"one of them cloud-init takes the guest for a new instance at its next start. It makes new SSH host keys and " +
				"runs per-instance scripts again. A snippet in `custom.meta` with a fixed instance-id prevents that.",
			Attributes: cloudInitGroup()},
		"cloud_init_password_wo": schema.StringAttribute{Optional: true, WriteOnly: true, Sensitive: true,
			Validators: []validator.String{secretLine()},
			MarkdownDescription: "Password of the cloud-init user, in no state. PVE gets a salted SHA-512 " +
				"hash of it, except for Windows, when the VM is made and when " +
				"`cloud_init_password_wo_version` changes."},
		"cloud_init_password_wo_version": schema.Int64Attribute{Optional: true,
			MarkdownDescription: "Any number; a change of it sends `cloud_init_password_wo` again. " +
				"A running guest reads it at its next start, as the plan says."},
		"cloud_init_trigger": schema.StringAttribute{Optional: true,
			MarkdownDescription: "Any text, such as `proxmox_snippet.web.sha256`: a change from one to " +
				"another writes the cloud-init drive of a running VM again, for its next boot, with the " +
				"snippets in `cloud_init.custom` as they are. The VM is not restarted."},
	}
}

func cloudInitGroup() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"storage": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.StorageID()},
			MarkdownDescription: "Storage of the drive. Required, except for a clone of a source that has a cloud-init drive."},
		"slot": schema.StringAttribute{Optional: true, Computed: true,
			Validators:          []validator.String{slotName(wantCDROM, CDROMBuses()...)},
			MarkdownDescription: "Slot of the drive. Default: the template's, or `ide2`."},
		"format": schema.StringAttribute{Optional: true, Computed: true,
			Validators:          []validator.String{stringvalidator.OneOf("raw", "qcow2")},
			MarkdownDescription: "Image format of the drive on a file storage. Default: the storage's."},
		"type": schema.StringAttribute{Optional: true, Computed: true,
			Validators:          []validator.String{stringvalidator.OneOf("nocloud", "configdrive2", "opennebula")},
			MarkdownDescription: "Format of the data: `nocloud`, `configdrive2`, `opennebula`."},
		"user": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.ConfigLine()},
			MarkdownDescription: "User to set up. Default: the image's own."},
		"ssh_keys": schema.ListAttribute{Optional: true, Computed: true, ElementType: types.StringType,
			Validators:          []validator.List{listvalidator.ValueStringsAre(sshKey())},
			MarkdownDescription: "Public SSH keys for the user, one an element."},
		"nameservers": schema.ListAttribute{Optional: true, Computed: true, ElementType: types.StringType,
			Validators:          []validator.List{listvalidator.ValueStringsAre(ipAddress())},
			MarkdownDescription: "Name servers."},
		"searchdomain": schema.StringAttribute{Optional: true, Computed: true,
			Validators:          []validator.String{kit.ConfigLine()},
			MarkdownDescription: "Search domain."},
		"upgrade": schema.BoolAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Upgrade the packages at the first boot."},
		"addresses": schema.MapNestedAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Addresses by network device (`net0`). A device without an entry is left unconfigured by PVE.",
			Validators:          []validator.Map{mapvalidator.KeysAre(slotName(wantNIC, "net"))},
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"ipv4": schema.StringAttribute{Optional: true, Computed: true,
					Validators:          []validator.String{networkAddress(false, false, "dhcp", "manual")},
					MarkdownDescription: "IPv4 address with prefix length, `10.0.0.5/24`, `dhcp` or `manual`."},
				"gateway4": schema.StringAttribute{Optional: true, Computed: true,
					Validators:          []validator.String{networkAddress(false, true)},
					MarkdownDescription: "IPv4 gateway. Only with an address in `ipv4`."},
				"ipv6": schema.StringAttribute{Optional: true, Computed: true,
					Validators:          []validator.String{networkAddress(true, false, "auto", "dhcp", "manual")},
					MarkdownDescription: "IPv6 address with prefix length, `auto` (SLAAC), `dhcp` or `manual`."},
				"gateway6": schema.StringAttribute{Optional: true, Computed: true,
					Validators:          []validator.String{networkAddress(true, true)},
					MarkdownDescription: "IPv6 gateway. Only with an address in `ipv6`."},
			}}},
		"custom": schema.SingleNestedAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Snippets in the place of whole documents that PVE generates; ids of " +
				"volumes of content type `snippets` on the node. With `user` the attributes `user`, " +
				"`ssh_keys` and the password have no effect.",
			Attributes: map[string]schema.Attribute{
				"user":    snippet("user data"),
				"network": snippet("network configuration"),
				"meta":    snippet("meta data"),
				"vendor":  snippet("vendor data"),
			}},
		"volume": schema.StringAttribute{Computed: true, MarkdownDescription: "Id of the drive's volume."},
	}
}

func snippet(what string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.VolumeID()},
		MarkdownDescription: "Snippet with the " + what + ": `local:snippets/u.yaml`."}
}
