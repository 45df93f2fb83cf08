package create

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// unfinished is a guest that a create of this provider, or perhaps one of this identity, has not committed.
type unfinished struct {
	listed pve.Resource
	mark   guest.Stamp
	config map[string]string
	digest string
	// stamped: mark is the create's. Without it a task is still making the guest, or died over it.
	stamped bool
}

// readUnfinished reads the guest in a listing. One that a task of this identity is still making bears no mark yet: its end is awaited for a
// while, since it may be that of a run which was killed a moment ago.
func (s *Creator) readUnfinished(ctx context.Context, resources pve.Resources, listed pve.Resource) unfinished {
	const patience = 2 * time.Minute
	end := s.jobs.Clock.Now().Add(patience)
	for attempt := 0; ; attempt++ {
		u := unfinished{listed: listed}
		var config pve.GuestConfig
		u.mark, config, u.stamped = s.guests.Unfinished(ctx, resources, listed)
		u.config, u.digest = config.Values, config.Digest
		if u.stamped || !u.isHalfMade() || !s.jobs.Clock.Now().Before(end) || !s.isMadeByUs(ctx, listed) || s.jobs.Pause(ctx, attempt+1) != nil {
			return u
		}
	}
}

func (u unfinished) isHalfMade() bool {
	return u.config["lock"] == "create" || u.config["lock"] == "clone" || guest.IsRestoring(u.config)
}

// isMadeByUs reports whether a task of this identity that no request of this process began may be making a guest. A clone's task
// names its source only.
func (s *Creator) isMadeByUs(ctx context.Context, listed pve.Resource) bool {
	tasks, err := s.api.Tasks(ctx, listed.Node, pve.TaskFilter{RunningOnly: true})
	return err == nil && slices.ContainsFunc(tasks, func(t pve.Task) bool {
		typ := t.UPID.Type()
		makes := (typ == "qmcreate" || typ == "qmrestore") && t.UPID.ID() == fmt.Sprint(listed.VMID) || typ == "qmclone"
		return makes && t.UPID.User() == s.api.Identity().User && !s.jobs.IsKnown(t.UPID)
	})
}

// judge says whether the run that made a stamped guest is over. One of this process that is not under way here is of another provider.
func (s *Creator) judge(ctx context.Context, resources pve.Resources, u unfinished) (guest.Verdict, error) {
	life := s.guests.LifeOf(u.mark)
	if life == guest.Alive && u.mark.Process == s.guests.Process && !s.isActive(u.mark.TX) {
		life = guest.Unsure
	}
	return s.guests.Judge(ctx, resources, life, u.mark, u.config)
}

// checkTaken looks at the guest that has a configured id. Only what a dead create of this provider left is removed;
// everything else is somebody's. A run that would have shown by then that it lives is waited for.
func (s *Creator) checkTaken(ctx context.Context, resources pve.Resources, listed pve.Resource, r Request) error {
	var was guest.Stamp // as it was when it was waited for
	for changed, waits := 0, 0; ; {
		u := s.readUnfinished(ctx, resources, listed)
		if !u.stamped {
			return s.takenBy(ctx, u, r.Adopts)
		}
		v, err := s.judge(ctx, resources, u)
		left := v.Until.Sub(s.api.ServerTime())
		switch {
		case v.Dead:
			err := s.removeDead(ctx, resources, u, "vmid", &r)
			var complete *completeError
			if errors.As(err, &complete) {
				return &guest.FieldError{Path: "vmid", Summary: complete.summary(), Detail: complete.detail()}
			}
			if changed++; !errors.Is(err, remove.ErrChanged) || changed == tries {
				return err
			}
			left = 0
		case waits == tries || waits > 0 && u.mark != was || err != nil || v.Until.IsZero() || left > guest.Lease+slack:
			return s.heldBy(u, v, err)
		default:
			waits, was = waits+1, u.mark
			s.jobs.Tell(ctx, fmt.Sprintf("VM %d on node %s is another run's, which may have died: %s. It counts as dead at %s, and is waited for",
				listed.VMID, listed.Node, v.Seen, v.Until.Format(time.RFC3339)))
		}
		if s.jobs.Clock.Sleep(ctx, left+slack) != nil {
			return s.heldBy(u, v, err)
		}
		if resources, err = s.api.Resources(ctx); err != nil {
			return fmt.Errorf("list the cluster's guests: %w", err)
		}
		now, there := resources.Guest(listed.VMID)
		if !there {
			return nil
		}
		listed = now
	}
}

// slack is what the server's time may be off, which it tells in seconds.
const slack = 2 * time.Second

// removeDeadNamed looks for what a dead create of a VM with this name left under an automatic id. A name may be used twice, so
// only uncommitted work of this provider counts, and a run that lives, or may live, has as much right to the name as this one.
// The listing learns a name some 10 s late, and whoever kills a run and starts it again is quicker: the guests without a name are
// read, but for those that this process made.
func (s *Creator) removeDeadNamed(ctx context.Context, resources pve.Resources, r Request) ([]guest.Warning, error) {
	var warnings []guest.Warning
	name := *r.Spec.Name
	for _, listed := range append(resources.GuestsNamed(name), resources.Unnamed()...) {
		if s.made(listed.VMID) {
			continue
		}
		u := s.readUnfinished(ctx, resources, listed)
		switch {
		case !u.stamped && u.isHalfMade() && s.isMadeByUs(ctx, listed):
			warnings = append(warnings, guest.Warning{Summary: fmt.Sprintf("VM %d is being made by another run", listed.VMID),
				Detail: fmt.Sprintf("A task that user %s began before, and not this run, is still making a VM on node %s, maybe VM %d. "+
					"Should it belong to a run of this configuration that was killed, the next create of its name or id takes the VM away",
					s.api.Identity().User, listed.Node, listed.VMID)})
		case !u.stamped || u.config["name"] != name:
		default:
			warning, err := s.removeDeadOf(ctx, resources, u, r)
			warnings = append(warnings, warning...)
			if err != nil {
				return warnings, err
			}
		}
	}
	return warnings, nil
}

// removeDeadOf removes a stamped VM of which nobody needs the id, if its run is dead. Of what cannot be told, or may be more, it warns.
func (s *Creator) removeDeadOf(ctx context.Context, resources pve.Resources, u unfinished, r Request) ([]guest.Warning, error) {
	for changed := 1; ; changed++ {
		warnings, err := s.tryRemoveDeadOf(ctx, resources, u, r)
		if !errors.Is(err, remove.ErrChanged) {
			return warnings, err
		}
		// Its run lives, somebody else takes it back, or only the task has ended that was making it while others were taken back.
		again := s.readUnfinished(ctx, resources, u.listed)
		if changed == tries || !again.stamped || again.mark.TX != u.mark.TX {
			return nil, nil
		}
		u = again
	}
}

// tryRemoveDeadOf is removeDeadOf for a VM that has not changed since it was read.
func (s *Creator) tryRemoveDeadOf(ctx context.Context, resources pve.Resources, u unfinished, r Request) ([]guest.Warning, error) {
	v, err := s.judge(ctx, resources, u)
	switch {
	case err != nil:
		return []guest.Warning{{Summary: fmt.Sprintf("VM %d (%s) on node %s was not touched", u.listed.VMID, u.config["name"], u.listed.Node),
			Detail: fmt.Sprintf("Transaction %s of this provider was making it, and whether its run lives cannot be told: %v",
				u.mark.TX, err)}}, nil
	case v.Kept:
		return []guest.Warning{{Summary: fmt.Sprintf("VM %d has the name %s, too", u.listed.VMID, u.config["name"]),
			Detail: fmt.Sprintf("It is on node %s, and was not touched (transaction %s, on_failure = \"keep\"): %s. It goes with the resource "+
				"whose state has it. If none has it, `terraform import` takes it over, or %s removes it",
				u.listed.Node, u.mark.TX, v.Seen, u.removal())}}, nil
	case !v.Dead:
		return nil, nil
	}
	err = s.removeDead(ctx, resources, u, "name", &r)
	var complete *completeError
	if errors.As(err, &complete) { // a name may be used twice
		return []guest.Warning{{Summary: complete.summary(), Detail: complete.detail()}}, nil
	}
	return nil, err
}

// removeDead removes what a dead create left, unless it is what a request wants.
func (s *Creator) removeDead(ctx context.Context, resources pve.Resources, u unfinished, path string, r *Request) error {
	listed := u.listed
	select { // one after the other: several here may have found it
	case s.taking <- struct{}{}:
		defer func() { <-s.taking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	switch now, err := s.api.CurrentConfig(ctx, listed.Node, listed.VMID); {
	case pve.IsKind(err, pve.NotFound):
		return nil
	case err == nil && now.Digest != u.digest:
		return remove.ErrChanged
	}
	why, err := s.guests.WhyComplete(ctx, resources, listed.Node, u.mark, u.config)
	if err != nil {
		why = err.Error()
	}
	if why != "" {
		return &completeError{vmid: listed.VMID, name: listed.Name, node: listed.Node, why: why}
	}
	if r != nil && s.lacksCommit(ctx, *r, u) {
		return offer(u, path)
	}
	dead := remove.Unowned{Listed: listed, Resources: resources, Config: u.config, Digest: u.digest, Mark: u.mark,
		Gone: s.guests.LifeOf(u.mark) == guest.Dead}
	if _, err := s.remover.RemoveDead(ctx, dead); err != nil {
		return &guest.FieldError{Path: path, Summary: fmt.Sprintf("Cannot remove what a dead create left of VM %d", listed.VMID),
			Detail: fmt.Sprintf("Transaction %s of this provider was making it, and its run is over", u.mark.TX), Err: err}
	}
	return nil
}
