package create

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// unfinished is a guest that a create of this provider, or perhaps one of this identity, has not committed.
type unfinished struct {
	listed pve.Resource
	mark   guest.Mark
	config map[string]string
	digest string
	// marked: mark is the create's. Without it a task is still making the guest, or died over it.
	marked bool
}

// readUnfinished reads a listed guest. One that a task of this identity is still making has no mark yet. The end of the
// task is awaited for a while, since it may be that of a run which was killed a moment ago.
func (c *Creator) readUnfinished(ctx context.Context, resources pve.Resources, listed pve.Resource) unfinished {
	const patience = 2 * time.Minute
	end := c.jobs.Clock.Now().Add(patience)
	for attempt := 0; ; attempt++ {
		u := unfinished{listed: listed}
		var config pve.GuestConfig
		u.mark, config, u.marked = c.guests.Unfinished(ctx, resources, listed)
		u.config, u.digest = config.Values, config.Digest
		if u.marked || !u.isHalfMade() || !c.jobs.Clock.Now().Before(end) || !c.isMadeByUs(ctx, listed) ||
			c.jobs.Pause(ctx, attempt+1) != nil {
			return u
		}
	}
}

func (u unfinished) isHalfMade() bool {
	return u.config["lock"] == "create" || u.config["lock"] == "clone" || guest.IsRestoring(u.config)
}

// isMadeByUs reports whether a task of this identity, begun by no request of this process, may be making a guest. The
// task of a clone names its source only.
func (c *Creator) isMadeByUs(ctx context.Context, listed pve.Resource) bool {
	tasks, err := c.api.Tasks().List(ctx, listed.Node, pve.TaskFilter{RunningOnly: true})
	return err == nil && slices.ContainsFunc(tasks, func(t pve.Task) bool {
		typ := t.UPID.Type()
		makes := (typ == "qmcreate" || typ == "qmrestore") && t.UPID.ID() == fmt.Sprint(listed.VMID) || typ == "qmclone"
		return makes && t.UPID.User() == c.api.Identity().User && !c.jobs.IsKnown(t.UPID)
	})
}

// judge reports whether the run that made a marked guest is over. One of this process that is not under way here
// belongs to another instance of the provider.
func (c *Creator) judge(ctx context.Context, resources pve.Resources, u unfinished) (guest.Verdict, error) {
	life := c.guests.LifeOf(u.mark)
	if life == guest.Alive && u.mark.Process == c.guests.Process && !c.isActive(u.mark.Saga) {
		life = guest.Unsure
	}
	return c.guests.JudgeRun(ctx, resources, life, u.mark, u.config)
}

// checkTaken looks at the guest that has a configured VMID. It removes only what a dead create of this provider left;
// everything else is a third party's. It waits for a run that may be dead until the run would have shown that it lives.
func (c *Creator) checkTaken(ctx context.Context, resources pve.Resources, listed pve.Resource, r Request) error {
	var was guest.Mark // as it was when it was waited for
	for changed, waits := 0, 0; ; {
		u := c.readUnfinished(ctx, resources, listed)
		if !u.marked {
			return c.takenBy(ctx, u, r.Adopts)
		}
		v, err := c.judge(ctx, resources, u)
		left := v.Until.Sub(c.api.ServerTime())
		switch {
		case v.Dead:
			err := c.removeDead(ctx, resources, u, "vmid", &r)
			var complete *completeError
			if errors.As(err, &complete) {
				return &guest.FieldError{Path: "vmid", Summary: complete.summary(), Detail: complete.detail()}
			}
			if changed++; !errors.Is(err, guard.ErrChanged) || changed == tries {
				return err
			}
			left = 0
		case waits == tries || waits > 0 && u.mark != was || err != nil || v.Until.IsZero() || left > guest.Lease+slack:
			return c.heldBy(u, v, err)
		default:
			waits, was = waits+1, u.mark
			c.jobs.Tell(ctx, fmt.Sprintf("VM %d on node %s is another run's, which may have died: %s. It counts as dead at "+
				"%s, and is waited for",
				listed.VMID, listed.Node, v.Seen, v.Until.Format(time.RFC3339)))
		}
		if c.jobs.Clock.Sleep(ctx, left+slack) != nil {
			return c.heldBy(u, v, err)
		}
		if resources, err = c.api.Cluster().Resources(ctx); err != nil {
			return fmt.Errorf("list the cluster's guests: %w", err)
		}
		now, there := resources.Guest(listed.VMID)
		if !there {
			return nil
		}
		listed = now
	}
}

// slack is the error of the server's time, which it tells in seconds.
const slack = 2 * time.Second

// removeDeadNamed looks for the VM of this name that a dead create left under an automatic VMID. A name may be used
// twice, so only uncommitted VMs of this provider count, and a run that lives, or may live, has as much right to the
// name as this one. The listing learns a name some 10 s late, and a run that was killed may start again sooner. So
// guests without a name are read too, except those that this process made.
func (c *Creator) removeDeadNamed(ctx context.Context, resources pve.Resources, r Request) ([]guest.Warning, error) {
	var warnings []guest.Warning
	name := *r.Spec.Name
	for _, listed := range append(resources.GuestsNamed(name), resources.Unnamed()...) {
		if c.made(listed.VMID) {
			continue
		}
		u := c.readUnfinished(ctx, resources, listed)
		switch {
		case !u.marked && u.isHalfMade() && c.isMadeByUs(ctx, listed):
			warnings = append(warnings, guest.Warning{Summary: fmt.Sprintf("VM %d is being made by another run", listed.VMID),
				Detail: fmt.Sprintf("A task that user %s began before, and not this run, is still making a VM on node %s, maybe "+
					"VM %d. Should it belong to a run of this configuration that was killed, the next create of its name or id "+
					"takes the VM away",
					c.api.Identity().User, listed.Node, listed.VMID)})
		case !u.marked || u.config["name"] != name:
		default:
			warning, err := c.removeDeadOf(ctx, resources, u, r)
			warnings = append(warnings, warning...)
			if err != nil {
				return warnings, err
			}
		}
	}
	return warnings, nil
}

// removeDeadOf removes a marked VM whose VMID no create wants, if its run is dead. If that is unknown, or the VM may be
// complete, it warns.
func (c *Creator) removeDeadOf(ctx context.Context, resources pve.Resources, u unfinished, r Request) ([]guest.Warning,
	error) {
	for changed := 1; ; changed++ {
		warnings, err := c.tryRemoveDeadOf(ctx, resources, u, r)
		if !errors.Is(err, guard.ErrChanged) {
			return warnings, err
		}
		// Its run lives, another run takes it back, or the task that was making it has ended meanwhile.
		again := c.readUnfinished(ctx, resources, u.listed)
		if changed == tries || !again.marked || again.mark.Saga != u.mark.Saga {
			return nil, nil
		}
		u = again
	}
}

// tryRemoveDeadOf is removeDeadOf for a VM that has not changed since it was read.
func (c *Creator) tryRemoveDeadOf(ctx context.Context, resources pve.Resources, u unfinished,
	r Request) ([]guest.Warning, error) {
	v, err := c.judge(ctx, resources, u)
	switch {
	case err != nil:
		return []guest.Warning{{Summary: fmt.Sprintf("VM %d (%s) on node %s was not touched", u.listed.VMID, u.config["name"],
			u.listed.Node),
			Detail: fmt.Sprintf("Transaction %s of this provider was making it, and whether its run lives cannot be told: %v",
				u.mark.Saga, err)}}, nil
	case v.Kept:
		return []guest.Warning{{Summary: fmt.Sprintf("VM %d has the name %s, too", u.listed.VMID, u.config["name"]),
			Detail: fmt.Sprintf("It is on node %s, and was not touched (transaction %s, on_failure = \"keep\"): %s. It goes "+
				"with the resource whose state has it. If none has it, `terraform import` takes it over, or %s removes it",
				u.listed.Node, u.mark.Saga, v.Seen, u.removal())}}, nil
	case !v.Dead:
		return nil, nil
	}
	err = c.removeDead(ctx, resources, u, "name", &r)
	var complete *completeError
	if errors.As(err, &complete) { // a name may be used twice
		return []guest.Warning{{Summary: complete.summary(), Detail: complete.detail()}}, nil
	}
	return nil, err
}

// removeDead removes what a dead create left, unless it is what a request wants.
func (c *Creator) removeDead(ctx context.Context, resources pve.Resources, u unfinished, path string,
	r *Request) error {
	listed := u.listed
	select { // one after the other: several here may have found it
	case c.taking <- struct{}{}:
		defer func() { <-c.taking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	switch now, err := c.api.QEMU(listed.Node, listed.VMID).Config(ctx); {
	case pve.IsKind(err, pve.NotFound):
		return nil
	case err == nil && now.Digest != u.digest:
		return guard.ErrChanged
	}
	why, err := c.guests.WhyComplete(ctx, resources, listed.Node, u.mark, u.config)
	if err != nil {
		why = err.Error()
	}
	if why != "" {
		return &completeError{vmid: listed.VMID, name: listed.Name, node: listed.Node, why: why}
	}
	if r != nil && c.lacksCommit(ctx, *r, u) {
		return offer(u, path)
	}
	dead := guard.Unowned{Listed: listed, Resources: resources, Config: u.config, Digest: u.digest, Mark: u.mark,
		Gone: c.guests.LifeOf(u.mark) == guest.Dead}
	if _, err := c.destroyer.RemoveDead(ctx, dead); err != nil {
		return &guest.FieldError{Path: path, Summary: fmt.Sprintf("Cannot remove what a dead create left of VM %d",
			listed.VMID),
			Detail: fmt.Sprintf("Transaction %s of this provider was making it, and its run is over", u.mark.Saga), Err: err}
	}
	return nil
}
