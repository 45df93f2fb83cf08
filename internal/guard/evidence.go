package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// Evidence is the result of a fresh look at the server: a guest is ours, or no guest has its VMID; no other guest
// uses the volumes in question; no live task holds the guest. Every destructive request takes one, and only Prove
// makes it. The zero Evidence permits nothing.
type Evidence struct {
	node    string // where the guest is
	place   string // where the volumes are
	vmid    int
	ours    bool            // the guest itself may go, or be stopped
	free    bool            // no guest has the VMID
	config  pve.GuestConfig // as it was seen
	held    error           // a lock that it bears may be a live task's, or that was not asked
	volumes map[string]bool // that no other guest uses
	use     *volumeuse.Use  // by which that is known
	at      time.Time       // when the guest was asked for
}

// Claim is what a caller wants to destroy, and the rule by which it is the caller's to destroy.
type Claim struct {
	Node string
	VMID int
	// Guest judges the configuration that has the VMID: nil if it is ours. It is written by the rules of ownership:
	//   - a VM in state has the identity in state: its uuid or, without one, the time of its creation;
	//   - a VM that a create has not committed bears that create's mark, and is unfinished by more than its
	//     description; or it is locked and bare, a task of that create was killed, and its digest is the one right
	//     after that.
	Guest func(config pve.GuestConfig) error
	// NoGuest: no guest may have the VMID; the volumes are leftovers of one of ours. With neither Guest nor NoGuest a
	// third party has the VMID, and the volumes were there before it came.
	NoGuest bool
	// Place is the node of the volumes, if it is another.
	Place string
	// Volumes are to be freed; with Whole also those that the configuration names.
	Volumes []string
	Whole   bool
	// Own: the volumes are known to be those of one VM of ours that is destroyed, or that is not committed. Without it
	// the identity must see all guests.
	Own bool
	// Untouched: a create has just made the volumes, so a third party could use them only after searching for them.
	Untouched bool
	// Compares: the caller itself compares the volumes with those of the same name on storages that may be the same place.
	Compares bool
	// Lock: the guest may be locked, and is to be unlocked or its volumes freed all the same. Then Prove asks who holds
	// the lock.
	Lock bool
	// Tasks are the caller's own, which no longer hold anything.
	Tasks []pve.UPID
	// Use is the volume use if it was read for this very purpose; nil: it is read.
	Use *volumeuse.Use
	// Seen is the guest's configuration if the caller's last request has read it, by a request sent at SeenAt; nil: it is
	// read.
	Seen   *pve.GuestConfig
	SeenAt time.Time
}

// UseLife is how long a reading of the other guests serves its caller, from its end, while the caller only looks. An
// act takes its time, and the guests are read again after it.
const UseLife = 10 * time.Second

// InUseError says that another guest uses a volume that was to be freed.
type InUseError struct {
	Volume string
	Users  []string
	// Clones: all of them have linked clones of it, and none has it itself.
	Clones bool
}

// Error names the volume and the guests.
func (i *InUseError) Error() string {
	return fmt.Sprintf("volume %s is also used by %s", i.Volume, strings.Join(i.Users, "; "))
}

// Prove makes evidence. It answers three questions; a failed look is an error, never a "no":
//  1. Is this guest ours? Its configuration is read now and judged by the claim.
//  2. Does another guest use the volumes? All guests are read that can: for a storage of one node those of the node.
//     An identity that may not see all of them can free no volume of a VM that stays, and no leftover. Volumes that go
//     with their VM may go all the same, unless a visible guest uses them: PVE lets only an identity with
//     VM.Config.Disk on that VM or Datastore.Allocate on the storage attach them (pve-storage Storage.pm
//     check_volume_access), and an identity that is bound to a pool could otherwise remove nothing that it has made.
//  3. Does a live task hold it? Asked if it is locked. Without Sys.Audit that is unknown.
func (g *Guard) Prove(ctx context.Context, c Claim) (Evidence, error) {
	for attempt := 0; ; attempt++ {
		e, err := g.proveGuest(ctx, c)
		if err != nil {
			return Evidence{}, err
		}
		volumes := c.Volumes
		if c.Whole {
			volumes = append(slices.Clone(volumes), guest.OwnVolumes(c.VMID, e.config.Values)...)
		}
		if len(volumes) == 0 || c.Untouched {
			e.add(volumes)
			return e, nil
		}
		if err := CheckBases(ctx, g, e.place, volumes); err != nil {
			return Evidence{}, err
		}
		scope, err := g.Scope(ctx, c.Use, e.place, volumes)
		if err != nil {
			return Evidence{}, err
		}
		asked := c.Use
		if asked.Answers(scope, g.clock.Now(), UseLife) {
			if c.Use, err = g.use.Confirm(ctx, asked, c.VMID, volumes...); err != nil {
				return Evidence{}, err
			}
			if e.use = c.Use; c.Use == asked || c.Guest == nil {
				err := e.permit(c, volumes, scope)
				return e, err
			}
		} else if c.Use, err = g.use.Since(ctx, g.use.Ask(), scope); err != nil {
			return Evidence{}, err
		}
		if attempt == 3 {
			return Evidence{}, fmt.Errorf("VM %d changes while it is looked at", c.VMID)
		}
		c.Seen = nil // that took its time: the guest is looked at once more
	}
}

// proveGuest answers for the guest itself.
func (g *Guard) proveGuest(ctx context.Context, c Claim) (Evidence, error) {
	e := Evidence{node: c.Node, place: cmp.Or(c.Place, c.Node), vmid: c.VMID, volumes: map[string]bool{}}
	if e.at = g.clock.Now(); c.Seen != nil {
		e.at = c.SeenAt
	}
	if c.Guest == nil && !c.NoGuest {
		return e, nil
	}
	if c.NoGuest {
		free, err := g.api.Cluster().IsFreeID(ctx, c.VMID)
		if err == nil && !free {
			err = fmt.Errorf("VM or container %d exists, and the volumes may be in use by it", c.VMID)
		}
		e.free = err == nil
		return e, err
	}
	config, err := g.configOf(ctx, c)
	if err != nil {
		return Evidence{}, err
	}
	if err := c.Guest(config); err != nil {
		return Evidence{}, err
	}
	e.ours, e.config = true, config
	if lock := config.Values["lock"]; lock != "" && lock != request.Suspended {
		e.held = g.holds(ctx, c, lock)
	}
	return e, nil
}

// configOf is the configuration of the guest in question, now.
func (g *Guard) configOf(ctx context.Context, c Claim) (pve.GuestConfig, error) {
	if c.Seen != nil {
		return *c.Seen, nil
	}
	return g.api.QEMU(c.Node, c.VMID).Config(ctx)
}

func (e *Evidence) add(volumes []string) {
	for _, volume := range volumes {
		e.volumes[volume] = true
	}
}

// permit adds the volumes of a claim if no other guest uses any of them, of the node that alone reaches them or of all.
// Otherwise the error names the users.
func (e *Evidence) permit(c Claim, volumes []string, scope string) error {
	own := 0
	if e.ours {
		own = c.VMID
	}
	err := inUse(e.use, volumes, own, c.Compares)
	for _, volume := range volumes {
		if doubt := e.use.Doubt(volume, scope); err == nil && !c.Own && doubt != nil {
			err = fmt.Errorf("whether another guest uses %s cannot be told: %w", strings.Join(volumes, ", "), doubt)
		}
	}
	if err != nil {
		*e = Evidence{}
		return err
	}
	e.add(volumes)
	return nil
}

// Use is the volume use by which the evidence was made; nil if no volumes are in question.
func (e Evidence) Use() *volumeuse.Use { return e.use }

// Config is the configuration of the guest as it was seen.
func (e Evidence) Config() map[string]string { return e.config.Values }

// Digest is that of this configuration.
func (e Evidence) Digest() string { return e.config.Digest }

// Held is why a task may hold the guest's lock; nil if it bears none, or none holds it.
func (e Evidence) Held() error { return e.held }

// InUse returns an *InUseError if a guest other than vmid uses one of the volumes.
func InUse(others *volumeuse.Use, volumes []string, vmid int) error {
	return inUse(others, volumes, vmid, false)
}

// inUse is the same, if told so without guests of which only a likeness of names says that they use the volume.
func inUse(others *volumeuse.Use, volumes []string, vmid int, clear bool) error {
	for _, volume := range volumes {
		used := &InUseError{Volume: volume, Clones: true}
		for _, other := range others.UsersOf(volume, vmid) {
			if !clear || !other.Unclear {
				used.Users, used.Clones = append(used.Users, other.String()), used.Clones && other.Clone != ""
			}
		}
		if len(used.Users) > 0 {
			return used
		}
	}
	return nil
}

// Scope returns the node whose guests alone can use the volumes, because none of their storages is shared. "" stands
// for the whole cluster, also if the identity does not see the kind of a storage.
func (g *Guard) Scope(ctx context.Context, others *volumeuse.Use, node string, volumes []string) (string, error) {
	if others != nil {
		return g.use.Scope(ctx, others.Resources, node, volumes) // a storage does not change its kind
	}
	resources, err := g.api.Listing().Shared(ctx)
	if err != nil {
		return "", err
	}
	return g.use.Scope(ctx, resources, node, volumes)
}

// holds returns nil if no task holds a lock and the identity sees the tasks of all users.
func (g *Guard) holds(ctx context.Context, c Claim, lock string) error {
	cause := request.LockedBy(lock, fmt.Sprintf("destroy VM %d on node %s", c.VMID, c.Node))
	if !c.Lock {
		return cause
	}
	held, err := g.jobs.Holder(ctx, c.Node, c.VMID, cause)
	if err != nil {
		return err
	}
	runs := slices.DeleteFunc(held.Runs, func(task pve.UPID) bool {
		return slices.Contains(c.Tasks, task) ||
			g.jobs.IsKnown(task)
	})
	switch {
	case len(runs) > 0:
		return &AtWorkError{task: runs[0], vmid: c.VMID, err: cause}
	case !held.Audit:
		return &UnseenTasksError{node: c.Node, vmid: c.VMID, lock: lock}
	}
	return nil
}

// AtWorkError says that a lock stays because a task that is not ours may hold it.
type AtWorkError struct {
	task pve.UPID
	vmid int
	err  error
}

// Error names the task.
func (a *AtWorkError) Error() string {
	return fmt.Sprintf("task %s is running and may hold the lock of VM %d: %v", a.task, a.vmid, a.err)
}

// Unwrap returns the lock's own error.
func (a *AtWorkError) Unwrap() error { return a.err }

// UnseenTasksError says that a lock stays because its holder is not visible.
type UnseenTasksError struct {
	node, lock string
	vmid       int
}

// Error names the missing privilege.
func (u *UnseenTasksError) Error() string {
	return fmt.Sprintf("VM %d is locked (%s), and whether a task is at work under the lock cannot be seen without "+
		"Sys.Audit on /nodes/%s; nothing under it was touched", u.vmid, u.lock, u.node)
}

// HasIdentity returns the rule that recognizes the VM in state by its identity.
func HasIdentity(identity guest.Identity) func(pve.GuestConfig) error {
	return func(config pve.GuestConfig) error {
		if identity.IsZero() {
			return errors.New("state does not know which VM it means: it has no uuid; run terraform refresh first")
		}
		if !identity.Matches(guest.IdentityOf(config.Values)) {
			return ErrNotOurs
		}
		return nil
	}
}

// CheckFresh returns guest.ErrLate for evidence that is too old.
func (g *Guard) CheckFresh(e Evidence) error {
	if pve.Elapsed(e.at, g.clock.Now()) > guest.LookLife {
		return guest.ErrLate
	}
	return nil
}

// permits returns nil if evidence permits a request that PVE binds to no digest: allowed, and fresh.
func permits(g *Guard, e Evidence, allowed bool) error {
	if !allowed {
		return ErrNoEvidence
	}
	return g.CheckFresh(e)
}

// ErrNotOurs says that another VM has the VMID now.
var ErrNotOurs = errors.New("the VM that has the id now is not the one that was to be destroyed")
