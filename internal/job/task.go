package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// lookups is how often a lost answer is looked up in the task list before it counts as "nothing happened". A request
// that PVE's own proxy gave up on (596) goes on in the daemon for as long as it takes.
const lookups = 5

// Request is a request that forks a task on a node.
type Request struct {
	Node string
	Type string // task type, "qmcreate"
	ID   int    // the id that the task carries: the VMID, for a clone that of the source
	Send func(context.Context) (pve.UPID, error)
	// done tells, where it can, from the server's state that the effect is there although no task was found.
	Done func(context.Context) (bool, error)
}

// Tasks remembers the tasks of one transaction: what an undo has to await, and what a search must not take for another.
type Tasks struct {
	UPIDs []pve.UPID
	// Guessed are the tasks that were found by a search. PVE names neither the request nor, for a clone, the new id in a
	// task, so such a one may belong to another process that works with the same identity: it is awaited, never stopped,
	// and what came of it is believed only when our stamp is on it.
	Guessed map[pve.UPID]bool
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

// Perform sends a job and awaits its task. While a lock of somebody else proves that nothing was done it is sent again.
func (s *Runner) Perform(ctx context.Context, l *Tasks, j Request) (pve.TaskResult, error) {
	var result pve.TaskResult
	err := s.Contend(ctx, j.Node, j.ID, func(ctx context.Context) error {
		var err error
		result, err = s.Once(ctx, l, j)
		return err
	})
	return result, err
}

// Once sends a job and awaits its task. When the answer was lost, it looks before it goes on: exactly one task of our
// own, begun since the request, is the one; with none, the job counts as not begun and the lost answer is the error.
func (s *Runner) Once(ctx context.Context, l *Tasks, j Request) (pve.TaskResult, error) {
	since := s.API.ServerTime()
	upid, err := j.Send(ctx)
	if pve.IsKind(err, pve.Ambiguous) {
		return s.lookUp(ctx, l, j, since, err)
	}
	if err != nil || upid == "" {
		return pve.TaskResult{}, err
	}
	l.Add(upid)
	s.known(upid)
	return s.outcome(ctx, l, upid)
}

// lookUp looks what a request did whose answer was lost, and goes on with its task.
func (s *Runner) lookUp(ctx context.Context, l *Tasks, j Request, since time.Time, lost error) (pve.TaskResult, error) {
	look, cancel := s.LookAfter(ctx)
	defer cancel()
	found, err := s.Search(look, l, j, since, lookups)
	if found == "" && j.Done != nil {
		ok, doneErr := j.Done(ctx)
		if ctx.Err() != nil {
			ok, doneErr = j.Done(look)
		}
		if ok && doneErr == nil {
			return pve.TaskResult{}, nil
		}
	}
	if found == "" {
		return pve.TaskResult{}, errors.Join(lost, err)
	}
	l.Guess(found)
	return s.outcome(ctx, l, found)
}

// Skew is how far the clock of the node that began a task may be behind that of the node which answers us.
const Skew = 3 * time.Second

// Search finds the task that a request with a lost answer began, or "" if there is none or more than one. Tasks that
// answered another request of this process are none.
func (s *Runner) Search(ctx context.Context, l *Tasks, j Request, since time.Time, times int) (pve.UPID, error) {
	var failed error
	for attempt := range times {
		if err := s.Pause(ctx, attempt); err != nil {
			return "", err
		}
		tasks, err := s.API.Tasks(ctx, j.Node, pve.TaskFilter{VMID: j.ID, Type: j.Type, Since: since.Add(-Skew)})
		if failed = err; err != nil {
			continue
		}
		var own []pve.UPID
		for _, t := range tasks {
			if t.UPID.User() == s.API.Identity().User && !slices.Contains(l.UPIDs, t.UPID) && !s.IsKnown(t.UPID) {
				own = append(own, t.UPID)
			}
		}
		if len(own) == 1 {
			return own[0], nil
		}
		if len(own) > 1 {
			return "", fmt.Errorf("%d tasks %s of %s began since the request: cannot tell which is this one",
				len(own), j.Type, s.API.Identity().User)
		}
	}
	return "", failed
}

// Pause waits longer before each further attempt: not at all before the first, then 200 ms, doubling up to 3 s.
func (s *Runner) Pause(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return ctx.Err()
	}
	return s.Clock.Sleep(ctx, min(100*time.Millisecond<<attempt, 3*time.Second))
}
