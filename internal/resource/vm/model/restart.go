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

// PendingRestart are the options in state that wait for a restart of the running VM, if its policy is to restart, and
// an apply has sent what waits: it has noted so, and could not restart the VM. One that this change sets is among them,
// too. A change that nothing tells from another user's waits on: that an attribute is configured proves nothing, since
// ignore_changes hands the value of that user over as the configured one.
func PendingRestart(prior, plan Model, private PrivateState) []string {
	if !mayRestart(prior, plan) {
		return nil
	}
	before, after := Normalized(prior, plan, private.Managed)
	own := slices.AppendSeq(slices.Clone(private.Owed), maps.Keys(vm.Diff(before.Spec(false), after.Spec(false)).Set))
	return among(prior.PendingChanges, own)
}

// among are the options that are in a list.
func among(options, list []string) []string {
	return slices.DeleteFunc(slices.Clone(options), func(option string) bool { return !slices.Contains(list, option) })
}

// mayRestart reports whether something waits for a restart of the running VM, and the policy is to restart it.
// Most VMs have nothing that waits, and nothing is compared for these.
func mayRestart(prior, plan Model) bool {
	return len(prior.PendingChanges) > 0 && Value(plan.RebootPolicy) != "never" && Value(prior.Status) == "running" &&
		!plan.EndsStopped()
}

// Foreign are the options that wait for a restart, and that no apply has noted as its own.
func (p PrivateState) Foreign(prior Model) []string {
	return slices.DeleteFunc(slices.Clone(prior.PendingChanges), func(option string) bool {
		return slices.Contains(p.Owed, option)
	})
}

// Unclaimed are those of them that a configuration sets, or has set, if a restart is wanted.
func (p PrivateState) Unclaimed(prior, plan Model, configured func() plan.Managed) []string {
	if !mayRestart(prior, plan) {
		return nil
	}
	managed := p.Managed.Union(configured())
	return slices.DeleteFunc(p.Foreign(prior), func(option string) bool {
		return !slices.ContainsFunc(pathsOf(option, prior), func(at string) bool { return manages(managed, at) })
	})
}

// pathsOf are the attributes that an option may be of. A slot may have a disk in one of the models, and the cloud-init
// drive in another; where none has it, it may be an optical drive's.
func pathsOf(option string, models ...Model) []string {
	paths := []string{"cdroms." + option}
	for _, m := range models {
		if at, ok := m.attributePath(option); ok {
			paths = append(paths, at)
		}
	}
	return paths
}

// NoteOwed writes which options wait for a restart since an apply has sent them: of those that wait by now, the ones
// that this update has changed, and those that were noted before.
func (p PrivateState) NoteOwed(ctx context.Context, out kit.PrivateWriter, waiting, sent []string) diag.Diagnostics {
	return p.writeOwed(ctx, out, among(waiting, slices.Concat(p.Owed, sent)))
}

// ForgetOwed writes, where that is news, which of these options still wait, with the values that the state had before
// its refresh. Another value is another user's.
func (p PrivateState) ForgetOwed(ctx context.Context, out kit.PrivateWriter, before, now Model) diag.Diagnostics {
	if len(p.Owed) == 0 {
		return nil
	}
	had, has := vm.Encode(before.Spec(false)), vm.Encode(now.Spec(false))
	return p.writeOwed(ctx, out, slices.DeleteFunc(among(p.Owed, now.PendingChanges), func(option string) bool {
		return had[option] != has[option]
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

// IsShutDownByHA reports whether PVE leaves the shutdown of a guest that runs to HA.
func (m *Model) IsShutDownByHA(prior Model) bool {
	return Value(prior.Status) == string(guest.Running) && Value(m.PowerState) == string(guest.Stopped) &&
		m.StaysUnderHA(prior)
}

// StaysUnderHA reports whether HA has the VM in its hands before the change and after it: PVE does not count a VM that
// HA ignores (pve-ha-manager HA/Config.pm vm_is_ha_managed).
func (m *Model) StaysUnderHA(prior Model) bool {
	return m.HA != nil && prior.HA != nil && (prior.HA.State == nil || *prior.HA.State != "ignored")
}

// manages tells whether the configuration has set an attribute, or one below it that is no option of its own, as
// cpu.cores is none of PVE's option cpu. A slot or a sub-option beside those that it has set is none of its own, though
// it has set the map or the group.
func manages(managed plan.Managed, at string) bool {
	isGroup := vm.HasOptions(at)
	for path := range managed {
		if path == at && !isGroup || strings.HasPrefix(path, at+".") && !vm.IsOption(path) {
			return true
		}
	}
	return false
}
