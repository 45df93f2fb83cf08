package destroy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/backoff"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// ownerless is how long a lock that no task holds is waited for: a program outside PVE may have set it and take it
// away.
const ownerless = 30 * time.Second

// lockWait is the part of a destroy that waits for the lock of others, or takes away that of a dead task.
type lockWait struct{ *destruction }

// unlocked waits until no lock holds the VM. After a wait everything is asked again, of the VM and of others.
func (d lockWait) unlocked(ctx context.Context) error {
	for {
		if lock := d.config.Current()["lock"]; lock == "" || lock == request.Suspended {
			return nil
		}
		for _, step := range []func(context.Context) error{d.awaitLock, d.lookFirst, refusals(d).refuse} {
			if err := step(ctx); err != nil || d.gone {
				return err
			}
		}
	}
}

// awaitLock waits for one lock. A lock whose task has died stays for ever. It is taken away if everything shows that
// its task is dead, and if this identity or SSH can do so.
func (d lockWait) awaitLock(ctx context.Context) error {
	vmid, began := d.r.Ref.VMID, d.d.clock.Now()
	q := d.d.jobs.Queue(d.node, vmid)
	q.Reason = backoff.ForLockToRead
	for idle := 0; ; {
		lock := d.config.Current()["lock"]
		if lock == "" || lock == request.Suspended {
			return nil
		}
		cause := request.LockedBy(lock, fmt.Sprintf("destroy VM %d on node %s", vmid, d.node))
		idle++
		if !d.d.Locks().IsUnheld(ctx, d.lock(lock), cause) {
			idle = 0
		}
		var dead pve.Task
		if idle > 1 { // twice: between the look at the lock and that at the tasks it may have been given back
			var err error
			if dead, err = d.d.Locks().Died(ctx, d.lock(lock)); err != nil {
				return err
			}
			if dead.UPID != "" || d.d.clock.Now().Sub(began) > ownerless {
				err := d.takeDeadLock(ctx, lock, dead, cause)
				if locked, ok := errors.AsType[*request.LockedError](err); ok {
					locked.Waited = d.d.clock.Now().Sub(began).Round(time.Second)
				}
				if err != nil {
					return err
				}
			}
		}
		if dead.UPID == "" {
			if err := q.Wait(ctx, cause); err != nil {
				return d.explainHalfDestroyed(err)
			}
		}
		if err := d.lookAgain(ctx); err != nil || d.gone {
			return err
		}
	}
}

// lock is the lock that the VM bears, as the guard takes it.
func (d lockWait) lock(name string) guard.Lock {
	return guard.Lock{Node: d.node, VMID: d.r.Ref.VMID, Name: name, Resources: d.resources}
}

// deadLocks are the locks that a destroy may take away from its own VM once the task behind them is proven dead.
// docs/design/destroy.md says what such a task may leave besides.
func deadLocks() []string {
	return []string{"backup", "migrate", "snapshot", "snapshot-delete", "rollback", "suspending", "create", "import"}
}

// takeDeadLock takes a dead lock away, or says why not and what to do.
func (d lockWait) takeDeadLock(ctx context.Context, lock string, dead pve.Task, cause error) error {
	vmid := d.r.Ref.VMID
	held := fmt.Sprintf("VM %d is locked (%s), and no task holds the lock: ", vmid, lock)
	next := fmt.Sprintf("`qm unlock %d` as root on node %s, then destroy again", vmid, d.node)
	switch {
	case d.halfDestroyed:
		return d.explainHalfDestroyed(cause)
	case dead.UPID == "":
		return &request.LockedError{Err: cause, Next: "if nothing is at work on it, " + next,
			Held: held + "none that died is known either. A program outside PVE, or a person, may have set it"}
	case !slices.Contains(deadLocks(), lock):
		return &request.LockedError{Err: cause, Held: held + guard.DescribeTask(dead) + " died", Next: next}
	}
	e, err := d.proveSelf(ctx, true)
	if err == nil {
		err = d.d.TakeLock(ctx, e, "")
		if pve.IsKind(err, pve.Ambiguous) {
			err = nil // the next look tells
		}
	}
	if errors.Is(err, guard.ErrCannotUnlock) {
		return &request.LockedError{Err: cause, Next: next,
			Held: held + guard.DescribeTask(dead) + " died. Only root@pam with a password may take it away over the API, and " +
				"no SSH is configured"}
	}
	if err != nil {
		return fmt.Errorf("take the dead lock (%s) of VM %d away: %w", lock, vmid, err)
	}
	d.warnings = append(d.warnings, guest.Warning{Summary: fmt.Sprintf("The lock (%s) of VM %d was taken away", lock,
		vmid),
		Detail: guard.DescribeTask(dead) + " died and left it."})
	d.suspect(lock, dead)
	return nil
}

// suspect notes where a task that died may have left volumes that no configuration names.
func (d lockWait) suspect(lock string, dead pve.Task) {
	why := "the task that died (" + string(dead.UPID) + ") may have left them"
	d.copied[d.node] = why
	if lock != "migrate" {
		return
	}
	for _, n := range d.resources.Nodes() {
		d.copied[n.Node] = why
	}
}

// explainHalfDestroyed says of a half-destroyed VM that nothing proves any more whose it is, which its lock alone
// does not say.
func (d lockWait) explainHalfDestroyed(err error) error {
	if !d.halfDestroyed {
		return err
	}
	return guest.HalfDestroyed(d.r.Ref, d.node, err)
}

// awaitUnlocked waits until the VM's user, or a task of theirs, has unlocked it.
func (r *removal) awaitUnlocked(ctx context.Context, f *facts) (outcome, error) {
	_, err := r.d.guests.FindUnlocked(ctx, guest.Ref{VMID: r.VMID, Node: f.node, Identity: r.identity})
	if err != nil {
		err = final{err}
	}
	return nextPass, err
}

// beingZeroed warns of disks of a destroyed VM that no list shows any more, and whose space is not free: LVM with
// saferemove renames a volume, and a task of its own zeroes it at 10 MB/s (pve-storage LVMPlugin.pm
// free_lvm_volumes_locked, Storage.pm vdisk_free).
func beingZeroed(ctx context.Context, d *destruction) []guest.Warning {
	onLVM := slices.DeleteFunc(d.ownVolumes(), func(volume string) bool {
		storage, _ := d.resources.Storage(d.node, volid.Storage(volume))
		return storage.PluginType != "lvm"
	})
	if len(onLVM) == 0 || len(d.tasks.UPIDs) == 0 {
		return nil
	}
	tasks, _ := d.d.api.Tasks().List(ctx, d.node, pve.TaskFilter{RunningOnly: true}) // the VM is gone in any case
	var lines []string
	for _, t := range tasks {
		if t.UPID.Type() != "imgdel" || t.StartTime.Before(d.tasks.UPIDs[0].Start()) {
			continue
		}
		log, _ := d.d.api.Tasks().Log(ctx, t.UPID, 50) // likewise
		for _, volume := range onLVM {
			_, name, _ := strings.Cut(volume, ":")
			if strings.Contains(strings.Join(log, "\n"), "zero-out data on image "+name+" ") {
				lines = append(lines, fmt.Sprintf("  %s by task %s", volume, t.UPID))
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return []guest.Warning{{Summary: fmt.Sprintf("Disks of VM %d are still being zeroed", d.r.Ref.VMID),
		Detail: fmt.Sprintf("The VM is gone. Its storage has saferemove, so PVE zeroes on node %s before it frees the "+
			"space:\n%s\nUntil then a disk of the same name cannot be destroyed. If such a task fails, the volume stays with "+
			"\"del-\" before its name, and `lvs` alone shows it", d.node, strings.Join(lines, "\n"))}}
}
