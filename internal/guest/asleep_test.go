package guest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
)

// TestElapsedCountsASleep: the monotonic clock stands still while the machine sleeps, and the wall clock may be set back.
// The time that counts is that of the clock which has moved further.
func TestElapsedCountsASleep(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		now  time.Time
		want time.Duration
	}{
		"awake":               {now.Add(time.Minute), time.Minute},
		"asleep":              {clock.Asleep(now.Add(time.Second), time.Hour), time.Hour + time.Second},
		"set back":            {clock.Asleep(now.Add(time.Minute), -time.Hour), time.Minute},
		"without a monotonic": {now.Round(0).Add(time.Minute), time.Minute},
	} {
		if got := pve.Elapsed(now, c.now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// crawling is a clock that moves by some time with each look at it, as if the server took so long for each answer.
type crawling struct {
	pve.Clock
	by    time.Duration
	looks atomic.Int64
}

func (c *crawling) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.looks.Add(1)) * c.by) }

// TestNoRequestAfterSlowProofs: a request that no digest binds is sent if the proof of whose VM it is took a moment,
// and not at all if each proof took so long that another VM may have the id by then.
func TestNoRequestAfterSlowProofs(t *testing.T) {
	for by, sent := range map[time.Duration]bool{time.Second: true, Moment + time.Second: false} {
		w := newWorld(t, nil)
		v, _ := w.viewOf()
		v.jobs = request.New(w.s.api, &crawling{Clock: w.s.jobs.Clock, by: by})
		send := func(ctx context.Context) error {
			return w.s.api.QEMU("pve1", theVM).UpdateConfig(ctx, pve.Params{"description": "sent"})
		}
		for name, do := range map[string]func(context.Context) error{
			"a look and what comes with it": func(ctx context.Context) error {
				then := 0
				err := GuardNow(ctx, v, func(context.Context) error { then++; return nil })
				if then == 0 {
					t.Errorf("%v for each answer: what comes with the look was left out", by)
				}
				if err != nil {
					return err
				}
				return send(ctx)
			},
			"a contended request": func(ctx context.Context) error { return v.Contend(ctx, "pve1", v.IsThere, send) },
		} {
			w.sim.ResetOps()
			err := do(t.Context())
			was := slices.ContainsFunc(w.asked(), func(asked string) bool { return !strings.HasPrefix(asked, "GET") })
			if was != sent || sent == errors.Is(err, ErrSlow) {
				t.Errorf("%s, %v for each answer: sent %v, %v", name, by, was, err)
			}
		}
	}
}
