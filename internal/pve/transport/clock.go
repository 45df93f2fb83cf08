package transport

import (
	"context"
	"time"
)

// Clock is the time a Client lives in. Tests replace it, so that PVE's long waits cost nothing.
type Clock interface {
	// Now is the current time.
	Now() time.Time
	// Sleep waits for d and returns nil, or returns ctx.Err() as soon as ctx is done.
	Sleep(ctx context.Context, d time.Duration) error
}

// Elapsed is the time between two readings of a clock, a sleep of the machine included: Go's monotonic readings stand
// still meanwhile, and those of the wall clock may be set back. The longer one counts.
func Elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// RealClock is the machine's.
func RealClock() Clock { return realClock{} }

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
