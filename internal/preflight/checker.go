// Package preflight asks at plan time what the server would refuse at apply time: unknown nodes, storages and bridges, ids
// that are taken, sources that cannot be cloned, migrations that cannot be made. It changes nothing, and what it may not see
// it does not report.
package preflight

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Checker checks the plans for one cluster.
type Checker struct {
	api    *pve.Client
	clock  pve.Clock
	guests *guest.Guests

	networks job.Recent[[]pve.Network] // of nodes
	names    job.Recent[[]string]      // what there is of a kind
}

// New makes a Checker.
func New(jobs *job.Runner, guests *guest.Guests) *Checker {
	return &Checker{api: jobs.API, clock: jobs.Clock, guests: guests}
}
