package request

import (
	"context"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// known notes a task that is the answer to a request of ours, and so to no other.
func (r *Runner) known(upid pve.UPID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks[upid] = true
}

// IsKnown reports whether a task is the answer to some request of this process.
func (r *Runner) IsKnown(upid pve.UPID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tasks[upid]
}

// Request is a request that forks a task on a node.
type Request struct {
	Node string
	Type string // task type, "qmcreate"
	ID   int    // the id that the task carries: the VMID, for a clone that of the source
	Name string // carried in place of a VMID: the name of a file that is downloaded
	// IsElsewhere: PVE does the work on the node that takes the request, which may be any.
	IsElsewhere bool
	// IsOther tells of a task of the type, where it can, that it is about something else. It may be nil.
	IsOther func(context.Context, pve.UPID) bool
	Send    func(context.Context) (pve.UPID, error)
	// Done tells, where it can, from the server's state that the effect is there although no task was found.
	Done func(context.Context) (bool, error)
}

// Tasks remembers the tasks of one saga: an undo has to await them, and a search must not take one for another
// request's.
type Tasks struct {
	UPIDs []pve.UPID
	// Guessed are the tasks that were found by a search. PVE names neither the request nor, for a clone, the new id in a
	// task, so such a one may belong to another process that works with the same identity: it is awaited, never stopped,
	// and its result is believed only when our ownership mark is on it.
	Guessed map[pve.UPID]bool
	// Commands are the commands that failed over SSH.
	Commands []Command
}

// Add notes a task that PVE named in its answer.
func (t *Tasks) Add(upid pve.UPID) {
	if upid != "" && !slices.Contains(t.UPIDs, upid) {
		t.UPIDs = append(t.UPIDs, upid)
	}
}

// Guess notes a task that a search found.
func (t *Tasks) Guess(upid pve.UPID) {
	t.Add(upid)
	if t.Guessed == nil {
		t.Guessed = map[pve.UPID]bool{}
	}
	t.Guessed[upid] = true
}
