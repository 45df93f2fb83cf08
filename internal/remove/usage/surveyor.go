package usage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// ErrUnseen is why it cannot be told whether somebody else uses a volume.
var ErrUnseen = errors.New("this identity does not see all guests of the cluster: that takes VM.Audit on /vms, propagated")

// readers is how many guests are read at a time.
const readers = 4

// Surveyor makes surveys. One serves everybody who asked before it began, and nobody by its age: what was attached before somebody
// asked is in his answer.
type Surveyor struct {
	api   *pve.Client
	jobs  *job.Runner
	clock pve.Clock

	order   *job.Order
	listing *job.Shared[pve.Resources]
	surveys *job.SharedBy[string, *Survey] // by node
	sight   *job.Shared[error]

	mu      sync.Mutex
	asked   uint64       // the last place that Ask gave away
	going   map[int]bool // guests that are about to go: they are read last
	waiting map[int]bool // those of them that wait for a survey
	// snapshots are what the snapshots of a guest keep, by guest and digest. The digest is that of the whole file, snapshots
	// included (qemu-server QemuServer.pm parse_vm_config), so while it is the same there is nothing new in it.
	snapshots map[string]map[string]map[string]string
}

// New makes a Surveyor in an order, in which there may be other questions.
func New(jobs *job.Runner, order *job.Order) *Surveyor {
	return &Surveyor{api: jobs.API, jobs: jobs, clock: jobs.Clock, order: order, listing: job.NewSharedIn[pve.Resources](order),
		sight: job.NewSharedIn[error](order), surveys: job.NewSharedBy[string, *Survey](order),
		going: map[int]bool{}, waiting: map[int]bool{}, snapshots: map[string]map[string]map[string]string{}}
}

// Ask notes that somebody asks, who will want to know later what was true after this moment of the order.
func (s *Surveyor) Ask() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = s.order.Next()
	return s.asked
}

// Begin notes that a guest is about to go: a survey reads it last, so that he who wants to act on it has just seen it. surveyed is
// to be called when he knows of the others what he wants, done when the guest is gone.
func (s *Surveyor) Begin(vmid int) (surveyed, done func()) {
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

// Gather waits a moment for others, if others are at work on guests that are about to go: who follows them, as Terraform begins the
// next as soon as one has ended, asks within that time, and one survey serves all. Whoever is alone does not wait.
func (s *Surveyor) Gather(ctx context.Context) error {
	ctx, over := account.Wait(ctx, account.Shared, "others that are to go, so that one look at the guests serves all")
	defer over()
	for end := s.clock.Now().Add(gatherTime); s.isAtWork() && s.clock.Now().Before(end); {
		if err := s.clock.Sleep(ctx, gatherTime/30); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *Surveyor) isAtWork() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.going) > len(s.waiting)
}

// Listing lists the cluster.
func (s *Surveyor) Listing(ctx context.Context, asked uint64) (pve.Resources, error) {
	all, err := s.listing.Since(ctx, asked, s.api.Resources)
	return slices.Clone(all), err
}

// Since surveys the guests of a node, or with node "" those of the whole cluster.
func (s *Surveyor) Since(ctx context.Context, asked uint64, node string) (*Survey, error) {
	return s.surveys.Since(ctx, node, asked, func(ctx context.Context) (*Survey, error) { return s.make(ctx, node) })
}

// make reads the guests, for all who have asked by now.
func (s *Surveyor) make(ctx context.Context, node string) (*Survey, error) {
	s.mu.Lock()
	asked := s.asked
	s.mu.Unlock()
	made := &Survey{scope: node, readings: map[int]Reading{}, users: map[string][]User{}}
	var seeing sync.WaitGroup
	var sightErr error
	seeing.Go(func() { made.Unseen, sightErr = s.Sight(ctx, asked) })
	resources, err := s.Listing(ctx, asked)
	if seeing.Wait(); sightErr != nil {
		return nil, sightErr
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
func (s *Surveyor) toRead(made *Survey) (first, last []pve.Resource) {
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

// Sight says why this identity may not see all guests, if so: PVE leaves those without VM.Audit out of the listing in silence.
func (s *Surveyor) Sight(ctx context.Context, asked uint64) (unseen, err error) {
	if s.api.Identity().IsRootTicket() {
		return nil, nil
	}
	return s.sight.Since(ctx, asked, func(ctx context.Context) (error, error) {
		all, err := s.api.Permissions(ctx, "/vms")
		if err == nil && !all["/vms"]["VM.Audit"] { // held, and for all below
			return ErrUnseen, nil
		}
		return nil, err
	})
}

// readAll reads guests, a few at a time. moved: one was not where the listing has it.
func (s *Surveyor) readAll(ctx context.Context, made *Survey, guests []pve.Resource) (moved bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, readers)
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
func (s *Surveyor) read(ctx context.Context, g pve.Resource) (Reading, error) {
	config, err := s.api.OptionsOf(ctx, g)
	if err != nil {
		return Reading{}, err
	}
	r := Reading{Guest: g, Config: config, At: s.clock.Now()}
	r.Snapshots, err = s.Snapshots(ctx, g, config)
	return r, err
}

// Snapshots reads what the snapshots of a guest keep, unless its configuration, or its digest, tells. No option does: parent goes
// with the snapshot that it names, though others may be left (pve-guest-common AbstractConfig.pm snapshot_delete, after a rollback to
// the first of two).
func (s *Surveyor) Snapshots(ctx context.Context, g pve.Resource, config pve.PendingConfig) (map[string]map[string]string, error) {
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
	names, err := s.api.SnapshotsOf(ctx, g)
	if err != nil {
		return nil, err
	}
	kept = map[string]map[string]string{}
	for _, name := range names {
		if kept[name], err = s.api.SnapshotOptionsOf(ctx, g, name); err != nil {
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
func (s *Surveyor) forget(made *Survey) {
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
