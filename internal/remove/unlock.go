package remove

import (
	"cmp"
	"context"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Unlocking takes the lock of a VM away that somebody names, although it goes on.
type Unlocking struct {
	guest.Choice
	// Lock is what it must be; "" is whichever there is.
	Lock string
	// Unknown takes also one of which no task that died is known, and which a program outside PVE may hold.
	Unknown bool
}

// Unlocked is what became of it.
type Unlocked struct {
	// Node is where the VM is; Lock what was taken away, "" where there was none.
	Node, Lock string
	// By is the task that had left it, in words, or that none is known.
	By string
}

// CanUnlock reports whether this identity, or SSH, could take any lock away.
func (s *Remover) CanUnlock() error {
	if s.shell == nil && !s.api.Identity().IsRootTicket() {
		return &guest.FieldError{Summary: "No way to take a lock away", Detail: "PVE lets only the user root@pam with a password do so " +
			"over its API, not even a token of root, and no SSH is configured, by which `qm unlock` would be run"}
	}
	return nil
}

// ReleaseLock takes a lock away that no task holds any more: everybody's tasks are seen, before the VM is read again and after it, and the
// last of those that take this lock was killed.
func (s *Remover) ReleaseLock(ctx context.Context, u Unlocking) (Unlocked, error) {
	if err := s.CanUnlock(); err != nil {
		return Unlocked{}, err
	}
	at, err := s.guests.Pick(ctx, u.Choice)
	if err != nil {
		return Unlocked{}, err
	}
	seen := at.Config.Current()
	found := Unlocked{Node: at.Node, Lock: seen["lock"]}
	if found.Lock == "" {
		return found, nil
	}
	if err := u.refuse(at.Node, seen); err != nil {
		return found, err
	}
	resources, err := s.api.Resources(ctx)
	if err != nil {
		return found, err
	}
	d := &destruction{s: s, r: Request{Ref: guest.Ref{VMID: u.VMID}}, node: at.Node, resources: resources}
	if err := d.free(ctx, found.Lock); err != nil {
		return found, err
	}
	e, err := s.prove(ctx, claim{node: at.Node, vmid: u.VMID, lock: true, guest: func(config pve.GuestConfig) error {
		if config.Values["lock"] != found.Lock || guest.IdentityOf(config.Values) != guest.IdentityOf(seen) {
			return fmt.Errorf("VM %d on node %s has changed while it was looked at; it was not unlocked", u.VMID, at.Node)
		}
		return nil
	}})
	if err != nil {
		return found, err
	}
	dead, err := d.died(ctx, found.Lock)
	if err == nil {
		err = d.free(ctx, found.Lock) // the last thing before
	}
	switch {
	case err != nil:
		return found, err
	case dead.UPID != "":
		found.By = describe(dead) + " died and left it"
	case !u.Unknown:
		return found, &guest.FieldError{Path: "accept",
			Summary: fmt.Sprintf("It is not certain that nobody needs the lock (%s) of VM %d", found.Lock, u.VMID),
			Detail: "No task holds it, but none that died over it is known either: a program outside PVE may have set it, and be at work, or " +
				"somebody by hand. It was not taken away; accept = \"unknown\" does so"}
	default:
		found.By = "no task holds it, and none that died over it is known"
	}
	return found, s.unlockNow(ctx, e, found.Lock)
}

// refuse is for locks that are no leftovers of a VM which goes on.
func (u Unlocking) refuse(node string, config map[string]string) error {
	lock := config["lock"]
	switch {
	case u.Lock != "" && u.Lock != lock:
		return &guest.FieldError{Path: "lock", Summary: fmt.Sprintf("VM %d has another lock", u.VMID),
			Detail: fmt.Sprintf("It is locked (%s), not (%s); it was not unlocked", lock, u.Lock)}
	case lock == job.Suspended:
		return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d is suspended to disk", u.VMID),
			Detail: "That is no leftover: without its lock its saved memory would be lost. It was not unlocked; its start resumes it"}
	case lock == "clone" || lock == "destroyed" || guest.IsOwnLock(lock) && guest.IdentityOf(config).IsZero():
		return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d is not whole", u.VMID),
			Detail: fmt.Sprintf("The lock (%s) on node %s is that of a task that made it, or destroyed it, and what is under it is no VM without "+
				"that. It was not unlocked; proxmox_orphans lists it if the task has died, and proxmox_orphan_delete removes it then", lock, node)}
	}
	return nil
}

// free is nil when no task holds a lock, on any node where one may, as somebody can tell who sees all tasks.
func (d *destruction) free(ctx context.Context, lock string) error {
	vmid := d.r.Ref.VMID
	cause := job.LockedBy(lock, fmt.Sprintf("unlock VM %d on node %s", vmid, d.node))
	for _, n := range d.nodesOf(lock) {
		if n.Node != d.node && n.Status != "online" {
			return fmt.Errorf("node %s is %s, and the task behind the lock (%s) of VM %d may be at work there: it was not unlocked",
				n.Node, n.Status, lock, vmid)
		}
		held, err := d.s.jobs.Holder(ctx, n.Node, vmid, cause)
		switch {
		case err != nil:
			return fmt.Errorf("whether a task holds the lock (%s) of VM %d could not be looked at, and it was not unlocked: %w", lock, vmid, err)
		case len(held.Runs) > 0:
			return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("A task holds the lock of VM %d", vmid),
				Detail: fmt.Sprintf("%s. It was not unlocked: wait until the task has ended, or stop it (`pvenode task status %s` on node %s)",
					held, held.Runs[0], n.Node)}
		case !held.Audit:
			return &unseenTasksError{node: n.Node, vmid: vmid, lock: lock}
		}
	}
	return nil
}

// unlockNow takes the lock away, and looks that it is gone: an answer may be lost.
func (s *Remover) unlockNow(ctx context.Context, e Evidence, lock string) error {
	err := s.takeLock(ctx, e, "")
	if err != nil && !pve.IsKind(err, pve.Ambiguous) {
		return err
	}
	now, lookErr := s.api.CurrentConfig(ctx, e.node, e.vmid)
	if lookErr != nil {
		return cmp.Or(err, lookErr)
	}
	if now.Values["lock"] == lock {
		return cmp.Or(err, fmt.Errorf("VM %d on node %s is locked (%s) again, or still", e.vmid, e.node, lock))
	}
	return nil
}
