package volumeuse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
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
	visible *request.Shared[sight]
	log     *request.Shared[bool]
	trail   trail
	places  request.Recent[Places]

	mu      sync.Mutex
	asked   uint64          // the last place that Ask gave away
	going   map[int]bool    // guests that are about to go: they are read last
	waiting map[int]bool    // those of them that wait for a read
	self    map[int]bool    // those of these that are to be read themselves
	latest  map[string]*Use // by scope
	offered map[int]Reading // by operations, of their own VMs
	// keepAll: each reading is kept whole, and nothing is renewed. Otherwise only its volumes are and, for guests that are
	// about to go or hold a volume for others, their configuration.
	keepAll bool
	// snapshots are what the snapshots of a guest keep, by guest and digest. The digest is that of the whole file,
	// snapshots included (qemu-server QemuServer.pm parse_vm_config), so while it is the same there is nothing new in
	// it.
	snapshots map[string]map[string]map[string]string
}

// New makes a Reader in an order that it may share with other questions.
func New(jobs *request.Runner, order *request.Order) *Reader {
	return &Reader{api: jobs.API.Reader(), jobs: jobs, clock: jobs.Clock, order: order,
		listing: request.NewSharedIn[pve.Resources](order),
		visible: request.NewSharedIn[sight](order), log: request.NewSharedIn[bool](order),
		trail:  trail{user: jobs.API.Identity().User, seen: map[pve.LogEntry]bool{}, marks: map[int]*mark{}},
		self:   map[int]bool{},
		latest: map[string]*Use{}, offered: map[int]Reading{},
		uses:   request.NewSharedBy[string, *Use](order),
		places: request.Recent[Places]{Life: placesLife},
		going:  map[int]bool{}, waiting: map[int]bool{}, snapshots: map[string]map[string]map[string]string{}}
}

// Whole is a Reader that keeps all that it has read of a guest, for who judges the guests themselves.
func Whole(jobs *request.Runner, order *request.Order) *Reader {
	s := New(jobs, order)
	s.keepAll = true
	return s
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
	s.self[vmid] = true
	return s.wait(vmid)
}

// Rejoin notes that such a guest waits for a read of the others once more and, with self, of itself.
func (s *Reader) Rejoin(vmid int, self bool) (surveyed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.self[vmid] = self
	surveyed, _ = s.wait(vmid)
	return surveyed
}

func (s *Reader) wait(vmid int) (surveyed, done func()) {
	s.going[vmid] = true
	s.waiting[vmid] = true
	end := func(of map[int]bool) func() {
		return func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(of, vmid)
			delete(s.self, vmid)
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
				made.add(reading, s.keeps(reading))
			}
		})
	}
	group.Wait()
	return moved, err
}

// keeps reports whether more is kept of a guest than which volumes it uses.
func (s *Reader) keeps(r Reading) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keepAll || s.going[r.Guest.VMID] || vm.HeldVolume(r.Guest.VMID, r.Config.Current()) != ""
}

// read reads a guest: its options, in force and pending, and its snapshots.
func (s *Reader) read(ctx context.Context, g pve.Resource) (Reading, error) {
	r := Reading{Guest: g, Listed: g, place: s.order.Next(), began: s.clock.Now()}
	config, err := s.api.Guest(g).Options(ctx)
	if err != nil {
		return Reading{}, err
	}
	r.Config, r.At = config, r.began // the machine may have slept before it heard the answer
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
	for _, r := range made.base.readings {
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
