package volumeuse

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Since reads the guests of a node, or with node "" those of the whole cluster.
func (s *Reader) Since(ctx context.Context, asked uint64, node string) (*Use, error) {
	if s.isYoung("") { // which tells of all nodes
		node = ""
	}
	return s.uses.Since(ctx, node, asked, func(ctx context.Context) (*Use, error) {
		began := s.clock.Now()
		made, err := s.readUse(ctx, node)
		if err != nil {
			return nil, err
		}
		s.keep(node, made)
		if isFull := made.ended.Equal(made.at); !isFull || pve.Elapsed(began, made.at) < brief || !s.isYoung(node) {
			return made, nil
		}
		s.Ask()
		if made, err = s.readUse(ctx, node); err == nil { // it does not take long
			s.keep(node, made)
		}
		return made, err
	})
}

// brief is the time that a reading of all guests may take without a second look at those that have changed meanwhile: a
// guest that was read at its beginning can get a volume before its end.
const brief = time.Second

// keep makes a reading the latest of its scope.
func (s *Reader) keep(node string, made *Use) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest[node] = made
}

// useLife is how long after its end a reading of all guests is renewed rather than repeated. All that PVE records of a
// change is seen; this bounds the age of the rest, and a run of two hundred destroys needs two readings or
// three (docs/design/destroy.md).
const useLife = 5 * time.Minute

// isYoung reports whether there is a reading of a scope that can be renewed.
func (s *Reader) isYoung(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	made := s.latest[node]
	return made != nil && made.traced && !s.keepAll && s.trail.covers(made.place) &&
		pve.Elapsed(made.ended, s.clock.Now()) <= useLife
}

// readUse reads the guests, for all who have asked by now: all of them, or those that may have changed since the latest
// reading.
func (s *Reader) readUse(ctx context.Context, node string) (*Use, error) {
	s.mu.Lock()
	asked, before := s.asked, s.latest[node]
	s.mu.Unlock()
	made := &Use{scope: node}
	var saw sight
	var looking sync.WaitGroup
	var sightErr, placesErr, logErr error
	looking.Go(func() {
		if saw, sightErr = s.sight(ctx, asked); sightErr == nil && saw.log {
			logErr = s.follow(ctx, asked)
		}
	})
	looking.Go(func() { made.places, placesErr = s.Places(ctx) })
	resources, err := s.Listing(ctx, asked)
	if looking.Wait(); sightErr != nil || placesErr != nil {
		return nil, errors.Join(sightErr, placesErr)
	}
	made.Unseen, made.traced, made.place = saw.unseen, saw.log && logErr == nil, s.order.Next()
	made.begin(before, err == nil && made.traced && s.isYoung(node) && haveSameNodes(before.Resources, resources))
	s.takeIn(made, resources)
	for attempt := 0; ; attempt++ {
		if attempt > 0 {
			resources, err = s.Listing(ctx, asked)
		}
		if made.Resources = resources; err != nil {
			return nil, err
		}
		moved, err := s.readOnce(ctx, made)
		if err != nil {
			return nil, err
		}
		if !moved {
			break
		}
		if attempt == 3 {
			return nil, errors.New("guests move from node to node while they are looked at")
		}
		if err := s.jobs.Pause(ctx, attempt+1); err != nil {
			return nil, err
		}
		asked = s.order.Next()
	}
	if made.ended.IsZero() {
		s.forget(made)
	}
	made.at = s.clock.Now()
	if made.ended.IsZero() {
		made.ended = made.at
	}
	return made, nil
}

// Offer hands over what an operation has read of its own VM, by a request that it sent after a place in the order. The
// next reading takes it for its own, unless there is a sign of a later change.
func (s *Reader) Offer(asked uint64, node string, vmid int, config pve.PendingConfig, began time.Time) {
	if config.MayHaveSnapshots() || config.Current()["lock"] != "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := pve.Resource{Type: "qemu", Node: node, VMID: vmid}
	s.offered[vmid] = Reading{Guest: g, Config: config, At: began, began: began, place: asked}
}

// takeIn replaces readings of guests for an earlier look by those that were offered since.
func (s *Reader) takeIn(made *Use, resources pve.Resources) {
	s.mu.Lock()
	offered := s.offered
	s.offered = map[int]Reading{}
	s.mu.Unlock()
	for vmid, r := range offered {
		listed, there := resources.Guest(vmid)
		if was := made.of(vmid); there && was != nil && was.place < r.place && listed.Node == r.Guest.Node {
			r.Guest, r.Listed = listed, was.Listed
			made.add(r, s.keeps(r))
		}
	}
}

// Confirm reads the guests again that use the volumes, or others with the same id, by a reading which is older than the
// question, so that nothing is refused for a use that has ended without a trace. The use of the volumes by vmid itself
// is none. Where it has nothing to read it returns use.
func (s *Reader) Confirm(ctx context.Context, use *Use, vmid int, volumes ...string) (*Use, error) {
	var again []pve.Resource
	for _, volume := range volumes {
		for _, suspect := range use.suspects(volume, vmid) {
			listed, there := use.Resources.Guest(suspect.VMID)
			known := slices.ContainsFunc(again, func(g pve.Resource) bool { return g.VMID == listed.VMID })
			if was := use.of(suspect.VMID); there && !known && was != nil && was.place <= use.place {
				again = append(again, listed)
			}
		}
	}
	if len(again) == 0 {
		return use, nil
	}
	made := *use
	made.begin(use, true)
	_, err := s.readAll(ctx, &made, again) // one that has moved counts as it was
	return &made, err
}

// haveSameNodes reports whether two listings have the same nodes in the same states. A node that comes or goes takes
// and brings entries of the cluster's log.
func haveSameNodes(was, is pve.Resources) bool {
	same := func(a, b pve.Resource) bool { return a.Node == b.Node && a.Status == b.Status }
	return slices.EqualFunc(was.Nodes(), is.Nodes(), same)
}

// readOnce reads the guests of a listing that were not read yet, or that may have changed since. moved: one was not
// where the listing has it.
func (s *Reader) readOnce(ctx context.Context, made *Use) (moved bool, err error) {
	first, last := s.toRead(made)
	moved, err = s.readAll(ctx, made, first)
	if err == nil {
		var movedToo bool
		movedToo, err = s.readAll(ctx, made, last)
		moved = moved || movedToo
	}
	return moved, err
}

// toRead are the guests that have to be read; last are those that are about to go. Guests that are not listed any more
// are dropped.
func (s *Reader) toRead(made *Use) (first, last []pve.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed := map[int]bool{}
	for _, g := range made.Resources.Guests() {
		if made.scope != "" && g.Node != made.scope {
			continue
		}
		listed[g.VMID] = true
		switch {
		case !s.isToRead(made, g):
		case s.going[g.VMID]:
			last = append(last, g)
		default:
			first = append(first, g)
		}
	}
	made.dropAllBut(listed)
	return first, last
}

// isToRead reports whether a guest has to be read: it was not read yet; or it was, for an earlier reading, and it may
// have changed since. A container may always: PVE records no change of its configuration (pve-container
// API2/LXC/Config.pm update_vm). Under a lock a task is at work, such as that of a clone, which the log has under the
// id of its source.
func (s *Reader) isToRead(made *Use, g pve.Resource) bool {
	was := made.of(g.VMID)
	switch {
	case was == nil:
		return true
	case was.place > made.place: // for this one
		return false
	case g.Type != "qemu", was.Listed.Type != g.Type, was.Listed.Node != g.Node, g.Lock != "", was.Listed.Lock != "",
		was.Listed.Template != g.Template, was.Listed.Tags != g.Tags, was.Listed.MaxDisk != g.MaxDisk:
		return true
	}
	return s.self[g.VMID] || s.trail.isOutOfDate(g.VMID, was.place, was.began)
}
