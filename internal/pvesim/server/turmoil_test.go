package server

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestTurmoil: guests are stopped, moved and destroyed all at once while third parties hold locks, storages are busy
// and nodes crash. Whatever becomes of them, the world stays sound, and everything comes to an end.
func TestTurmoil(t *testing.T) {
	const guests, seed = 24, 7
	g := newRig(t, func(c *engine.Config) { c.TaskTime, c.Latency = 2*time.Second, 100*time.Millisecond })
	g.s.Do(func(w *state.World) {
		for id := 200; id < 200+guests; id++ {
			v, err := w.Alloc("pve1", "local-zfs", id, "", "raw", 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			config := map[string]string{"scsi0": v.Volid() + ",size=1G", "memory": "512", "agent": "1"}
			w.Guests[id] = &state.Guest{VMID: id, Type: "qemu", Node: "pve1", Config: config, StopWarning: "can't deactivate LV",
				ShutdownSeconds: id % 5, Running: &state.Running{QMPStatus: "running", Booted: config, StartedAt: w.Clock.Now()}}
			if id%4 == 0 {
				w.HA[fmt.Sprintf("vm:%d", id)] = &state.HAResource{SID: fmt.Sprintf("vm:%d", id), State: "started"}
			}
		}
		w.Storages["local-zfs"].BusyFrees = 3
	})
	do := func(method, path string, params url.Values) {
		_, _ = g.try(g.request("root@pam!tf", method, path, params)) // a crashed node answers 595, and that is fine
	}
	var all sync.WaitGroup
	for id := 200; id < 200+guests; id++ {
		all.Add(1)
		go func() {
			defer all.Done()
			rng := rand.New(rand.NewPCG(seed, uint64(id)))
			for range 60 {
				node := []string{"pve1", "pve2"}[rng.IntN(2)]
				path := fmt.Sprintf("/nodes/%s/qemu/%d", node, id)
				switch rng.IntN(16) {
				case 0:
					g.s.HoldFile(id, time.Duration(rng.IntN(8))*time.Second)
				case 1:
					g.s.HoldLock(id, "backup", time.Duration(rng.IntN(8))*time.Second, "backup@pve")
				case 2:
					g.s.HoldStorage(node, "local-zfs", time.Duration(rng.IntN(8))*time.Second)
				case 3, 4:
					do("POST", path+"/migrate", url.Values{"target": {map[string]string{"pve1": "pve2", "pve2": "pve1"}[node]},
						"online": {"1"}, "with-local-disks": {"1"}})
				case 5:
					do("POST", path+"/status/reboot", nil)
				case 6, 7, 8, 9:
					do("POST", path+"/status/shutdown", nil)
				default:
					do("DELETE", path, url.Values{"purge": {"1"}})
				}
			}
		}()
	}
	g.s.Do(func(*state.World) { g.s.Crash("pve2", 30*time.Second) })
	all.Wait()
	g.pass(5 * time.Minute)
	g.check()
	g.s.Do(func(w *state.World) {
		if len(g.s.Workers) != 0 || len(g.s.Locks) != 0 {
			t.Errorf("still at work: %d tasks, %d locks (seed %d)", len(g.s.Workers), len(g.s.Locks), seed)
		}
		if len(w.Guests) == guests+3 || len(w.PowerOffs) == 0 {
			t.Errorf("nothing happened to anybody (seed %d)", seed)
		}
		t.Logf("%d of %d guests are left, %d power-offs, %d tasks", len(w.Guests)-3, guests, len(w.PowerOffs), len(w.Tasks))
	})
}
