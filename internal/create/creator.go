// Package create makes a VM whole, or leaves nothing of it: the table of its steps, where its id and its source come from,
// the first write that claims the id, and what dead creates left under an id or a name. What is to be undone, package
// remove undoes.
package create

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	disksource "github.com/terraform-proxmox/terraform-provider-proxmox/internal/source"
)

// firstID is the lowest VMID of all (pve-common JSONSchema.pm, pve-vmid).
const firstID = 100

// Creator creates VMs in one cluster.
type Creator struct {
	api     *pve.Client
	jobs    *job.Runner
	guests  *guest.Guests
	remover *remove.Remover
	sources *disksource.Sources
	hasher  Hasher // nil without SSH

	listing *job.Shared[pve.Resources]
	nextID  job.Recent[int] // the lowest VMID that is free
	lastID  job.Recent[int] // the last one that the datacenter gives

	namedNow *job.Shared[map[int]bool] // VMIDs that permissions and pools speak of

	sweeping sweeping
	taking   chan struct{} // has room for the one who takes back what a dead create left

	mu     sync.Mutex
	active map[string]bool   // transactions under way here
	ids    map[int]time.Time // VMIDs that creates here chose, and when those ended
	lowest int               // no VMID below it is free, as far as is known
}

// Hasher computes checksums on the nodes.
type Hasher interface {
	// SHA256 is the checksum of what a volume holds, in hexadecimal digits.
	SHA256(ctx context.Context, node, volume string) (string, error)
}

// New makes a Creator. hasher may be nil: no SSH.
func New(jobs *job.Runner, guests *guest.Guests, remover *remove.Remover, sources *disksource.Sources, hasher Hasher) *Creator {
	return &Creator{api: jobs.API, jobs: jobs, guests: guests, remover: remover, sources: sources, hasher: hasher,
		listing: job.NewShared[pve.Resources](), namedNow: job.NewShared[map[int]bool](), lastID: job.Recent[int]{Life: math.MaxInt64},
		sweeping: sweeping{known: map[int]bool{}, names: map[string]bool{}}, taking: make(chan struct{}, 1),
		active: map[string]bool{}, ids: map[int]time.Time{}, lowest: firstID}
}

// begin notes a transaction as under way here, until the returned function is called, and its VMID for good.
func (s *Creator) begin(tx string, vmid int) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[tx], s.ids[vmid] = true, time.Time{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.active, tx)
		s.ids[vmid] = s.jobs.Clock.Now()
	}
}

// made reports whether a create here chose that VMID.
func (s *Creator) made(vmid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, made := s.ids[vmid]
	return made
}

// madeSince reports whether a create here chose that VMID which ended after a time.
func (s *Creator) madeSince(vmid int, at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[vmid].After(at)
}

// floor is the lowest VMID that may be free.
func (s *Creator) floor() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lowest
}

// learnFloor asks PVE for the lowest VMID that is free, unless it has said so a moment ago.
func (s *Creator) learnFloor(ctx context.Context) (int, error) {
	lowest, err := s.nextID.Get(ctx, s.jobs.Clock, "", s.api.NextID)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lowest = lowest
	}
	return lowest, err
}

// ceiling is the end of the datacenter's own range, where PVE tells it, else that of all ids.
func (s *Creator) ceiling(ctx context.Context, free int) (int, error) {
	return s.lastID.Get(ctx, s.jobs.Clock, "", func(ctx context.Context) (int, error) {
		_, last, err := s.api.IDRange(ctx)
		if err != nil || last < free {
			last = 999_999_999
		}
		return last, ctx.Err()
	})
}

// forget has the next create look at the cluster anew: PVE has refused an id that nothing here knew to be taken.
func (s *Creator) forget() {
	s.nextID.Forget()
	s.api.ForgetResources()
}

func (s *Creator) isActive(tx string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active[tx]
}
