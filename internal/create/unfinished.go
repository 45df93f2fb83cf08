package create

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// A create that was killed is continued by the next create with its key, and by nothing else. No plan, no refresh and
// no other configuration touches its VM.

// unfinished is a guest that a create of this provider, or perhaps one of this identity, has not committed.
type unfinished struct {
	listed pve.Resource
	mark   ownership.Mark
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

// lifeOf is what is known of the run that made a mark. One of this process that is not under way here belongs to
// another instance of the provider.
func (c *Creator) lifeOf(mark ownership.Mark) guest.Life {
	life := c.guests.LifeOf(mark)
	if life == guest.Alive && mark.Process == c.guests.Process && !c.isActive(mark.Saga) {
		life = guest.Unsure
	}
	return life
}

// inherit looks for the VM that a run of this very create has left, and continues it: the attempt has its VM. Without
// one both results are nil, unless the VMID is another's. A VM of another key is named, never touched.
func (c *Creator) inherit(ctx context.Context, p plan, found findings) (*attempt, []guest.Warning, error) {
	var warnings []guest.Warning
	key := c.keyOf(p.r)
	for _, listed := range c.candidates(found.resources, p.r) {
		if p.r.VMID == 0 && (c.made(listed.VMID) || c.isFinished(listed.VMID)) {
			continue
		}
		u := c.readUnfinished(ctx, found.resources, listed)
		mine := u.marked && u.mark.Key == key && c.guests.IsGenuine(u.mark)
		switch {
		case mine:
			a, warning, err := c.continued(ctx, p, found, u)
			if a != nil || err != nil {
				return a, append(warnings, warning...), err
			}
			warnings = append(warnings, warning...)
		case p.r.VMID != 0:
			return nil, warnings, c.takenBy(ctx, u, p.r.Adopts)
		default:
			warning, err := c.namesake(ctx, u, p.r)
			if warnings = append(warnings, warning...); err != nil {
				return nil, warnings, err
			}
		}
	}
	return nil, warnings, nil
}

// candidates are the listed guests that a run of this create may have left: the one with the configured VMID, or those
// with its name and those without any. The listing learns a name some 10 s late, and a run that was killed may start
// again sooner. PVE gives a clone without a name one of its own (qemu-server API2/Qemu.pm, clone_vm).
func (c *Creator) candidates(resources pve.Resources, r Request) []pve.Resource {
	if r.VMID != 0 {
		if listed, ok := resources.Guest(r.VMID); ok {
			return []pve.Resource{listed}
		}
		return nil
	}
	found := resources.Unnamed()
	switch {
	case r.Spec.Name != nil:
		found = append(found, resources.GuestsNamed(*r.Spec.Name)...)
	case r.Clone != nil:
		found = append(found, slices.DeleteFunc(resources.Guests(), func(g pve.Resource) bool {
			return g.Type != "qemu" || !strings.HasPrefix(g.Name, "Copy-of-VM-")
		})...)
	}
	return found
}

// continued continues the VM that a run of this create has left, if that run is dead and everything shows that the VM
// is ours. It is nil where there is nothing to continue.
func (c *Creator) continued(ctx context.Context, p plan, found findings, u unfinished) (*attempt, []guest.Warning,
	error) {
	for tried := 0; ; tried++ {
		a, warnings, err := c.tryContinue(ctx, p, found, u)
		if !errors.Is(err, guard.ErrChanged) {
			return a, warnings, err
		}
		// Its run lives, another one continues it, or the task that was making it has ended meanwhile.
		again := c.readUnfinished(ctx, found.resources, u.listed)
		if tried == tries || !again.marked || again.mark.Key != u.mark.Key {
			return nil, nil, ifConfigured(p.r, c.heldBy(again, "it changes while it is looked at"))
		}
		u = again
	}
}

func (c *Creator) tryContinue(ctx context.Context, p plan, found findings, u unfinished) (*attempt, []guest.Warning,
	error) {
	if c.isActive(u.mark.Saga) { // of another resource with an equal configuration
		return nil, nil, ifConfigured(p.r, c.heldBy(u, "this very run is making it"))
	}
	if u.mark.Kept {
		return c.untouched(p.r, u, "on_failure = \"keep\" keeps it")
	}
	v := c.guests.Judge(ctx, found.resources, u.listed.Node, u.mark, u.config)
	if v.Owner != ownership.Ours {
		return c.untouched(p.r, u, v.Reason)
	}
	switch life, err := c.guests.Watch(ctx, u.listed, u.mark, c.lifeOf(u.mark)); {
	case err != nil:
		return c.untouched(p.r, u, fmt.Sprintf("whether its run lives cannot be told: %v", err))
	case life != guest.Dead:
		return nil, nil, ifConfigured(p.r, c.heldBy(u, "its run lives"))
	}
	// A task that was at work may have ended since, and a third party may have come.
	now, err := c.api.QEMU(u.listed.Node, u.listed.VMID).Config(ctx)
	if pve.IsKind(err, pve.NotFound) {
		return nil, nil, nil
	}
	if err != nil || now.Digest != u.digest || v.Maker.Running {
		return nil, nil, errors.Join(guard.Changed(u.listed.VMID, u.listed.Node), err, c.jobs.Pause(ctx, 1))
	}
	dead := guard.Unowned{Listed: u.listed, Resources: found.resources, Config: u.config, Digest: u.digest, Mark: u.mark,
		Gone: c.lifeOf(u.mark) == guest.Dead}
	if !v.Whole || u.config["lock"] != "" {
		return nil, nil, c.removeDead(ctx, dead)
	}
	a, err := c.takeOver(ctx, p, found, dead)
	return a, nil, err
}
