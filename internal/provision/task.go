package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// lookups is how often a lost answer is looked up in the task list before it counts as "nothing happened". A request
// that PVE's own proxy gave up on (596) goes on in the daemon for as long as it takes.
const lookups = 5

// job is a request that forks a task on a node.
type job struct {
	node string
	typ  string // task type, "qmcreate"
	id   int    // the id that the task carries: the VMID, for a clone that of the source
	send func(context.Context) (pve.UPID, error)
	// done tells, where it can, from the server's state that the effect is there although no task was found.
	done func(context.Context) (bool, error)
}

// ledger remembers the tasks of one transaction: what an undo has to await, and what a search must not take for another.
type ledger struct {
	upids []pve.UPID
	// guessed are the tasks that were found by a search. PVE names neither the request nor, for a clone, the new id in a
	// task, so such a one may belong to another process that works with the same identity: it is awaited, never stopped,
	// and what came of it is believed only when our stamp is on it.
	guessed map[pve.UPID]bool
}

func (l *ledger) add(upid pve.UPID) {
	if upid != "" && !slices.Contains(l.upids, upid) {
		l.upids = append(l.upids, upid)
	}
}

func (l *ledger) guess(upid pve.UPID) {
	l.add(upid)
	if l.guessed == nil {
		l.guessed = map[pve.UPID]bool{}
	}
	l.guessed[upid] = true
}

// perform sends a job and awaits its task. While a lock of somebody else proves that nothing was done it is sent again.
func (s *Service) perform(ctx context.Context, l *ledger, j job) (pve.TaskResult, error) {
	var result pve.TaskResult
	err := s.contend(ctx, j.node, j.id, func(ctx context.Context) error {
		var err error
		result, err = s.once(ctx, l, j)
		return err
	})
	return result, err
}

// once sends a job and awaits its task. When the answer was lost, it looks before it goes on: exactly one task of our
// own, begun since the request, is the one; with none, the job counts as not begun and the lost answer is the error.
func (s *Service) once(ctx context.Context, l *ledger, j job) (pve.TaskResult, error) {
	since := s.api.ServerTime()
	upid, err := j.send(ctx)
	if pve.IsKind(err, pve.Ambiguous) {
		return s.lookUp(ctx, l, j, since, err)
	}
	if err != nil || upid == "" {
		return pve.TaskResult{}, err
	}
	l.add(upid)
	s.known(upid)
	return s.outcome(ctx, l, upid)
}

// lookUp looks what a request did whose answer was lost, and goes on with its task.
func (s *Service) lookUp(ctx context.Context, l *ledger, j job, since time.Time, lost error) (pve.TaskResult, error) {
	look, cancel := s.lookAfter(ctx)
	defer cancel()
	found, err := s.search(look, l, j, since, lookups)
	if found == "" && j.done != nil {
		ok, doneErr := j.done(ctx)
		if ctx.Err() != nil {
			ok, doneErr = j.done(look)
		}
		if ok && doneErr == nil {
			return pve.TaskResult{}, nil
		}
	}
	if found == "" {
		return pve.TaskResult{}, errors.Join(lost, err)
	}
	l.guess(found)
	return s.outcome(ctx, l, found)
}

// skew is how far the clock of the node that began a task may be behind that of the node which answers us.
const skew = 3 * time.Second

// search finds the task that a request with a lost answer began, or "" if there is none or more than one. Tasks that
// answered another request of this process are none.
func (s *Service) search(ctx context.Context, l *ledger, j job, since time.Time, times int) (pve.UPID, error) {
	var failed error
	for attempt := range times {
		if err := s.pause(ctx, attempt); err != nil {
			return "", err
		}
		tasks, err := s.api.Tasks(ctx, j.node, pve.TaskFilter{VMID: j.id, Type: j.typ, Since: since.Add(-skew)})
		if failed = err; err != nil {
			continue
		}
		var own []pve.UPID
		for _, t := range tasks {
			if t.UPID.User() == s.api.Identity().User && !slices.Contains(l.upids, t.UPID) && !s.isKnown(t.UPID) {
				own = append(own, t.UPID)
			}
		}
		if len(own) == 1 {
			return own[0], nil
		}
		if len(own) > 1 {
			return "", fmt.Errorf("%d tasks %s of %s began since the request: cannot tell which is this one",
				len(own), j.typ, s.api.Identity().User)
		}
	}
	return "", failed
}

// pause waits longer before each further attempt: not at all before the first, then 200 ms, doubling up to 3 s.
func (s *Service) pause(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return ctx.Err()
	}
	return s.clock.Sleep(ctx, min(100*time.Millisecond<<attempt, 3*time.Second))
}

// realClock is the machine's clock.
type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
