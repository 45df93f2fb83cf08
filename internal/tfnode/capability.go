package tfnode

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// capability is something that PVE can do from a release on.
type capability struct {
	name         string
	major, minor int
	what         string
}

// capabilities are what follows from the version of a node; releases by the changelogs of qemu-server, pve-storage and
// pve-manager. A feature can be there earlier on an updated node of the release before.
func capabilities() []capability {
	return []capability{
		{"download_url", 7, 0, "The node downloads images itself (`download-url`)."},
		{"import_from", 7, 2, "Disks can be imported from a volume when they are made (`import-from`)."},
		{"cloud_init_upgrade", 8, 0, "`ciupgrade`."},
		{"resource_mappings", 8, 0, "PCI and USB devices by mapping."},
		{"sdn_permissions", 8, 0, "Bridges are subject to `SDN.Use`."},
		{"memory_property_string", 8, 1, "`memory` is a property string."},
		{"nested_pools", 8, 1, "Resource pools in pools."},
		{"esxi_import", 8, 2, "Storages of type ESXi."},
		{"overrule_shutdown", 8, 2, "A stop can take the place of a shutdown that hangs."},
		{"import_content", 8, 3, "Storages with content `import` (OVA)."},
		{"amd_sev", 8, 3, "`amd-sev`."},
		{"node_ha_state", 8, 3, "The maintenance state of nodes is in the cluster's listing."},
		{"import_disk_images", 8, 4, "`import` takes qcow2, raw and vmdk images."},
		{"message_body", 8, 4, "Errors have a `message` in the body."},
		{"virtiofs", 8, 4, "`virtiofs`."},
		{"guest_agent_privileges", 9, 0, "`VM.GuestAgent.*` take the place of `VM.Monitor`."},
		{"ha_rules", 9, 0, "HA rules take the place of HA groups."},
		{"ha_managed_on_create", 9, 1, "`ha-managed` when a VM is made."},
		{"allow_ksm", 9, 1, "`allow-ksm`."},
		{"intel_tdx", 9, 1, "`intel-tdx`."},
	}
}

func capabilityAttributes() map[string]schema.Attribute {
	all := map[string]schema.Attribute{}
	for _, c := range capabilities() {
		all[c.name] = tfkit.ComputedBool(fmt.Sprintf("%s From PVE %d.%d on.", c.what, c.major, c.minor))
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

// capabilitiesOf says what a node of this version can do; null when the version is not known.
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
