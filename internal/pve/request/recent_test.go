package request

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// TestRecent: one answer serves all who ask within its life, also those who come while it is fetched; a failed one
// serves none.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recent[int]
		clock, asked := pve.RealClock(), 0
		ask := func(context.Context) (int, error) {
			asked++
			time.Sleep(time.Second)
			if asked == 1 {
				return 0, errors.New("no answer")
			}
			return asked, nil
		}
		if _, err := r.Get(t.Context(), clock, "a", ask); err == nil {
			t.Error("no error")
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if got, err := r.Get(t.Context(), clock, "a", ask); got != 2 || err != nil {
					t.Errorf("got %d, %v", got, err)
				}
			})
		}
		all.Wait()
		for _, step := range []struct {
			key  string
			do   func()
			want int
		}{
			{"a", func() { time.Sleep(recentLife - time.Second - 1) }, 2},
			{"b", func() {}, 3},
			{"a", func() { time.Sleep(2 * time.Nanosecond) }, 4},
			{"a", r.Forget, 5},
		} {
			step.do()
			if got, err := r.Get(t.Context(), clock, step.key, ask); got != step.want || err != nil {
				t.Errorf("%+v: got %d, %v", step, got, err)
			}
		}
	})
}

// TestRecentKeepsAFailure: it serves for a while, from its end on, but the end of its caller's time serves no other.
func TestRecentKeepsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, asked := Recent[int]{Failed: 30 * time.Second}, 0
		ask := func(ctx context.Context) (int, error) {
			asked++
			if err := pve.RealClock().Sleep(ctx, time.Minute); err != nil {
				return 0, err
			}
			return 0, errors.New("hangs")
		}
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for i, want := range []int{1, 2, 2, 3} {
			ctx := t.Context()
			if i == 0 {
				ctx = brief
			}
			if _, err := r.Get(ctx, pve.RealClock(), "", ask); err == nil || asked != want {
				t.Errorf("question %d: asked %d times, %v", i, asked, err)
			}
			time.Sleep(time.Duration(i) * 15 * time.Second)
		}
	})
}

// TestRecentWaitsForNobodyInVain: who stops waiting goes, and takes no answer from the others.
func TestRecentWaitsForNobodyInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Recent[int]{Life: time.Hour}
		slow := func(ctx context.Context) (int, error) { return 1, pve.RealClock().Sleep(ctx, time.Minute) }
		go func() { _, _ = r.Get(t.Context(), pve.RealClock(), "", slow) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := r.Get(ctx, pve.RealClock(), "", slow); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		time.Sleep(30 * time.Minute)
		if got, err := r.Get(t.Context(), pve.RealClock(), "", slow); got != 1 || err != nil || time.Since(begin) > 31*time.Minute {
			t.Errorf("%d, %v", got, err)
		}
	})
}
