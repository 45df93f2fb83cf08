package provider

import (
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
)

const description = "Virtual machines on Proxmox VE 8.0 and later. An apply makes a whole VM or nothing: a create " +
	"that fails is rolled back, and what cannot be removed is named with the command that removes it.\n\n" +
	"Every argument has an environment variable, so the provider block may be empty. An argument in the block wins over " +
	"its variable. Configuring the provider makes no request."

func providerSchema() schema.Schema {
	attributes := map[string]schema.Attribute{}
	maps.Copy(attributes, serverArguments())
	maps.Copy(attributes, limitArguments())
	maps.Copy(attributes, defaultArguments())
	attributes["ssh"] = schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "SSH to the nodes, optional. It is for operations that PVE's API does not offer, or only to " +
			"`root@pam` with a password: in a roll-back to unlock a half-made VM, and to free a volume without " +
			"`Datastore.Allocate`; `proxmox_snippet`; the action `proxmox_vm_unlock`; `import_from` of ISO content; " +
			"`imported_disk.sha256`. It counts as configured if this is set, or one of the variables for the user name, the " +
			"key or the agent.",
		Attributes: sshArguments(),
	}
	return schema.Schema{MarkdownDescription: description, Attributes: attributes}
}

func serverArguments() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"endpoint": schema.StringAttribute{Optional: true,
			MarkdownDescription: "URL of the API: `https://pve1.example.com:8006`. Any node of the cluster will do. Variable: " +
				"`PROXMOX_VE_ENDPOINT`."},
		"endpoints": schema.ListAttribute{Optional: true, ElementType: types.StringType,
			Validators: []validator.List{listvalidator.SizeAtLeast(1), listvalidator.NoNullValues(),
				listvalidator.ConflictsWith(path.MatchRoot("endpoint"))},
			MarkdownDescription: "Several nodes of one cluster instead of `endpoint`: `[\"https://pve1.example.com:8006\", " +
				"\"https://pve2.example.com:8006\"]`. " +
				"Requests go to the first that answers; when it fails they go on through the next, and stay there. No change is " +
				"ever sent twice. Endpoints of different clusters are refused. `ca_certificate`, `insecure` and the credentials " +
				"are those of all. Variable: `PROXMOX_VE_ENDPOINTS`, separated by commas."},
		"api_token": schema.StringAttribute{Optional: true, Sensitive: true,
			MarkdownDescription: "API token: `user@realm!name=uuid`. Instead of `username` and `password`; when the " +
				"environment has both, the token is used. Variable: `PROXMOX_VE_API_TOKEN`."},
		"username": schema.StringAttribute{Optional: true,
			MarkdownDescription: "User with realm: `root@pam`. Variable: `PROXMOX_VE_USERNAME`."},
		"password": schema.StringAttribute{Optional: true, Sensitive: true,
			MarkdownDescription: "Password of the user. Tickets are renewed before they expire. Variable: " +
				"`PROXMOX_VE_PASSWORD`."},
		"totp_secret": schema.StringAttribute{Optional: true, Sensitive: true,
			MarkdownDescription: "Secret of the user's TOTP second factor, base32, as shown when it was set up. PVE takes one " +
				"login in 30 seconds with it, so parallel runs need `api_token`. Variable: `PROXMOX_VE_TOTP_SECRET`."},
		"otp": schema.StringAttribute{Optional: true, Sensitive: true,
			MarkdownDescription: "One-time code of the second factor. It is good for one login only, such as that of " +
				"`terraform plan`. `terraform apply` logs in twice, to plan and to apply, also where it asks in between; " +
				"the apply of a saved plan needs another code than the plan. `totp_secret` is good for all. " +
				"Variable: `PROXMOX_VE_OTP`."},
		"ca_certificate": schema.StringAttribute{Optional: true,
			MarkdownDescription: "Certificates in PEM form to trust in addition to the system's: the content of the cluster's " +
				"`/etc/pve/pve-root-ca.pem`. Variable: `PROXMOX_VE_CA_CERTIFICATE`."},
		"insecure": schema.BoolAttribute{Optional: true,
			MarkdownDescription: "Do not verify the server's certificate. Default: `false`. Variable: `PROXMOX_VE_INSECURE`."},
		"min_tls": schema.StringAttribute{Optional: true, Validators: []validator.String{stringvalidator.OneOf("1.2", "1.3")},
			MarkdownDescription: "Lowest version of TLS: `1.2` (default) or `1.3`. Variable: `PROXMOX_VE_MIN_TLS`."},
	}
}

// defaultArguments are the defaults for attributes of VMs without configuration.
func defaultArguments() map[string]schema.Attribute {
	const rule = " It appears in the plan as if configured. It applies to new VMs and new devices only: an imported " +
		"or existing VM keeps its values. "
	return map[string]schema.Attribute{
		"default_tags": schema.SetAttribute{Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Tags of all VMs that the provider makes, in addition to their `tags`; `tags_all` is the " +
				"sum. A change of them is enforced on those VMs. A VM that was imported or moved here keeps its tags as they " +
				"are. A clone without `tags` has these in place of its source's. Variable: `PROXMOX_VE_DEFAULT_TAGS`, " +
				"separated by commas."},
		"default_node": schema.StringAttribute{Optional: true,
			MarkdownDescription: "Node of VMs without `node` and `nodes`." + rule + "Variable: `PROXMOX_VE_DEFAULT_NODE`."},
		"default_storage": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.StorageID()},
			MarkdownDescription: "Storage of disks, EFI disk, TPM state and cloud-init drive without `storage`; not for " +
				"disks that a clone takes from its source." + rule + "Variable: `PROXMOX_VE_DEFAULT_STORAGE`."},
		"default_bridge": schema.StringAttribute{Optional: true,
			MarkdownDescription: "Bridge of network devices without `bridge`; not of those that a clone takes from its source." +
				rule +
				"Variable: `PROXMOX_VE_DEFAULT_BRIDGE`."},
		"default_pool": schema.StringAttribute{Optional: true,
			MarkdownDescription: "Pool of VMs without `pool`." + rule + "Variable: `PROXMOX_VE_DEFAULT_POOL`."},
	}
}

func limitArguments() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"vmid_range": schema.SingleNestedAttribute{Optional: true,
			MarkdownDescription: "Range that automatic VMIDs are taken from. Default: PVE's own range (datacenter option " +
				"`next-id`). Variable: `PROXMOX_VE_VMID_RANGE`, in the form `1000-1999`.",
			Attributes: map[string]schema.Attribute{
				"min": schema.Int64Attribute{Required: true, Validators: []validator.Int64{kit.VMID()},
					MarkdownDescription: "Lowest id, at least 100."},
				"max": schema.Int64Attribute{Required: true, Validators: []validator.Int64{kit.VMID()},
					MarkdownDescription: "Highest id, inclusive."},
			}},
		"request_timeout": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.PositiveDuration()},
			MarkdownDescription: "Time for one request with its answer, not for the task that it starts: `60s` (default). " +
				"Variable: `PROXMOX_VE_REQUEST_TIMEOUT`."},
		"exclusive_storages": schema.SetAttribute{Optional: true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.ValueStringsAre(kit.StorageID())},
			MarkdownDescription: "Shared storages that no other cluster uses. On any other shared storage, a volume without " +
				"a guest may belong to a guest of another cluster. It is not destroyed (`on_orphaned_volumes`), and " +
				"`proxmox_orphans` lists it as `unknown`. Default: none. Variable: `PROXMOX_VE_EXCLUSIVE_STORAGES`, separated " +
				"by commas."},
		"max_requests": schema.Int64Attribute{Optional: true, Validators: []validator.Int64{int64validator.Between(1, 256)},
			MarkdownDescription: "Requests under way at the same time. Default: 16. Variable: `PROXMOX_VE_MAX_REQUESTS`."},
		"plan_only": schema.BoolAttribute{Optional: true,
			MarkdownDescription: "Another identity applies what this one plans, as with a read-only token on pull requests. " +
				"Plans do not check the identity's own privileges, its SSH access and whether it is root; one warning says so. " +
				"Every change is refused before a request is sent. Default: `false`. Variable: `PROXMOX_VE_PLAN_ONLY`."},
		"restart_parallelism": schema.Int64Attribute{Optional: true, Validators: []validator.Int64{int64validator.AtLeast(1)},
			MarkdownDescription: "Guests that are down at the same time through updates of an apply: those that restart for a " +
				"change, and those that shut down. A guest that restarts counts until its agent answers, within " +
				"`wait_for.timeout` (`5m`), or, without an agent that answered before, until it has run for 30 " +
				"seconds. If one does not come back, no other guest is restarted or shut down, and the error names it. Guests " +
				"that are replaced or destroyed do not count. Default: no limit but that of `terraform apply -parallelism`. " +
				"Variable: `PROXMOX_VE_RESTART_PARALLELISM`."},
	}
}

func sshArguments() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"username": schema.StringAttribute{Optional: true,
			MarkdownDescription: "User on the nodes. Default: `root`. Another user, such as `terraform`, needs the sudo rule `" +
				ssh.SudoRule + "`. The [permissions guide](guides/permissions.md#the-sudo-rule) says which parts can be left " +
				"out; with `qm set` or `sftp-server` the user is root in effect. Variable: `PROXMOX_VE_SSH_USERNAME`."},
		"private_key": schema.StringAttribute{Optional: true, Sensitive: true,
			MarkdownDescription: "Private key without passphrase, PEM or OpenSSH form. Variable: `PROXMOX_VE_SSH_PRIVATE_KEY`."},
		"private_key_file": schema.StringAttribute{Optional: true,
			MarkdownDescription: "File with the private key, instead of `private_key`. Variable: " +
				"`PROXMOX_VE_SSH_PRIVATE_KEY_FILE`."},
		"agent": schema.BoolAttribute{Optional: true,
			MarkdownDescription: "Use the keys of the SSH agent. Default: `false`. Variable: `PROXMOX_VE_SSH_AGENT`."},
		"agent_socket": schema.StringAttribute{Optional: true,
			MarkdownDescription: "Socket of the agent. Default: `SSH_AUTH_SOCK`. Variable: `PROXMOX_VE_SSH_AUTH_SOCK`."},
		"port": schema.Int64Attribute{Optional: true, Validators: []validator.Int64{int64validator.Between(1, 65535)},
			MarkdownDescription: "Port of the nodes' SSH server. Default: 22. Variable: `PROXMOX_VE_SSH_PORT`."},
		"known_hosts": schema.StringAttribute{Optional: true,
			MarkdownDescription: "Content of a `known_hosts` file. Host keys that are in none are refused. Variable: " +
				"`PROXMOX_VE_SSH_KNOWN_HOSTS`."},
		"known_hosts_file": schema.StringAttribute{Optional: true,
			MarkdownDescription: "The file itself. Default: `~/.ssh/known_hosts`, when neither `known_hosts` nor " +
				"`host_key_fingerprint` is set. Variable: `PROXMOX_VE_SSH_KNOWN_HOSTS_FILE`."},
		"host_key_fingerprint": schema.StringAttribute{Optional: true,
			MarkdownDescription: "Fingerprints of host keys to accept, `SHA256:…` as `ssh-keygen -l` prints them, separated " +
				"by commas. Variable: `PROXMOX_VE_SSH_HOST_KEY_FINGERPRINT`."},
		"bastion": schema.SingleNestedAttribute{Optional: true,
			MarkdownDescription: "Host to jump through. Its key is verified like a node's.",
			Attributes: map[string]schema.Attribute{
				"host": schema.StringAttribute{Optional: true, MarkdownDescription: "Name or address. Variable: " +
					"`PROXMOX_VE_SSH_BASTION_HOST`."},
				"port": schema.Int64Attribute{Optional: true, Validators: []validator.Int64{int64validator.Between(1, 65535)},
					MarkdownDescription: "Port. Default: 22. Variable: `PROXMOX_VE_SSH_BASTION_PORT`."},
				"username": schema.StringAttribute{Optional: true,
					MarkdownDescription: "User. Default: that of the nodes. Variable: `PROXMOX_VE_SSH_BASTION_USERNAME`."},
				"private_key": schema.StringAttribute{Optional: true, Sensitive: true,
					MarkdownDescription: "Private key. Default: that of the nodes. Variable: `PROXMOX_VE_SSH_BASTION_PRIVATE_KEY`."},
			}},
		"nodes": schema.MapNestedAttribute{Optional: true,
			MarkdownDescription: "Addresses of nodes by name, where PVE's own answer is not the right one. Default: the " +
				"endpoint's host where the cluster has one node, else the address that PVE knows of the node (`GET " +
				"/cluster/status`, with `Sys.Audit` on `/`), else the node's name. Variable: `PROXMOX_VE_SSH_NODES`, in the form " +
				"`pve1=10.0.0.1,pve2=10.0.0.2:2222`, an IPv6 address with a port as `[fd00::2]:2222`; the block wins. Before " +
				"each command the host is asked for its name (`uname -n`), and nothing runs on a host that is not the node.",
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"address": schema.StringAttribute{Required: true, MarkdownDescription: "Name or address."},
				"port": schema.Int64Attribute{Optional: true, Validators: []validator.Int64{int64validator.Between(1, 65535)},
					MarkdownDescription: "Port. Default: `ssh.port`."},
			}}},
	}
}
