package model

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// PendingRestart are the options in state that wait for a restart of the running VM, as far as the configuration
// manages them, or has changed them, and its policy is to restart: an earlier apply could not do it. One that this
// change sets is among them: an apply that was killed has sent it already.
func PendingRestart(prior, plan Model, private PrivateState) []string {
	if !mayRestart(prior, plan) {
		return nil
	}
	before, after := Normalized(prior, plan, private.Managed)
	change := vm.Diff(before.Spec(false), after.Spec(false))
	sets := slices.Concat(private.owed(prior.PendingChanges, prior, plan), slices.Collect(maps.Keys(change.Set)))
	return slices.DeleteFunc(slices.Clone(prior.PendingChanges), func(option string) bool {
		return !slices.Contains(sets, option)
	})
}

// mayRestart reports whether something waits for a restart of the running VM, and the policy is to restart it.
// Most VMs have nothing that waits, and nothing is compared for these.
func mayRestart(prior, plan Model) bool {
	return len(prior.PendingChanges) > 0 && Value(plan.RebootPolicy) != "never" && Value(prior.Status) == "running" &&
		!plan.EndsStopped()
}

// Foreign are the options that wait for a restart and are none of the configuration's own, as far as the notes tell.
func (p PrivateState) Foreign(prior Model) []string {
	own := p.owed(prior.PendingChanges, prior)
	return slices.DeleteFunc(slices.Clone(prior.PendingChanges), func(option string) bool {
		return slices.Contains(own, option)
	})
}

// Unclaimed are those of them that a configuration sets, if a restart is wanted.
func (p PrivateState) Unclaimed(prior, plan Model, configured func() plan.Managed) []string {
	if !mayRestart(prior, plan) {
		return nil
	}
	return PrivateState{Managed: configured()}.owed(p.Foreign(prior), prior)
}

// owed are those of the options that wait for a restart which are the configuration's own. A slot may have a disk in
// one of the models, and the cloud-init drive in another; where none has it, it may be an optical drive's.
func (p PrivateState) owed(waiting []string, models ...Model) []string {
	return slices.DeleteFunc(slices.Clone(waiting), func(option string) bool {
		paths := []string{"cdroms." + option}
		for _, m := range models {
			if at, ok := m.attributePath(option); ok {
				paths = append(paths, at)
			}
		}
		isManaged := slices.ContainsFunc(paths, func(at string) bool { return manages(p.Managed, at) })
		return !isManaged && !slices.Contains(p.Owed, option)
	})
}

// NoteOwed writes which options wait for a restart by the configuration's doing. An option that it has removed is none
// of its own otherwise, once the state does not have it. After an update waiting are those that wait by then.
func (p PrivateState) NoteOwed(ctx context.Context, out kit.PrivateWriter, prior Model,
	waiting []string) diag.Diagnostics {
	return p.writeOwed(ctx, out, p.owed(waiting, prior))
}

// ForgetOwed writes, where that is news, which of these options still wait to be removed. One that waits later, or that
// is to have a value, is a third party's.
func (p PrivateState) ForgetOwed(ctx context.Context, out kit.PrivateWriter, now guest.Guest) diag.Diagnostics {
	if len(p.Owed) == 0 {
		return nil
	}
	gets := vm.Encode(now.Spec)
	return p.writeOwed(ctx, out, slices.DeleteFunc(slices.Clone(p.Owed), func(option string) bool {
		return !slices.Contains(now.Pending, option) || gets[option] != ""
	}))
}

func (p PrivateState) writeOwed(ctx context.Context, out kit.PrivateWriter, owed []string) diag.Diagnostics {
	if slices.Equal(owed, p.Owed) {
		return nil
	}
	return kit.Note[[]string](KeyOwed).Write(ctx, out, owed)
}

// EndsStopped reports whether the guest is to be off after the apply: what waits for its restart is in force then.
func (m *Model) EndsStopped() bool {
	return Value(m.PowerState) == string(guest.Stopped) || keepsOff(m.HA)
}

// IsStoppedByHA reports whether HA will stop a guest that runs: the plan says so, and the state does not yet.
func (m *Model) IsStoppedByHA(prior Model) bool {
	return Value(prior.Status) == string(guest.Running) && Value(m.PowerState) != string(guest.Stopped) &&
		keepsOff(m.HA) && !keepsOff(prior.HA)
}

// IsShutDownByHA reports whether PVE leaves the shutdown of a guest that runs to HA: the entry stays, and HA does not
// ignore the VM (pve-ha-manager HA/Config.pm vm_is_ha_managed).
func (m *Model) IsShutDownByHA(prior Model) bool {
	return Value(prior.Status) == string(guest.Running) && Value(m.PowerState) == string(guest.Stopped) &&
		m.HA != nil && prior.HA != nil && (prior.HA.State == nil || *prior.HA.State != "ignored")
}

// manages tells whether the configuration has set an attribute, or one below it. A slot or a sub-option beside those
// that it has set is none of its own, though it has set the map or the group.
func manages(managed plan.Managed, at string) bool {
	for path := range managed {
		if path == at || strings.HasPrefix(path, at+".") {
			return true
		}
	}
	return false
}
