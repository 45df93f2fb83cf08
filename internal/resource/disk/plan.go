package disk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// planChange plans the change of an existing disk, and reports whether the disk moves. It never plans a replacement,
// which would be an empty disk.
func planChange(plan *model, state model) (moves bool, diags diag.Diagnostics) {
	refuse := func(at, text string) { diags.AddAttributeError(path.Root(at), "Cannot change "+state.thing(), text) }
	switch {
	case state.Volume.IsNull():
		refuse("storage", fmt.Sprintf("VM %d does not have it in scsi0 any more: a third party has detached or moved it. "+
			"It was not "+
			"touched. Attach it again, or remove the resource from the state (terraform state rm) and from the configuration.",
			state.vmid()))
	case !plan.VMID.IsUnknown() && !plan.VMID.Equal(state.VMID):
		refuse("vmid", "The VM that holds the disk keeps its id. Another proxmox_disk is another, empty disk: remove this "+
			"one from the configuration, or leave vmid as it is. Where count has another disk at this index by now, move each "+
			"disk to the address with its vmid: moved { from = OLD, to = NEW }, or `terraform state mv OLD NEW`. "+
			kit.ToDestroyAll+".")
	case !plan.Size.IsUnknown() && bytes(plan.Size) < bytes(state.Size):
		refuse("size", fmt.Sprintf("It has %s, and PVE shrinks no disk. Write size = %q.", state.Size.ValueString(),
			state.Size.ValueString()))
	}
	moves = !plan.Node.Equal(state.Node) || !plan.Storage.Equal(state.Storage) || !plan.Format.Equal(state.Format)
	plan.UUID, plan.Volume = state.UUID, state.Volume
	if moves {
		plan.Volume = types.StringUnknown()
	}
	return moves, diags
}

// keyGrown is the size before a third party grew the disk.
const keyGrown kit.Note[string] = "grown"

// noteGrown records that a refresh finds the disk larger than the state has it. A plan refuses a size that the
// configuration lowers. It must not refuse an unchanged size: a disk that a third party has grown would stop every
// plan, and its destroy.
func noteGrown(ctx context.Context, from kit.PrivateReader, to kit.PrivateWriter, was,
	is types.String) diag.Diagnostics {
	noted, diags := keyGrown.Read(ctx, from)
	if noted == "" && bytes(was) > 0 && bytes(is) > bytes(was) {
		diags.Append(keyGrown.Write(ctx, to, was.ValueString())...)
	}
	return diags
}

// keepGrown plans the present size if the configuration still has the size before a third party grew the disk.
func keepGrown(ctx context.Context, from kit.PrivateReader, to kit.PrivateWriter, plan *model,
	state model) diag.Diagnostics {
	noted, diags := keyGrown.Read(ctx, from)
	switch {
	case noted == "" || plan.Size.IsUnknown():
	case bytes(plan.Size) == bytes(types.StringValue(noted)) && bytes(plan.Size) < bytes(state.Size):
		diags.AddAttributeWarning(path.Root("size"), fmt.Sprintf("The %s has %s, not %s", state.thing(),
			state.Size.ValueString(), noted),
			fmt.Sprintf("It has grown outside Terraform, and PVE shrinks no disk: it stays as it is. Write size = %q, or "+
				"ignore its size with lifecycle { ignore_changes = [size] }.", state.Size.ValueString()))
		plan.Size = state.Size
	default: // the configuration has a size of its own now
		diags.Append(keyGrown.Write(ctx, to, "")...)
	}
	return diags
}

// keepUnconfigured plans attributes without configuration as they are. A new storage may have another format. A value
// that the configuration takes from another resource may be another one, and stays unknown.
func keepUnconfigured(plan *model, state, config model) {
	if config.VMID.IsNull() {
		plan.VMID = state.VMID
	}
	if config.Node.IsNull() {
		plan.Node = state.Node
	}
	if config.Format.IsNull() && plan.Storage.Equal(state.Storage) {
		plan.Format = state.Format
	}
}

// warnOfDestroy names what goes with the disk: a VM holds it, and that may have snapshots and be in jobs.
func (r *Resource) warnOfDestroy(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
	state *model) diag.Diagnostics {
	ref, diags := withProof(ctx, state.ref(), req.Private)
	if ref.Proof != nil { // of an object without configuration Terraform notes no refresh
		_, more := r.nameSnapshots(ctx, ref, resp.Private)
		return append(diags, more...)
	}
	going := kit.Going{Along: r.Session.VMs.Disks.TakesAlong(ctx, ref, state.known()), Thing: holder(state.vmid()),
		Removed: r.run.SnapshotsGo(state.vmid())}
	return append(diags, going.Warn(ctx, resp.Private)...)
}

// holder is the VM that holds a disk in words.
func holder(vmid int) string { return fmt.Sprintf("VM %d, which holds a disk,", vmid) }

// warnUnshown names what goes with the disks that no plan was shown when that of a new one began, nor is at its end:
// Terraform shows no plan the state of a tainted disk. A disk that is not tainted is shown right after its refresh.
func (r *Resource) warnUnshown(ctx context.Context, unshown []int) (diags diag.Diagnostics) {
	for _, vmid := range unshown {
		if !slices.Contains(r.Session.VMs.Disks.Unshown(), vmid) {
			continue
		}
		diags.Append(kit.Going{Along: r.Session.VMs.Disks.UnshownTakes(ctx, vmid), Thing: holder(vmid)}.WarnUnshown(vmid)...)
	}
	return diags
}

// meetOthers holds what becomes of a disk in state against the other plans of the run: it may be in state twice.
func (r *Resource) meetOthers(ctx context.Context, private kit.PrivateReader, state *model,
	goes bool) diag.Diagnostics {
	ref, diags := withProof(ctx, state.ref(), private)
	if diags.HasError() || ref.Proof != nil {
		return diags
	}
	object := fmt.Sprintf("disk %d %s", ref.VMID, strings.ToLower(ref.Identity.UUID))
	return append(diags, kit.RefuseSplit(r.Session, object, state.thing(), state.thing(), goes)...)
}

// warnRenamed warns of a disk that is destroyed, while one like it is made under another address: a block or key was
// renamed without a moved block. The second of the two plans says so.
func (r *Resource) warnRenamed(m *model, fate, other kit.Fate, diags *diag.Diagnostics) {
	like := fmt.Sprintf("disk like %s %s %d %s", m.Node.ValueString(), m.Storage.ValueString(), bytes(m.Size),
		m.Name.ValueString())
	partner := kit.Pair(r.Session, like, m.thing(), fate, other)
	if m.vmid() != 0 {
		partner = cmp.Or(kit.Pair(r.Session, fmt.Sprintf("disk with VMID %d", m.vmid()), m.thing(), fate, other), partner)
	}
	if partner == "" {
		return
	}
	goes := m.thing()
	if fate == kit.Comes {
		goes = partner
	}
	diags.AddWarning("The "+goes+" is destroyed, and one like it is made under another address",
		"Another proxmox_disk of the same plan has its vmid, or its node, storage, size and name. That disk is empty, and "+
			"the data of this one goes with it. If only the block or its key was renamed, as from count to for_each, a block "+
			"moved { from = OLD, to = NEW } keeps the disk. The plan has both addresses.")
}
