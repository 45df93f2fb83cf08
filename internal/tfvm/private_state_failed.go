package tfvm

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// noteFailed notes for the plan what a refresh knows of a VM of which something was left.
func (r *Resource) noteFailed(vmid int, private privateState) {
	if private.Proof != nil || len(private.Residues) > 0 {
		r.run.noteFailed(vmid, failedVM{Identity: private.Identity, Residues: private.Residues, Proof: private.Proof})
	}
}

// passFailed writes them into the plan of a new VM.
func (r *Run) passFailed(ctx context.Context, out tfkit.PrivateWriter) diag.Diagnostics {
	failed := r.allFailed()
	if len(failed) == 0 {
		return nil
	}
	return tfkit.Note[map[int]failedVM](keyFailed).Write(ctx, out, failed)
}

// restoreFailed gives a destroy back what it is not handed, and notes it again, since the state keeps what the destroy says.
func (m *privateState) restoreFailed(ctx context.Context, vmid int, store interface {
	tfkit.PrivateReader
	tfkit.PrivateWriter
}) diag.Diagnostics {
	if m.Proof != nil || !m.Identity.IsZero() {
		return nil
	}
	failed, diags := tfkit.Note[map[int]failedVM](keyFailed).Read(ctx, store)
	if was, ok := failed[vmid]; ok {
		m.Identity, m.Residues, m.Proof = was.Identity, was.Residues, was.Proof
		diags.Append(m.write(ctx, store)...)
	}
	return diags
}
