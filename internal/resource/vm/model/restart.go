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

// manages tells whether the configuration has set an attribute, one below it or one above it.
func manages(managed plan.Managed, at string) bool {
	for path := range managed {
		if path == at || strings.HasPrefix(path, at+".") || strings.HasPrefix(at, path+".") {
			return true
		}
	}
	return false
}
