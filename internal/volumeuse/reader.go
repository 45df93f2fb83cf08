package volumeuse

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
)

// Reader reads the volume use. One reading serves every caller that asked before it began: it shows what was attached
// before the caller asked. A guest is read again only if it may have changed since it was read: by the listing, by the
// log of the cluster, or by a request of this process.
type Reader struct {
	api   pve.Reader
	jobs  *request.Runner
	clock pve.Clock
	// All has the configurations kept of all guests, and not only the volumes that they name.
	All bool

	order   *request.Order
	listing *request.Shared[pve.Resources]
	uses    *request.SharedBy[question, *Use]
	sights  *request.Shared[sight]
	logs    *request.Shared[struct{}]
	places  request.Recent[Places]
	trace   trace

	mu    sync.Mutex
	asked uint64       // the last place that Ask gave away
	going map[int]bool // guests that this process removes, or has removed
	kept  map[int]*kept
	last  map[string]*Use // the latest answers, by node
	sight sight
	seen  time.Time     // when that was looked at
	pace  time.Duration // how long a guest takes to be read, beside others
	// snapshots are what the snapshots of a guest keep, by guest and digest. The digest is that of the whole file,
	// snapshots included (qemu-server QemuServer.pm parse_vm_config), so while it is the same there is nothing new in
	// it.
	snapshots map[string]map[string]map[string]string
}

// New makes a Reader in an order that it may share with other questions.
func New(jobs *request.Runner, order *request.Order) *Reader {
	return &Reader{api: jobs.API.Reader(), jobs: jobs, clock: jobs.Clock, order: order,
		listing: request.NewSharedIn[pve.Resources](order), sights: request.NewSharedIn[sight](order),
		logs: request.NewSharedIn[struct{}](order), uses: request.NewSharedBy[question, *Use](order),
		places: request.Recent[Places]{Life: placesLife}, going: map[int]bool{}, kept: map[int]*kept{},
		last: map[string]*Use{}, snapshots: map[string]map[string]map[string]string{}}
}

// Ask notes a place in the order. The caller will want to know later what was true after it.
func (s *Reader) Ask() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = s.order.Next()
	return s.asked
}

// Begin notes that this process removes a guest: that it is switched off and gone is no news.
func (s *Reader) Begin(vmid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.going[vmid] = true
}

func (s *Reader) isGoing(vmid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.going[vmid]
}

// Listing lists the cluster.
func (s *Reader) Listing(ctx context.Context, asked uint64) (pve.Resources, error) {
	all, err := s.listing.Since(ctx, asked, s.api.Cluster().Resources)
	return slices.Clone(all), err
}

// question is about the guests of a node, or about all with node "".
type question struct {
	node string
	// sparing: what leaves no trace on the server may be as old as untracedReadings says.
	sparing bool
}

// Since reads who uses the volumes that guests of a node can use, or with node "" any guest.
func (s *Reader) Since(ctx context.Context, asked uint64, node string) (*Use, error) {
	return s.since(ctx, asked, question{node: node})
}

// SinceOwn is the same for volumes that carry the id of a VM and go together with it. Another guest gets one only if
// its administrator types the name of that VM's disk. In a site of many guests a change that leaves no trace on the
// server is seen some time later.
func (s *Reader) SinceOwn(ctx context.Context, asked uint64, node string) (*Use, error) {
	return s.since(ctx, asked, question{node: node, sparing: true})
}

func (s *Reader) since(ctx context.Context, asked uint64, q question) (*Use, error) {
	return s.uses.Since(ctx, q, asked, func(ctx context.Context) (*Use, error) { return s.readUse(ctx, q) })
}

// Lately is the same, but may be the answer to an earlier question of this process. It is good enough to refuse what
// another look refuses all the same, and proves nothing.
func (s *Reader) Lately(ctx context.Context, asked uint64, node string) (*Use, error) {
	s.mu.Lock()
	for _, scope := range []string{node, ""} {
		if last := s.last[scope]; last.Answers(node, s.clock.Now(), tracedLife) {
			s.mu.Unlock()
			return last, nil
		}
	}
	s.mu.Unlock()
	return s.SinceOwn(ctx, asked, node)
}

// readUse answers all who have asked by now.
func (s *Reader) readUse(ctx context.Context, q question) (*Use, error) {
	s.mu.Lock()
	asked := s.asked
	s.mu.Unlock()
	made := &Use{scope: q.node}
	var placesErr, sightErr error
	var beside sync.WaitGroup
	beside.Go(func() { made.places, placesErr = s.Places(ctx) })
	beside.Go(func() {
		var seen sight
		seen, sightErr = s.look(ctx, asked)
		s.readLog(ctx, asked, sightErr == nil && seen.log)
		made.Unseen = seen.unseen
	})
	resources, err := s.Listing(ctx, asked)
	if beside.Wait(); placesErr != nil || sightErr != nil || err != nil {
		return nil, errors.Join(placesErr, sightErr, err)
	}
	if s.misses(resources) { // an entry in the list of permissions may hide it
		seen, err := s.lookAgain(ctx, asked)
		if err != nil {
			return nil, err
		}
		made.Unseen = seen.unseen
	}
	if made.Resources, err = s.readChanged(ctx, q, resources); err != nil {
		return nil, err
	}
	s.complete(made)
	return made, nil
}

// readChanged reads the guests of which something may have changed, until none has moved meanwhile. It returns the
// listing by which it has found them all.
func (s *Reader) readChanged(ctx context.Context, q question, resources pve.Resources) (pve.Resources, error) {
	began := s.order.Next()
	for attempt := 0; ; attempt++ {
		first, last := s.toRead(q, resources, began)
		moved, err := s.readAll(ctx, first)
		if err == nil {
			var movedToo bool
			movedToo, err = s.readAll(ctx, last)
			moved = moved || movedToo
		}
		if err != nil || !moved {
			return resources, err
		}
		if attempt == 3 {
			return nil, errors.New("guests move from node to node while they are looked at")
		}
		if err := s.jobs.Pause(ctx, attempt+1); err != nil {
			return nil, err
		}
		if resources, err = s.Listing(ctx, s.order.Next()); err != nil {
			return nil, err
		}
	}
}

// complete takes what is known of the guests of a listing into an answer, and forgets those that are gone.
func (s *Reader) complete(made *Use) {
	s.mu.Lock()
	defer s.mu.Unlock()
	guests := made.Resources.Guests()
	there := make(map[int]bool, len(guests))
	for _, g := range guests {
		there[g.VMID] = true
		if k := s.kept[g.VMID]; k != nil && (made.scope == "" || g.Node == made.scope) {
			made.guests = append(made.guests, k)
		}
	}
	stays := make(map[string]bool, len(s.kept))
	for vmid, k := range s.kept {
		if there[vmid] {
			stays[snapshotsKey(k.Guest, k.Config.Digest)] = true
		} else {
			delete(s.kept, vmid)
		}
	}
	for at := range s.snapshots {
		if !stays[at] {
			delete(s.snapshots, at)
		}
	}
	made.at = s.clock.Now()
	s.last[made.scope] = made
}
