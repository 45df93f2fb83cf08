package disk

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/disk"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// model is proxmox_disk in configuration, plan and state.
type model struct {
	VMID        types.Int64       `tfsdk:"vmid"`
	Node        types.String      `tfsdk:"node"`
	Storage     types.String      `tfsdk:"storage"`
	Size        types.String      `tfsdk:"size"`
	Format      types.String      `tfsdk:"format"`
	Name        types.String      `tfsdk:"name"`
	Description types.String      `tfsdk:"description"`
	Pool        types.String      `tfsdk:"pool"`
	Volume      types.String      `tfsdk:"volume"`
	UUID        types.String      `tfsdk:"uuid"`
	Timeouts    *kit.OpenTimeouts `tfsdk:"timeouts"`
}

func (m *model) vmid() int { return int(m.VMID.ValueInt64()) }

// thing is the disk in words, for messages.
func (m *model) thing() string {
	if m.vmid() == 0 {
		return "disk on storage " + m.Storage.ValueString()
	}
	return fmt.Sprintf("disk of VM %d", m.vmid())
}

// bytes returns a configured size in bytes. A validator has refused what does not parse.
func bytes(size types.String) int64 {
	n, _ := property.ParseSize(size.ValueString())
	return n
}

// wanted returns the planned disk.
func (m *model) wanted() disk.Wanted {
	return disk.Wanted{Node: m.Node.ValueString(), Storage: m.Storage.ValueString(), Format: m.Format.ValueString(),
		Size: bytes(m.Size),
		Name: m.Name.ValueString(), Description: m.Description.ValueString(), Pool: m.Pool.ValueString()}
}

// request returns the part of a plan that the server can check: what has changed. The apply checks whether the VMID is
// free, because it may have to replace this disk.
func (m *model) request(was model) preflight.Request {
	q := preflight.Request{Creating: was.VMID.IsNull(), Node: m.Node.ValueString(), Storages: map[string]string{},
		ID: m.vmid()}
	if !m.Storage.IsUnknown() && !(m.Storage.Equal(was.Storage) && m.Node.Equal(was.Node)) {
		q.Storages["storage"] = m.Storage.ValueString()
	}
	if !m.Storage.IsUnknown() && m.Format.ValueString() != "" && !(m.Format.Equal(was.Format) &&
		m.Storage.Equal(was.Storage)) {
		q.Formats = []preflight.Format{{Path: "format", Storage: m.Storage.ValueString(), Format: m.Format.ValueString()}}
	}
	if !m.Pool.Equal(was.Pool) {
		q.Pool = m.Pool.ValueString()
	}
	if q.Creating {
		q.Planned = m.wanted().Spec("")
		return q
	}
	q.Prior, q.Planned = disk.Change(was.known(), m.wanted())
	q.ID = was.vmid()
	if q.Pool != "" || m.Pool.IsNull() {
		q.LeftPool = was.Pool.ValueString()
	}
	moves := !m.Node.IsUnknown() && !m.Node.Equal(was.Node)
	if moves {
		q.Moving = &preflight.Moving{From: was.Node.ValueString()}
	}
	if at := "size"; moves || bytes(m.Size) > bytes(was.Size) { // package disk asks who uses the disk
		if moves {
			at = "node"
		}
		q.Takes = seeAll(at, &was)
	}
	return q
}

// removal is what the server can be asked about the end of a disk. A leftover of a failed create has none in state.
func (m *model) removal() preflight.Request {
	q := preflight.Request{Removing: true, ID: m.vmid(), Who: "destroy " + m.thing()}
	if volume := m.Volume.ValueString(); volume != "" {
		q.Takes = append(seeAll("", m),
			preflight.Take{What: "lift the protection of the VM that holds the disk", On: fmt.Sprintf("/vms/%d", m.vmid()),
				AnyOf: []string{"VM.Config.Options"}},
			preflight.Take{Path: "storage", What: "see whether the disk is gone", On: "/storage/" + volid.Storage(volume),
				AnyOf: []string{"Datastore.Audit", "Datastore.AllocateSpace"}})
	}
	return q
}

// seeAll are the privileges to tell whether another guest uses the disk.
func seeAll(at string, m *model) []preflight.Take {
	return preflight.SeeAll(at, "tell whether another guest uses the "+m.thing())
}

// ref returns the VM that holds the disk in state.
func (m *model) ref() guest.Ref {
	return guest.Ref{VMID: m.vmid(), Node: m.Node.ValueString(), Identity: guest.Identity{UUID: m.UUID.ValueString()}}
}

// unmarked is the description in state of a VM whose notes do not say any more that it holds a disk. No configuration
// can have it.
const unmarked = ""

// known returns the disk in state.
func (m *model) known() disk.Disk {
	return disk.Disk{VMID: m.vmid(), Node: m.Node.ValueString(), Identity: guest.Identity{UUID: m.UUID.ValueString()},
		Volume: m.Volume.ValueString(), Format: m.Format.ValueString(), Size: bytes(m.Size), Name: m.Name.ValueString(),
		Description: m.Description.ValueString(), Pool: m.Pool.ValueString(),
		Marked: m.Description.IsNull() || m.Description.ValueString() != unmarked}
}

// set sets the model to the disk as the server has it.
func (m *model) set(d disk.Disk) {
	text := func(s string) types.String { return types.StringPointerValue(kit.NonZero(s)) }
	m.VMID, m.Node = types.Int64Value(int64(d.VMID)), types.StringValue(d.Node)
	m.Name, m.Description, m.Pool = text(d.Name), text(d.Description), text(d.Pool)
	if !d.Marked {
		m.Description = types.StringValue(unmarked)
	}
	m.Volume, m.Format, m.Storage = text(d.Volume), text(d.Format), text(d.Storage())
	if d.Volume == "" {
		m.Size = types.StringNull()
	} else if bytes(m.Size) != d.Size { // otherwise the configured notation stays
		m.Size = types.StringValue(property.FormatSize(d.Size))
	}
	if d.Identity.UUID != "" {
		m.UUID = types.StringValue(d.Identity.UUID)
	}
}

// leave sets the model to the leftover of a failed create. Its uuid stays null: another run of the same create may
// complete the VM, which keeps the uuid. So the proof in private state tells whether it is still the leftover.
func (m *model) leave(c create.Created) {
	m.VMID, m.Node = types.Int64Value(int64(c.Guest.VMID)), types.StringValue(c.Guest.Node)
	m.Volume, m.UUID = types.StringNull(), types.StringNull()
	if m.Format.IsUnknown() {
		m.Format = types.StringNull()
	}
}

// locator finds attributes. All but those of the drive have the name of PVE's parameter.
type locator struct{}

// Parameter returns the attribute behind a parameter of PVE's API.
func (locator) Parameter(name string) (path.Path, bool) {
	return locator{}.Attribute(name)
}

// Attribute returns the path of an attribute.
func (locator) Attribute(name string) (path.Path, bool) {
	switch name {
	case "vmid", "node", "storage", "size", "format", "name", "description", "pool":
		return path.Root(name), true
	case vm.HolderSlot:
		return path.Root("storage"), true
	case "disks." + vm.HolderSlot + ".storage", "disks." + vm.HolderSlot + ".size", "disks." + vm.HolderSlot + ".format":
		return path.Root(name[len("disks."+vm.HolderSlot+"."):]), true
	}
	return path.Empty(), false
}
