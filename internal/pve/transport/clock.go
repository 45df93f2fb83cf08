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
