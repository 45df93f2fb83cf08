package provision

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Shell is what only root on a node can do; package host provides it over SSH. A nil Shell means that no SSH is
// configured.
type Shell interface {
	// Unlock takes the configuration lock away (qm unlock).
	Unlock(ctx context.Context, node string, vmid int) error
	// FreeVolume removes a volume by its id (pvesm free). A volume that does not exist is no error.
	FreeVolume(ctx context.Context, node, volume string) error
}

// Service creates, reads, changes, adopts and deletes VMs of one cluster.
type Service struct {
	api   *pve.Client
	shell Shell
	clock pve.Clock
	// Log, if set before the Service is used, gets a line for people while something is waited for.
	Log    func(ctx context.Context, message string, fields map[string]string)
	chance func() float64 // in [0,1), spreads those who wait

	networks  lookup[[]pve.Network]     // of nodes, for plans
	templates lookup[map[string]string] // configurations by VMID, for plans
	agents    agents

	mu     sync.Mutex
	active map[string]bool   // transactions under way here
	ids    map[int]bool      // VMIDs that creates here chose
	tasks  map[pve.UPID]bool // that answered a request of ours
}

// New makes a Service. shell and clock may be nil: no SSH, the real clock.
func New(api *pve.Client, shell Shell, clock pve.Clock) *Service {
	if clock == nil {
		clock = realClock{}
	}
	return &Service{api: api, shell: shell, clock: clock, agents: agents{api: api}, chance: rand.Float64, active: map[string]bool{}, ids: map[int]bool{}, tasks: map[pve.UPID]bool{}}
}

// begin notes a transaction as under way here, until the returned function is called, and its VMID for good.
func (s *Service) begin(tx string, vmid int) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[tx], s.ids[vmid] = true, true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.active, tx)
	}
}

// made reports whether a create here chose that VMID.
func (s *Service) made(vmid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[vmid]
}

func (s *Service) isActive(tx string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active[tx]
}

// known notes a task that is the answer to a request of ours, and so to no other.
func (s *Service) known(upid pve.UPID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[upid] = true
}

func (s *Service) isKnown(upid pve.UPID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tasks[upid]
}
