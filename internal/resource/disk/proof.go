package disk

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/disk"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

const (
	// keyProof is what a failed create that left something knew of its own VM.
	keyProof kit.Note[*guest.Proof] = "proof"
	// keyFailed are such proofs on the way from the plan of a new disk to the destroy of a tainted one, by VMID. Terraform
	// plans the replacement of a tainted object without its private state, and gives the destroy what that plan wrote.
	keyFailed kit.Note[map[int]*guest.Proof] = "failed"
)

// withProof adds the proof in private state to the VM of a disk in state.
func withProof(ctx context.Context, ref guest.Ref, private kit.PrivateReader) (guest.Ref, diag.Diagnostics) {
	var diags diag.Diagnostics
	ref.Proof, diags = keyProof.Read(ctx, private)
	if ref.Proof != nil || !ref.Identity.IsZero() {
		return ref, diags
	}
	failed, more := keyFailed.Read(ctx, private)
	ref.Proof = failed[ref.VMID]
	return ref, append(diags, more...)
}

// nameSnapshots names the snapshots of the VM that a failed create has left and that were not named, and notes them in
// its proof. The destroy goes by that: it refuses others.
func (r *Resource) nameSnapshots(ctx context.Context, ref guest.Ref, out kit.PrivateWriter) (*guest.Proof,
	diag.Diagnostics) {
	proof, diags := *ref.Proof, diag.Diagnostics{}
	taken, err := r.Session.VMs.SnapshotsOf(ctx, ref)
	use := proof.NewSnapshots(taken)
	if err != nil || use == "" { // the destroy asks again
		return ref.Proof, nil
	}
	proof.Snapshots = taken
	diags.AddWarning(fmt.Sprintf("Others have worked with VM %d, which holds a disk", ref.VMID), fmt.Sprintf("Its create "+
		"has failed, and %s. A destroy, and the replacement of the tainted disk, destroy both all the same. `terraform "+
		"untaint` with its address keeps the disk.", use))
	return &proof, append(diags, keyProof.Write(ctx, out, &proof)...)
}

// isLost reports whether nothing tells which VM is meant, but for one that still bears the mark of its create: the
// state of a leftover has no uuid, and its proof is lost where the provider was killed while it changed or destroyed
// that.
func isLost(ref guest.Ref) bool { return ref.Proof == nil && ref.Identity.IsZero() }

// isUnproven reports whether kit.Unproven holds: nothing tells which VM is meant.
func isUnproven(ctx context.Context, ref guest.Ref, private kit.PrivateReader) (bool, diag.Diagnostics) {
	lost, diags := kit.Unproven.Read(ctx, private)
	return lost && isLost(ref), diags
}

// refuseUnproven refuses to change such a disk.
func (r *Resource) refuseUnproven(ctx context.Context, private kit.PrivateReader, state *model) diag.Diagnostics {
	ref, diags := withProof(ctx, state.ref(), private)
	if isLost(ref) {
		diags.Append(kit.RefuseUnproven(r.attempt("change", state)))
	}
	return diags
}

// accept notes that the leftover of a failed create is an ordinary disk from now on, unless the update that was to make
// it one has failed before it did. Terraform never changes a tainted object, so its user has untainted it.
func accept(ctx context.Context, ref guest.Ref, now disk.Disk, failed error, to kit.PrivateWriter) (
	isLeftover bool, diags diag.Diagnostics) {
	var step *saga.StepError
	if isLeftover = failed != nil && !(errors.As(failed, &step) && now.Marked); ref.Proof == nil || isLeftover {
		return isLeftover && ref.Proof != nil, nil
	}
	return false, keyProof.Write(ctx, to, nil)
}

// exposed are the warnings of a refresh for a disk whose VM PVE would remove, or back up with the disk. The next update
// takes both back.
func exposed(d disk.Disk) (diags diag.Diagnostics) {
	if !d.Protected {
		diags.AddWarning(fmt.Sprintf("VM %d is not protected", d.VMID),
			fmt.Sprintf("It holds the disk %s, and removing it in PVE's interface would destroy the disk. A third party has "+
				"switched its protection off, or a destroy that did not end. The next apply that changes the disk switches it on "+
				"again; `qm set %d --protection 1` on node %s does so now.", d.Volume, d.VMID, d.Node))
	}
	if d.BackedUp {
		diags.AddWarning(fmt.Sprintf("A backup of VM %d opens the disk that it holds", d.VMID),
			fmt.Sprintf("Its %s has no backup=0. For a backup of that VM PVE would open %s a second time while another VM runs "+
				"with it. The next apply that changes the disk sets the option again. A backup of the VM that has the disk "+
				"attached contains it.", vm.HolderSlot, d.Volume))
	}
	return diags
}
