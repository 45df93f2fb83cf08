package model

import (
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
)

// PendingRestart are the options in state that wait for a restart of the running VM, as far as the configuration
// manages them and its policy is to restart: an earlier apply could not do it.
func PendingRestart(prior, plan Model, managed plan.Managed) []string {
	if Value(plan.RebootPolicy) == "never" || Value(prior.Status) != "running" || plan.EndsStopped() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(prior.PendingChanges), func(option string) bool {
		at, ok := prior.attributePath(option)
		return !ok || !manages(managed, at)
	})
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

// WithOwed adds to the managed paths after an update those from before whose options leave the VM at its restart only:
// that removal is the configuration's own. waiting are the options that wait. A drive that is gone from the state is
// found under the path of a disk in its slot from then on.
func WithOwed(after, before plan.Managed, prior Model, waiting []string) plan.Managed {
	owed := plan.Managed{}
	for _, option := range waiting {
		at, ok := prior.attributePath(option)
		if !ok || !manages(before, at) {
			continue
		}
		for path := range before {
			if path == at || strings.HasPrefix(path, at+".") {
				owed[path] = true
			}
		}
		if gone, ok := new(Model).attributePath(option); ok {
			owed[gone] = true
		}
	}
	return after.Union(owed)
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
