package orphan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
)

// Deleter removes one item at a time.
type Deleter struct {
	*Finder
	remover *destroy.Destroyer
}

// NewDeleter makes a Deleter.
func NewDeleter(f *Finder, remover *destroy.Destroyer) *Deleter { return &Deleter{f, remover} }

// Delete looks for an item once more, and removes it if it is certain that nothing needs it; with accept "likely",
// also if that is likely.
func (d *Deleter) Delete(ctx context.Context, n Named, accept Certainty, options Options) (string, error) {
	d.jobs.Tell(ctx, fmt.Sprintf("Looking at %s %s", n.Kind, n.ID))
	l, err := d.lookFor(ctx, n, options)
	if err != nil {
		return "", err
	}
	if len(l.report.Items) == 0 {
		return l.absent(ctx)
	}
	i := l.report.Items[0]
	if err := cmp.Or(n.checkAlone(l.report.Items), n.check(i, accept)); err != nil {
		return "", err
	}
	d.jobs.Tell(ctx, fmt.Sprintf("It is %s that it is left over: %s", i.Certainty, i.Reason))
	tasks := &request.Tasks{}
	done, err := d.remove(ctx, l, i, tasks)
	for _, upid := range tasks.UPIDs {
		if i.found == nil || upid != i.found.dead { // that is not ours
			d.tellLog(ctx, upid)
		}
	}
	if pve.IsKind(err, pve.Ambiguous) || pve.IsKind(err, pve.NotFound) { // an answer was lost, or another was quicker
		if again, lookErr := d.lookFor(ctx, n, options); lookErr == nil && len(again.report.Items) == 0 {
			if _, lookErr = again.absent(ctx); lookErr == nil {
				err = nil
			}
		}
	}
	return done, err
}

// remove removes an item that was just judged.
func (d *Deleter) remove(ctx context.Context, l *look, i Item, tasks *request.Tasks) (string, error) {
	switch i.Kind {
	case Volume:
		return "Volume " + i.ID + " was removed", d.remover.Orphans().Free(ctx, tasks, i.VMID, guard.MadeFile{Node: i.Node,
			Volume: i.ID,
			Size:   i.Size, CreatedAt: i.Since})
	case HAResource:
		return i.ID + " was taken out of HA", d.remover.Orphans().LeaveHA(ctx, i.VMID, i.ID)
	case ACLEntry:
		return "The permission " + i.ID + " was taken away", d.remover.Orphans().DropACL(ctx, i.VMID, i.found.entry)
	case PoolMember:
		pool := l.only.ID[:max(0, strings.LastIndex(l.only.ID, "/"))]
		if pool == "" {
			return "", &guest.FieldError{Path: "id", Summary: "PVE does not tell which pool it is", Detail: i.Reason +
				". With its name, as in " +
				fmt.Sprintf("\"web/%d\", it is removed. Nothing was removed", i.VMID)}
		}
		return fmt.Sprintf("%d was taken out of pool %s", i.VMID, pool), d.remover.Orphans().LeavePool(ctx, i.VMID, pool)
	case DeadLock:
		u, err := d.remover.Locks().Release(ctx, guard.Unlocking{Choice: guest.Choice{VMID: i.VMID, Node: i.Node},
			Lock: i.found.config["lock"]})
		if err == nil && u.Lock == "" {
			return fmt.Sprintf("VM %d is not locked any more", i.VMID), nil
		}
		return fmt.Sprintf("The lock (%s) of VM %d was taken away: %s", u.Lock, i.VMID, u.By), err
	}
	return d.deleteGuest(ctx, l, i, tasks)
}

// deleteGuest removes a guest that is left over.
func (d *Deleter) deleteGuest(ctx context.Context, l *look, i Item, tasks *request.Tasks) (string, error) {
	listed, _ := l.before.Guest(i.VMID)
	listed.Node = i.Node
	u := guard.Unowned{Listed: listed, Resources: l.before, Config: i.found.config, Digest: i.found.digest,
		Mark: i.found.mark,
		Dead: i.found.dead}
	done := fmt.Sprintf("VM %d on node %s was removed", i.VMID, i.Node)
	if u.Config["lock"] != "" {
		if err := d.remover.Locks().CanRelease(); err != nil {
			return "", err
		}
	}
	if i.Kind == ExpiredCreate {
		life, err := d.guests.Watch(ctx, listed, u.Mark, d.guests.LifeOf(u.Mark))
		if err == nil && life != guest.Dead {
			err = fmt.Errorf("transaction %s lives: it has shown so while it was watched. Nothing was removed", u.Mark.Saga)
		}
		if err != nil {
			return "", err
		}
		v := d.guests.Judge(ctx, l.before, i.Node, u.Mark, u.Config) // a user may have come meanwhile
		if v.Owner != ownership.Ours {
			return "", fmt.Errorf("VM %d has changed while it was watched: %s. Nothing was removed", i.VMID, v.Reason)
		}
		u.Gone = d.guests.LifeOf(u.Mark) == guest.Dead
		taken, err := d.remover.RemoveDead(ctx, u)
		if err == nil && taken {
			err = errors.New("another user has its VMID by now; their VM was not touched")
		}
		return done, err
	}
	// PVE takes its id out of all these, also where another user has put it there ahead of a guest that is to come.
	purged := d.remover.Purged(ctx, destroy.Request{Ref: guest.Ref{VMID: i.VMID, Node: i.Node}})
	if lines := (destroy.Along{Purged: purged}).Lines(nil); len(lines) > 0 {
		named := fmt.Sprintf("With it PVE took the id %d out of:\n  %s", i.VMID, strings.Join(lines, "\n  "))
		d.jobs.Tell(ctx, strings.Replace(named, "took", "takes", 1))
		done += ". " + named
	}
	if u.Config["lock"] != "" {
		return done, d.remover.RemoveHalfMade(ctx, tasks, u)
	}
	return done, d.remover.Orphans().RemoveVM(ctx, tasks, u)
}

// tellLog says what a task has logged.
func (d *Deleter) tellLog(ctx context.Context, upid pve.UPID) {
	const lines = 10
	d.jobs.Tell(ctx, "Task "+string(upid))
	log, err := d.api.Tasks().Log(ctx, upid, lines)
	if err != nil {
		return // what it did is known without it
	}
	for _, line := range log {
		if line != "TASK OK" {
			d.jobs.Tell(ctx, line)
		}
	}
}
