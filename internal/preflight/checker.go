// Package preflight asks at plan time what the server would refuse at apply time: unknown nodes, storages and bridges, ids
// that are taken, sources that cannot be cloned, migrations that cannot be made. It changes nothing, and what it may not see
// it does not report.
package preflight

import (
	"context"
	"slices"

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

// nodeNetworks are the bridges of a node, asked once for the plans of one run.
func (s *Checker) nodeNetworks(ctx context.Context, node string) ([]pve.Network, error) {
	return s.networks.Get(ctx, s.clock, node, func(ctx context.Context) ([]pve.Network, error) { return s.api.Networks(ctx, node) })
}

// planCheck gathers what is wrong.
type planCheck struct {
	resources pve.Resources
	node      string
	origin    pve.Resource // what is cloned, if it was found
	found     []*guest.FieldError
	doubts    []*guest.FieldError
}

func (c *planCheck) add(err error) {
	if field, ok := err.(*guest.FieldError); ok { //nolint:errorlint // made by this package, never wrapped
		c.found = append(c.found, field)
	}
}

func (c *planCheck) isReported(path string) bool {
	return slices.ContainsFunc(c.found, func(f *guest.FieldError) bool { return f.Path == path })
}
