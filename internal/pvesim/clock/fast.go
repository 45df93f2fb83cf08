package clock

import (
	"context"
	"sync"
	"time"
)

// Fast is a clock that runs fifty times as fast as the machine's. On the one that moves by itself a task is over before
// its answer is read, and no interrupt ever meets one.
type Fast struct {
	mu      sync.Mutex
	shown   time.Time     // what it showed when it was last set going, or stopped
	since   time.Time     // when that was, on the machine's
	stopped chan struct{} // closed when it goes on; nil: it runs
}

const speed = 50

// NewFast returns a Fast that begins now.
func NewFast() *Fast {
	now := time.Now()
	return &Fast{shown: now, since: now}
}

// Now returns the clock's time.
func (f *Fast) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now()
}

func (f *Fast) now() time.Time {
	if f.stopped != nil {
		return f.shown
	}
	return f.shown.Add(time.Since(f.since) * speed)
}

// Stop stops the clock: all sleeps on it last until it goes on.
func (f *Fast) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped == nil {
		f.shown, f.stopped = f.now(), make(chan struct{})
	}
}

// Go sets it going again.
func (f *Fast) Go() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped != nil {
		close(f.stopped)
		f.stopped, f.since = nil, time.Now()
	}
}

// Sleep waits for d on this clock.
func (f *Fast) Sleep(d time.Duration) { f.SleepContext(context.Background(), d) }

// SleepContext waits for d on this clock, or until ctx is done.
func (f *Fast) SleepContext(ctx context.Context, d time.Duration) {
	for until := f.Now().Add(d); ctx.Err() == nil; {
		f.mu.Lock()
		left, stopped := until.Sub(f.now()), f.stopped
		f.mu.Unlock()
		switch {
		case left <= 0:
			return
		case stopped == nil:
			Real{}.SleepContext(ctx, left/speed)
		default:
			select {
			case <-stopped:
			case <-ctx.Done():
			}
		}
	}
}
