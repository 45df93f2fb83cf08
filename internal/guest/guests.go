// Package guest says what is at an id: whose VM it is (identity, the stamp of a create, proof), where it is, what it is
// like, and which volumes carry its id. It reads guests, and does what creates, changes and removals need alike: power, HA,
// the firewall, waiting. It removes nothing.
package guest

import (
	"sync"

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
	sources  job.Recent[map[string]string] // configurations of what is cloned
}

// New makes Guests.
func New(jobs *job.Runner) *Guests {
	return &Guests{Process: thisProcess(), api: jobs.API, clock: jobs.Clock, jobs: jobs, agents: agent.New(jobs.API)}
}

// occupied are the VMIDs that creates and destroys of this process are at work on. PVE reserves no id that it gives as the next
// free one, and frees one before the volumes that carry it are gone.
type occupied struct {
	mu  sync.Mutex
	ids map[int]int // how many are at work on each
}

func (o *occupied) add(vmid, n int) {
	if o.ids == nil {
		o.ids = map[int]int{}
	}
	if o.ids[vmid] += n; o.ids[vmid] == 0 {
		delete(o.ids, vmid)
	}
}

func (o *occupied) leave(vmid int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(vmid, -1)
}

// Occupy notes that something is at work on an id until the returned function is called.
func (s *Guests) Occupy(vmid int) (done func()) {
	o := &s.occupied
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(vmid, 1)
	return func() { o.leave(vmid) }
}

// OccupyIdle is Occupy for an id that nothing here is at work on; ok is false where something is.
func (s *Guests) OccupyIdle(vmid int) (done func(), ok bool) {
	o := &s.occupied
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[vmid] > 0 {
		return nil, false
	}
	o.add(vmid, 1)
	return func() { o.leave(vmid) }, true
}
