package model

import (
	"context"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// FailedVM is what the destroy of a tainted VM must know and Terraform does not hand it: it plans the replacement as
// that of a new VM, without state and private state, and gives the destroy what that plan wrote. So the plan passes on
// what the refresh before it, in the same process, has seen. The VMID in state tells which is meant.
type FailedVM struct {
	Identity guest.Identity
	Residues []saga.Residue `json:",omitempty"`
	Proof    *guest.Proof   `json:",omitempty"`
	// These are those of PrivateState: the disks that the plan knows.
	Others   map[string]string `json:",omitzero"` // empty: a refresh has seen that there are none
	Added    map[string]string `json:",omitempty"`
	Sizes    map[string]int64  `json:",omitempty"`
	Detached []string          `json:",omitempty"`
	Astray   guest.Astray      `json:",omitzero"`
}

// IsFailed reports whether a create or a destroy of the VM has left something. Else it is a VM like others.
func (f FailedVM) IsFailed() bool { return f.Proof != nil || len(f.Residues) > 0 }

// Failed is what a refresh knows of a VM for its destroy. seen is its identity on the server, zero if it was not read.
func (p PrivateState) Failed(seen guest.Identity) FailedVM {
	f := FailedVM{Identity: p.Identity, Residues: p.Residues, Proof: p.Proof, Others: p.Others, Sizes: p.Sizes,
		Added: p.Added, Detached: p.Detached, Astray: p.Astray}
	if p.Proof == nil && !seen.IsZero() {
		f.Identity = seen
	}
	return f
}

// RestoreFailed gives a destroy back what it is not handed, and notes it again, since the state keeps what the destroy
// says. Of a VM that has not failed it is not noted which values were configured.
func (p *PrivateState) RestoreFailed(ctx context.Context, vmid int, store interface {
	kit.PrivateReader
	kit.PrivateWriter
}) diag.Diagnostics {
	if p.Proof != nil || !p.Identity.IsZero() {
		return nil
	}
	failed, diags := kit.Note[map[int]FailedVM](KeyFailed).Read(ctx, store)
	was, ok := failed[vmid]
	if !ok {
		return diags
	}
	p.Identity, p.Residues, p.Proof = was.Identity, was.Residues, was.Proof
	p.Others, p.Sizes, p.Added, p.Detached = was.Others, was.Sizes, was.Added, was.Detached
	p.Astray = was.Astray
	diags.Append(kit.Note[guest.Astray](KeyAstray).Write(ctx, store, p.Astray)...)
	if was.IsFailed() {
		diags.Append(p.Write(ctx, store)...)
	} else {
		diags.Append(writeIdentity(ctx, store, p.Identity)...)
	}
	diags.Append(kit.Note[map[string]string](KeyOthers).Write(ctx, store, p.Others)...)
	diags.Append(kit.Note[map[string]int64](KeySizes).Write(ctx, store, p.Sizes)...)
	diags.Append(kit.Note[[]string](KeyDetached).Write(ctx, store, p.Detached)...)
	return append(diags, kit.Note[map[string]string](KeyAdded).Write(ctx, store, p.Added)...)
}

// OwnMark takes the mark of a create in the description of a VM in state for a value that this resource has set. So a
// plan resets it like any such value that is not configured. Terraform shows no plan the state of a tainted VM, so the
// user has untainted this one. While it bears the mark it counts as a leftover of its create: the next create of the
// same request completes it, and rolls it back where that fails.
func (p *PrivateState) OwnMark(state *Model) {
	if ownership.IsMark(Value(state.Description)) {
		p.Managed["description"] = true
	}
}

// Accepted is what is known of a VM in state once it is an ordinary one. Terraform replaces a tainted resource and
// never updates it, so the user has untainted one that is updated and that a failed create has left.
func (p PrivateState) Accepted(vmid int) PrivateState {
	if p.Proof == nil {
		return p
	}
	if p.Identity.IsZero() {
		p.Identity = p.Proof.Identity
	}
	p.Proof = nil
	p.Residues = slices.DeleteFunc(slices.Clone(p.Residues), func(r saga.Residue) bool {
		return r.Kind == "guest" && r.ID == strconv.Itoa(vmid)
	})
	return p
}

// leftover is the proof that the VM must still be what a failed create has left, as state knows it.
func (p PrivateState) leftover(state Model) *guest.Proof {
	if p.Proof == nil || !ownership.IsMark(Value(state.Description)) {
		return p.Proof
	}
	return p.Proof.SeenMarked()
}

// Accept notes that a VM which a failed create has left is an ordinary one. From then on a destroy obeys its protection
// and asks its guest, as that of any VM does, and no longer takes back a create. An update that fails while the VM
// bears the mark leaves it that of a failed create.
func (p *PrivateState) Accept(ctx context.Context, vmid int, out kit.PrivateWriter) diag.Diagnostics {
	if p.Proof == nil {
		return nil
	}
	*p = p.Accepted(vmid)
	diags := kit.Note[*guest.Proof](KeyProof).Write(ctx, out, nil)
	diags.Append(writeIdentity(ctx, out, p.Identity)...)
	return append(diags, WriteResidues(ctx, out, p.Residues)...)
}

// IsUnproven reports whether kit.Unproven holds: nothing tells which VM is meant. Of one that was read and has no
// identity that is noted, and an update may give it one.
func (p PrivateState) IsUnproven() bool {
	return p.Unproven && p.Proof == nil && p.Identity == guest.Identity{}
}

// IsLost reports whether the private state of a VM without a uuid in state is lost, as where the provider was killed
// while it changed or destroyed the leftover of a failed create. Nothing tells which VM is meant, but for one that
// still bears the mark of its create: no other run has completed that.
func (m *Model) IsLost(private PrivateState) bool {
	return private.Lost && m.UUID == nil && private.Proof == nil && private.Identity == guest.Identity{} &&
		private.Moved == nil
}

// Recover makes a proof of the mark that the VM of such a state bears. Without it a later destroy would take the VM of
// another run, which has completed it since, for this one.
func (p *PrivateState) Recover(ctx context.Context, out kit.PrivateWriter, m *Model, found guest.Guest,
) diag.Diagnostics {
	if !m.IsLost(*p) {
		return nil
	}
	p.Proof = found.Leftover
	return kit.Note[*guest.Proof](KeyProof).Write(ctx, out, p.Proof)
}

// HideUUID keeps the uuid of a VM that a failed create has left out of the state: the proof alone tells whose the VM
// is. A destroy that is not handed it then finds nothing to go by.
func (p PrivateState) HideUUID(ctx context.Context, state *tfsdk.State) diag.Diagnostics {
	if p.Proof == nil {
		return nil
	}
	return state.SetAttribute(ctx, path.Root("uuid"), (*string)(nil))
}
