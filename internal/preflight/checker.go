// Package preflight asks at plan time what the server would refuse at apply time: unknown nodes, storages and
// bridges, ids that are taken, sources that cannot be cloned, migrations that cannot be made. It changes nothing, and
// does not report facts that it may not see.
package preflight

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/diskimport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// Checker checks the plans for one cluster.
type Checker struct {
	api     pve.Reader
	clock   pve.Clock
	guests  *guest.Guests
	sources *diskimport.Sources
	looks

	networks request.Recent[[]pve.Network] // of nodes
	names    request.Recent[[]string]      // what there is of a kind
	storages request.Recent[[]pve.Storage] // of nodes, as they find them now
	quorate  request.Recent[bool]
	access   request.Recent[permissions] // of the identity
	held     request.Recent[permissions] // on one path
	unseen   request.Recent[error]       // what hides guests from the identity
	places   request.Recent[volumeuse.Places]
	cloning  request.Recent[cloning] // of the sources of clones
	total    tally

	replication request.Recent[[]pve.ReplicationJob]
	// exclusive are the shared storages that no other cluster uses.
	exclusive []string

	promised promises

	mu sync.Mutex
	// planned are the files that this run is to make, by node and volume, or by volume on a shared storage.
	planned map[string]plannedFile
}

// looks are those that the apply has, too.
type looks struct {
	guard *guard.Guard
	// holder looks for what holds a lock.
	holder func(ctx context.Context, node string, vmid int, cause error) (request.Holder, error)
}

// plannedFile is a file that the run is to make, or has made. size is that of the disk in it, 0 if it is not known.
type plannedFile struct {
	made bool
	size int64
}

// failedLife is how long a node that did not tell of its storages is not asked again: it hangs behind one of them until
// the request times out, and each VM of a run would wait for that.
const failedLife = 30 * time.Second

// New makes a Checker. exclusive are the shared storages that no other cluster uses.
func New(jobs *request.Runner, guests *guest.Guests, sources *diskimport.Sources, guarding *guard.Guard,
	exclusive ...string) *Checker {
	return &Checker{api: jobs.API.Reader(), clock: jobs.Clock, guests: guests, sources: sources, exclusive: exclusive,
		looks:    looks{guarding, jobs.Holder},
		planned:  map[string]plannedFile{},
		promised: promises{by: map[string]promise{}, said: map[string]string{}, taken: map[string]bool{}},
		storages: request.Recent[[]pve.Storage]{Failed: failedLife},
		access:   request.Recent[permissions]{Life: accessLife}}
}

// WillHave notes that the run makes a file on a storage. The plans of VMs that use it come after the plan of the file,
// and before the file exists. size is that of the disk in it, 0 if it is not known.
func (c *Checker) WillHave(ctx context.Context, node, volume string, size int64) {
	resources, err := c.api.Listing().Shared(ctx)
	if storage, ok := resources.Storage(node, volid.Storage(volume)); err == nil && ok && storage.Shared {
		node = ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.planned[node+" "+volume] = plannedFile{size: size}
}

// Has notes that the run has made a file. Terraform plans a VM of it again before it makes the VM.
func (c *Checker) Has(node, volume string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range []string{node, ""} {
		if file, planned := c.planned[at+" "+volume]; planned {
			file.made = true
			c.planned[at+" "+volume] = file
		}
	}
}

// willHave returns a file that the run makes; false: it makes none of the name.
func (c *Checker) willHave(node, volume string) (file plannedFile, planned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if file, planned = c.planned[node+" "+volume]; !planned {
		file, planned = c.planned[" "+volume]
	}
	return file, planned
}

// nodeNetworks are the bridges of a node, asked for once per run.
func (c *Checker) nodeNetworks(ctx context.Context, node string) ([]pve.Network, error) {
	return c.networks.Get(ctx, c.clock, node, func(ctx context.Context) ([]pve.Network,
		error) {
		return c.api.Node(node).Networks(ctx)
	})
}

// planCheck collects the problems of one plan.
type planCheck struct {
	resources pve.Resources
	node      string
	origin    pve.Resource // what is cloned, if it was found
	copy      vm.Spec      // what a clone or a restore begins with
	begun     bool         // and it begins with that for certain
	change    vm.Change    // of a VM in state
	found     []*guest.FieldError
	doubts    []*guest.FieldError
	who       string
	unheard   bool  // what is found is not shown
	uses      []use // what the checks before that of the privileges have found to be needed
}

// say reports a violated rule. The values are those of its summary.
func (p *planCheck) say(name, path, detail string, values ...string) {
	p.report(name, finding(name, path, detail, values...))
}

func (p *planCheck) report(name string, report *guest.FieldError) {
	if rule(name).Severity == Doubtful {
		p.doubts = append(p.doubts, report)
	} else {
		p.found = append(p.found, report)
	}
}

// finding is the report of a violated rule.
func finding(name, path, detail string, values ...string) *guest.FieldError {
	return &guest.FieldError{Path: path, Summary: rule(name).about(values), Detail: detail}
}

func (p *planCheck) add(err error) {
	if field, ok := err.(*guest.FieldError); ok { //nolint:errorlint // made by this package, never wrapped
		p.found = append(p.found, field)
	}
}

func (p *planCheck) isReported(path string) bool {
	return slices.ContainsFunc(p.found, func(f *guest.FieldError) bool { return f.Path == path })
}
