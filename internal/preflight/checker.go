// Package preflight asks at plan time what the server would refuse at apply time: unknown nodes, storages and bridges, ids
// that are taken, sources that cannot be cloned, migrations that cannot be made. It changes nothing, and what it may not see
// it does not report.
package preflight

import (
	"context"
	"slices"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/source"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Checker checks the plans for one cluster.
type Checker struct {
	api     *pve.Client
	clock   pve.Clock
	guests  *guest.Guests
	sources *source.Sources

	networks job.Recent[[]pve.Network] // of nodes
	names    job.Recent[[]string]      // what there is of a kind
	storages job.Recent[[]pve.Storage] // of nodes, as they find them now
	quorate  job.Recent[bool]
	access   job.Recent[permissions] // of the identity
	held     job.Recent[permissions] // on one path
	total    tally

	mu      sync.Mutex
	planned map[string]bool // files that this run is to make: by node and volume, or by volume on a shared storage
}

// New makes a Checker.
func New(jobs *job.Runner, guests *guest.Guests, sources *source.Sources) *Checker {
	return &Checker{api: jobs.API, clock: jobs.Clock, guests: guests, sources: sources, planned: map[string]bool{},
		access: job.Recent[permissions]{Life: accessLife}}
}

// WillHave notes that the run makes a file on a storage. The plans of VMs that use it come after that of the file, and before it is there.
func (s *Checker) WillHave(ctx context.Context, node, volume string) {
	resources, err := s.api.SharedResources(ctx)
	if storage, ok := resources.Storage(node, vm.VolumeStorage(volume)); err == nil && ok && storage.Shared {
		node = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planned[node+" "+volume] = true
}

func (s *Checker) willHave(node, volume string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.planned[node+" "+volume] || s.planned[" "+volume]
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
	copy      vm.Spec      // what a clone or a restore begins with
	found     []*guest.FieldError
	doubts    []*guest.FieldError
}

// say reports what a rule is about; values are those of its summary.
func (c *planCheck) say(name, path, detail string, values ...string) {
	c.report(name, finding(name, path, detail, values...))
}

func (c *planCheck) report(name string, report *guest.FieldError) {
	if rule(name).Severity == Doubtful {
		c.doubts = append(c.doubts, report)
	} else {
		c.found = append(c.found, report)
	}
}

// finding is what a rule says.
func finding(name, path, detail string, values ...string) *guest.FieldError {
	return &guest.FieldError{Path: path, Summary: rule(name).about(values), Detail: detail}
}

func (c *planCheck) add(err error) {
	if field, ok := err.(*guest.FieldError); ok { //nolint:errorlint // made by this package, never wrapped
		c.found = append(c.found, field)
	}
}

func (c *planCheck) isReported(path string) bool {
	return slices.ContainsFunc(c.found, func(f *guest.FieldError) bool { return f.Path == path })
}
