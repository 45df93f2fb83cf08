package cost_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
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
