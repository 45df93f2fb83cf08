package request

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSharedServesWhoAskedBefore: those who ask while a fetch is under way get the next one, all the same; no caller
// gets one that began before it asked, however young it is.
func TestSharedServesWhoAskedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fetches := NewShared[int](), 0
		fetch := func(context.Context) (int, error) {
			fetches++
			n := fetches
			time.Sleep(time.Second)
			return n, nil
		}
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				want := 2
				if time.Sleep(time.Duration(i) * 10 * time.Millisecond); i == 0 {
					want = 1
				}
				if got, err := s.Get(t.Context(), fetch); got != want || err != nil {
					t.Errorf("caller %d got answer %d, %v, want %d", i, got, err, want)
				}
			})
		}
		all.Wait()
		if got, err := s.Get(t.Context(), fetch); got != 3 || err != nil {
			t.Errorf("a later caller got answer %d, %v", got, err)
		}
	})
}

// TestSharedFailures: a refusal is an answer, the end of a caller's context is none, and no caller waits longer than
// its own context lasts.
func TestSharedFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fetches := NewShared[int](), 0
		refused := errors.New("refused")
		fetch := func(ctx context.Context) (int, error) {
			fetches++
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(time.Second):
				return 0, refused
			}
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		ask := func(ctx context.Context, after time.Duration, want error) {
			all.Go(func() {
				time.Sleep(after)
				if _, err := s.Get(ctx, fetch); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			})
		}
		ask(short, 0, context.DeadlineExceeded)
		ask(t.Context(), 100*time.Microsecond, refused)
		ask(t.Context(), 200*time.Microsecond, refused)
		waits, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer stop()
		ask(waits, 2*time.Millisecond, context.DeadlineExceeded)
		all.Wait()
		if fetches != 2 {
			t.Errorf("%d fetches, want one that was interrupted and one for all the others", fetches)
		}
	})
}
