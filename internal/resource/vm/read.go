package vm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/planning"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// Read refreshes the state. It drops a VM only when it is proven to be gone and nothing is left of it; where the server
// cannot tell, the state stays with a warning; a VM that is another under the same id is an error, never a refresh.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	v := model.SchemaValues()
	state, diags := v.Model(ctx, req.State.Raw)
	resp.Diagnostics.Append(diags...)
	private, diags := model.ReadPrivateState(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(identify(ctx, resp.Identity, state.VMID)...)
	if resp.Diagnostics.HasError() {
		return
	}
	state.About(ctx)
	attempt := state.Attempt(r.Session.Identity(), "read", nil)
	if state.VMID == nil {
		resp.Diagnostics.Append(state.Unread(attempt, private)...)
		return
	}
	if private.IsUnproven() {
		resp.Diagnostics.Append(kit.NotProven(attempt))
		return
	}
	if r.machines == nil {
		resp.Diagnostics.Append(kit.NotYetRefreshed(attempt))
		return
	}
	r.run.NoteInState(int(model.Value(state.VMID)))
	if failed := private.Failed(guest.Identity{}); failed.IsFailed() {
		r.run.NoteRefreshed(model.Value(state.Name), failed, state.DeleteRequest(private))
	}
	ctx, cancel := context.WithTimeout(ctx, kit.Duration(state.Timeouts.Limits().Read, kit.ReadTimeout))
	defer cancel()

	found, seen, err := r.machines.Read(ctx, state.Ref(private))
	if diags := whyNotRead(attempt, seen, err); len(diags) > 0 {
		resp.Diagnostics.Append(diags...)
		return
	}
	switch {
	case found.Placeholder:
		resp.Diagnostics.AddWarning(attempt.Thing+" is gone",
			"Its destroy was interrupted while it removed a volume, for which it had made an empty VM of the same id. "+
				"\"terraform destroy\" and the next apply remove both.")
	case found.Untraced:
		resp.Diagnostics.Append(kit.NotInCluster(attempt, "No task of this cluster names its id either. "))
	case seen == guest.Found && state.IsLost(private) && !found.IsUnfinished():
		resp.Diagnostics.Append(kit.NotProven(attempt))
		return
	case seen == guest.Found:
		r.recover(ctx, &private, &state, found, resp)
		if resp.Diagnostics.Append(private.Refuse(attempt, found)...); resp.Diagnostics.HasError() {
			return
		}
		r.run.NoteDisks(&state, found)
		resp.Diagnostics.Append(model.WriteAgent(ctx, resp.Private, found, private)...)
		noted, diags := noteSeen(ctx, resp.Private, private, &state, &state, found)
		resp.Diagnostics.Append(diags...)
		r.run.NoteRefreshed(model.Value(found.Spec.Name), noted.Failed(found.Identity), state.DeleteRequest(noted))
		refresh(ctx, model.WithTagStyle(ctx, r.Session, v, state.Tags, found.Spec.Tags), req, resp,
			state.WithKnownAddresses(found), private, state.IsUnseen(private))
		forgetOwed(ctx, v, private, state, resp)
		sayable, left := r.sayable(ctx, req.State.Raw, resp.State.Raw)
		resp.State.Raw = sayable
		resp.Diagnostics.Append(private.HideUUID(ctx, &resp.State)...)
		if private.Moved != nil {
			resp.Diagnostics.Append(leftAlone(attempt.Thing, left)...)
		}
		resp.Diagnostics.Append(append(warnBeside(state.HA, found), cutOff(ctx, r.machines, &state, found)...)...)
		resp.Diagnostics.Append(r.givenUpByHA(ctx, found.VMID)...)
		resp.Diagnostics.Append(change.NoteGrown(ctx, resp.Private, state.Disks, resp.State.Raw, private)...)
	}
	left := r.recheckResidues(ctx, state.Ref(private), private.Residues, attempt, resp)
	if seen == guest.Gone && len(left) == 0 && !resp.Diagnostics.HasError() {
		r.run.NoteGone(int(model.Value(state.VMID)))
		resp.State.RemoveResource(ctx)
		return
	}
	resp.Diagnostics.Append(model.WriteGone(ctx, resp.Private, seen == guest.Gone || found.Placeholder, private)...)
}

// noteSeen writes what a look at the VM tells beside the state, where that is news: its detached disks, and the devices
// in slots that the state does not have. prior is the state before an update; a refresh has one state. Both write the
// same, so that the refresh right after an apply has no news: Terraform calls a note a change.
func noteSeen(ctx context.Context, out kit.PrivateWriter, private model.PrivateState, prior, state *model.Model,
	now guest.Guest) (model.PrivateState, diag.Diagnostics) {
	noted, diags := private.NoteDetached(ctx, out, prior, now)
	now.Renamed = nil // the notes have the new names from here on
	noted, others := noted.NoteOthers(ctx, out, state, now)
	diags.Append(others...)
	diags.Append(private.NoteFormer(ctx, out)...)
	diags.Append(private.NoteDrives(ctx, out, state, now)...)
	return noted, append(diags, model.WriteLegacyBoot(ctx, out, now.LegacyBoot, private)...)
}

// recover makes a lost proof of the VM that a failed create has left, and names the work of others with that VM:
// Terraform shows no plan the state of a tainted one. Of each VM it notes whether its guest sleeps, whether its disks
// came along where it moved, and whether a third party made it a template.
func (r *Resource) recover(ctx context.Context, private *model.PrivateState, state *model.Model, found guest.Guest,
	resp *resource.ReadResponse) {
	r.run.NoteAsleep(found.VMID, found.IsAsleep())
	resp.Diagnostics.Append(r.noteLeft(ctx, *private, state, found, resp.Private)...)
	resp.Diagnostics.Append(private.NoteAstray(ctx, resp.Private, found)...)
	isTemplate, wasTemplate := model.Value(found.Spec.Template), model.Value(state.Template)
	resp.Diagnostics.Append(private.NoteFrozen(ctx, resp.Private,
		isTemplate && (private.Frozen || !wasTemplate && !state.IsUnseen(*private)))...)
	resp.Diagnostics.Append(private.Recover(ctx, resp.Private, state, found)...)
	if private.Proof == nil {
		return
	}
	proof, diags := planning.NameUses(ctx, r.machines, private.Proof.Unnamed(), found.Node, resp.Private)
	if len(diags) > 0 {
		private.Proof = proof
	}
	resp.Diagnostics.Append(diags...)
}

// warnBeside warns of the HA entry and of the firewall rules.
func warnBeside(configured *guest.HA, found guest.Guest) diag.Diagnostics {
	return append(ignoredByHA(configured, found), unfollowed(found)...)
}

// noteLeft notes of a VM under HA which nodes are off that it has left since the state was written, or before.
func (r *Resource) noteLeft(ctx context.Context, private model.PrivateState, state *model.Model, found guest.Guest,
	out kit.PrivateWriter) diag.Diagnostics {
	left := slices.Clone(private.Off)
	if was := model.Value(state.Node); was != "" && was != found.Node {
		left = append(left, was)
	}
	if found.HA == nil || len(left) == 0 {
		return private.NoteOff(ctx, out, nil)
	}
	off, known := r.machines.OffNodes(ctx, left)
	if !known {
		return nil
	}
	return private.NoteOff(ctx, out, off)
}

// ignoredByHA warns of an HA entry that is not of the configuration.
func ignoredByHA(configured *guest.HA, found guest.Guest) diag.Diagnostics {
	if configured != nil || found.HA == nil || model.Value(found.HA.State) != "ignored" {
		return nil
	}
	return kit.Warn([]guest.Warning{guest.IgnoredByHA(found.VMID)})
}

// unfollowed warns of firewall rules that PVE does not follow: mostly their alias or IP set was removed, for which PVE
// does not ask.
func unfollowed(found guest.Guest) diag.Diagnostics {
	if found.Firewall == nil || len(found.Firewall.Problems) == 0 {
		return nil
	}
	return kit.Warn([]guest.Warning{{
		Summary: fmt.Sprintf("VM %d has firewall rules that PVE does not follow", found.VMID),
		Detail: "PVE says of them, counted from 0:\n  " + strings.Join(found.Firewall.Problems, "\n  ") +
			"\nTo have them followed, correct them, or make the alias or IP set that they name again."}})
}

// givenUpByHA warns of a VM whose service HA has given up. PVE takes no change of such an entry but state=disabled
// (pve-ha-manager API2/HA/Resources.pm check_service_state).
func (r *Resource) givenUpByHA(ctx context.Context, vmid int) diag.Diagnostics {
	if !r.Session.Known() {
		return nil
	}
	if listed, is, err := r.Session.API.Listing().Guest(ctx, vmid); err != nil || !is || listed.HAState != "error" {
		return nil
	}
	return kit.Warn([]guest.Warning{{Summary: fmt.Sprintf("HA has given up VM %d", vmid), Path: "ha",
		Detail: fmt.Sprintf("Its service is in state error, so HA neither starts nor moves the VM any more, and PVE refuses "+
			"every change of its HA entry. Find out why it failed (the log of pve-ha-lrm), then take it out of that state, on "+
			"a node: `%s`, which stops the guest, and `%s`.",
			shell.VM("ha-manager set vm:{vmid} --state disabled", vmid),
			shell.VM("ha-manager set vm:{vmid} --state started", vmid))}})
}

// cutOff warns of a guest that a forced restart seems to have left off: it ran when the state was written, which no
// apply does that is killed. Nothing tells such a restart from a user who stops the guest with the same token, so
// nothing is started.
func cutOff(ctx context.Context, machines planning.Machines, was *model.Model, found guest.Guest) diag.Diagnostics {
	if model.Value(was.RebootPolicy) != "force" || model.Value(was.Status) != string(guest.Running) ||
		found.Status != string(guest.Stopped) || found.HA != nil {
		return nil
	}
	task := machines.CutOff(ctx, found.Node, found.VMID)
	if task.UPID == "" {
		return nil
	}
	return kit.Warn([]guest.Warning{{
		Summary: fmt.Sprintf("VM %d may be off because its restart was interrupted", found.VMID),
		Detail: fmt.Sprintf("It ran when the state was written. Then this identity has asked it to reboot and cut it off, "+
			"as reboot_policy = \"force\" does, and no task has started it since (%s, %s). If it is to run, and the plan "+
			"does not start it: %s on node %s", task.UPID, task.StartTime.UTC().Format(time.RFC3339),
			shell.VM("qm start {vmid}", found.VMID), found.Node)}})
}

// whyNotRead is what is said where the server does not tell what is true of the VM in state; nothing where it does.
func whyNotRead(a kit.Attempt, seen guest.Presence, err error) diag.Diagnostics {
	var other *guest.IdentityError
	switch {
	case errors.As(err, &other), kit.LoginRefused(err), kit.Unreachable(err):
		return kit.Diagnose(a, err)
	case seen == guest.Unknown || err != nil:
		return kit.NotRefreshed(a, err)
	}
	return nil
}

// refresh writes what the server says into state, and notes the identity of a VM that has none yet, or another since a
// restart.
func refresh(ctx context.Context, v model.Values, req resource.ReadRequest, resp *resource.ReadResponse,
	guest guest.Guest,
	private model.PrivateState, unseen bool) {
	server, diags := v.Raw(ctx, private.Moved.Named(model.FromGuest(guest)))
	resp.Diagnostics.Append(diags...)
	if diags.HasError() {
		return
	}
	server = model.WithOwnTags(model.WithoutPinnedMachine(req.State.Raw, server), req.State.Raw)
	if unseen {
		resp.State.Raw = v.Adopt(req.State.Raw, server)
	} else {
		resp.State.Raw = v.Shape.Refresh(req.State.Raw, server)
	}
	resp.Diagnostics.Append(private.NoteIdentity(ctx, resp.Private, guest.Identity)...)
	resp.Diagnostics.Append(kit.AgeImport(ctx, req.Private, resp.Private)...)
	if private.Moved != nil {
		resp.Diagnostics.Append(model.WriteMoved(ctx, resp.Private, nil)...)
	}
}

// forgetOwed forgets the options that do not wait any more as an apply has sent them.
func forgetOwed(ctx context.Context, v model.Values, private model.PrivateState, before model.Model,
	resp *resource.ReadResponse) {
	if len(private.Owed) == 0 {
		return
	}
	now, diags := v.Model(ctx, resp.State.Raw)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(private.ForgetOwed(ctx, resp.Private, before, now)...)
}

// recheckResidues looks whether what an earlier failure left is still there.
func (r *Resource) recheckResidues(ctx context.Context, ref guest.Ref, residues []saga.Residue, attempt kit.Attempt,
	resp *resource.ReadResponse) []saga.Residue {
	if len(residues) == 0 {
		return nil
	}
	left, err := r.machines.Recheck(ctx, ref, residues)
	if err != nil {
		resp.Diagnostics.Append(kit.NotRefreshed(attempt, err)...)
		return residues
	}
	if len(left) > 0 {
		resp.Diagnostics.AddWarning("Leftovers of "+attempt.Thing,
			"An earlier operation failed and could not remove everything.\n"+kit.ListResidues(left)+
				"\"terraform destroy\" and the next apply try again.")
	}
	resp.Diagnostics.Append(model.WriteResidues(ctx, resp.Private, left)...)
	return left
}
