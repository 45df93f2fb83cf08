package pve

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// sharedLife is how long a listing serves the checks of a plan. PVE's own data behind it is up to 10 s old.
const sharedLife = 5 * time.Second

// sharedResources keeps one listing. A write makes it worthless at once.
type sharedResources struct {
	writes atomic.Uint64 // moves with every write
	turn   turn          // guards everything below
	list   Resources
	guests map[int]Resource // of the list, by VMID
	at     time.Time
	seen   uint64 // writes when the listing was asked for
	filled bool
}

func (s *sharedResources) invalidate() { s.writes.Add(1) }

// SharedResources is the listing of at most 5 s ago, fetched once for all who ask at the same time. A write by this
// Client, and the end of a task that it waited for, make it fetch anew. It is no basis for fencing.
func (c *Client) SharedResources(ctx context.Context) (Resources, error) {
	s := &c.shared
	if err := c.listing(ctx, sharedLife); err != nil {
		return nil, err
	}
	defer s.turn.give()
	return slices.Clone(s.list), nil
}

// SharedGuest is a VM or container in the one listing that all refreshes of a run share, however long it takes: a refresh
// says what was true when it began. Whoever does not find there what it looks for asks Resources, and so does everything that
// must not be wrong. It is fetched anew as SharedResources is, but for its age.
func (c *Client) SharedGuest(ctx context.Context, vmid int) (Resource, bool, error) {
	s := &c.shared
	if err := c.listing(ctx, math.MaxInt64); err != nil {
		return Resource{}, false, err
	}
	defer s.turn.give()
	guest, ok := s.guests[vmid]
	return guest, ok, nil
}

// listing takes the turn of the shared listing and sees to it that it is valid and not older than life. The turn is given
// back if there is an error, else by the caller.
func (c *Client) listing(ctx context.Context, life time.Duration) error {
	s := &c.shared
	if err := s.turn.take(ctx); err != nil {
		return &Error{Op: "list the cluster's resources", Message: err.Error(), Err: err}
	}
	now := c.clock.Now()
	if age := now.Sub(s.at); s.filled && s.seen == s.writes.Load() && age >= 0 && age < life {
		return nil
	}
	seen := s.writes.Load()
	list, err := c.Resources(ctx)
	if err != nil {
		s.turn.give()
		return err
	}
	s.list, s.guests, s.at, s.seen, s.filled = list, make(map[int]Resource, len(list)), now, seen, true
	for _, r := range list {
		if _, twice := s.guests[r.VMID]; r.IsGuest() && !twice {
			s.guests[r.VMID] = r
		}
	}
	return nil
}

// sharedVersion keeps the answer to /version.
type sharedVersion struct {
	turn    turn // guards everything below
	version Version
	filled  bool
}

func (s *sharedVersion) get(ctx context.Context, c *Client) (Version, error) {
	const op = "read the server's version"
	if err := s.turn.take(ctx); err != nil {
		return Version{}, &Error{Op: op, Message: err.Error(), Err: err}
	}
	defer s.turn.give()
	if s.filled {
		return s.version, nil
	}
	w, err := fetch[versionWire](ctx, c, op, "/version", nil)
	if err != nil {
		return Version{}, err
	}
	s.version, s.filled = w.version(), true
	return s.version, nil
}
