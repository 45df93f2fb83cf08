package model

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/otherstate"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// The keys of private state.
const (
	KeyUnproven = string(kit.Unproven)
	KeyManaged  = "managed"  // attribute paths that the configuration of the last create or update set
	KeyIdentity = "identity" // what proves that the VM is still ours
	KeyResidues = "residues" // what an undo or a destroy could not remove
	KeyProof    = "proof"    // what a failed create that left something knew of its own objects
	// on the way from the plan of a new VM to the destroy of a tainted one: FailedVM, by VMID
	KeyFailed = "failed"
	KeySilent = "silent"      // the guest agent did not answer the last refresh
	KeyGone   = "gone"        // the last refresh found no VM any more, only what a destroy left of it
	KeyAstray = "astray"      // disks that the VM may have by name alone, since it moved: guest.Astray
	KeyLegacy = "legacy_boot" // the boot order is in the old notation, which names kinds of devices
	KeyOff    = "nodes_off"   // nodes that the VM has left under HA, and that were off at the last refresh
	KeyFrozen = "frozen"      // a third party made the VM a template: null or false: an apply did, or it is none
	KeyGrown  = "grown"       // the sizes that disks had in state before a third party grew them, by slot
	KeyMoved  = "moved"       // the state came from another provider, and the server was not asked since; null: it was
	// what another provider's configuration had set, from the refresh after the move to the next one
	KeyFormer   = "former"
	KeyDetached = "detached" // volumes that were in a slot of the VM in state, and are unused disks of it or become such
	KeyOthers   = "others"   // what the last refresh saw in slots that are not in state, by slot: vm.Devices
	KeySizes    = "sizes"    // the sizes of the disks among those and of the detached ones, in bytes, by volume
	KeyAdded    = "added"    // those volumes of them that neither the create nor an earlier refresh knew
	KeyDrives   = "drives"   // the optical drives that the last refresh saw and that are not in state: DrivesOf
	KeyOwed     = "owed"     // options that wait for a restart by what the configuration has done
	KeyMade     = "made"     // this provider made the VM, so its default tags are on it
	KeyReplaces = "replaces" // on the way from the first plan of a replacement to the second: the VMID replaced
	// on the way from the plan of a new VM to the destroy of the one that it replaces: what it is copied of
	KeySources = "sources"
)

// PrivateState is what the provider keeps about a VM beside its state.
type PrivateState struct {
	Managed  plan.Managed
	Identity guest.Identity
	Residues []saga.Residue
	Proof    *guest.Proof
	Unproven bool
	Replaces int
	LastSeen
	Grown    map[string]string
	Moved    *Moved
	Former   *Former
	Made     bool
	Detached []string
	Others   map[string]string // nil: none, or no refresh has seen the slots
	Sizes    map[string]int64
	Added    map[string]string
	Drives   map[string]string
	Owed     []string
	// Lost: there is a state, and nothing that was noted beside it. Terraform writes none when a provider is killed in an
	// update (terraform internal/terraform, node_resource_abstract_instance.go, apply: the private data of an answer that
	// never came).
	Lost bool
}

// LastSeen is what the last refresh has seen, and no attribute tells.
type LastSeen struct {
	Silent, Gone bool
	// LegacyBoot: PVE has the boot order in the old notation.
	LegacyBoot bool
	Astray     guest.Astray
	// Off are the nodes that were not online, noted of a VM under HA.
	Off []string
	// Frozen: a third party made it a template.
	Frozen bool
}

// ReadPrivateState reads it. A missing key is zero.
func ReadPrivateState(ctx context.Context, private kit.PrivateReader) (PrivateState, diag.Diagnostics) {
	m, diags := PrivateState{Managed: plan.Managed{}}, diag.Diagnostics{}
	raw, found := private.GetKey(ctx, KeyManaged)
	m.Lost = len(raw) == 0
	if diags.Append(found...); !m.Lost {
		managed, err := plan.ParseManaged(raw)
		if err != nil {
			diags.AddError("Private state is damaged",
				"The provider cannot read what it noted under "+KeyManaged+": "+err.Error())
		}
		m.Managed = managed
	}
	readNote(ctx, private, KeyIdentity, &m.Identity, &diags)
	readNote(ctx, private, KeyResidues, &m.Residues, &diags)
	readNote(ctx, private, KeyProof, &m.Proof, &diags)
	readNote(ctx, private, kit.Unproven, &m.Unproven, &diags)
	readNote(ctx, private, KeySilent, &m.Silent, &diags)
	readNote(ctx, private, KeyGone, &m.Gone, &diags)
	readNote(ctx, private, KeyLegacy, &m.LegacyBoot, &diags)
	readNote(ctx, private, KeyFrozen, &m.Frozen, &diags)
	readNote(ctx, private, KeyGrown, &m.Grown, &diags)
	readNote(ctx, private, KeyMoved, &m.Moved, &diags)
	readNote(ctx, private, KeyMade, &m.Made, &diags)
	readNote(ctx, private, KeyDetached, &m.Detached, &diags)
	readNote(ctx, private, KeyOthers, &m.Others, &diags)
	readNote(ctx, private, KeySizes, &m.Sizes, &diags)
	readNote(ctx, private, KeyAdded, &m.Added, &diags)
	readNote(ctx, private, KeyDrives, &m.Drives, &diags)
	readNote(ctx, private, KeyOwed, &m.Owed, &diags)
	readNote(ctx, private, KeyFormer, &m.Former, &diags)
	readNote(ctx, private, KeyReplaces, &m.Replaces, &diags)
	readNote(ctx, private, KeyAstray, &m.Astray, &diags)
	readNote(ctx, private, KeyOff, &m.Off, &diags)
	return m, diags
}

func readNote[T any](ctx context.Context, private kit.PrivateReader, key kit.Note[T], into *T,
	diags *diag.Diagnostics) {
	value, found := key.Read(ctx, private)
	*into = value
	diags.Append(found...)
}

// Write writes that of a VM that was just created, adopted or recognised.
func (p PrivateState) Write(ctx context.Context, out kit.PrivateWriter) diag.Diagnostics {
	var diags diag.Diagnostics
	diags.Append(out.SetKey(ctx, KeyManaged, p.Managed.JSON())...)
	diags.Append(WriteResidues(ctx, out, p.Residues)...)
	diags.Append(writeIdentity(ctx, out, p.Identity)...)
	if p.Made {
		diags.Append(out.SetKey(ctx, KeyMade, []byte("true"))...)
	}
	if p.Proof != nil {
		diags.Append(kit.Note[*guest.Proof](KeyProof).Write(ctx, out, p.Proof)...)
	}
	if len(p.Others) > 0 {
		diags.Append(kit.Note[map[string]string](KeyOthers).Write(ctx, out, p.Others)...)
	}
	if len(p.Sizes) > 0 {
		diags.Append(kit.Note[map[string]int64](KeySizes).Write(ctx, out, p.Sizes)...)
	}
	if len(p.Added) > 0 {
		diags.Append(kit.Note[map[string]string](KeyAdded).Write(ctx, out, p.Added)...)
	}
	if len(p.Drives) > 0 {
		diags.Append(kit.Note[map[string]string](KeyDrives).Write(ctx, out, p.Drives)...)
	}
	return diags
}

// NoteIdentity writes the identity of the VM in state as it was seen now, where that is news: a change of its uuid
// gives it another, and an old VM may have none.
func (p PrivateState) NoteIdentity(ctx context.Context, out kit.PrivateWriter, seen guest.Identity) diag.Diagnostics {
	if p.Identity.Matches(seen) || seen.IsZero() && (p.Proof != nil || p.Identity != guest.Identity{}) {
		return nil
	}
	return writeIdentity(ctx, out, seen.Seen())
}

// writeIdentity writes the identity alone.
func writeIdentity(ctx context.Context, out kit.PrivateWriter, identity guest.Identity) diag.Diagnostics {
	return kit.Note[guest.Identity](KeyIdentity).Write(ctx, out, identity)
}

// WriteAgent writes whether the agent of a guest that was asked answered, where that is news. A silent agent costs the
// node a worker for seconds, so those that are known for it are asked last.
func WriteAgent(ctx context.Context, out kit.PrivateWriter, guest guest.Guest, private PrivateState) diag.Diagnostics {
	switch {
	case guest.Silent && !private.Silent:
		return out.SetKey(ctx, KeySilent, []byte("true"))
	case guest.Interfaces != nil && private.Silent:
		return out.SetKey(ctx, KeySilent, []byte("false"))
	}
	return nil
}

// WriteGone writes whether the VM itself is gone while something of it is left, where that is news.
func WriteGone(ctx context.Context, out kit.PrivateWriter, gone bool, private PrivateState) diag.Diagnostics {
	if gone == private.Gone {
		return nil
	}
	return out.SetKey(ctx, KeyGone, []byte(strconv.FormatBool(gone)))
}

// WriteLegacyBoot writes whether the boot order is in the old notation, where that is news.
func WriteLegacyBoot(ctx context.Context, out kit.PrivateWriter, legacy bool, private PrivateState) diag.Diagnostics {
	if legacy == private.LegacyBoot {
		return nil
	}
	return out.SetKey(ctx, KeyLegacy, []byte(strconv.FormatBool(legacy)))
}

// NoteFrozen writes whether a third party made a VM the template that a refresh or an apply finds, where that is news.
func (p *PrivateState) NoteFrozen(ctx context.Context, out kit.PrivateWriter, frozen bool) diag.Diagnostics {
	if frozen == p.Frozen {
		return nil
	}
	p.Frozen = frozen
	return out.SetKey(ctx, KeyFrozen, []byte(strconv.FormatBool(frozen)))
}

// NoteAstray writes which disks a VM may have by name alone, where that is news, and warns of them then.
func (p *PrivateState) NoteAstray(ctx context.Context, out kit.PrivateWriter, found guest.Guest) diag.Diagnostics {
	if was := p.Astray; was.From == found.Astray.From && slices.Equal(was.Volumes, found.Astray.Volumes) {
		return nil
	}
	p.Astray = found.Astray
	diags := kit.Note[guest.Astray](KeyAstray).Write(ctx, out, found.Astray)
	if len(found.Astray.Volumes) > 0 {
		diags.AddWarning(fmt.Sprintf("VM %d may not have its disks on node %s", found.VMID, found.Node),
			found.Astray.Detail(found.VMID, found.Node, "Nothing was changed"))
	}
	return diags
}

// NoteOff writes which nodes are off, where that is news. The plan and the second plan within its apply go by it alike.
func (p PrivateState) NoteOff(ctx context.Context, out kit.PrivateWriter, off []string) diag.Diagnostics {
	if slices.Equal(p.Off, off) {
		return nil
	}
	return kit.Note[[]string](KeyOff).Write(ctx, out, off)
}

// NoteFollowed writes that an update has found the VM on another node than it was to be on: the next refresh looks
// whether its disks came along.
func (p PrivateState) NoteFollowed(ctx context.Context, out kit.PrivateWriter, prior *Model, target string,
	now guest.Guest) diag.Diagnostics {
	if was := Value(prior.Node); was == "" || now.Node == was || now.Node == target || p.Astray.From != "" {
		return nil
	}
	return kit.Note[guest.Astray](KeyAstray).Write(ctx, out, guest.Astray{From: Value(prior.Node)})
}

// WriteReplaced tells the second plan of a replacement, which knows no prior state, what is replaced.
func WriteReplaced(ctx context.Context, out kit.PrivateWriter, prior Model) diag.Diagnostics {
	return kit.Note[int64](KeyReplaces).Write(ctx, out, Value(prior.VMID))
}

// WriteResidues writes the leftovers alone.
func WriteResidues(ctx context.Context, out kit.PrivateWriter, left []saga.Residue) diag.Diagnostics {
	if left == nil {
		left = []saga.Residue{}
	}
	return kit.Note[[]saga.Residue](KeyResidues).Write(ctx, out, left)
}

// Moved is what a state that came from another provider says of its VM until the server was asked.
type Moved struct {
	From string   `json:"from"` // type of the resource
	Name string   `json:"name,omitempty"`
	MACs []string `json:"macs,omitempty"`
	// Slots are those of the devices that it was said to have; null: not known.
	Slots []string `json:"slots"`
	// Settings are those of its configuration.
	Settings []otherstate.Setting `json:"settings,omitempty"`
}

// Former is what the configuration of another provider had set. A plan compares it with ours.
type Former struct {
	From     string               `json:"from"` // type of the resource
	Settings []otherstate.Setting `json:"settings"`
}

// NoteFormer keeps what a move says of the former configuration until the next refresh: Terraform writes the refreshed
// state with its first apply, so one plan after another shows it until then, and none afterwards.
func (p PrivateState) NoteFormer(ctx context.Context, out kit.PrivateWriter) diag.Diagnostics {
	var former *Former
	if p.Moved != nil && len(p.Moved.Settings) > 0 {
		former = &Former{From: p.Moved.From, Settings: p.Moved.Settings}
	}
	if former == nil && p.Former == nil {
		return nil
	}
	return kit.Note[*Former](KeyFormer).Write(ctx, out, former)
}

// WriteMoved notes that the VM was moved, or with nil that the server was asked since.
func WriteMoved(ctx context.Context, out kit.PrivateWriter, m *Moved) diag.Diagnostics {
	return kit.Note[*Moved](KeyMoved).Write(ctx, out, m)
}

// Ref is the VM in state.
func (m *Model) Ref(private PrivateState) guest.Ref {
	unseen := m.IsUnseen(private)
	identity := private.Identity
	if identity.IsZero() && private.Proof == nil { // Terraform hands the destroy of a tainted resource no private state
		identity.UUID = Value(m.UUID)
	}
	next := ""
	if m.SMBIOS != nil && slices.Contains(m.PendingChanges, "smbios1") {
		next = Value(m.SMBIOS.UUID)
	}
	return guest.Ref{VMID: int(Value(m.VMID)), Node: Value(m.Node), Identity: identity, NextUUID: next,
		Proof: private.Proof, Astray: private.Astray, Generation: Value(m.VMGenID),
		Status: Value(m.Status),
		Agent: agent.Memory{Enabled: m.Agent != nil && Value(m.Agent.Enabled) && !slices.Contains(m.PendingChanges, "agent"),
			Silent: private.Silent},
		Firewall: m.Firewall != nil || private.Managed["firewall"] || unseen, HA: m.HA != nil || private.Managed["ha"]}
}

// IsUnseen reports whether the server was never asked about a VM in state: the next refresh fills everything in.
func (m *Model) IsUnseen(private PrivateState) bool {
	return private.Moved != nil || m.UUID == nil && len(private.Managed) == 0
}
