package remove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// ownerless is how long a lock that no task holds is waited for: a program outside PVE may have set it and take it away.
const ownerless = 30 * time.Second

// unlocked waits until no lock holds the VM. What was known of it and of others is old then, and everything is asked again.
func (d *destruction) unlocked(ctx context.Context) error {
	for {
		if lock := d.config.Current()["lock"]; lock == "" || lock == job.Suspended {
			return nil
		}
		for _, step := range []func(context.Context) error{d.awaitLock, d.survey, d.refuse} {
			if err := step(ctx); err != nil || d.gone {
				return err
			}
		}
	}
}

// awaitLock waits for one lock. One whose task has died stays for ever: it is taken away if everything shows that it is dead, and
// if this identity or SSH can.
func (d *destruction) awaitLock(ctx context.Context) error {
	vmid, began := d.r.Ref.VMID, d.s.clock.Now()
	q := d.s.jobs.Queue(d.node, vmid)
	for idle := 0; ; {
		lock := d.config.Current()["lock"]
		if lock == "" || lock == job.Suspended {
			return nil
		}
		cause := job.LockedBy(lock, fmt.Sprintf("destroy VM %d on node %s", vmid, d.node))
		idle++
		if !d.unheld(ctx, lock, cause) {
			idle = 0
		}
		var dead pve.Task
		if idle > 1 { // twice: between the look at the lock and that at the tasks it may have been given back
			var err error
			if dead, err = d.died(ctx, lock); err != nil {
				return err
			}
			if dead.UPID != "" || d.s.clock.Now().Sub(began) > ownerless {
				if err := d.takeDeadLock(ctx, lock, dead, cause); err != nil {
					return err
				}
			}
		}
		if dead.UPID == "" {
			if err := q.Wait(ctx, cause); err != nil {
				return d.explainStub(err)
			}
		}
		if err := d.lookAgain(ctx); err != nil || d.gone {
			return err
		}
	}
}

// unheld reports whether it is certain that no task holds the lock: everybody's tasks are seen, on the VM's node, and, since
// a migration ends on the node that it began on, for its lock on all of them.
func (d *destruction) unheld(ctx context.Context, lock string, cause error) bool {
	return !slices.ContainsFunc(d.nodesOf(lock), func(n pve.Resource) bool {
		if n.Node != d.node && n.Status != "online" {
			return true
		}
		held, err := d.s.jobs.Holder(ctx, n.Node, d.r.Ref.VMID, cause)
		return err != nil || !held.Audit || len(held.Runs) > 0
	})
}

// nodesOf are the nodes on which the task behind a lock may run.
func (d *destruction) nodesOf(lock string) []pve.Resource {
	return slices.DeleteFunc(d.resources.Nodes(), func(n pve.Resource) bool { return n.Node != d.node && lock != "migrate" })
}

// died finds the task that took a lock and ended without giving it back.
func (d *destruction) died(ctx context.Context, lock string) (pve.Task, error) {
	var nodes []string
	for _, n := range d.nodesOf(lock) {
		nodes = append(nodes, n.Node)
	}
	dead, err := d.s.jobs.Died(ctx, job.Holder{Node: d.node, VMID: d.r.Ref.VMID, Lock: lock}, nodes...)
	if err != nil {
		return dead, fmt.Errorf("look which task left VM %d locked (%s): %w", d.r.Ref.VMID, lock, err)
	}
	return dead, nil
}

// deadLocks are the locks that a destroy may take away from its own VM when the task behind them is proven dead. What such a
// task leaves besides is told by copies and by PVE itself: see docs/design/destroy.md.
func deadLocks() []string {
	return []string{"backup", "migrate", "snapshot", "snapshot-delete", "rollback", "suspending", "create", "import"}
}

// takeDeadLock takes a dead lock away, or says why not and what to do.
func (d *destruction) takeDeadLock(ctx context.Context, lock string, dead pve.Task, cause error) error {
	vmid := d.r.Ref.VMID
	held := fmt.Sprintf("VM %d is locked (%s), and no task holds the lock: ", vmid, lock)
	next := fmt.Sprintf("`qm unlock %d` as root on node %s, then destroy again", vmid, d.node)
	switch {
	case d.stub:
		return d.explainStub(cause)
	case dead.UPID == "":
		return &job.LockedError{Err: cause, Next: "if nothing is at work on it, " + next,
			Held: held + "none that died is known either. A program outside PVE may have set it, or somebody by hand"}
	case !slices.Contains(deadLocks(), lock):
		return &job.LockedError{Err: cause, Held: held + describe(dead) + " died", Next: next}
	}
	e, err := d.proveSelf(ctx, true)
	if err == nil {
		err = d.s.takeLock(ctx, e, "")
		if pve.IsKind(err, pve.Ambiguous) {
			err = nil // the next look tells
		}
	}
	if errors.Is(err, errCannotUnlock) {
		return &job.LockedError{Err: cause, Next: next,
			Held: held + describe(dead) + " died. Only root@pam with a password may take it away over the API, and no SSH is configured"}
	}
	if err != nil {
		return fmt.Errorf("take the dead lock (%s) of VM %d away: %w", lock, vmid, err)
	}
	d.warnings = append(d.warnings, guest.Warning{Summary: fmt.Sprintf("The lock (%s) of VM %d was taken away", lock, vmid),
		Detail: describe(dead) + " died and left it."})
	d.suspect(lock, dead)
	return nil
}

// suspect notes where a task that died may have left volumes that no configuration names.
func (d *destruction) suspect(lock string, dead pve.Task) {
	why := "the task that died (" + string(dead.UPID) + ") may have left them"
	d.copied[d.node] = why
	if lock != "migrate" {
		return
	}
	for _, n := range d.resources.Nodes() {
		d.copied[n.Node] = why
	}
}

func describe(t pve.Task) string {
	return fmt.Sprintf("%s of %s, begun %s (%s),", t.UPID.Type(), t.UPID.User(), t.StartTime.UTC().Format(time.RFC3339), t.UPID)
}

// explainStub says of a stub what its lock alone does not: that nothing proves any more whose it is.
func (d *destruction) explainStub(err error) error {
	if !d.stub {
		return err
	}
	return guest.HalfDestroyed(d.r.Ref, d.node, err)
}
