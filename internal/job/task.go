package job

import (
	"context"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// known notes a task that is the answer to a request of ours, and so to no other.
func (s *Runner) known(upid pve.UPID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[upid] = true
}

// IsKnown reports whether a task is the answer to some request of this process.
func (s *Runner) IsKnown(upid pve.UPID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tasks[upid]
}

// Request is a request that forks a task on a node.
type Request struct {
	Node string
	Type string // task type, "qmcreate"
	ID   int    // the id that the task carries: the VMID, for a clone that of the source
	Name string // what it carries in place of a VMID: the name of a file that is downloaded
	Send func(context.Context) (pve.UPID, error)
	// Done tells, where it can, from the server's state that the effect is there although no task was found.
	Done func(context.Context) (bool, error)
}

// Tasks remembers the tasks of one transaction: what an undo has to await, and what a search must not take for another.
type Tasks struct {
	UPIDs []pve.UPID
	// Guessed are the tasks that were found by a search. PVE names neither the request nor, for a clone, the new id in a
	// task, so such a one may belong to another process that works with the same identity: it is awaited, never stopped,
	// and what came of it is believed only when our stamp is on it.
	Guessed map[pve.UPID]bool
	// Commands are what was done over SSH and failed.
	Commands []Command
}

// Add notes a task that PVE named in its answer.
func (l *Tasks) Add(upid pve.UPID) {
	if upid != "" && !slices.Contains(l.UPIDs, upid) {
		l.UPIDs = append(l.UPIDs, upid)
	}
}

// Guess notes a task that a search found.
func (l *Tasks) Guess(upid pve.UPID) {
	l.Add(upid)
	if l.Guessed == nil {
		l.Guessed = map[pve.UPID]bool{}
	}
	l.Guessed[upid] = true
}
