package update

import (
	"maps"
	"net/http"
	"sync"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestHAIsAskedForOurVMOnly: the lock on HA's configuration is waited for, and a third party replaces the VM meanwhile.
// HA's requests name the id alone: the new VM is not put under HA, which would start it, and its entry is neither
// changed nor removed.
func TestHAIsAskedForOurVMOnly(t *testing.T) {
	stopped := &guest.HA{State: new("stopped")}
	for name, c := range map[string]struct {
		prior, planned *guest.HA
		match          fault.Match
	}{
		"enter": {nil, &guest.HA{State: new("started")},
			fault.Match{Method: http.MethodPost, Path: "/cluster/ha/resources"}},
		"change": {stopped, &guest.HA{State: new("started")},
			fault.Match{Method: http.MethodPut, Path: "/cluster/ha/resources/{sid}"}},
		"leave": {stopped, nil, fault.Match{Method: http.MethodDelete, Path: "/cluster/ha/resources/{sid}"}},
	} {
		w := amongThirdParties(t)
		all := w.sim.World()
		all.Lock() // HA takes Sys.Console
		all.ACL = append(all.ACL, state.ACLEntry{Path: "/", Role: "Administrator", Subject: "terraform@pve", Propagate: true},
			state.ACLEntry{Path: "/", Role: "Administrator", Subject: "terraform@pve!prov", Propagate: true})
		all.Unlock()
		if c.prior != nil {
			options := pve.Params{}
			maps.Copy(options, c.prior.Options())
			if err := w.api.HA().Create(t.Context(), theVM, options); err != nil {
				t.Fatal(err)
			}
		}
		r := w.request()
		r.PriorHA, r.HA = c.prior, c.planned
		w.sim.SetFaults([]fault.Rule{{Match: c.match, Phase: fault.Before, Status: 500,
			Reason: "cfs-lock 'domain-ha' error: got lock request timeout"}})
		var once sync.Once
		came := false
		w.clock.each = func() {
			once.Do(func() {
				came = true
				w.alter(func(g *state.Guest) {
					g.Config = map[string]string{"name": "his", "smbios1": "uuid=99999999-2222-3333-4444-555555555555"}
				})
			})
		}
		_, _, err := w.update(r)
		if entry, lookErr := w.api.HA().Resource(t.Context(), theVM); !came || err == nil ||
			(lookErr == nil) != (c.prior != nil) || lookErr == nil && entry.Options["state"] != "stopped" {
			t.Errorf("%s: a third party came: %t; %v; the entry of his VM is %v (%v)", name, came, err, entry, lookErr)
		}
	}
}
