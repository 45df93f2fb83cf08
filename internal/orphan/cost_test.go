package orphan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestOrphansCostOneRequestForEachGuest: nothing is asked twice except the cluster's list, which is read before the
// volumes and after, and permissions, which may hide guests and may name guests that are gone.
func TestOrphansCostOneRequestForEachGuest(t *testing.T) {
	t.Parallel()
	cost := func(guests int) int {
		r := newRig(t)
		r.change(func(w *state.World) { w.Guests = map[int]*state.Guest{} })
		for n := range guests {
			r.vm(300+n, nil)
		}
		r.find()
		seen := map[string]int{}
		for _, op := range r.sim.Ops() {
			seen[fmt.Sprint(op.Path, op.Node, op.VMID, op.Params)]++
		}
		for what, times := range seen {
			twice := strings.HasPrefix(what, "/cluster/resources") || strings.HasPrefix(what, "/access/permissions0") ||
				strings.HasPrefix(what, "/access/acl")
			if times > 2 || times > 1 && !twice {
				t.Errorf("%s is asked %d times", what, times)
			}
		}
		return r.sim.LastOp()
	}
	none, some := cost(0), cost(20)
	t.Logf("%d requests without guests, %d with 20", none, some)
	if some-none != 20 {
		t.Errorf("20 guests cost %d requests", some-none)
	}
}
