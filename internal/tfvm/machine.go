package tfvm

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
)

// unpin puts the machine type as it is wished for, "q35", in the place of the version that PVE pins for it on Windows,
// "pc-q35-9.2+pve1" (qemu-server API2/Qemu.pm, create and change of ostype), so that the pin is no difference.
func unpin(wish, server tftypes.Value) tftypes.Value {
	machine := stringOf(tfplan.At(server, "machine"))
	if !isWindows(server) || !pins(stringOf(tfplan.At(wish, "machine")), machine) {
		return server
	}
	return replaceMachine(server, tfplan.At(wish, "machine"))
}

// pinned is the reverse for a configuration: what PVE has pinned already is what "q35" asks for.
func pinned(config, prior tftypes.Value) tftypes.Value {
	ostype := tfplan.At(config, "ostype")
	windows := ostype.IsKnown() && (strings.HasPrefix(stringOf(ostype), "w") || ostype.IsNull() && isWindows(prior))
	if !windows || !pins(stringOf(tfplan.At(config, "machine")), stringOf(tfplan.At(prior, "machine"))) {
		return config
	}
	return replaceMachine(config, tfplan.At(prior, "machine"))
}

func isWindows(v tftypes.Value) bool { return isWindowsType(stringOf(tfplan.At(v, "ostype"))) }

func isWindowsType(ostype string) bool { return strings.HasPrefix(ostype, "w") }

// pins reports whether a machine type is a version of the one that is wished for.
func pins(wish, machine string) bool {
	return wish == "q35" && strings.HasPrefix(machine, "pc-q35-") || wish == "pc" && strings.HasPrefix(machine, "pc-i440fx-")
}

func replaceMachine(v, machine tftypes.Value) tftypes.Value {
	attributes := map[string]tftypes.Value{}
	if v.As(&attributes) != nil || attributes == nil {
		return v
	}
	attributes["machine"] = machine
	return tftypes.NewValue(v.Type(), attributes)
}
