package cost_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestCostPlanOfADestroy: the plans of n destroys ask for the jobs once for all of them, also where that is refused. A refresh of n VMs takes
// n + 1 requests, and the privileges of the identity one. Each plan asks for the snapshots of its VM, which no listing tells.
func TestCostPlanOfADestroy(t *testing.T) {
	t.Parallel()
	counts, _ := sizes()
	for _, n := range counts {
		for _, isDenied := range []bool{false, true} {
			w := company(t, 20, pvesim.Options{})
			s := running(t, w, n)
			w.Reconfigure(t, s, rig.TokenNoSSH, "")
			if isDenied {
				w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/cluster/backup"}, Times: -1, Phase: fault.Before, Status: 403}})
			}
			ops := requestsOf(t, w, func() error { _, err := s.Plan(t.Context()); return err })
			held(t, fmt.Sprintf("plan of a destroy, denied %t", isDenied), ops, n, 20, 2*n+shared)
			for _, path := range []string{"/cluster/backup", "/cluster/replication"} {
				if asked := slices.DeleteFunc(slices.Clone(ops), func(op pvesim.Op) bool { return op.Path != path }); len(asked) != 1 {
					t.Errorf("%s is asked for %d times for %d VMs", path, len(asked), n)
				}
			}
		}
	}
}

// TestCostPlanBehindANodeThatDoesNotAnswer: what a node did not tell is not asked again for each VM of the plan. Behind a share that hangs each
// such request takes as long as the node's proxy waits.
func TestCostPlanBehindANodeThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	const body = `
resource "proxmox_vm" "many" {
  count   = 10
  node    = "pve1"
  name    = "vm-${count.index}"
  import_working_storage = "local"
  disks   = { scsi0 = { storage = "shared-nfs", size = "1G" } }
}`
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) { world.Storages["shared-nfs"].Offline = true })
	w.Sim.Advance(time.Minute)
	s := w.Session(t, rig.TokenNoSSH, body)
	paths := []string{"/nodes/{node}/version", "/nodes/{node}/storage"}
	var faults []fault.Rule
	for _, path := range paths {
		faults = append(faults, fault.Rule{Match: fault.Match{Method: "GET", Path: path}, Times: -1, Phase: fault.Before, Status: 500})
	}
	w.Sim.SetFaults(faults)
	ops := requestsOf(t, w, func() error { _, err := s.Plan(t.Context()); return err })
	for _, path := range paths {
		if asked := slices.DeleteFunc(slices.Clone(ops), func(op pvesim.Op) bool { return op.Path != path }); len(asked) > 3 {
			t.Errorf("%s is asked for %d times, want one request and its repetitions", path, len(asked))
		}
	}
}
