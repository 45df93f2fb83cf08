package disk

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
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

// accepted is the VM of a disk that is changed. Terraform never changes a tainted object, so the user has untainted the
// leftover of a failed create, and it is an ordinary disk from then on.
func accepted(ctx context.Context, ref guest.Ref, to kit.PrivateWriter) (guest.Ref, diag.Diagnostics) {
	if ref.Proof == nil {
		return ref, nil
	}
	if ref.Identity.IsZero() {
		ref.Identity = ref.Proof.Identity
	}
	ref.Proof = nil
	return ref, keyProof.Write(ctx, to, nil)
}
