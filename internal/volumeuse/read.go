package volumeuse

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// parallel is how many guests are read at a time.
const parallel = 4

// toRead are the guests that a question is about and that were not read since a place of the order, unless nothing can
// have changed since they were read. last are those that this process removes: what is done next is done to them.
func (s *Reader) toRead(q question, resources pve.Resources, began uint64) (first, last []pve.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all, untraced []pve.Resource
	now := s.clock.Now()
	for _, g := range resources.Guests() {
		k := s.kept[g.VMID]
		switch {
		case q.node != "" && g.Node != q.node:
		case k == nil, k.Guest.Node != g.Node, k.Guest.Type != g.Type:
			all = append(all, g)
		case k.place > began:
		case s.isChanged(k, g), s.trace.names(k), isOlder(k, now, tracedLife):
			all = append(all, g)
		case !s.trace.covers(k):
			untraced = append(untraced, g)
		}
	}
	life := time.Duration(-1)
	if q.sparing {
		life = min(s.pace*time.Duration(untracedReadings*len(untraced)), tracedLife)
	}
	for _, g := range untraced {
		if isOlder(s.kept[g.VMID], now, life) {
			all = append(all, g)
		}
	}
	for _, g := range all {
		if s.going[g.VMID] {
			last = append(last, g)
		} else {
			first = append(first, g)
		}
	}
	return first, last
}

// isOlder reports whether a guest was read so long ago. A clock that was set back tells nothing.
func isOlder(k *kept, now time.Time, life time.Duration) bool {
	age := now.Sub(k.began)
	return age < 0 || age > life
}

// isChanged reports whether something was done to a guest since it was read, by the listing or by this process. A guest
// that is about to go is being switched off.
func (s *Reader) isChanged(k *kept, now pve.Resource) bool {
	going := s.going[now.VMID]
	return k.differs(now, going) || !going && k.changes != s.api.Listing().Changes(now.VMID)
}

// tracedLife is how long what was read of a guest serves although the log of the cluster shows nothing of it: an
// administrator who edits its file leaves no trace.
const tracedLife = 10 * time.Minute

// untracedReadings bounds the age of what the answer to a sparing question says of guests that the log does not cover:
// this many times as long as it takes to read them all. So a small site is read each time, and a large one costs a
// share of the time.
const untracedReadings = 20

// readAll reads guests, a few at a time. moved: one was not where the listing has it.
func (s *Reader) readAll(ctx context.Context, guests []pve.Resource) (moved bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := s.clock.Now()
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
				s.take(reading)
			}
		})
	}
	group.Wait()
	if len(guests) >= manyGuests {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pace = s.clock.Now().Sub(begin) / time.Duration(len(guests))
	}
	return moved, err
}

// manyGuests is of how many the pace of a reading tells.
const manyGuests = 20

func (s *Reader) take(k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[k.Guest.VMID] = k
}

// read reads a guest: its options, in force and pending, and its snapshots.
func (s *Reader) read(ctx context.Context, g pve.Resource) (*kept, error) {
	place, began, changes := s.order.Next(), s.clock.Now(), s.api.Listing().Changes(g.VMID)
	config, err := s.api.Guest(g).Options(ctx)
	if err != nil {
		return nil, err
	}
	r := Reading{Guest: g, Config: config, At: s.clock.Now()}
	if r.Snapshots, err = s.Snapshots(ctx, g, config); err != nil {
		return nil, err
	}
	k := keep(r, s.All || s.isGoing(g.VMID))
	k.place, k.began, k.changes = place, began, changes
	return k, nil
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
