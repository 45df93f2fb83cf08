package guest

import (
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
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
