package create

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

const (
	// collisions bounds how many automatic ids are tried when others take them first. Of as many creates at once as there
	// are ids left some two in five lose each round.
	collisions = 30
	// leftovers bounds how many are tried under which volumes are left over; the first few in a row, then wherever there
	// is room.
	leftovers = 30
	inARow    = 3
)

// idChooser chooses VMIDs for a create and takes the baseline of each. It uses no VMID whose leftovers could be
// mistaken for ours.
type idChooser struct {
	creator   *Creator
	resources pve.Resources
	request   Request
	from      *source
	places    []place
	node      string       // where the VM is to be
	at        time.Time    // when the listing was asked for
	taken     map[int]bool // ids that cannot be used
	passed    map[int]bool // free ids that are not used: PVE would not give them, or permissions mention them
	named     bool         // the latter
	tried     []int        // ids under which volumes are left over
	lost      int          // how many of them others took first, after we chose them
	last      int          // the last of these, 0 once a listing was asked for since
	isAdopted func(volume string) bool
	isSource  func(volume string) bool // a disk of the new VM is copied of it
	warnings  []guest.Warning
	unseen    bool         // guests have ids that no listing shows to this identity
	asked     map[int]bool // ids that no listing shows and PVE refused
	presumed  map[int]bool // ids that are tried last: creates of this process found them taken, or between such
}

// chooser makes an idChooser.
func (c *Creator) chooser(found findings, r Request) *idChooser {
	i := &idChooser{creator: c, request: r, from: found.from, places: placesOf(found, r), node: found.node,
		taken: map[int]bool{}, passed: map[int]bool{}, asked: map[int]bool{}}
	c.mu.Lock()
	i.presumed = maps.Clone(c.hidden)
	c.mu.Unlock()
	i.unseen = len(i.presumed) > 0
	i.learn(found.resources, found.at)
	return i
}

// learn excludes the VMIDs that a listing shows.
func (i *idChooser) learn(resources pve.Resources, at time.Time) {
	i.resources, i.at = resources, at
	for _, g := range resources.Guests() {
		i.taken[g.VMID] = true
	}
}

// collide excludes a VMID that another user took first.
func (i *idChooser) collide(vmid int) {
	i.taken[vmid] = true
	i.lost++
	i.last = vmid
	i.creator.forget()
}

// relearn lists the guests again. If a VMID that PVE refused is not in the listing, either this identity does not see
// its guest, or a create that had it has failed meanwhile.
func (i *idChooser) relearn(ctx context.Context) error {
	at := i.creator.jobs.Clock.Now()
	resources, err := i.creator.listing.Get(ctx, i.creator.api.Cluster().Resources)
	if err != nil {
		return fmt.Errorf("list the cluster's guests: %w", err)
	}
	i.learn(resources, at)
	if _, seen := resources.Guest(i.last); !seen && i.last != 0 {
		i.unseen = true
		i.noteHidden(i.last, i.last)
	}
	i.last = 0
	return nil
}

// isGiven reports whether PVE itself would give a VMID to a new VM: it is not below the lowest free one, nor above the
// datacenter's range. Between them it is free as far as the listing shows; otherwise PVE refuses the create, which is a
// collision.
func (i *idChooser) isGiven(ctx context.Context, vmid int) (bool, error) {
	if i.request.Range[1] != 0 || i.lost > 0 {
		return true, nil
	}
	lowest, err := i.creator.learnFloor(ctx)
	if err != nil || vmid <= lowest {
		return vmid == lowest, err
	}
	last, err := i.creator.ceiling(ctx, lowest)
	if err == nil && vmid > last {
		err = i.exhausted(lowest, last)
	}
	return true, err
}

// choose takes the lowest VMID that the listing does not show and no create or destroy of this process works or worked
// on. After a collision it lists the guests again and takes one of the next few at random, so that processes that
// create many VMs at once do not follow each other from VMID to VMID. If the listing does not show all guests, it asks
// PVE whether the VMID is free.
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
	for start, leap, last := lower, 1, lower; len(i.asked) < unseen; {
		vmid, done, ok := i.occupy(start, upper)
		switch {
		case !ok && (start > lower || len(i.presumed) > 0):
			start, leap, last, i.presumed = lower, 1, lower, nil
			continue
		case !ok && fresh:
			return 0, nil, i.exhausted(lower, upper)
		case !ok: // some may have become free
			i.taken, fresh = maps.Clone(i.asked), true
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
		free, err := i.creator.api.Cluster().IsFreeID(ctx, vmid)
		if free && err == nil {
			return vmid, done, nil
		}
		if done(); err != nil {
			return 0, nil, err
		}
		i.taken[vmid], i.asked[vmid] = true, true
		if leap == 1 {
			last = vmid // nothing is known of those below
		}
		i.noteHidden(last, vmid)
		start, last, leap = vmid+leap, vmid, 2*leap
	}
	return 0, nil, i.exhausted(lower, upper)
}

// noteHidden notes that PVE refused two VMIDs that no listing shows. Those between are taken, too, most likely.
func (i *idChooser) noteHidden(from, to int) {
	const most = 10_000
	c := i.creator
	c.mu.Lock()
	defer c.mu.Unlock()
	for vmid := max(from, to-most); vmid <= to; vmid++ {
		c.hidden[vmid] = true
	}
}

// bounds are the lowest and the highest VMID that may be chosen.
func (i *idChooser) bounds(ctx context.Context) (lower, upper int, err error) {
	lower, upper = i.request.Range[0], i.request.Range[1]
	switch {
	case upper != 0:
		return lower, upper, nil
	case i.lost == 0:
		return i.creator.floor(), math.MaxInt, nil
	}
	if lower, err = i.creator.learnFloor(ctx); err != nil {
		return 0, 0, err
	}
	upper, err = i.creator.ceiling(ctx, lower)
	return lower, upper, err
}

// exhausted is the error if no VMID from lower to upper is left.
func (i *idChooser) exhausted(lower, upper int) error {
	detail := fmt.Sprintf("Every id tried from %d to %d is taken", lower, upper)
	if n := len(i.asked); n > 0 {
		detail = fmt.Sprintf("No id from %d to %d was found free. PVE refused the %d that were asked for, in which this "+
			"identity sees no guest: it may not see all (VM.Audit). Others may be free", lower, upper, n)
	}
	if i.named {
		detail += ", or permissions, a pool or a firewall speak of it, though no guest has it"
	}
	if len(i.tried) > 0 {
		detail += fmt.Sprintf(", or has volumes left over from other VMs (%s)", i.triedIDs())
	}
	if i.request.Range[1] != 0 {
		detail += ". Widen vmid_range in the provider's configuration, or give the VM a vmid outside of it"
	} else {
		detail += ". Widen the range of the datacenter (Options > Next Free VMID Range), or set vmid or vmid_range"
	}
	return &guest.FieldError{Path: "vmid", Summary: "No free VMID", Detail: detail, Err: errors.New("range exhausted")}
}

// triedIDs lists the VMIDs under which volumes are left over, for people.
func (i *idChooser) triedIDs() string {
	slices.Sort(i.tried)
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(i.tried), "[]"), " ", ", ")
}

// spread is the number of the lowest free VMIDs among which one is chosen: 1, then 16, 64 and so on after each
// collision, or each few leftovers.
func (i *idChooser) spread() int {
	if level := max(i.lost, len(i.tried)/inARow); level > 0 {
		return 4 << min(2*level, 10)
	}
	return 1
}

// occupy takes one of the lowest few VMIDs that the listing does not show and nothing here works or worked on. If other
// creates of this process take those between the look and the choice, or are even done with them, it looks again: only
// ok = false says that none is left.
func (i *idChooser) occupy(lower, upper int) (vmid int, done func(), ok bool) {
	for {
		var free []int
		for vmid := lower; vmid <= upper && len(free) < i.spread(); vmid++ {
			if !i.taken[vmid] && !i.passed[vmid] && !i.presumed[vmid] && !i.creator.madeSince(vmid, i.at) &&
				i.creator.guests.IsIdle(vmid) {
				free = append(free, vmid)
			}
		}
		if len(free) == 0 {
			return 0, nil, false
		}
		for _, n := range rand.Perm(len(free)) { //nolint:gosec // spreads processes, guards nothing
			done, ok := i.creator.guests.OccupyIdle(free[n])
			if ok && !i.creator.madeSince(free[n], i.at) {
				return free[n], done, true
			}
			if ok {
				done()
			}
		}
	}
}
