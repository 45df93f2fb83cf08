// Package create makes a VM whole, or leaves nothing of it: the table of its steps, where its id and its source come from,
// the first write that claims the id, and what dead creates left under an id or a name. What is to be undone, package
// remove undoes.
package create

import (
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// Creator creates VMs in one cluster.
type Creator struct {
	api     *pve.Client
	jobs    *job.Runner
	guests  *guest.Guests
	remover *remove.Remover

	listing *job.Shared[pve.Resources]
	nextID  *job.Shared[int]

	mu     sync.Mutex
	active map[string]bool // transactions under way here
	ids    map[int]bool    // VMIDs that creates here chose
	idEnd  int             // the last VMID that may be chosen, 0 until it was asked for
}

// New makes a Creator.
func New(jobs *job.Runner, guests *guest.Guests, remover *remove.Remover) *Creator {
	return &Creator{api: jobs.API, jobs: jobs, guests: guests, remover: remover,
		listing: job.NewShared[pve.Resources](), nextID: job.NewShared[int](),
		active: map[string]bool{}, ids: map[int]bool{}}
}

// begin notes a transaction as under way here, until the returned function is called, and its VMID for good.
func (s *Creator) begin(tx string, vmid int) (end func()) {
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
func (s *Creator) made(vmid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[vmid]
}

func (s *Creator) isActive(tx string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active[tx]
}
