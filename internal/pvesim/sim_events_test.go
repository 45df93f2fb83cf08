package pvesim_test

import (
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestAdvanceKeepsAppointments: events that fall due while a test lets time pass have happened afterwards, one thing
// after the other.
func TestAdvanceKeepsAppointments(t *testing.T) {
	for name, c := range map[string]state.Clock{"by itself": nil,
		"by hand": clock.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))} {
		t.Run(name, func(t *testing.T) {
			sim, err := pvesim.New(pvesim.Options{Clock: c, Latency: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer sim.Close()
			w := sim.World()
			look := func(f func()) {
				w.Lock()
				defer w.Unlock()
				f()
			}
			look(func() {
				w.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "started"}
				w.Guests[8000].Running = &state.Running{QMPStatus: "running", Booted: w.Guests[8000].Config}
			})
			sim.EndGuest(8000)
			if upid := sim.HoldLock(9000, "backup", 20*time.Second, "backup@pve"); upid == "" ||
				sim.HoldLock(5, "backup", 1, "x") != "" {
				t.Errorf("held by %q", upid)
			}
			sim.HoldGuestFile(9000, time.Minute)
			sim.HoldStorage("pve1", "local-zfs", time.Minute)
			sim.StaleLock(8000, "snapshot", "")
			sim.Advance(15 * time.Second)
			look(func() {
				if w.Guests[9000].Lock() != "backup" || w.Guests[8000].Running != nil {
					t.Errorf("after 15 s: lock %q, runs %v", w.Guests[9000].Lock(), w.Guests[8000].Running != nil)
				}
				w.Guests[8000].SetLock("", "")
			})
			sim.Advance(25 * time.Second)
			look(func() {
				if w.Guests[9000].Lock() != "" || w.Guests[8000].Running == nil {
					t.Errorf("after 40 s: lock %q, runs %v", w.Guests[9000].Lock(), w.Guests[8000].Running != nil)
				}
			})
			sim.Fence("pve1")
			sim.Advance(time.Minute)
			look(func() {
				if w.Guests[8000].Node != "pve2" {
					t.Errorf("recovered on %s", w.Guests[8000].Node)
				}
			})
			sim.SetNode("pve1", true)
			if n := len(sim.PowerOffs()); n != 2 {
				t.Errorf("%d power-offs", n)
			}
			if sim.ResetPowerOffs(); len(sim.PowerOffs()) != 0 {
				t.Error("the count goes on")
			}
		})
	}
}
