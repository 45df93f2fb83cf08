package tfvm

import (
	"context"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
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
	keyGrown    = "grown"    // the sizes that disks had in state before somebody else grew them, by slot
	keyMoved    = "moved"    // the state came from another provider, and the server was not asked since; null: it was
	keyReplaces = "replaces" // on the way from the first plan of a replacement to the second: the VMID replaced
)

// privateState is what the provider keeps about a VM beside its state.
type privateState struct {
	Managed  tfplan.Managed
	Identity guest.Identity
	Residues []tx.Residue
	Proof    *guest.Proof
	Replaces int
	Silent   bool
	Gone     bool
	Grown    map[string]string
	Moved    *moved
	// Lost: there is a state, and nothing that was noted beside it. Terraform writes none when a provider is killed in an update
	// (terraform internal/terraform, node_resource_abstract_instance.go, apply: the private data of an answer that never came).
	Lost bool
}

// readPrivateState reads it. What is missing is zero.
func readPrivateState(ctx context.Context, private tfkit.PrivateReader) (privateState, diag.Diagnostics) {
	m, diags := privateState{Managed: tfplan.Managed{}}, diag.Diagnostics{}
	raw, found := private.GetKey(ctx, keyManaged)
	m.Lost = len(raw) == 0
	if diags.Append(found...); !m.Lost {
		managed, err := tfplan.ParseManaged(raw)
		if err != nil {
			diags.AddError("Private state is damaged", "The provider cannot read what it noted under "+keyManaged+": "+err.Error())
		}
		m.Managed = managed
	}
	readNote(ctx, private, keyIdentity, &m.Identity, &diags)
	readNote(ctx, private, keyResidues, &m.Residues, &diags)
	readNote(ctx, private, keyProof, &m.Proof, &diags)
	readNote(ctx, private, keySilent, &m.Silent, &diags)
	readNote(ctx, private, keyGone, &m.Gone, &diags)
	readNote(ctx, private, keyGrown, &m.Grown, &diags)
	readNote(ctx, private, keyMoved, &m.Moved, &diags)
	readNote(ctx, private, keyReplaces, &m.Replaces, &diags)
	return m, diags
}

func readNote[T any](ctx context.Context, private tfkit.PrivateReader, key tfkit.Note[T], into *T, diags *diag.Diagnostics) {
	value, found := key.Read(ctx, private)
	*into = value
	diags.Append(found...)
}

// write writes that of a VM that was just created, adopted or recognised.
func (m privateState) write(ctx context.Context, out tfkit.PrivateWriter) diag.Diagnostics {
	var diags diag.Diagnostics
	diags.Append(out.SetKey(ctx, keyManaged, m.Managed.JSON())...)
	diags.Append(writeResidues(ctx, out, m.Residues)...)
	diags.Append(writeIdentity(ctx, out, m.Identity)...)
	if m.Proof != nil {
		diags.Append(tfkit.Note[*guest.Proof](keyProof).Write(ctx, out, m.Proof)...)
	}
	return diags
}

// noteIdentity writes the identity of the VM in state as it was seen now, where that is news: a change of its uuid gives it another.
func (m privateState) noteIdentity(ctx context.Context, out tfkit.PrivateWriter, seen guest.Identity) diag.Diagnostics {
	if seen.IsZero() || m.Identity.Matches(seen) {
		return nil
	}
	return writeIdentity(ctx, out, seen)
}

// writeIdentity writes the identity alone.
func writeIdentity(ctx context.Context, out tfkit.PrivateWriter, identity guest.Identity) diag.Diagnostics {
	return tfkit.Note[guest.Identity](keyIdentity).Write(ctx, out, identity)
}

// writeAgent writes whether the agent of a guest that was asked answered, where that is news. A silent agent costs the node a
// worker for seconds, so those that are known for it are asked last.
func writeAgent(ctx context.Context, out tfkit.PrivateWriter, guest guest.Guest, private privateState) diag.Diagnostics {
	switch {
	case guest.Silent && !private.Silent:
		return out.SetKey(ctx, keySilent, []byte("true"))
	case guest.Interfaces != nil && private.Silent:
		return out.SetKey(ctx, keySilent, []byte("false"))
	}
	return nil
}

// writeGone writes whether the VM itself is gone while something of it is left, where that is news.
func writeGone(ctx context.Context, out tfkit.PrivateWriter, gone bool, private privateState) diag.Diagnostics {
	if gone == private.Gone {
		return nil
	}
	return out.SetKey(ctx, keyGone, []byte(strconv.FormatBool(gone)))
}

// writeReplaced tells the second plan of a replacement, which knows no prior state, what is replaced.
func writeReplaced(ctx context.Context, out tfkit.PrivateWriter, prior model) diag.Diagnostics {
	return tfkit.Note[int64](keyReplaces).Write(ctx, out, value(prior.VMID))
}

// writeResidues writes the residues alone.
func writeResidues(ctx context.Context, out tfkit.PrivateWriter, left []tx.Residue) diag.Diagnostics {
	if left == nil {
		left = []tx.Residue{}
	}
	return tfkit.Note[[]tx.Residue](keyResidues).Write(ctx, out, left)
}

// PrivateKeys are what a VM notes in private state (package fastpath).
func (r *Resource) PrivateKeys() []string {
	return []string{keyManaged, keyIdentity, keyResidues, keyProof, keyFailed, keySilent, keyGone, keyGrown, keyMoved,
		keyReplaces}
}

// moved is what a state that came from another provider says of its VM until the server was asked.
type moved struct {
	From string   `json:"from"` // type of the resource
	Name string   `json:"name,omitempty"`
	MACs []string `json:"macs,omitempty"`
	// Slots are those of the devices that it was said to have; null: not known.
	Slots []string `json:"slots"`
}

// writeMoved notes that the VM was moved, or with nil that the server was asked since.
func writeMoved(ctx context.Context, out tfkit.PrivateWriter, m *moved) diag.Diagnostics {
	return tfkit.Note[*moved](keyMoved).Write(ctx, out, m)
}

// ref is the VM in state.
func (m *model) ref(private privateState) guest.Ref {
	unseen := m.isUnseen(private)
	identity := private.Identity
	if identity.IsZero() && private.Proof == nil { // Terraform hands the destroy of a tainted resource no private state
		identity.UUID = value(m.UUID)
	}
	next := ""
	if m.SMBIOS != nil && slices.Contains(m.PendingChanges, "smbios1") {
		next = value(m.SMBIOS.UUID)
	}
	return guest.Ref{VMID: int(value(m.VMID)), Node: value(m.Node), Identity: identity, NextUUID: next, Proof: private.Proof,
		Status: value(m.Status),
		Agent: agent.Memory{Enabled: m.Agent != nil && value(m.Agent.Enabled) && !slices.Contains(m.PendingChanges, "agent"),
			Silent: private.Silent},
		Firewall: m.Firewall != nil || private.Managed["firewall"] || unseen, HA: m.HA != nil || private.Managed["ha"]}
}

// isUnseen reports whether the server was never asked about a VM in state: the next refresh fills everything in.
func (m *model) isUnseen(private privateState) bool {
	return private.Moved != nil || m.UUID == nil && len(private.Managed) == 0
}
