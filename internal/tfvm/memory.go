package tfvm

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
)

// The keys of private state.
const (
	keyManaged  = "managed"  // attribute paths that the configuration of the last create or update set
	keyIdentity = "identity" // what proves that the VM is still ours
	keyResidues = "residues" // what an undo or a destroy could not remove
	keyProof    = "proof"    // what a failed create that left something knew of what is its own
	keyFailed   = "failed"   // on the way from the plan of a new VM to the destroy of a tainted one: what is known of those that failed
	keySilent   = "silent"   // the guest agent did not answer the last refresh
	keyGone     = "gone"     // the last refresh found no VM any more, only what a destroy left of it
	keyReplaces = "replaces" // on the way from the first plan of a replacement to the second: the VMID replaced
)

type keyReader interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

type keyWriter interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// memory is what the provider keeps about a VM beside its state.
type memory struct {
	Managed  tfplan.Managed
	Identity provision.Identity
	Residues []provision.Residue
	Proof    *provision.Proof
	Replaces int
	Silent   bool
	Gone     bool
}

// recall reads the memory. What is missing is zero.
func recall(ctx context.Context, private keyReader) (memory, diag.Diagnostics) {
	var m memory
	var diags diag.Diagnostics
	read := func(key string, parse func([]byte) error) {
		raw, found := private.GetKey(ctx, key)
		diags.Append(found...)
		if len(raw) == 0 || string(raw) == "null" {
			return
		}
		if err := parse(raw); err != nil {
			diags.AddError("Private state is damaged", "The provider cannot read what it noted under "+key+" about this VM: "+err.Error())
		}
	}
	m.Managed = tfplan.Managed{}
	read(keyManaged, func(raw []byte) (err error) { m.Managed, err = tfplan.ParseManaged(raw); return err })
	read(keyIdentity, func(raw []byte) error { return json.Unmarshal(raw, &m.Identity) })
	read(keyResidues, func(raw []byte) error { return json.Unmarshal(raw, &m.Residues) })
	read(keyProof, func(raw []byte) error { return json.Unmarshal(raw, &m.Proof) })
	read(keySilent, func(raw []byte) error { return json.Unmarshal(raw, &m.Silent) })
	read(keyGone, func(raw []byte) error { return json.Unmarshal(raw, &m.Gone) })
	read(keyReplaces, func(raw []byte) error { return json.Unmarshal(raw, &m.Replaces) })
	return m, diags
}

// note writes the memory of a VM that was just created, adopted or recognised.
func (m memory) note(ctx context.Context, private keyWriter) diag.Diagnostics {
	var diags diag.Diagnostics
	diags.Append(private.SetKey(ctx, keyManaged, m.Managed.JSON())...)
	diags.Append(noteResidues(ctx, private, m.Residues)...)
	diags.Append(noteIdentity(ctx, private, m.Identity)...)
	if m.Proof == nil {
		return diags
	}
	proof, err := json.Marshal(m.Proof)
	if err != nil {
		diags.AddError("Cannot note what proves that a VM is ours", err.Error())
		return diags
	}
	diags.Append(private.SetKey(ctx, keyProof, proof)...)
	return diags
}

// noteIdentity writes the identity alone.
func noteIdentity(ctx context.Context, private keyWriter, identity provision.Identity) diag.Diagnostics {
	raw, err := json.Marshal(identity)
	if err != nil {
		var diags diag.Diagnostics
		diags.AddError("Cannot note the identity of a VM", err.Error())
		return diags
	}
	return private.SetKey(ctx, keyIdentity, raw)
}

// noteAgent writes whether the agent of a guest that was asked answered, where that is news. A silent agent costs the node a
// worker for seconds, so those that are known for it are asked last.
func noteAgent(ctx context.Context, private keyWriter, guest provision.Guest, kept memory) diag.Diagnostics {
	switch {
	case guest.Silent && !kept.Silent:
		return private.SetKey(ctx, keySilent, []byte("true"))
	case guest.Interfaces != nil && kept.Silent:
		return private.SetKey(ctx, keySilent, []byte("false"))
	}
	return nil
}

// noteGone writes whether the VM itself is gone while something of it is left, where that is news.
func noteGone(ctx context.Context, private keyWriter, gone bool, kept memory) diag.Diagnostics {
	if gone == kept.Gone {
		return nil
	}
	return private.SetKey(ctx, keyGone, []byte(strconv.FormatBool(gone)))
}

// noteResidues writes the residues alone.
func noteResidues(ctx context.Context, private keyWriter, left []provision.Residue) diag.Diagnostics {
	if left == nil {
		left = []provision.Residue{}
	}
	raw, err := json.Marshal(left)
	if err != nil {
		var diags diag.Diagnostics
		diags.AddError("Cannot note what is left of a VM", err.Error())
		return diags
	}
	return private.SetKey(ctx, keyResidues, raw)
}
