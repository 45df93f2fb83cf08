package remove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove/usage"
)

// Evidence is what a look at the server has just shown: that a guest is ours, or that nobody has its id; that nobody else uses
// the volumes in question; that no live task holds the guest. Every request that destroys takes one, and only prove makes it.
// The zero Evidence permits nothing.
type Evidence struct {
	node    string // where the guest is
	place   string // where the volumes are
	vmid    int
	ours    bool            // the guest itself may go, or be stopped
	free    bool            // nobody has the id
	config  pve.GuestConfig // as it was seen
	held    error           // a lock that it bears may be a live task's, or that was not asked
	volumes map[string]bool // that nobody else uses
	others  *usage.Survey   // by which that is known
}

// claim is what somebody wants to destroy, and the rule by which it is his.
type claim struct {
	node string
	vmid int
	// guest judges the configuration that has the id: nil when it is ours. It is written by the rules of ownership:
	//   - a VM in state has the identity in state: its uuid, or where it has none the time of its creation;
	//   - a VM that a create has not committed bears that create's stamp, and is unfinished by more than its description; or it
	//     is locked and bare, a task of that create was killed, and its digest is the one that was seen right after that.
	guest func(config pve.GuestConfig) error
	// nobody says that no guest may have the id: the volumes are what one of ours has left. With neither guest nor nobody a
	// stranger has the id, and the volumes are what was there before he came.
	nobody bool
	// place is the node of the volumes, if it is another.
	place string
	// volumes are to be freed; with whole also those that the configuration names.
	volumes []string
	whole   bool
	// own says that the volumes are known to be those of one VM of ours that goes, or that is not committed. Others need
	// somebody who sees all guests.
	own bool
	// untouched says that nobody can have got hold of the volumes but by looking for them: a create has just made them.
	untouched bool
	// lock says that the guest may be locked, and is to be unlocked or its volumes freed all the same: then it is asked who
	// holds the lock.
	lock bool
	// tasks are the claimant's own, which hold nothing any more.
	tasks []pve.UPID
	// others is a survey that was made for this very purpose; nil: one is made.
	others *usage.Survey
	// seen is the guest's configuration where the last request of all has read it; nil: it is read.
	seen *pve.GuestConfig
}

// surveyLife is how long a survey of the other guests serves the one who asked for it, from its end, while he only looks. What is done
// takes its time, and afterwards the guests are read again.
const surveyLife = 10 * time.Second

// InUseError says that another guest uses a volume that was to be freed.
type InUseError struct {
	Volume string
	Users  []string
}

// Error names the volume and the guests.
func (e *InUseError) Error() string {
	return fmt.Sprintf("volume %s is also used by %s", e.Volume, strings.Join(e.Users, "; "))
}

// prove makes evidence. It answers three questions, and what it could not look at is an error, never a "no":
//  1. Is this guest ours? Its configuration is read now and judged by the claim.
//  2. Does anybody else use the volumes? All guests are looked at that can: for a storage of one node those of the node. An
//     identity that may not see all of them can free no volume of a VM that stays, and none that was left. What goes with its VM
//     may go all the same, unless a guest that it does see uses it: PVE lets nobody attach a volume of a VM who has not
//     VM.Config.Disk on that VM or Datastore.Allocate on the storage (pve-storage Storage.pm check_volume_access), and an
//     identity that is bound to a pool could else remove nothing that it has made.
//  3. Does a live task hold it? Asked where it is locked. Without Sys.Audit that cannot be told.
func (s *Remover) prove(ctx context.Context, c claim) (Evidence, error) {
	for attempt := 0; ; attempt++ {
		e, err := s.proveGuest(ctx, c)
		if err != nil {
			return Evidence{}, err
		}
		volumes := c.volumes
		if c.whole {
			volumes = append(slices.Clone(volumes), ownVolumes(c.vmid, e.config.Values)...)
		}
		if len(volumes) == 0 || c.untouched {
			e.add(volumes)
			return e, nil
		}
		scope, err := s.scope(ctx, c.others, e.place, volumes)
		if err != nil {
			return Evidence{}, err
		}
		if e.others = c.others; e.others.Answers(scope, s.clock.Now(), surveyLife) {
			err := e.permit(c, volumes)
			return e, err
		}
		if attempt == 3 {
			return Evidence{}, fmt.Errorf("VM %d changes while it is looked at", c.vmid)
		}
		if c.others, err = s.surveyor.Since(ctx, s.surveyor.Ask(), scope); err != nil {
			return Evidence{}, err
		}
		c.seen = nil // that took its time: the guest is looked at once more
	}
}

// proveGuest answers for the guest itself.
func (s *Remover) proveGuest(ctx context.Context, c claim) (Evidence, error) {
	e := Evidence{node: c.node, place: cmp.Or(c.place, c.node), vmid: c.vmid, volumes: map[string]bool{}}
	if c.guest == nil && !c.nobody {
		return e, nil
	}
	if c.nobody {
		free, err := s.api.IsFreeID(ctx, c.vmid)
		if err == nil && !free {
			err = fmt.Errorf("VM or container %d exists, and the volumes may be in use by it", c.vmid)
		}
		e.free = err == nil
		return e, err
	}
	config, err := s.configOf(ctx, c)
	if err != nil {
		return Evidence{}, err
	}
	if err := c.guest(config); err != nil {
		return Evidence{}, err
	}
	e.ours, e.config = true, config
	if lock := config.Values["lock"]; lock != "" && lock != job.Suspended {
		e.held = s.holds(ctx, c, lock)
	}
	return e, nil
}

// configOf is the configuration of the guest in question, now.
func (s *Remover) configOf(ctx context.Context, c claim) (pve.GuestConfig, error) {
	if c.seen != nil {
		return *c.seen, nil
	}
	return s.api.CurrentConfig(ctx, c.node, c.vmid)
}

func (e *Evidence) add(volumes []string) {
	for _, volume := range volumes {
		e.volumes[volume] = true
	}
}

// permit notes the volumes of a claim if nobody else uses any of them, or says who does.
func (e *Evidence) permit(c claim, volumes []string) error {
	own := 0
	if e.ours {
		own = c.vmid
	}
	err := inUse(e.others, volumes, own)
	if err == nil && !c.own && e.others.Unseen != nil {
		err = fmt.Errorf("whether another guest uses %s cannot be told: %w", strings.Join(volumes, ", "), e.others.Unseen)
	}
	if err != nil {
		*e = Evidence{}
		return err
	}
	e.add(volumes)
	return nil
}

// inUse is an *InUseError if a guest other than vmid uses one of the volumes.
func inUse(others *usage.Survey, volumes []string, vmid int) error {
	for _, volume := range volumes {
		used := &InUseError{Volume: volume}
		for _, other := range others.UsersOf(volume, vmid) {
			used.Users = append(used.Users, other.String())
		}
		if len(used.Users) > 0 {
			return used
		}
	}
	return nil
}

// scope is the node whose guests alone can use the volumes, since none of their storages is shared; "" is the whole cluster,
// also where the identity does not see what a storage is.
func (s *Remover) scope(ctx context.Context, others *usage.Survey, node string, volumes []string) (string, error) {
	if others != nil {
		return scopeOf(others.Resources, node, volumes), nil // a storage does not change its kind
	}
	resources, err := s.api.SharedResources(ctx)
	return scopeOf(resources, node, volumes), err
}

// holds is nil when no task holds a lock, as somebody can tell who sees all tasks.
func (s *Remover) holds(ctx context.Context, c claim, lock string) error {
	cause := job.LockedBy(lock, fmt.Sprintf("destroy VM %d on node %s", c.vmid, c.node))
	if !c.lock {
		return cause
	}
	held, err := s.jobs.Holder(ctx, c.node, c.vmid, cause)
	if err != nil {
		return err
	}
	runs := slices.DeleteFunc(held.Runs, func(task pve.UPID) bool { return slices.Contains(c.tasks, task) || s.jobs.IsKnown(task) })
	switch {
	case len(runs) > 0:
		return &atWorkError{task: runs[0], vmid: c.vmid, err: cause}
	case !held.Audit:
		return &unseenTasksError{node: c.node, vmid: c.vmid, lock: lock}
	}
	return nil
}

// atWorkError says that a lock stays since a task that is not ours may hold it.
type atWorkError struct {
	task pve.UPID
	vmid int
	err  error
}

func (e *atWorkError) Error() string {
	return fmt.Sprintf("task %s is running and may hold the lock of VM %d: %v", e.task, e.vmid, e.err)
}

func (e *atWorkError) Unwrap() error { return e.err }

// unseenTasksError says that a lock stays since its holder cannot be seen.
type unseenTasksError struct {
	node, lock string
	vmid       int
}

func (e *unseenTasksError) Error() string {
	return fmt.Sprintf("VM %d is locked (%s), and whether a task is at work under the lock cannot be seen without Sys.Audit on /nodes/%s; "+
		"nothing under it was touched", e.vmid, e.lock, e.node)
}

// inState tells the VM in state by its identity.
func inState(identity guest.Identity) func(pve.GuestConfig) error {
	return func(config pve.GuestConfig) error {
		if identity.IsZero() {
			return errors.New("state does not know which VM it means: it has no uuid; run terraform refresh first")
		}
		if !identity.Matches(guest.IdentityOf(config.Values)) {
			return errNotOurs
		}
		return nil
	}
}

var errNotOurs = errors.New("the VM that has the id now is not the one that was to be destroyed")
