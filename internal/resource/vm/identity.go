package vm

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// identity is the resource identity. Only the VMID is kept in it, since a VM keeps nothing else for life; node and uuid
// are what an import holds the VM against.
type identity struct {
	VMID *int64  `tfsdk:"vmid"`
	Node *string `tfsdk:"node"`
	UUID *string `tfsdk:"uuid"`
}

// IdentitySchema is the shape of the resource identity, which Terraform knows since 1.12.
func (r *Resource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest,
	resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"vmid": identityschema.Int64Attribute{RequiredForImport: true, Description: "VMID of the VM."},
		"node": identityschema.StringAttribute{OptionalForImport: true,
			Description: "Node that the VM is on. An import of a VM on another node is refused. It is not kept: a VM may move."},
		"uuid": identityschema.StringAttribute{OptionalForImport: true,
			Description: "SMBIOS uuid of the VM. An import of a VM with another one is refused. It is not kept."},
	}}
}

// identify writes the identity of a VM. A Terraform that knows none sends none and is told none.
func identify(ctx context.Context, of *tfsdk.ResourceIdentity, vmid *int64) diag.Diagnostics {
	if of == nil || model.Value(vmid) == 0 {
		return nil
	}
	return of.Set(ctx, identity{VMID: vmid})
}

// wanted is the VM that an import asks for.
type wanted struct {
	vmid       int
	node, uuid string
}

// toImport is the VM that an import asks for, by its identity or by its id.
func toImport(ctx context.Context, req resource.ImportStateRequest) (w wanted, diags diag.Diagnostics) {
	if req.ID == "" && req.Identity != nil && !req.Identity.Raw.IsNull() {
		var asked identity
		if diags = req.Identity.Get(ctx, &asked); diags.HasError() {
			return w, diags
		}
		vmid := model.Value(asked.VMID)
		if vmid < kit.MinVMID || vmid > kit.MaxVMID {
			diags.AddAttributeError(path.Root("vmid"), fmt.Sprintf("Cannot import VM %d", vmid),
				fmt.Sprintf("A VMID is a number from %d to %d.", kit.MinVMID, kit.MaxVMID))
		}
		return wanted{vmid: int(vmid), node: model.Value(asked.Node), uuid: model.Value(asked.UUID)}, diags
	}
	var ok bool
	if w.node, w.vmid, ok = parseID(req.ID); !ok {
		diags.AddError("Cannot import "+strconv.Quote(req.ID),
			"The id of a VM is its VMID, or its node and its VMID: \"100\", \"pve1/100\".")
	}
	return w, diags
}

// refuse is why a VM is not the one that an import asks for; nil where it is.
func (w wanted) refuse(found guest.Guest) error {
	if err := holdsDisk(found); err != nil {
		return err
	}
	if w.uuid == "" || strings.EqualFold(w.uuid, found.Identity.UUID) {
		return nil
	}
	has := "none"
	if found.Identity.UUID != "" {
		has = found.Identity.UUID
	}
	return fmt.Errorf("VM %d on node %s is not the one that the identity describes: its uuid is %s, not %s. Correct "+
		"uuid or vmid, or leave uuid out", w.vmid, found.Node, has, w.uuid)
}

// holdsDisk refuses to take over the VM of a proxmox_disk: it would have two resources, and the destroy of either
// takes the disk along.
func holdsDisk(found guest.Guest) error {
	if _, holds := vm.HolderText(model.Value(found.Spec.Description)); !holds {
		return nil
	}
	return fmt.Errorf("VM %d on node %s only holds the disk of a proxmox_disk for other VMs. Import it as a "+
		"proxmox_disk; a proxmox_vm takes over none of these", found.VMID, found.Node)
}

// parseID takes an import id apart.
func parseID(id string) (node string, vmid int, ok bool) {
	number := id
	if before, after, found := strings.Cut(id, "/"); found {
		if before == "" {
			return "", 0, false
		}
		node, number = before, after
	}
	vmid, err := strconv.Atoi(number)
	return node, vmid, err == nil && vmid >= kit.MinVMID && vmid <= kit.MaxVMID && strconv.Itoa(vmid) == number
}
