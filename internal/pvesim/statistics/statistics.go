// Package statistics is what pvestatd reports of guests.
package statistics

import (
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// StatisticsCycle is how often pvestatd reports (pve-manager Service/pvestatd.pm).
const StatisticsCycle = 10 * time.Second

// Statistics are what pvestatd last reported: /cluster/resources knows a guest's name and status from here alone, so it
// lags behind by up to a cycle, and a guest made since is "unknown".
type Statistics struct {
	next   time.Time
	Guests map[int]Guest
}

// Guest is what pvestatd reports of one guest. Sizes are in bytes.
type Guest struct {
	Name              string
	Running, Template bool
	// QMPStatus is that of a guest that runs: "running", "paused" … (pve-manager Service/pvestatd.pm update_qemu_status)
	QMPStatus    string
	Cpus         int
	Memory, Disk int64 // bytes
	StartedAt    time.Time
}

// Tick samples the world if a cycle has passed. It is called before anything changes the world, so that a sample taken
// late is still what was there when the cycle ended.
func (s *Statistics) Tick(w *state.World) {
	if !w.Clock.Now().Before(s.next) {
		s.Sample(w)
	}
}

// Sample reports all guests as they are now.
func (s *Statistics) Sample(w *state.World) {
	s.next = w.Clock.Now().Add(StatisticsCycle)
	for _, n := range w.Nodes {
		for id := range w.Storages {
			if n.Online && !n.Silent {
				_, _ = w.StorageActive(n.Name, id) // as far as it can be (Service/pvestatd.pm, update_storage_status)
			}
		}
	}
	s.Guests = make(map[int]Guest, len(w.Guests))
	for id, g := range w.Guests {
		s.Guests[id] = Sample(g)
	}
}
