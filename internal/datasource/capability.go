package datasource

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/diskimport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// capability is an ability of PVE that came with a release.
type capability struct {
	name         string
	major, minor int
	what         string
	source       string // the package with its version; the place in its source, and the commit
}

// capabilities returns the abilities that follow from the version of a node. An updated node of the previous release
// may have one earlier.
func capabilities() []capability {
	return []capability{
		{"download_url", 7, 0, "The node downloads images itself (`download-url`).",
			"pve-storage 7.0-4: API2/Storage/Status.pm, download_url (837b194)"},
		{"import_from", 7, 2, "Disks can be imported from a volume when they are made (`import-from`).",
			"qemu-server 7.1-5: API2/Qemu.pm, create_disks (e6ac9fed)"},
		{"cloud_init_upgrade", 8, 0, "`ciupgrade`.",
			"qemu-server 8.0.2: QemuServer.pm, confdesc (efa3355d)"},
		{"resource_mappings", 8, 0, "PCI and USB devices by mapping.",
			"qemu-server 8.0.4: QemuServer/PCI.pm (9b71c34d)"},
		{"sdn_permissions", 8, 0, "Bridges are subject to `SDN.Use`.",
			"qemu-server 8.0.2: API2/Qemu.pm, check_bridge_access (9cfd06d9)"},
		{"memory_property_string", 8, 1, "`memory` is a property string.",
			"qemu-server 8.0.8: QemuServer/Memory.pm, memory (7f8c8087)"},
		{"nested_pools", 8, 1, "Resource pools in pools.",
			"pve-access-control 8.0.7: AccessControl.pm, verify_poolname (e7224f6)"},
		{"esxi_import", diskimport.ESXiStorages().Major, diskimport.ESXiStorages().Minor, "Storages of type ESXi.",
			diskimport.ESXiStorages().Source},
		{"overrule_shutdown", 8, 2, "A stop can take the place of a shutdown that hangs.",
			"qemu-server 8.1.2: API2/Qemu.pm, vm_stop (50b5893b)"},
		{"import_content", diskimport.ImportContent().Major, diskimport.ImportContent().Minor,
			"Storages with content `import` (OVA).",
			diskimport.ImportContent().Source},
		{"amd_sev", 8, 3, "`amd-sev`.",
			"qemu-server 8.2.7: QemuServer.pm, confdesc (5d7288a4)"},
		{"node_ha_state", 8, 3, "The maintenance state of nodes is in the cluster's listing.",
			"pve-manager 8.2.9: API2/Cluster.pm, resources (993d05ab)"},
		{"import_disk_images", diskimport.ImportImages().Major, diskimport.ImportImages().Minor,
			"`import` takes qcow2, raw and vmdk images.",
			diskimport.ImportImages().Source},
		{"message_body", 8, 4, "Errors have a `message` in the body.",
			"pve-http-server 5.2.0: APIServer/Formatter/Standard.pm, prepare_response_data (9a2112e)"},
		{"virtiofs", 8, 4, "`virtiofs`.",
			"qemu-server 8.3.11: QemuServer/Virtiofs.pm (87b22e38)"},
		{"guest_agent_privileges", 9, 0, "`VM.GuestAgent.*` take the place of `VM.Monitor`.",
			"pve-access-control 9.0.2: AccessControl.pm, VM.GuestAgent.* (922f710)"},
		{"ha_rules", 9, 0, "HA rules take the place of HA groups.",
			"pve-ha-manager 5.0.2: API2/HA/Rules.pm (1bc1db5)"},
		{"ha_managed_on_create", 9, 1, "`ha-managed` when a VM is made.",
			"qemu-server 9.0.24: API2/Qemu.pm, create_vm (14823177)"},
		{"allow_ksm", 9, 1, "`allow-ksm`.",
			"qemu-server 9.0.27: QemuServer.pm, confdesc (ae91d137)"},
		{"intel_tdx", 9, 1, "`intel-tdx`.",
			"qemu-server 9.0.25: QemuServer/CPUConfig.pm, tdx_fmt (db96e126)"},
	}
}

func capabilityAttributes() map[string]schema.Attribute {
	all := map[string]schema.Attribute{}
	for _, c := range capabilities() {
		all[c.name] = kit.ComputedBool(fmt.Sprintf("%s From PVE %d.%d on.", c.what, c.major, c.minor))
	}
	return all
}

func capabilityTypes() map[string]attr.Type {
	all := map[string]attr.Type{}
	for _, c := range capabilities() {
		all[c.name] = types.BoolType
	}
	return all
}

// capabilitiesOf returns the abilities of a version; null if the version is unknown.
func capabilitiesOf(v pve.Version) types.Object {
	if v.Major == 0 {
		return types.ObjectNull(capabilityTypes())
	}
	all := map[string]attr.Value{}
	for _, c := range capabilities() {
		all[c.name] = types.BoolValue(v.AtLeast(c.major, c.minor))
	}
	return types.ObjectValueMust(capabilityTypes(), all)
}
