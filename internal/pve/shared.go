package pve

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// sharedLife is how long a listing serves the reads of one refresh. PVE's own data behind it is up to 10 s old.
const sharedLife = 5 * time.Second

// sharedResources keeps one listing for a short time. A write makes it worthless at once.
type sharedResources struct {
	writes atomic.Uint64 // moves with every write
	turn   turn          // guards everything below
	list   Resources
	at     time.Time
	seen   uint64 // writes when the listing was asked for
	filled bool
}

func (s *sharedResources) invalidate() { s.writes.Add(1) }

// SharedResources is the listing of at most 5 s ago, fetched once for all who ask at the same time. A write by this
// Client, and the end of a task that it waited for, make it fetch anew. It is no basis for fencing.
func (c *Client) SharedResources(ctx context.Context) (Resources, error) {
	s := &c.shared
	if err := s.turn.take(ctx); err != nil {
		return nil, &Error{Op: "list the cluster's resources", Message: err.Error(), Err: err}
	}
	defer s.turn.give()
	now := c.clock.Now()
	if age := now.Sub(s.at); s.filled && s.seen == s.writes.Load() && age >= 0 && age < sharedLife {
		return slices.Clone(s.list), nil
	}
	seen := s.writes.Load()
	list, err := c.Resources(ctx)
	if err != nil {
		return nil, err
	}
	s.list, s.at, s.seen, s.filled = list, now, seen, true
	return slices.Clone(list), nil
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
