package volumeuse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
)

// parallel is how many guests are read at a time.
const parallel = 4

// Reader reads the volume use. One reading serves every caller that asked before it began, and none by its age: it
// shows what was attached before the caller asked.
type Reader struct {
	api   pve.Reader
	jobs  *request.Runner
	clock pve.Clock

	order   *request.Order
	listing *request.Shared[pve.Resources]
	uses    *request.SharedBy[string, *Use] // by node
	visible *request.Shared[error]
	places  request.Recent[Places]

	mu      sync.Mutex
	asked   uint64       // the last place that Ask gave away
	going   map[int]bool // guests that are about to go: they are read last
	waiting map[int]bool // those of them that wait for a read
	// snapshots are what the snapshots of a guest keep, by guest and digest. The digest is that of the whole file,
	// snapshots included (qemu-server QemuServer.pm parse_vm_config), so while it is the same there is nothing new in
	// it.
	snapshots map[string]map[string]map[string]string
}

// New makes a Reader in an order that it may share with other questions.
func New(jobs *request.Runner, order *request.Order) *Reader {
	return &Reader{api: jobs.API.Reader(), jobs: jobs, clock: jobs.Clock, order: order,
		listing: request.NewSharedIn[pve.Resources](order),
		visible: request.NewSharedIn[error](order), uses: request.NewSharedBy[string, *Use](order),
		places: request.Recent[Places]{Life: placesLife},
		going:  map[int]bool{}, waiting: map[int]bool{}, snapshots: map[string]map[string]map[string]string{}}
}

// Ask notes a place in the order. The caller will want to know later what was true after it.
func (s *Reader) Ask() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = s.order.Next()
	return s.asked
}

// Begin notes that a guest is about to go: a read reads it last, so that he who wants to act on it has just seen it.
// surveyed is to be called when he knows of the others what he wants, done when the guest is gone.
func (s *Reader) Begin(vmid int) (surveyed, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.going[vmid] = true
	s.waiting[vmid] = true
	end := func(of map[int]bool) func() {
		return func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(of, vmid)
		}
	}
	return end(s.waiting), end(s.going)
}

// gatherTime bounds Gather. A guest that shuts down may take much longer.
const gatherTime = time.Second

// Gather waits a moment for other destroys if some are under way. Terraform begins the next destroy as soon as one
// has ended, so that one asks within that time, and one reading serves all. A destroy that is alone does not wait.
func (s *Reader) Gather(ctx context.Context) error {
	ctx, over := oplog.Wait(ctx, oplog.Shared, "others that are to go, so that one look at the guests serves all")
	defer over()
	for end := s.clock.Now().Add(gatherTime); s.isAtWork() && s.clock.Now().Before(end); {
		if err := s.clock.Sleep(ctx, gatherTime/30); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *Reader) isAtWork() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.going) > len(s.waiting)
}

// Listing lists the cluster.
func (s *Reader) Listing(ctx context.Context, asked uint64) (pve.Resources, error) {
	all, err := s.listing.Since(ctx, asked, s.api.Cluster().Resources)
	return slices.Clone(all), err
}

// Since reads the guests of a node, or with node "" those of the whole cluster.
func (s *Reader) Since(ctx context.Context, asked uint64, node string) (*Use, error) {
	return s.uses.Since(ctx, node, asked, func(ctx context.Context) (*Use, error) { return s.readUse(ctx, node) })
}

// readUse reads the guests, for all who have asked by now.
func (s *Reader) readUse(ctx context.Context, node string) (*Use, error) {
	s.mu.Lock()
	asked := s.asked
	s.mu.Unlock()
	made := &Use{scope: node, readings: map[int]Reading{}, users: map[string][]User{}}
	var seeing sync.WaitGroup
	var sightErr, placesErr error
	seeing.Go(func() { made.Unseen, sightErr = s.Visible(ctx, asked) })
	seeing.Go(func() { made.places, placesErr = s.Places(ctx) })
	resources, err := s.Listing(ctx, asked)
	if seeing.Wait(); sightErr != nil || placesErr != nil {
		return nil, errors.Join(sightErr, placesErr)
	}
	for attempt := 0; ; attempt++ {
		if attempt > 0 {
			resources, err = s.Listing(ctx, asked)
		}
		if made.Resources = resources; err != nil {
			return nil, err
		}
		first, last := s.toRead(made)
		moved, err := s.readAll(ctx, made, first)
		if err == nil {
			var movedToo bool
			movedToo, err = s.readAll(ctx, made, last)
			moved = moved || movedToo
		}
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
	s.forget(made)
	made.at = s.clock.Now()
	return made, nil
}

// toRead are the guests that were not read yet; last are those that are about to go.
func (s *Reader) toRead(made *Use) (first, last []pve.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range made.Resources.Guests() {
		_, read := made.readings[g.VMID]
		switch {
		case read || made.scope != "" && g.Node != made.scope:
		case s.going[g.VMID]:
			last = append(last, g)
		default:
			first = append(first, g)
		}
	}
	return first, last
}

// readAll reads guests, a few at a time. moved: one was not where the listing has it.
func (s *Reader) readAll(ctx context.Context, made *Use, guests []pve.Resource) (moved bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, g := range guests {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			reading, readErr := s.read(ctx, g)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case pve.IsKind(readErr, pve.NotFound):
				moved = true
			case readErr != nil && err == nil:
				err = readErr
				cancel() // one that cannot be read is enough
			case readErr == nil:
				made.add(reading)
			}
		})
	}
	group.Wait()
	return moved, err
}

// read reads a guest: its options, in force and pending, and its snapshots.
func (s *Reader) read(ctx context.Context, g pve.Resource) (Reading, error) {
	config, err := s.api.Guest(g).Options(ctx)
	if err != nil {
		return Reading{}, err
	}
	r := Reading{Guest: g, Config: config, At: s.clock.Now()}
	r.Snapshots, err = s.Snapshots(ctx, g, config)
	return r, err
}

// Snapshots reads what the snapshots of a guest keep, unless its configuration, or its digest, tells. No option does:
// parent goes with the snapshot that it names, though others may be left (pve-guest-common AbstractConfig.pm
// snapshot_delete, after a rollback to the first of two).
func (s *Reader) Snapshots(ctx context.Context, g pve.Resource,
	config pve.PendingConfig) (map[string]map[string]string, error) {
	if !config.MayHaveSnapshots() {
		return nil, nil
	}
	at := snapshotsKey(g, config.Digest)
	s.mu.Lock()
	kept, known := s.snapshots[at]
	s.mu.Unlock()
	if known && config.Digest != "" {
		return kept, nil
	}
	names, err := s.api.Guest(g).SnapshotNames(ctx)
	if err != nil {
		return nil, err
	}
	kept = map[string]map[string]string{}
	for _, name := range names {
		if kept[name], err = s.api.Guest(g).SnapshotOptions(ctx, name); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshots[at] = kept
	return kept, nil
}

func snapshotsKey(g pve.Resource, digest string) string {
	return fmt.Sprintf("%s/%s/%d %s", g.Node, g.Type, g.VMID, digest)
}

// forget drops what is known of the snapshots of guests that are not like that any more.
func (s *Reader) forget(made *Use) {
	stays := map[string]bool{}
	for _, r := range made.readings {
		stays[snapshotsKey(r.Guest, r.Config.Digest)] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.snapshots {
		if !stays[at] && (made.scope == "" || strings.HasPrefix(at, made.scope+"/")) {
			delete(s.snapshots, at)
		}
	}
}
