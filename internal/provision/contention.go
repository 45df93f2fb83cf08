package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

const (
	// firstTurn is the first pause after a lock was not got; it doubles. Where PVE waits for a lock it has waited already,
	// 1 s for the source of a clone and 10 s for most others.
	firstTurn = 500 * time.Millisecond
	lastTurn  = 10 * time.Second
	// patient is how long a lock is waited for where the caller's context has no end.
	patient = 30 * time.Minute
)

// contend tries something that a lock may stand in the way of, and tries again while somebody else holds one and the answer
// proves that nothing was done. It gives up with a *LockedError when ctx is about to end. Every write goes through it: vmid
// and node say whose lock it may be, where that is known.
func (s *Service) contend(ctx context.Context, node string, vmid int, try func(context.Context) error) error {
	q := s.queue(node, vmid)
	for {
		err := try(ctx)
		if !pve.Contended(err) {
			return err
		}
		if err := q.wait(ctx, err); err != nil {
			return err
		}
	}
}

// queue is one wait for locks that somebody else holds on a guest.
type queue struct {
	s     *Service
	node  string // "" = not known
	vmid  int    // 0 = no guest's
	tries int
	since time.Time // of the first refusal
	end   time.Time // when to give up, on the service's clock
}

// queue begins a wait for the locks of a guest. It costs nothing until one stands in the way.
func (s *Service) queue(node string, vmid int) *queue { return &queue{s: s, node: node, vmid: vmid} }

// wait lets some time pass, longer each time, and says in the log what holds the lock that caused it. When the context has
// ended, or will before the next turn, it returns what is to be said in the end.
func (q *queue) wait(ctx context.Context, cause error) error {
	now := q.s.clock.Now()
	if q.tries == 0 {
		q.since, q.end = now, now.Add(remaining(ctx))
	}
	pause := min(firstTurn<<min(q.tries, 10), lastTurn)
	pause = pause/2 + time.Duration(q.s.chance()*float64(pause)) // spread, so that those who wait do not come back together
	q.tries++
	if ctx.Err() != nil || now.Add(pause).After(q.end) {
		return q.locked(ctx, cause, ctx.Err())
	}
	if q.tries == 1 || pause > lastTurn/2 { // who holds it costs requests; short waits are not worth them
		held, err := q.s.holder(ctx, q.node, q.vmid, cause)
		q.s.say(ctx, fmt.Sprintf("%s; trying again", held), err, q.tries, pause)
	}
	if err := q.s.clock.Sleep(ctx, pause); err != nil {
		return q.locked(ctx, cause, err)
	}
	return nil
}

// remaining is the time that a context leaves, less what it takes to say what was in the way.
func remaining(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return patient
	}
	left := time.Until(deadline)
	return left - min(left/10, 5*time.Second)
}

// locked is the end of a wait without success.
func (q *queue) locked(ctx context.Context, cause, ended error) error {
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	held, err := q.s.holder(look, q.node, q.vmid, cause)
	return &LockedError{Err: cause, Waited: q.s.clock.Now().Sub(q.since).Round(time.Second), Held: held.String(), Next: held.next(err), ended: ended}
}

// LockedError says that a lock of somebody else stood in the way until the time was over. Nothing was done.
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
func (e *LockedError) Error() string {
	why := fmt.Sprintf("waited %s for the lock", e.Waited)
	if errors.Is(e.ended, context.Canceled) {
		why = fmt.Sprintf("interrupted after %s of waiting for the lock", e.Waited)
	}
	return fmt.Sprintf("%v (%s). %s. Nothing was done. Next step: %s", e.Err, why, e.Held, e.Next)
}

// Unwrap gives PVE's refusal.
func (e *LockedError) Unwrap() error { return e.Err }

// Is finds the end of the context that ended the wait, if one did.
func (e *LockedError) Is(target error) bool { return e.ended != nil && errors.Is(e.ended, target) }

// unlocked finds the VM in state and waits until nobody holds it: the digest of a locked configuration is that of a file with
// the lock in it, and good for nothing once the lock is gone; and a migration that holds it takes it to another node. A guest
// that was suspended to disk keeps its lock; it is not waited for.
func (s *Service) unlocked(ctx context.Context, ref Ref) (string, pve.PendingConfig, error) {
	q := s.queue(ref.Node, ref.VMID)
	for {
		node, config, err := s.find(ctx, ref)
		if err == nil {
			err = guard(ref, node, config.Current())
		}
		lock := config.Current()["lock"]
		if err != nil || lock == "" || lock == suspended {
			return node, config, err
		}
		q.node = node
		if err := q.wait(ctx, lockedBy(lock, fmt.Sprintf("change VM %d on node %s", ref.VMID, node))); err != nil {
			return node, config, err
		}
	}
}

// bound applies a change to the configuration as it was read. A lock that came since then changes the digest too, and PVE
// compares that before it looks at the lock (qemu-server API2/Qemu.pm update_vm_api): where nothing but a lock came, or came
// and went, nobody has changed anything.
func (u *update) bound(ctx context.Context, change vm.Change) error {
	for attempt := 0; ; attempt++ {
		err := u.s.apply(ctx, &u.ledger, u.node, u.vmid, change, u.config.Digest)
		if !pve.IsKind(err, pve.DigestMismatch) || attempt == 2 {
			return err
		}
		ref := u.r.Ref
		ref.Node = u.node
		node, now, lookErr := u.s.unlocked(ctx, ref)
		if pve.IsKind(lookErr, pve.Locked) {
			return lookErr
		}
		if lookErr != nil || node != u.node || !sameButLock(u.config, now) {
			return err
		}
		u.config = now
	}
}

// sameButLock tells whether two readings of a configuration differ in nothing but its lock.
func sameButLock(a, b pve.PendingConfig) bool {
	less := func(values map[string]string) map[string]string {
		values = maps.Clone(values)
		delete(values, "lock")
		return values
	}
	return maps.Equal(less(a.Current()), less(b.Current())) && maps.Equal(less(a.Merged()), less(b.Merged()))
}

// suspended is the lock of a guest that was suspended to disk. It is a state of the guest, no sign of work under way.
const suspended = "suspended"

// lockedBy is the refusal that PVE would answer with.
func lockedBy(lock, op string) error {
	return &pve.Error{Op: op, Kind: pve.Locked, Message: fmt.Sprintf("VM is locked (%s)", lock)}
}
