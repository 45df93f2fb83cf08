package vmschema

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// haAttributes are the VM's entry in the HA configuration (pve-ha-manager HA/Resources.pm).
func haAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"ha": optionGroup("Keep the VM running by PVE's high availability. The entry is made after the start and "+
			"removed before the destroy, or when it leaves the configuration; the VM then stays as it is. "+
			"Needs `Sys.Console` and `Sys.Audit` on `/`.",
			map[string]schema.Attribute{
				"state": textOption("`started`, `stopped`, `disabled` (stopped, and not moved when its node fails) or "+
					"`ignored` (HA does nothing). With `stopped` and `disabled` a new VM is not started, and HA shuts one down "+
					"that runs, hard after 60 seconds. Default: "+
					"`started`.",
					oneWord("started", "stopped", "disabled", "ignored")),
				"group": textOption("HA group, which says on what nodes the VM may run. Until PVE 8; PVE 9 has rules instead, "+
					"which `proxmox_ha_rule` makes. Default: none, all nodes.",
					stringvalidator.RegexMatches(mappingID, "must be the id of a group")),
				"max_restart": countOption("How often HA tries to start the VM on the same node. Default: 1.", atLeast(0)),
				"max_relocate": countOption("How often HA moves the VM to another node when it does not start. Default: 1.",
					atLeast(0)),
				"comment": textOption("A note at the entry.", stringvalidator.UTF8LengthBetween(1, 4096), kit.Printable()),
				"failback": flagOption("Move the VM back when a node that suits it better is there again. PVE 9.0 or later. " +
					"Default: `true`."),
			}),
	}
}
