package cost_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// shared is how many requests a run of plan and apply sends for all of its VMs together: listings, permissions, storages.
const shared = 5

// TestCostUpdateOfVMs: refresh, plan and apply of n VMs take 4n requests at most for options that PVE applies at once, and 7n for those
// that a restart puts in force: whether the guest runs is asked by both plans and by the apply.
func TestCostUpdateOfVMs(t *testing.T) {
	t.Parallel()
	counts, _ := sizes()
	for option, law := range map[string]int{"description = \"is %d\"": 4, "cpu = { cores = %d }": 7} {
		for _, n := range counts {
			w := company(t, 20, pvesim.Options{})
			with := func(value int) string {
				return strings.Replace(fmt.Sprintf(manyRunning, n), "disks =", fmt.Sprintf(option, value)+"\n  disks =", 1)
			}
			s := w.Session(t, rig.TokenNoSSH, with(1))
			s.Parallelism = 10
			if err := s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Change(func(all *state.World) {
				for i := range n {
					all.Guests[300+i].Running = nil
				}
			})
			w.Sim.Advance(10 * time.Minute)
			w.Reconfigure(t, s, rig.TokenNoSSH, with(2))
			ops := requestsOf(t, w, func() error { return s.Run(t.Context()) })
			held(t, "update of "+option, ops, n, 20, law*n+shared)
		}
	}
}

const manyClones = `
resource "proxmox_vm" "many" {
  count = %d
  vmid  = 300 + count.index
  name  = "vm-${count.index}"
  node  = "pve1"
  clone = { vmid = 9000 }
}
`

// TestCostCreateOfClones: plan and apply of n clones that are started take 8n requests at most, without polls of tasks.
func TestCostCreateOfClones(t *testing.T) {
	t.Parallel()
	counts, _ := sizes()
	for _, n := range counts {
		w := company(t, 20, pvesim.Options{})
		s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(manyClones, n))
		s.Parallelism = 10
		ops := requestsOf(t, w, func() error { return s.Run(t.Context()) })
		ops = slices.DeleteFunc(ops, func(op pvesim.Op) bool { return strings.HasPrefix(op.Path, "/nodes/{node}/tasks") })
		held(t, "clone and start", ops, n, 20, 8*n+2*shared)
	}
}
