// Package clock holds the clocks that a simulated cluster can run on: the machine's, and one that moves by itself
// whenever all goroutines wait, so that PVE's waits (3 s after a 401, 10 s for a lock, 300 s for a zvol link) cost
// nothing in a test.
package clock

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Real is the machine's clock.
type Real struct{}

// Now is the machine's time.
func (Real) Now() time.Time { return time.Now() }

// Sleep waits for d.
func (r Real) Sleep(d time.Duration) { r.SleepContext(context.Background(), d) }

// SleepContext waits for d or until ctx ends.
func (Real) SleepContext(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Virtual is a clock of discrete events. A goroutine that works in the cluster calls Enter before and Leave after. When
// every goroutine that entered sleeps, the earliest sleeper wakes and its time becomes the clock's: no lock times out
// only because its holder's goroutine had to wait for a processor.
type Virtual struct {
	mu       sync.Mutex
	idle     sync.Cond
	now      time.Time
	auto     bool
	tick     time.Duration // how much time passes with each look at the clock
	active   int
	seq      int
	sleepers sleepers
}

// NewVirtual returns a clock that shows start and advances by itself.
func NewVirtual(start time.Time) *Virtual { return newVirtual(start, true) }

// NewManual returns a clock that shows start and moves only by Advance.
func NewManual(start time.Time) *Virtual { return newVirtual(start, false) }

// NewTicking returns a clock that moves by Advance and by tick with each reading: no two looks see the same
// time, as on a real one.
func NewTicking(start time.Time, tick time.Duration) *Virtual {
	v := newVirtual(start, false)
	v.tick = tick
	return v
}

func newVirtual(start time.Time, auto bool) *Virtual {
	v := &Virtual{now: start, auto: auto}
	v.idle.L = &v.mu
	return v
}

// Now is the clock's time.
func (v *Virtual) Now() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now = v.now.Add(v.tick)
	return v.now
}

// Enter announces a goroutine that works on the cluster.
func (v *Virtual) Enter() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.active++
}

// Idle reports whether everyone who entered sleeps.
func (v *Virtual) Idle() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.active == 0
}

// Leave ends what Enter announced.
func (v *Virtual) Leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rest()
}

// rest takes the caller out of those who work, and lets time pass if none is left.
func (v *Virtual) rest() {
	v.active--
	if v.active > 0 {
		return
	}
	v.idle.Broadcast()
	if v.auto && len(v.sleepers) > 0 {
		v.wakeFirst()
	}
}

func (v *Virtual) wakeFirst() {
	first, _ := heap.Pop(&v.sleepers).(*sleeper)
	if first.at.After(v.now) {
		v.now = first.at
	}
	v.active++ // on behalf of the woken, so that no other wakes before this one has done its work
	close(first.woken)
}

// Sleep waits for d. The caller has entered and holds no lock that others need to make progress.
func (v *Virtual) Sleep(d time.Duration) { v.SleepContext(context.Background(), d) }

// SleepContext waits for d or until ctx ends.
func (v *Virtual) SleepContext(ctx context.Context, d time.Duration) {
	if d <= 0 || ctx.Err() != nil {
		return
	}
	v.mu.Lock()
	v.seq++
	me := &sleeper{at: v.now.Add(d), seq: v.seq, woken: make(chan struct{})}
	heap.Push(&v.sleepers, me)
	v.rest()
	v.mu.Unlock()
	select {
	case <-me.woken:
	case <-ctx.Done():
		v.mu.Lock()
		defer v.mu.Unlock()
		if me.index >= 0 {
			heap.Remove(&v.sleepers, me.index)
			v.active++
		}
	}
}

// Advance moves the clock by d and wakes, one after the other, those whose time has come. It waits until each has
// finished or sleeps again. Its caller has not entered.
func (v *Virtual) Advance(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	target := v.now.Add(d)
	for {
		for v.active > 0 {
			v.idle.Wait()
		}
		if len(v.sleepers) == 0 || v.sleepers[0].at.After(target) {
			break
		}
		v.wakeFirst()
	}
	if target.After(v.now) {
		v.now = target
	}
}

type sleeper struct {
	at    time.Time
	seq   int
	index int
	woken chan struct{}
}

// sleepers is a heap, earliest first, first come first where times are equal.
type sleepers []*sleeper

// Len is for container/heap.
func (s sleepers) Len() int { return len(s) }

// Less is for container/heap.
func (s sleepers) Less(i, j int) bool {
	if s[i].at.Equal(s[j].at) {
		return s[i].seq < s[j].seq
	}
	return s[i].at.Before(s[j].at)
}

// Swap is for container/heap.
func (s sleepers) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push is for container/heap.
func (s *sleepers) Push(x any) {
	if p, ok := x.(*sleeper); ok {
		p.index = len(*s)
		*s = append(*s, p)
	}
}

// Pop is for container/heap.
func (s *sleepers) Pop() any {
	old := *s
	last := old[len(old)-1]
	last.index = -1
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	return last
}
