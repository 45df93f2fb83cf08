package tfvm

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// noteFailed notes for the plan what a refresh knows of a VM of which something was left.
func (r *Resource) noteFailed(vmid int, private privateState) {
	if private.Proof != nil || len(private.Residues) > 0 {
		r.run.noteFailed(vmid, failedVM{Identity: private.Identity, Residues: private.Residues, Proof: private.Proof})
	}
}

// passFailed writes them into the plan of a new VM.
func (r *Run) passFailed(ctx context.Context, out keyWriter) diag.Diagnostics {
	var diags diag.Diagnostics
	failed := r.allFailed()
	if len(failed) == 0 {
		return diags
	}
	raw, err := json.Marshal(failed)
	if err != nil {
		diags.AddError("Cannot note what is left of VMs", err.Error())
		return diags
	}
	return out.SetKey(ctx, keyFailed, raw)
}

// restoreFailed gives a destroy back what it is not handed, and notes it again, since the state keeps what the destroy says.
func (m *privateState) restoreFailed(ctx context.Context, vmid int, store interface {
	keyReader
	keyWriter
}) diag.Diagnostics {
	raw, diags := store.GetKey(ctx, keyFailed)
	if len(raw) == 0 || m.Proof != nil || !m.Identity.IsZero() {
		return diags
	}
	var failed map[int]failedVM
	if err := json.Unmarshal(raw, &failed); err != nil {
		diags.AddError("Private state is damaged", "The provider cannot read what it noted under "+keyFailed+": "+err.Error())
		return diags
	}
	if was, ok := failed[vmid]; ok {
		m.Identity, m.Residues, m.Proof = was.Identity, was.Residues, was.Proof
		diags.Append(m.write(ctx, store)...)
	}
	return diags
}
