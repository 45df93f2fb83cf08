package snapshot

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/snapshot"
)

// model is proxmox_vm_snapshot in configuration, plan and state.
type model struct {
	VMID        types.Int64       `tfsdk:"vmid"`
	Name        types.String      `tfsdk:"name"`
	Description types.String      `tfsdk:"description"`
	VMState     types.Bool        `tfsdk:"vmstate"`
	Node        types.String      `tfsdk:"node"`
	UUID        types.String      `tfsdk:"uuid"`
	SnapTime    types.Int64       `tfsdk:"snaptime"`
	Parent      types.String      `tfsdk:"parent"`
	Timeouts    *kit.OpenTimeouts `tfsdk:"timeouts"`
}

// set sets the model to the snapshot as the server has it.
func (m *model) set(s snapshot.Snapshot) {
	m.Description, m.VMState = types.StringPointerValue(kit.NonZero(s.Description)), types.BoolValue(s.Memory)
	m.Node = types.StringValue(s.Node)
	if !strings.EqualFold(m.UUID.ValueString(), s.VM.UUID) || m.UUID.IsUnknown() { // else the configured letters stay
		m.UUID = types.StringPointerValue(kit.NonZero(s.VM.UUID))
	}
	m.SnapTime, m.Parent = types.Int64Value(s.Taken), types.StringPointerValue(kit.NonZero(s.Parent))
}

func (m *model) vmid() int { return int(m.VMID.ValueInt64()) }

// wanted is the snapshot to be taken.
func (m *model) wanted() snapshot.Wanted {
	return snapshot.Wanted{VMID: m.vmid(), UUID: m.UUID.ValueString(), Name: m.Name.ValueString(),
		Description: m.Description.ValueString(), Memory: m.VMState.ValueBool()}
}

// replaces reports whether a plan whose name is known takes a new snapshot in the place of the one in state.
func (m *model) replaces(prior *model) bool {
	return !m.Name.IsUnknown() && !m.VMID.IsUnknown() && (m.vmid() != prior.vmid() || !m.Name.Equal(prior.Name) ||
		!m.VMState.IsUnknown() && !m.VMState.Equal(prior.VMState) ||
		!m.UUID.IsUnknown() && !strings.EqualFold(m.UUID.ValueString(), prior.UUID.ValueString()))
}

// ref returns the snapshot in state.
func (m *model) ref() snapshot.Ref {
	identity := guest.Identity{UUID: strings.ToLower(m.UUID.ValueString())}
	return snapshot.Ref{Name: m.Name.ValueString(), Taken: m.SnapTime.ValueInt64(),
		VM: guest.Ref{VMID: m.vmid(), Node: m.Node.ValueString(), Identity: identity}}
}

// locator finds attributes. All but the name have the name of PVE's parameter.
type locator struct{}

// Parameter returns the attribute behind a parameter of PVE's API.
func (locator) Parameter(name string) (path.Path, bool) {
	if name == "snapname" {
		name = "name"
	}
	return locator{}.Attribute(name)
}

// Attribute returns the path of an attribute.
func (locator) Attribute(name string) (path.Path, bool) {
	switch name {
	case "vmid", "name", "description", "vmstate", "uuid":
		return path.Root(name), true
	}
	return path.Empty(), false
}
