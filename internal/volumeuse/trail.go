package volumeuse

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// trail is what the cluster's log says of guests that may have changed: which of them must be read again.
type trail struct {
	user  string // this identity, as the log names it
	mu    sync.Mutex
	seen  map[pve.LogEntry]bool
	marks map[int]*mark // by VMID
	// gap is the place in the order of the last look that may have missed entries. Readings before it prove nothing.
	gap uint64
}

// mark is what the log says of one guest.
type mark struct {
	place uint64 // in the order, of the last entry that was new then: a reading before it is out of date
	// until when a change may still be under way, by its entry: a reading before that is out of date, too.
	until   map[pve.LogEntry]time.Time
	written []string        // texts that are still to come of changes of ours which PVE has carried out
	tasks   map[string]bool // that were begun and have not ended
}

// written is how long after its entry a change of a configuration may be written. PVE makes the entry first, under the
// guest's lock, and then frees and makes volumes before it writes (qemu-server API2/Qemu.pm update_vm_api). Such a
// request has 30 s to be answered; twice that is a margin. A change that gives the guest no volume of another one may
// be written at any time.
const written = time.Minute

const (
	// latest is how many entries of the log are read at first: more than ten destroys make at a time.
	latest = 100
	// allEntries is more than the log holds: 128 KiB (pve-cluster pmxcfs/logger.h CLOG_DEFAULT_SIZE).
	allEntries = 5000
)

// follow reads the cluster's log for all who have asked by now. It notes a gap where it may have missed entries.
func (s *Reader) follow(ctx context.Context, asked uint64) error {
	_, err := s.log.Since(ctx, asked, func(ctx context.Context) (bool, error) {
		now := s.clock.Now()
		entries, err := s.api.Cluster().Log(ctx, latest)
		connects := s.trail.connects(entries, latest)
		if err == nil && !connects {
			entries, err = s.api.Cluster().Log(ctx, allEntries)
			connects = s.trail.connects(entries, allEntries)
		}
		place := s.order.Next() // a reading that began meanwhile may have been before the change
		if err != nil || !connects {
			s.trail.miss(place)
		}
		s.trail.note(entries, place, now)
		return err == nil, err
	})
	return err
}

// connects reports whether nothing can lie between the entries that were seen before and these, the latest first.
func (t *trail) connects(entries []pve.LogEntry, most int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := func(e pve.LogEntry) bool { return t.seen[e] }
	n := len(entries)
	return (n < most || known(entries[n-1])) && (len(t.seen) == 0 || slices.ContainsFunc(entries, known))
}

func (t *trail) miss(place uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gap = place
}

// note takes in entries, the latest first, that were answered at a place of the order. Ages are told by the clock of
// the node that made the entry.
func (t *trail) note(entries []pve.LogEntry, place uint64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	newest := map[string]int64{}
	for _, e := range entries {
		newest[e.Node] = max(newest[e.Node], e.Time)
	}
	if len(t.seen) > allEntries { // those that are left out are taken for new once more
		t.seen = map[pve.LogEntry]bool{}
	}
	for _, e := range slices.Backward(entries) {
		if t.seen[e] {
			continue
		}
		t.seen[e] = true
		t.noteOne(e, place)
	}
	for _, m := range t.marks { // a later entry of the node shows how old one is
		for e, was := range m.until {
			age := time.Duration(newest[e.Node]-e.Time) * time.Second
			if until := now.Add(written - age); was.IsZero() || until.Before(was) {
				m.until[e] = until
			}
		}
	}
}

func (t *trail) noteOne(e pve.LogEntry, place uint64) {
	upid, begins, ends := taskOf(e.Message)
	var vmid int
	switch {
	case begins || ends:
		if vmid, _ = strconv.Atoi(upid.ID()); slices.Contains(harmless(), upid.Type()) {
			return
		}
	default:
		vmid = guestIn(e.Message)
	}
	if vmid == 0 {
		return
	}
	m := t.markOf(vmid)
	if i := slices.Index(m.written, e.Message); i >= 0 && e.User == t.user {
		m.written = slices.Delete(m.written, i, i+1)
		return
	}
	m.place = place
	switch {
	case begins:
		m.tasks[string(upid)] = true
	case ends:
		delete(m.tasks, string(upid))
	case !givesNoVolume(e.Message):
		m.until[e] = time.Time{}
	}
}

// Wrote notes that PVE has carried out a change of ours, by the text of its entry: nothing of it is under way any more.
// Where a third party sends the very same change as the same identity, nothing is missed: it gives the guest the same.
func (s *Reader) Wrote(vmid int, message string) { s.trail.wrote(vmid, message, s.order.Next()) }

func (t *trail) wrote(vmid int, message string, place uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.markOf(vmid)
	m.place = place
	for e := range m.until {
		if e.User == t.user && e.Message == message {
			delete(m.until, e)
			return
		}
	}
	m.written = append(m.written, message)
}

func (t *trail) markOf(vmid int) *mark {
	if t.marks[vmid] == nil {
		t.marks[vmid] = &mark{tasks: map[string]bool{}, until: map[pve.LogEntry]time.Time{}}
	}
	return t.marks[vmid]
}

// isOutOfDate reports whether a guest may have changed since a reading of it began.
func (t *trail) isOutOfDate(vmid int, place uint64, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.marks[vmid]
	if m == nil {
		return false
	}
	underWay := slices.ContainsFunc(slices.Collect(maps.Values(m.until)), at.Before)
	return place < m.place || len(m.tasks) > 0 || underWay
}

// tasksOf are the tasks of a guest of which the log has seen the beginning and not the end.
func (t *trail) tasksOf(vmid int) []pve.UPID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []pve.UPID
	if m := t.marks[vmid]; m != nil {
		for _, upid := range slices.Sorted(maps.Keys(m.tasks)) {
			all = append(all, pve.UPID(upid))
		}
	}
	return all
}

// covers reports whether the log has been followed without a gap since a place in the order.
func (t *trail) covers(place uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return place > t.gap
}
