package lifecycle_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestProtectedSinceItsCreateFailed: a create has failed and left its VM, or kept it. A destroy takes it away, with the
// protection that it has from its source. Once an administrator protects it, it stays, and the destroy says so.
func TestProtectedSinceItsCreateFailed(t *testing.T) {
	const kept = "on_failure = \"keep\"\n"
	own := strings.Replace(madeVM, "stopped", "running", 1)
	clone := "vmid = 400\nnode = \"pve1\"\nname = \"x\"\nclone = { vmid = 9000 }\n"
	for name, c := range map[string]struct {
		body     string
		protects bool
	}{
		"kept":                         {own + kept, true},
		"left":                         {own, true},
		"kept, as it was":              {own + kept, false},
		"kept clone of a protected VM": {clone + kept, false},
		"left clone of a protected VM": {clone, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) { world.Guests[9000].Config["protection"] = "1" })
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(c.body))
			fails := func(method, path string) fault.Rule {
				return fault.Rule{Match: fault.Match{Method: method, Path: "/nodes/{node}/qemu/{vmid}" + path}, Phase: fault.Before,
					Status: 500, Reason: "not now", Times: -1}
			}
			w.Sim.SetFaults([]fault.Rule{fails(http.MethodPost, "/status/start"), fails(http.MethodDelete, "")})
			if err := s.Run(t.Context()); err == nil {
				t.Fatal("the create has not failed")
			}
			w.Sim.SetFaults(nil)
			if c.protects {
				w.Change(func(world *state.World) { world.Guests[400].Config["protection"] = "1" })
			}
			planned, err := s.Plan(t.Context(), terraformtest.ToDestroy())
			rig.Must(t, err)
			err = s.Apply(t.Context(), planned)
			w.Change(func(world *state.World) {
				if (world.Guests[400] != nil) != c.protects || (err != nil) != c.protects ||
					c.protects && (world.Guests[400].Config["protection"] != "1" || !strings.Contains(err.Error(), "is protected, and its create")) {
					t.Errorf("the VM is there %t: %v", world.Guests[400] != nil, err)
				}
			})
		})
	}
}
