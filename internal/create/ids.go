package create

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

const (
	// collisions bounds how many automatic ids are tried when others take them first. Of as many creates at once as there are ids left
	// some two in five lose each round.
	collisions = 30
	// leftovers bounds how many are tried under which volumes are left over; the first few in a row, then wherever there is room.
	leftovers = 30
	inARow    = 3
)

// idChooser chooses VMIDs for a create and fences each: no id is used whose leftovers could be mistaken for ours.
type idChooser struct {
	s         *Creator
	resources pve.Resources
	request   Request
	places    []place
	at        time.Time    // when the listing was asked for
	taken     map[int]bool // ids that cannot be used
	passed    map[int]bool // ids that are free and not for us: PVE would not give them, or somebody is spoken of in them
	named     bool         // the latter
	tried     []int        // ids under which volumes are left over
	lost      int          // how many of them others took first, after we chose them
	last      int          // the last of these, 0 once a listing was asked for since
	unseen    bool         // guests have ids that no listing shows to this identity
}

// chooser makes an idChooser.
func (s *Creator) chooser(found findings, r Request) *idChooser {
	i := &idChooser{s: s, request: r, places: placesOf(found, r), taken: map[int]bool{}, passed: map[int]bool{}}
	i.learn(found.resources, found.at)
	return i
}

// learn excludes the ids that a listing shows.
func (i *idChooser) learn(resources pve.Resources, at time.Time) {
	i.resources, i.at = resources, at
	for _, g := range resources.Guests() {
		i.taken[g.VMID] = true
	}
}

// collide excludes an id that somebody else took first.
func (i *idChooser) collide(vmid int) {
	i.taken[vmid] = true
	i.lost++
	i.last = vmid
	i.s.forget()
}

// relearn looks who has which id now. One that is refused and that nobody seems to have is a guest's that this identity does not see, or
// that of a create which has failed meanwhile.
func (i *idChooser) relearn(ctx context.Context) error {
	at := i.s.jobs.Clock.Now()
	resources, err := i.s.listing.Get(ctx, i.s.api.Resources)
	if err != nil {
		return fmt.Errorf("list the cluster's guests: %w", err)
	}
	i.learn(resources, at)
	if _, seen := resources.Guest(i.last); !seen && i.last != 0 {
		i.unseen = true
	}
	i.last = 0
	return nil
}

// isGiven reports whether PVE itself would give an id to a new VM: it is not below the lowest free one, nor above the datacenter's
// range. Between them it is free as far as the listing shows; for the rest PVE refuses the create, which is a collision.
func (i *idChooser) isGiven(ctx context.Context, vmid int) (bool, error) {
	if i.request.Range[1] != 0 || i.lost > 0 {
		return true, nil
	}
	lowest, err := i.s.learnFloor(ctx)
	if err != nil || vmid <= lowest {
		return vmid == lowest, err
	}
	last, err := i.s.ceiling(ctx, lowest)
	if err == nil && vmid > last {
		err = i.exhausted(lowest, last)
	}
	return true, err
}

// choose takes the lowest id that the listing does not show and no create or destroy of this process is or was at work on. After
// a collision with somebody else the listing is a new one, and the id one of the next few at random, so that processes which create many
// at once do not follow each other from id to id. Where the listing does not show all, PVE is asked whether it is free.
func (i *idChooser) choose(ctx context.Context) (vmid int, done func(), err error) {
	fresh := i.last != 0
	if fresh {
		if err := i.relearn(ctx); err != nil {
			return 0, nil, err
		}
	}
	lower, upper, err := i.bounds(ctx)
	if err != nil {
		return 0, nil, err
	}
	const unseen = 1000 // how many ids that the listing does not show may be taken
	for range unseen {
		vmid, done, ok := i.occupy(lower, upper)
		switch {
		case !ok && fresh:
			return 0, nil, i.exhausted(lower, upper)
		case !ok: // some may have become free
			i.taken, fresh = map[int]bool{}, true
			for _, vmid := range i.tried {
				i.taken[vmid] = true
			}
			if err := i.relearn(ctx); err != nil {
				return 0, nil, err
			}
			continue
		case !i.unseen:
			return vmid, done, nil
		}
		free, err := i.s.api.IsFreeID(ctx, vmid)
		if free && err == nil {
			return vmid, done, nil
		}
		if done(); err != nil {
			return 0, nil, err
		}
		i.taken[vmid] = true
	}
	return 0, nil, i.exhausted(lower, upper)
}

// bounds are the lowest and the highest id that may be chosen.
func (i *idChooser) bounds(ctx context.Context) (lower, upper int, err error) {
	lower, upper = i.request.Range[0], i.request.Range[1]
	switch {
	case upper != 0:
		return lower, upper, nil
	case i.lost == 0:
		return i.s.floor(), math.MaxInt, nil
	}
	if lower, err = i.s.learnFloor(ctx); err != nil {
		return 0, 0, err
	}
	upper, err = i.s.ceiling(ctx, lower)
	return lower, upper, err
}

// exhausted says that no id is left of those from lower to upper.
func (i *idChooser) exhausted(lower, upper int) error {
	detail := fmt.Sprintf("Every id tried from %d to %d is taken", lower, upper)
	if i.named {
		detail += ", or permissions, a pool or a firewall speak of it, though no guest has it"
	}
	if len(i.tried) > 0 {
		detail += fmt.Sprintf(", or has volumes left over from other VMs (%s)", i.triedIDs())
	}
	return &guest.FieldError{Path: "vmid", Summary: "No free VMID", Detail: detail, Err: errors.New("range exhausted")}
}

// triedIDs are those under which volumes are left over, for people.
func (i *idChooser) triedIDs() string {
	slices.Sort(i.tried)
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(i.tried), "[]"), " ", ", ")
}

// spread is among how many of the lowest free ids one is chosen: 1, then 16, 64, 256 … after each collision, or each few leftovers.
func (i *idChooser) spread() int {
	if level := max(i.lost, len(i.tried)/inARow); level > 0 {
		return 4 << min(2*level, 10)
	}
	return 1
}

// occupy takes an id that the listing does not show and nothing here is or was at work on: any of the lowest few.
func (i *idChooser) occupy(lower, upper int) (vmid int, done func(), ok bool) {
	var free []int
	for vmid := lower; vmid <= upper && len(free) < i.spread(); vmid++ {
		if i.taken[vmid] || i.passed[vmid] || i.s.madeSince(vmid, i.at) {
			continue
		}
		if done, ok := i.s.guests.OccupyIdle(vmid); ok {
			done()
			free = append(free, vmid)
		}
	}
	for _, n := range rand.Perm(len(free)) { //nolint:gosec // spreads processes, guards nothing
		if done, ok := i.s.guests.OccupyIdle(free[n]); ok {
			return free[n], done, true
		}
	}
	return 0, nil, false
}
