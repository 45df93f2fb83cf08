package handle

import (
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// statisticsCycle is how often pvestatd reports (pve-manager Service/pvestatd.pm).
const statisticsCycle = 10 * time.Second

// statistics are what pvestatd last reported: /cluster/resources knows a guest's name and status from here alone, so it lags
// behind by up to a cycle, and a guest made since is "unknown".
type statistics struct {
	next   time.Time
	guests map[int]guestStats
}

type guestStats struct {
	name              string
	running, template bool
	cpus              int
	memory, disk      int64 // bytes
	startedAt         time.Time
}

// tick samples the world if a cycle has passed. It is called before anything changes the world, so that a sample taken late
// is still what was there when the cycle ended.
func (s *statistics) tick(w *state.World) {
	if !w.Clock.Now().Before(s.next) {
		s.sample(w)
	}
}

func (s *statistics) sample(w *state.World) {
	s.next = w.Clock.Now().Add(statisticsCycle)
	s.guests = make(map[int]guestStats, len(w.Guests))
	for id, g := range w.Guests {
		s.guests[id] = sampleGuest(g)
	}
}
