package guard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// Unlocking is a user's order to take the lock of a VM away, which stays.
type Unlocking struct {
	guest.Choice
	// Lock is what it must be; "" stands for any.
	Lock string
	// Unknown accepts a lock of which no dead task is known, and which a program outside PVE may hold.
	Unknown bool
}

// Unlocked is the result.
type Unlocked struct {
	// Node is the VM's node; Lock the lock that was taken away, "" if there was none.
	Node, Lock string
	// By names the task that had left the lock, or says that none is known.
	By string
}

// Locks takes locks of dead tasks away from VMs that stay.
type Locks struct{ *Guard }

// Locks returns the part of the guard that handles locks.
func (g *Guard) Locks() Locks { return Locks{g} }

// DescribeTask names a task for people.
func DescribeTask(t pve.Task) string {
	return fmt.Sprintf("%s of %s, begun %s (%s),", t.UPID.Type(), t.UPID.User(), t.StartTime.UTC().Format(time.RFC3339),
		t.UPID)
}

// CanRelease returns an error unless this identity, or SSH, could take a lock away.
func (l Locks) CanRelease() error {
	if l.shell == nil && !l.api.Identity().IsRootTicket() {
		return &guest.FieldError{Summary: "No way to take a lock away", Detail: "PVE lets only the user root@pam with a " +
			"password do so " +
			"over its API, not even a token of root, and no SSH is configured, by which `qm unlock` would be run"}
	}
	return nil
}

// Release takes a lock away that no task holds any more. The tasks of all users are visible, before the VM is read
// again and after it, and the last task that took this lock was killed.
func (l Locks) Release(ctx context.Context, u Unlocking) (Unlocked, error) {
	if err := l.CanRelease(); err != nil {
		return Unlocked{}, err
	}
	at, err := l.guests.Pick(ctx, u.Choice)
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
	resources, err := l.api.Cluster().Resources(ctx)
	if err != nil {
		return found, err
	}
	lock := Lock{Node: at.Node, VMID: u.VMID, Name: found.Lock, Resources: resources}
	if err := l.checkUnheld(ctx, lock); err != nil {
		return found, err
	}
	e, err := l.Prove(ctx, Claim{Node: at.Node, VMID: u.VMID, Lock: true, Guest: func(config pve.GuestConfig) error {
		if config.Values["lock"] != found.Lock || guest.IdentityOf(config.Values) != guest.IdentityOf(seen) {
			return fmt.Errorf("VM %d on node %s has changed while it was looked at; it was not unlocked", u.VMID, at.Node)
		}
		return nil
	}})
	if err != nil {
		return found, err
	}
	dead, err := l.Died(ctx, lock)
	if err == nil {
		err = l.checkUnheld(ctx, lock) // right before the request
	}
	switch {
	case err != nil:
		return found, err
	case dead.UPID != "":
		found.By = DescribeTask(dead) + " died and left it"
	case !u.Unknown:
		return found, &guest.FieldError{Path: "accept",
			Summary: fmt.Sprintf("It is not certain that the lock (%s) of VM %d is dead", found.Lock, u.VMID),
			Detail: "No task holds it, but none that died over it is known either: a program outside PVE, or a person, may " +
				"have set it and still be at work. It was not taken away; accept = \"unknown\" does so"}
	default:
		found.By = "no task holds it, and none that died over it is known"
	}
	return found, l.release(ctx, e, found.Lock)
}

// refuse is for locks that are no leftovers of a VM which stays.
func (u Unlocking) refuse(node string, config map[string]string) error {
	lock := config["lock"]
	switch {
	case u.Lock != "" && u.Lock != lock:
		return &guest.FieldError{Path: "lock", Summary: fmt.Sprintf("VM %d has another lock", u.VMID),
			Detail: fmt.Sprintf("It is locked (%s), not (%s); it was not unlocked", lock, u.Lock)}
	case lock == request.Suspended:
		return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d is suspended to disk", u.VMID),
			Detail: "That is no leftover: without its lock its saved memory would be lost. It was not unlocked; its start " +
				"resumes it"}
	case lock == "clone" || lock == "destroyed" || guest.IsOwnLock(lock) && guest.IdentityOf(config).IsZero():
		return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d is not whole", u.VMID),
			Detail: fmt.Sprintf("The lock (%s) on node %s is that of a task that made it, or destroyed it. Without that task "+
				"it is no whole VM. It was not unlocked; proxmox_orphans lists it if the task has died, and "+
				"proxmox_orphan_delete removes it then", lock, node)}
	}
	return nil
}

// Lock is a configuration lock of a VM, with the cluster's listing as it was when the lock was seen.
type Lock struct {
	Node      string
	VMID      int
	Name      string // "backup", "snapshot", …
	Resources pve.Resources
}

// nodes are the nodes on which the task behind the lock may run: a migration ends on the node that it began on.
func (l Lock) nodes() []pve.Resource {
	return slices.DeleteFunc(l.Resources.Nodes(), func(n pve.Resource) bool {
		return n.Node != l.Node &&
			l.Name != "migrate"
	})
}

// IsUnheld reports whether it is certain that no task holds a lock: the tasks of all users are visible on every node
// where one may run.
func (l Locks) IsUnheld(ctx context.Context, lock Lock, cause error) bool {
	return !slices.ContainsFunc(lock.nodes(), func(n pve.Resource) bool {
		if n.Node != lock.Node && n.Status != "online" {
			return true
		}
		held, err := l.jobs.Holder(ctx, n.Node, lock.VMID, cause)
		return err != nil || !held.Audit || len(held.Runs) > 0
	})
}

// Died finds the task that took a lock and ended without giving it back.
func (l Locks) Died(ctx context.Context, lock Lock) (pve.Task, error) {
	var nodes []string
	for _, n := range lock.nodes() {
		nodes = append(nodes, n.Node)
	}
	dead, err := l.jobs.Died(ctx, request.Holder{Node: lock.Node, VMID: lock.VMID, Lock: lock.Name}, nodes...)
	if err != nil {
		return dead, fmt.Errorf("look which task left VM %d locked (%s): %w", lock.VMID, lock.Name, err)
	}
	return dead, nil
}

// checkUnheld is an error, for an identity that sees the tasks of all users, unless no task holds the lock on any node.
func (l Locks) checkUnheld(ctx context.Context, lock Lock) error {
	cause := request.LockedBy(lock.Name, fmt.Sprintf("unlock VM %d on node %s", lock.VMID, lock.Node))
	for _, n := range lock.nodes() {
		if n.Node != lock.Node && n.Status != "online" {
			return fmt.Errorf("node %s is %s, and the task behind the lock (%s) of VM %d may be at work there: it was not "+
				"unlocked",
				n.Node, n.Status, lock.Name, lock.VMID)
		}
		held, err := l.jobs.Holder(ctx, n.Node, lock.VMID, cause)
		switch {
		case err != nil:
			return fmt.Errorf("whether a task holds the lock (%s) of VM %d could not be looked at, and it was not unlocked: %w",
				lock.Name, lock.VMID, err)
		case len(held.Runs) > 0:
			return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("A task holds the lock of VM %d", lock.VMID),
				Detail: fmt.Sprintf("%s. It was not unlocked: wait until the task has ended, or stop it "+
					"(%s)", held, shell.TaskStatus(string(held.Runs[0]), n.Node))}
		case !held.Audit:
			return &UnseenTasksError{node: n.Node, vmid: lock.VMID, lock: lock.Name}
		}
	}
	return nil
}

// release takes the lock away, and looks that it is gone: an answer may be lost.
func (l Locks) release(ctx context.Context, e Evidence, lock string) error {
	err := l.TakeLock(ctx, e, "")
	if err != nil && !pve.IsKind(err, pve.Ambiguous) {
		return err
	}
	now, lookErr := l.api.QEMU(e.node, e.vmid).Config(ctx)
	switch {
	case lookErr != nil:
		return cmp.Or(err, lookErr)
	case now.Values["lock"] != lock:
		return nil
	case err != nil:
		return fmt.Errorf("VM %d is still locked (%s): %w", e.vmid, lock, err)
	}
	return fmt.Errorf("VM %d on node %s is locked (%s) again, or still", e.vmid, e.node, lock)
}
