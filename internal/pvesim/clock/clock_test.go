package clock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestOrder: sleepers wake one after the other, in the order of their times, each at its own.
func TestOrder(t *testing.T) {
	v := clock.NewVirtual(start)
	var mu sync.Mutex
	var order []string
	var wg sync.WaitGroup
	v.Enter() // none wakes before all sleep
	for i := 5; i > 0; i-- {
		wg.Add(1)
		v.Enter()
		go func() {
			defer wg.Done()
			defer v.Leave()
			for range 2 {
				v.Sleep(time.Duration(i) * time.Second)
				mu.Lock()
				order = append(order, fmt.Sprint(i, "@", v.Now().Sub(start)))
				mu.Unlock()
			}
		}()
	}
	v.Leave()
	wg.Wait()
	if len(order) != 10 || order[0] != "1@1s" || order[9] != "5@10s" {
		t.Errorf("%v", order)
	}
	var last time.Duration
	for _, o := range order {
		var i int
		var at string
		if _, err := fmt.Sscanf(o, "%d@%s", &i, &at); err != nil {
			t.Fatal(err)
		}
		d, err := time.ParseDuration(at)
		if err != nil || d < last {
			t.Errorf("time ran backwards in %v", order)
		}
		last = d
	}
}

func TestWorkersHoldTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(start)
		v.Enter() // one works on
		done := make(chan struct{})
		v.Enter()
		go func() { defer close(done); v.Sleep(time.Hour); v.Leave() }()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("time passed while a goroutine worked")
		default:
		}
		v.Leave()
		<-done
		if got := v.Now().Sub(start); got != time.Hour {
			t.Errorf("clock moved by %v", got)
		}
	})
}

func TestManual(t *testing.T) {
	v := clock.NewManual(start)
	woken := make(chan time.Time, 1)
	v.Enter()
	go func() { v.Sleep(time.Minute); woken <- v.Now(); v.Leave() }()
	v.Advance(59 * time.Second)
	select {
	case <-woken:
		t.Fatal("woke early")
	default:
	}
	v.Advance(10 * time.Second)
	if at := (<-woken).Sub(start); at != time.Minute || v.Now().Sub(start) != 69*time.Second {
		t.Errorf("woke at %v, now %v", at, v.Now().Sub(start))
	}
}

func TestCancelledSleep(t *testing.T) {
	for name, c := range map[string]interface {
		SleepContext(ctx context.Context, d time.Duration)
	}{"real": clock.Real{}, "manual": clock.NewManual(start)} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); c.SleepContext(ctx, time.Hour) }()
			synctest.Wait()
			cancel()
			synctest.Wait()
			select {
			case <-done:
			default:
				t.Errorf("%s: still asleep", name)
			}
		})
	}
}

func TestTickingClockNeverShowsTheSameTimeTwice(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := clock.NewTicking(start, time.Millisecond)
	first, second := c.Now(), c.Now()
	if first != start.Add(time.Millisecond) || second != first.Add(time.Millisecond) {
		t.Errorf("a look showed %v, the next one %v", first, second)
	}
	c.Advance(time.Second)
	if got := c.Now(); got != second.Add(time.Second+time.Millisecond) {
		t.Errorf("a second later it shows %v", got)
	}
}

// TestClient waits on the cluster's clock, be it one that moves by itself, and for nothing when it is interrupted.
func TestClient(t *testing.T) {
	v := clock.NewVirtual(start)
	c := clock.Client{Cluster: v}
	if err := c.Sleep(t.Context(), time.Hour); err != nil || !c.Now().Equal(start.Add(time.Hour)) {
		t.Errorf("%v, at %s", err, c.Now())
	}
	if !v.Idle() {
		t.Error("who has waited still counts as a member of the cluster")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) || !c.Now().Equal(start.Add(time.Hour)) {
		t.Errorf("interrupted: %v, at %s", err, c.Now())
	}
}
