package update

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestPoolIsLookedUp: what the update says of the VM's pool is so on the server, after lost answers, too. A move is one
// request. One that is done already is none, and a VM that a third party has put into another pool stays there.
func TestPoolIsLookedUp(t *testing.T) {
	lost := func(n int, phase fault.Phase) []fault.Rule {
		return []fault.Rule{{Match: fault.Match{Method: "PUT", Path: "/pools", Nth: n}, Phase: phase, Status: 596}}
	}
	always := fault.Rule{Match: fault.Match{Method: "PUT", Path: "/pools"}, Times: -1, Phase: fault.Before, Status: 596}
	for name, tt := range map[string]struct {
		is, to string
		faults []fault.Rule
		in     string
		sent   int
		says   string
	}{
		"moves":                     {is: "a", to: "b", in: "b", sent: 1},
		"moves, answer lost":        {is: "a", to: "b", faults: lost(1, fault.After), in: "b", sent: 1},
		"moves, request lost":       {is: "a", to: "b", faults: lost(1, fault.Before), in: "b", sent: 2},
		"leaves, answer lost":       {is: "a", faults: lost(1, fault.After), in: "", sent: 1},
		"has moved":                 {is: "b", to: "b", in: "b"},
		"has left, and is to enter": {is: "", to: "b", in: "b", sent: 1},
		"is another user's":         {is: "web", to: "b", in: "web", says: "into pool web since the plan"},
		"no request arrives":        {is: "a", to: "b", faults: []fault.Rule{always}, in: "a", sent: 3, says: "It is in pool a"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{})
			inWorld(w, func(all *state.World) {
				for _, id := range []string{"a", "b"} {
					all.Pools[id] = &state.Pool{ID: id, Guests: []int{}}
				}
				if tt.is != "" {
					all.Pools[tt.is].Guests = append(all.Pools[tt.is].Guests, theVM)
				}
			})
			r := w.request()
			r.PriorPool, r.Pool = "a", tt.to
			w.sim.SetFaults(tt.faults)
			g, _, err := w.update(r)
			if (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
			if g.Pool != tt.in || w.sent("/pools") != tt.sent {
				t.Errorf("the state says pool %q, want %q; %v", g.Pool, tt.in, w.writes())
			}
		})
	}
}
