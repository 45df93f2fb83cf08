package cost_test

import (
	"fmt"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestCostDestroy: the destroy of n running VMs on a shared storage among g other guests, the refresh and all polls
// included, takes 12n + 3g requests at most.
func TestCostDestroy(t *testing.T) {
	t.Parallel()
	for _, c := range sizes(size{5, 60}, size{1, 1000}, size{10, 1000}, size{50, 1000}, size{200, 1000},
		size{1, 5000}, size{10, 5000}, size{50, 5000}, size{200, 5000}) {
		t.Run(fmt.Sprintf("%d of %d", c.n, c.g), func(t *testing.T) {
			w := site(t)
			s := applied(t, w, ours(c.n, ""), c.g)
			w.ExpectPowerOffs(state.PowerShutdown)
			began := w.Sim.World().Clock.Now()
			if err := s.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("it took %s", w.Sim.World().Clock.Now().Sub(began))
			within(t, w, "destroy", c, 12*c.n+3*c.g)
		})
	}
}
