package create

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// collisions bounds how many automatic ids are tried when others take them first.
const collisions = 10

// idChooser chooses VMIDs for a create and fences each: no id is used whose leftovers could be mistaken for ours.
type idChooser struct {
	s         *Creator
	resources pve.Resources
	request   Request
	places    []place
	at        time.Time    // when the listing was asked for
	taken     map[int]bool // ids that cannot be used
	lost      int          // how many of them others took first, after we chose them
}

// chooser makes an idChooser.
func (s *Creator) chooser(found findings, r Request) *idChooser {
	taken := map[int]bool{}
	for _, g := range found.resources.Guests() {
		taken[g.VMID] = true
	}
	return &idChooser{s: s, resources: found.resources, at: found.at, request: r, places: placesOf(found, r), taken: taken}
}

// collide excludes an id that somebody else took first.
func (i *idChooser) collide(vmid int) {
	i.taken[vmid] = true
	i.lost++
	i.s.forget()
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
		err = exhausted(lowest, last)
	}
	return true, err
}

// choose takes the lowest id that the listing does not show and no create or destroy of this process is or was at work on. After
// a collision with somebody else it is one of the next few at random, so that processes which create many at once do not follow
// each other from id to id, and PVE is asked whether it is free: then the listing does not show all.
func (i *idChooser) choose(ctx context.Context) (vmid int, done func(), err error) {
	lower, upper := i.request.Range[0], i.request.Range[1]
	if upper == 0 && i.lost == 0 {
		lower, upper = i.s.floor(), math.MaxInt
	}
	if upper == 0 {
		if lower, err = i.s.learnFloor(ctx); err != nil {
			return 0, nil, err
		}
		if upper, err = i.s.ceiling(ctx, lower); err != nil {
			return 0, nil, err
		}
	}
	const unseen = 1000 // how many ids that the listing does not show may be taken
	for range unseen {
		vmid, done, ok := i.occupy(lower, upper)
		if !ok {
			break
		}
		if i.lost == 0 {
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
	return 0, nil, exhausted(lower, upper)
}

func exhausted(lower, upper int) error {
	return &guest.FieldError{Path: "vmid", Summary: "No free VMID",
		Detail: fmt.Sprintf("Every id tried from %d to %d is taken", lower, upper), Err: errors.New("range exhausted")}
}

// occupy takes an id that the listing does not show and nothing here is or was at work on: the lowest, or after collisions any of
// the lowest 16, 64, 256 …
func (i *idChooser) occupy(lower, upper int) (vmid int, done func(), ok bool) {
	choice := 0
	if i.lost > 0 {
		choice = rand.IntN(4 << min(2*i.lost, 10)) //nolint:gosec // spreads processes, guards nothing
	}
	var last int // the last one that was passed over by choice
	for vmid := lower; vmid <= upper; vmid++ {
		if i.taken[vmid] || i.s.madeSince(vmid, i.at) {
			continue
		}
		done, ok := i.s.guests.OccupyIdle(vmid)
		switch {
		case ok && choice == 0:
			return vmid, done, true
		case ok:
			done()
			choice, last = choice-1, vmid
		}
	}
	if last == 0 {
		return 0, nil, false
	}
	done, ok = i.s.guests.OccupyIdle(last)
	return last, done, ok
}
