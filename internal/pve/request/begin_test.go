package request

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// TestTurnToBegin: ten tasks of a node may be where they wait for the lock of a storage, and later ones wait until
// one of them has ended, or is too old to wait for one.
func TestTurnToBegin(t *testing.T) {
	s, clock := contending(rand.Float64)
	clone := Request{Node: "a", Type: "qmclone"}
	var overs []func()
	begin := func(j Request) (waited time.Duration) {
		t.Helper()
		start := clock.now
		over, err := s.turnToBegin(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		overs = append(overs, over)
		return clock.now.Sub(start)
	}
	for range beginsAtOnce {
		if waited := begin(clone); waited > 0 {
			t.Errorf("waited %s", waited)
		}
	}
	for _, other := range []Request{{Node: "b", Type: "qmclone"}, {Node: "a", Type: "qmstart"}} {
		if waited := begin(other); waited > 0 {
			t.Errorf("%v waited %s", other, waited)
		}
	}
	clock.now = clock.now.Add(4 * time.Second)
	overs[3]()
	if waited := begin(Request{Node: "a", Type: "qmcreate"}); waited > 0 {
		t.Errorf("waited %s although one has ended", waited)
	}
	if waited := begin(clone); waited != lockTime-4*time.Second {
		t.Errorf("waited %s for the others to be old", waited)
	}
	for _, over := range overs {
		over()
	}
	for range beginsAtOnce {
		if waited := begin(clone); waited > 0 {
			t.Errorf("waited %s with no other task there", waited)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.turnToBegin(ctx, clone); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
