package create

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// idChooser chooses VMIDs for a create and fences each: no id is used whose leftovers could be mistaken for ours.
type idChooser struct {
	s         *Creator
	resources pve.Resources
	request   Request
	places    []place
	taken     map[int]bool // ids that cannot be used
	lost      int          // how many of them others took first, after we chose them
}

// claimed is an id that was chosen for a create.
type claimed struct {
	vmid   int
	fences guest.Fences
	// done gives the id back to those here who look for one.
	done func()
}

// chooser makes an idChooser.
func (s *Creator) chooser(resources pve.Resources, r Request, places []place) *idChooser {
	taken := map[int]bool{}
	for _, g := range resources.Guests() {
		taken[g.VMID] = true
	}
	return &idChooser{s: s, resources: resources, request: r, places: places, taken: taken}
}

// collide excludes an id that somebody else took first.
func (i *idChooser) collide(vmid int) {
	i.taken[vmid] = true
	i.lost++
}

// next gives an id and its fence: the configured one, or a free one without leftovers.
func (i *idChooser) next(ctx context.Context) (claimed, error) {
	if vmid := i.request.VMID; vmid != 0 {
		done := i.s.guests.Occupy(vmid)
		fences, err := i.configured(ctx)
		if err != nil {
			done()
		}
		return claimed{vmid: vmid, fences: fences, done: done}, err
	}
	var tried []string
	for range collisions {
		vmid, done, err := i.choose(ctx)
		if err != nil {
			return claimed{}, err
		}
		all, err := i.fence(ctx, vmid)
		if err == nil && len(all.Orphans()) == 0 {
			return claimed{vmid: vmid, fences: all, done: done}, nil
		}
		if err != nil {
			done()
			return claimed{}, err
		}
		tried = append(tried, strconv.Itoa(vmid))
		i.taken[vmid] = true // and it stays occupied: the next create here need not look at the same leftovers
	}
	return claimed{}, fmt.Errorf("no free VMID: the last %d tried all have volumes left over from other VMs (%s)",
		collisions, strings.Join(tried, ", "))
}

// configured fences the id that the user chose. What lies under it is refused, or destroyed where the user says so.
func (i *idChooser) configured(ctx context.Context) (guest.Fences, error) {
	vmid := i.request.VMID
	if guest, ok := i.resources.Guest(vmid); ok {
		if err := i.s.checkTaken(ctx, i.resources, guest); err != nil {
			return nil, err
		}
	}
	if i.request.OnOrphans == DestroyOrphans {
		if err := i.widen(ctx); err != nil {
			return nil, err
		}
	}
	all, err := i.fence(ctx, vmid)
	if err != nil || len(all.Orphans()) == 0 {
		return all, err
	}
	orphans := strings.Join(all.Orphans(), ", ")
	if i.request.OnOrphans != DestroyOrphans {
		return nil, &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("Volumes of another VM %d are still there", vmid),
			Detail: fmt.Sprintf("On node %s there are volumes with this id that no VM owns: %s. "+
				"They may hold somebody's data, so they were not touched. "+
				"Remove them (pvesm free VOLUME), choose another vmid, or set on_orphaned_volumes = \"destroy\"", all.Nodes(), orphans)}
	}
	for _, f := range all {
		if len(f.Before) == 0 {
			continue
		}
		if err := i.s.remover.ProveLeftOver(ctx, f.Node, vmid, slices.Sorted(maps.Keys(f.Before))); err != nil {
			return nil, &guest.FieldError{Path: "on_orphaned_volumes", Summary: "Cannot destroy orphaned volumes",
				Detail: "They were not touched, and VM " + fmt.Sprint(vmid) + " was not created", Err: err}
		}
	}
	for _, f := range all {
		if len(f.Before) == 0 {
			continue
		}
		f.Before = map[string]struct{}{}
		sweep := remove.Target{VMID: vmid, Nodes: []string{f.Node}, Fence: f, Tasks: &job.Tasks{}, Stub: remove.NewStub("", nil), Pool: i.request.Pool,
			Stamp: guest.NewStamp(guest.ClusterName(i.resources), vmid, i.s.guests.Deadline(0))}
		if err := i.s.remover.Remove(ctx, sweep); err != nil {
			return nil, &guest.FieldError{Path: "on_orphaned_volumes", Summary: "Cannot destroy orphaned volumes",
				Detail: "The volumes " + orphans + " could not be removed", Err: err}
		}
	}
	return all, nil
}

// choose takes the lowest free id that no create or destroy of this process is at work on: the one that PVE gives as the next,
// or one above it, and after a collision with somebody else one of the next few at random, so that processes which create many
// at once do not follow each other from id to id.
func (i *idChooser) choose(ctx context.Context) (vmid int, done func(), err error) {
	const unseen = 1000 // how many ids that the listing does not show may be taken
	lower, upper := i.request.Range[0], i.request.Range[1]
	automatic := upper == 0
	for range unseen {
		if automatic {
			if lower, err = i.s.nextID.Get(ctx, i.s.api.NextID); err != nil {
				return 0, nil, err
			}
			if done, ok := i.s.guests.OccupyIdle(lower); ok {
				if i.lost == 0 && !i.taken[lower] {
					return lower, done, nil
				}
				done()
			}
			upper = i.s.lastID(ctx, lower)
		}
		vmid, done, ok := i.occupy(lower, upper)
		if !ok {
			break
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
	return 0, nil, &guest.FieldError{Path: "vmid", Summary: "No free VMID",
		Detail: fmt.Sprintf("Every id tried from %d to %d is taken", lower, upper), Err: errors.New("range exhausted")}
}

// occupy takes an id that the listing does not show and nothing here is at work on: the lowest, or after collisions any of
// the lowest 16, 64, 256 …
func (i *idChooser) occupy(lower, upper int) (vmid int, done func(), ok bool) {
	choice := 0
	if i.lost > 0 {
		choice = rand.IntN(4 << min(2*i.lost, 10)) //nolint:gosec // spreads processes, guards nothing
	}
	var last int // the last one that was passed over by choice
	for vmid := lower; vmid <= upper; vmid++ {
		if i.taken[vmid] {
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

// lastID is the end of the datacenter's own range, where PVE tells it, else that of all ids.
func (s *Creator) lastID(ctx context.Context, free int) int {
	const last = 999_999_999
	s.mu.Lock()
	known := s.idEnd
	s.mu.Unlock()
	if known == 0 {
		known = last
		if _, end, err := s.api.IDRange(ctx); err == nil && end >= free {
			known = end
		}
		s.mu.Lock()
		s.idEnd = known
		s.mu.Unlock()
	}
	return known
}
