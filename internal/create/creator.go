// Package create makes a whole VM, or nothing. It holds the table of the steps, the choice of the VMID and the
// source, and the first write that claims the VMID. It also handles the VMs that dead creates left under a VMID or a
// name. Package destroy does the undo.
package create

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	disksource "github.com/terraform-proxmox/terraform-provider-proxmox/internal/diskimport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
)

// tries is how often a VM that changed meanwhile is judged again.
const tries = 5

// firstID is the lowest VMID of all (pve-common JSONSchema.pm, pve-vmid).
const firstID = 100

// Creator creates VMs in one cluster.
type Creator struct {
	api       *pve.Client
	jobs      *request.Runner
	guests    *guest.Guests
	destroyer *destroy.Destroyer
	sources   *disksource.Sources
	hasher    Hasher // nil without SSH

	listing *request.Shared[pve.Resources]
	nextID  request.Recent[int] // the lowest VMID that is free
	lastID  request.Recent[int] // the last one that the datacenter gives

	namedNow *request.Shared[map[int]bool] // VMIDs that permissions and pools speak of

	taking chan struct{} // has room for the one who takes back what a dead create left

	mu       sync.Mutex
	active   map[string]bool    // transactions under way here
	finished map[int]unfinished // VMs that were seen without a mark
	ids      map[int]time.Time  // VMIDs that creates here chose, and when those ended
	lowest   int                // no VMID below it is free, as far as is known
	hidden   map[int]bool       // VMIDs that PVE refused and no listing showed, and those between them
}

// Hasher computes checksums on the nodes.
type Hasher interface {
	// SHA256 is the checksum of what a volume holds, in hexadecimal digits.
	SHA256(ctx context.Context, node, volume string) (string, error)
}

// New makes a Creator. hasher may be nil: no SSH.
func New(jobs *request.Runner, guests *guest.Guests, destroyer *destroy.Destroyer, sources *disksource.Sources,
	hasher Hasher) *Creator {
	return &Creator{api: jobs.API, jobs: jobs, guests: guests, destroyer: destroyer, sources: sources, hasher: hasher,
		listing: request.NewShared[pve.Resources](), namedNow: request.NewShared[map[int]bool](),
		lastID: request.Recent[int]{Life: math.MaxInt64},
		taking: make(chan struct{}, 1),
		active: map[string]bool{}, finished: map[int]unfinished{}, ids: map[int]time.Time{}, lowest: firstID,
		hidden: map[int]bool{}}
}

// begin notes that a create is under way here until the returned function is called, and notes its VMID for good.
func (c *Creator) begin(tx string, vmid int) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active[tx], c.ids[vmid] = true, time.Time{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.active, tx)
		c.ids[vmid] = c.jobs.Clock.Now()
	}
}

// made reports whether a create of this process chose that VMID.
func (c *Creator) made(vmid int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, made := c.ids[vmid]
	return made
}

// madeSince reports whether a create of this process that ended after a time chose that VMID.
func (c *Creator) madeSince(vmid int, at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ids[vmid].After(at)
}

// floor is the lowest VMID that may be free.
func (c *Creator) floor() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lowest
}

// learnFloor asks PVE for the lowest free VMID, unless it was asked a moment ago.
func (c *Creator) learnFloor(ctx context.Context) (int, error) {
	lowest, err := c.nextID.Get(ctx, c.jobs.Clock, "", c.api.Cluster().NextID)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lowest = lowest
	}
	return lowest, err
}

// ceiling is the end of the datacenter's own range, if PVE tells it, else the highest VMID of all.
func (c *Creator) ceiling(ctx context.Context, free int) (int, error) {
	return c.lastID.Get(ctx, c.jobs.Clock, "", func(ctx context.Context) (int, error) {
		_, last, err := c.api.Cluster().IDRange(ctx)
		if err != nil || last < free {
			last = 999_999_999
		}
		return last, ctx.Err()
	})
}

// forget makes the next create list the cluster again: PVE has refused a VMID that nothing here knew to be taken.
func (c *Creator) forget() {
	c.nextID.Forget()
	c.api.Listing().Forget()
}

func (c *Creator) isActive(tx string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active[tx]
}
