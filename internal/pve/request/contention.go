package request

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/backoff"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
)

// patient is how long a lock is waited for where the caller's context has no end.
const patient = 30 * time.Minute

// ownerless is how long a configuration lock that no task holds is waited for: a person or a program outside PVE may
// have set it and take it away again.
const ownerless = 2 * time.Minute

// tellFrom is from which pause on it is worth its requests to say each time who holds a lock.
const tellFrom = 5 * time.Second

// Contend tries something that a lock may stand in the way of, and tries again while a third party holds one and the
// answer proves that nothing was done. It gives up with a *LockedError when ctx is about to end. Every write goes
// through it: vmid and node say whose lock it may be, where that is known.
func (r *Runner) Contend(ctx context.Context, node string, vmid int, try func(context.Context) error) error {
	q := r.Queue(node, vmid)
	for {
		err := try(ctx)
		if !fault.Contended(err) {
			return err
		}
		if err := q.Wait(ctx, err); err != nil {
			return err
		}
	}
}

// Queue is one wait for the locks that third parties hold on a guest.
type Queue struct {
	s      *Runner
	Node   string         // "" = not known
	Reason backoff.Reason // to wait: which pauses
	vmid   int            // 0 = no guest's
	tries  int
	since  time.Time // of the first refusal
	end    time.Time // when to give up, on the Runner's clock
	idle   time.Time // since when no task is seen to hold the lock; zero: one is, or it cannot be told
}

// Queue begins a wait for the locks of a guest. It costs nothing until one stands in the way.
func (r *Runner) Queue(node string, vmid int) *Queue {
	return &Queue{s: r, Node: node, Reason: backoff.ForLock, vmid: vmid}
}

// Wait lets some time pass, longer each time, and says in the log what holds the lock that caused it. When the
// context has ended, or is about to, it returns what is to be said in the end.
func (q *Queue) Wait(ctx context.Context, cause error) error {
	now := q.s.Clock.Now()
	if q.tries == 0 {
		q.since, q.end = now, now.Add(Remaining(ctx))
	}
	policy := q.Reason
	var task *pve.TaskError
	if policy == backoff.ForLock && errors.As(cause, &task) {
		policy = backoff.ForLockInTask
	}
	q.tries++
	left := q.end.Sub(now)
	pause := min(policy.Pause(q.tries, q.s.chance()), left) // the last try is at the end
	if ctx.Err() != nil || left <= 0 {
		return q.locked(ctx, cause, ctx.Err())
	}
	if q.tries == 1 || pause > tellFrom { // who holds it costs requests; short waits are not worth them
		held, err := q.s.Holder(ctx, q.Node, q.vmid, cause)
		if q.Reason == backoff.ForLock && q.isOwnerless(now, held, err) { // a destroy judges dead locks itself
			return q.locked(ctx, cause, nil)
		}
		q.s.say(ctx, fmt.Sprintf("%s; trying again", held), err, q.tries, pause)
	}
	if err := q.sleep(ctx, pause); err != nil {
		return q.locked(ctx, cause, err)
	}
	oplog.From(ctx).Retry()
	return nil
}

// isOwnerless reports whether no task has held a configuration lock for some time, as far as the identity sees all
// tasks of the node. The task behind the lock of a migration may run on another node.
func (q *Queue) isOwnerless(now time.Time, held Holder, err error) bool {
	switch {
	case err != nil || held.Lock == "" || held.Lock == "migrate" || !held.Audit || len(held.Runs) > 0:
		q.idle = time.Time{}
	case q.idle.IsZero():
		q.idle = now
	}
	return !q.idle.IsZero() && now.Sub(q.idle) >= ownerless
}

func (q *Queue) sleep(ctx context.Context, pause time.Duration) error {
	what := "a lock"
	if q.vmid != 0 {
		what = fmt.Sprintf("a lock of VM %d", q.vmid)
	}
	ctx, over := oplog.Wait(ctx, oplog.Lock, what)
	defer over()
	return q.s.Clock.Sleep(ctx, pause)
}

// Remaining is the time that a context leaves, less what it takes to say what was in the way.
func Remaining(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return patient
	}
	left := time.Until(deadline)
	return left - min(left/10, 5*time.Second)
}

// locked is the end of a wait without success.
func (q *Queue) locked(ctx context.Context, cause, ended error) error {
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	held, err := q.s.Holder(look, q.Node, q.vmid, cause)
	waited := q.s.Clock.Now().Sub(q.since).Round(time.Second)
	return &LockedError{Err: cause, Waited: waited, Held: held.String(), Next: held.next(err), ended: ended}
}

// LockedError says that a third party's lock stood in the way until the time was over, or that no task holds it.
// Nothing was done.
type LockedError struct {
	// Err is PVE's last refusal.
	Err error
	// Waited is how long it was tried.
	Waited time.Duration
	// Held is what holds the lock, as far as this identity can see; Next is what to do about it.
	Held, Next string

	ended error
}

// Error is PVE's refusal, what holds the lock and what to do.
func (l *LockedError) Error() string {
	why := fmt.Sprintf("waited %s for the lock", l.Waited)
	if errors.Is(l.ended, context.Canceled) {
		why = fmt.Sprintf("interrupted after %s of waiting for the lock", l.Waited)
	}
	return fmt.Sprintf("%v (%s). %s. Nothing was done. Next step: %s", l.Err, why, l.Held, l.Next)
}

// Unwrap gives PVE's refusal.
func (l *LockedError) Unwrap() error { return l.Err }

// Is finds the end of the context that ended the wait, if one did.
func (l *LockedError) Is(target error) bool { return l.ended != nil && errors.Is(l.ended, target) }

// Suspended is the lock of a guest that was suspended to disk. It is a state of the guest, no sign of work under way.
const Suspended = "suspended"

// LockedBy is the refusal that PVE would answer with.
func LockedBy(lock, op string) error {
	return &pve.Error{Op: op, Kind: pve.Locked, Message: fmt.Sprintf("VM is locked (%s)", lock)}
}
