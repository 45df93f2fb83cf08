package vmschema

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/float64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// behaviourAttributes are the single options about how the VM starts, runs and moves (qemu-server QemuServer.pm
// $confdesc).
func behaviourAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"startup": optionGroup("When the node starts and stops the VM in relation to others.", map[string]schema.Attribute{
			"order": countOption("Position, 0 or more: lower ones start first and stop last.", atLeast(0)),
			"up":    countOption("Seconds to wait before the next VM is started.", atLeast(0)),
			"down":  countOption("Seconds that the VM has to shut down when the node does.", atLeast(0)),
		}),
		"hookscript": textOption("Script that the node runs before and after starting and stopping the VM, "+
			"a snippet: `local:snippets/hook.pl`. It takes effect at once.", kit.VolumeID()),
		"autostart": flagOption("Restart after a crash. PVE stores it and ignores it."),
		"acpi":      flagOption("ACPI: without it the guest cannot be asked to shut down."),
		"kvm":       flagOption("Hardware virtualisation by KVM; `false` emulates the processor, slowly."),
		"tablet": flagOption("A USB tablet as pointing device: the console's pointer is where the guest's " +
			"is."),
		"localtime": flagOption("The clock of the VM shows local time instead of UTC."),
		"tdf":       flagOption("Fix drifts of the clock by catching up lost ticks (old Windows)."),
		"reboot":    flagOption("Let the guest reboot; `false`: the VM ends instead."),
		"freeze":    flagOption("Start with the processor halted, for a debugger, until `cont` is sent to the monitor."),
		"keyboard": textOption("Layout of the keyboard in the VNC console, such as `de` or `en-us`.",
			oneWord("de", "de-ch", "da", "en-gb", "en-us", "es", "fi", "fr", "fr-be", "fr-ca", "fr-ch", "hu", "is", "it", "ja",
				"lt", "mk", "nl",
				"no", "pl", "pt", "pt-br", "sv", "sl", "tr")),
		"hotplug": schema.SetAttribute{Optional: true, Computed: true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.ValueStringsAre(oneWord("disk", "network", "usb", "cpu", "memory",
				"cloudinit"))},
			MarkdownDescription: "What can be changed while the VM runs: `disk`, `network`, `usb`, `cpu`, `memory` (with " +
				"`cpu.numa`), `cloudinit`. An empty set: nothing."},
		"startdate": textOption("Time that the clock of the VM has at its start: `now`, `2006-06-17` or "+
			"`2006-06-17T16:01:21`.",
			stringvalidator.RegexMatches(startDate, "must be now, a date such as 2006-06-17, or a date and time such as "+
				"2006-06-17T16:01:21")),
		"vmstatestorage": textOption("Storage for the memory of a hibernated VM and of snapshots.", kit.StorageID()),
		"migrate_downtime": decimalOption("Seconds that the VM may stand still at the end of a live migration.",
			float64validator.AtLeast(0)),
		"migrate_speed": countOption("Limit of a live migration in MB/s; 0 = none.", atLeast(0)),
		"args": textOption("Arguments added to QEMU's command line, unchecked; a VM with some may fail to "+
			"migrate.", kit.ConfigLine()),
		"arch": textOption("Architecture of the processor: `x86_64` or `aarch64` (emulated on an x86 node).",
			oneWord("x86_64", "aarch64")),
		"vmgenid": textOption("Generation id, by which a guest notices that it was restored or cloned: a "+
			"UUID, `1` (PVE makes one, the default) or `0` (none).",
			stringvalidator.RegexMatches(generationID, "must be a UUID, 1 or 0")),
	}
}
