// Package guest says what is at an id: whose VM it is (identity, the stamp of a create, proof), where it is, what it is
// like, and which volumes carry its id. It reads guests, and does what creates, changes and removals need alike: power, HA,
// the firewall, waiting. It removes nothing.
package guest

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Guests are those of one cluster.
type Guests struct {
	// Process names this process in the stamps of its creates, "" where the system does not tell it from others.
	Process string

	api    *pve.Client
	clock  pve.Clock
	jobs   *job.Runner
	agents *agent.Agents

	occupied occupied
	lists    volumeLists
}

// New makes Guests.
func New(jobs *job.Runner) *Guests {
	return &Guests{Process: thisProcess(), api: jobs.API, clock: jobs.Clock, jobs: jobs, agents: agent.New(jobs.API)}
}
