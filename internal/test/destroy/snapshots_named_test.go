package destroy_test

import (
	"fmt"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestPlanNamesSnapshotsThatGo: the snapshots of a VM go with it. The plan of a replacement names them all. That of a destroy names those
// that no proxmox_vm_snapshot of the same plan removes.
func TestPlanNamesSnapshotsThatGo(t *testing.T) {
	t.Parallel()
	const own = "resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.x.vmid\n  name = \"before\"\n}\n"
	const has = "has snapshots, which are destroyed with it"
	for name, c := range map[string]struct {
		own, to   string
		all       bool // terraform destroy
		his, deaf bool // an administrator's is there, too; the snapshots cannot be read
		says, not []string
	}{
		"replacement":                   {own: own, to: copied(8000, "") + own, his: true, says: []string{has, "before", "takes its place"}},
		"replacement with one's own":    {own: own, to: copied(8000, "") + own, says: []string{has, "They are: before."}},
		"replacement without":           {to: copied(8000, ""), not: []string{has}},
		"destroy":                       {his: true, says: []string{has}, not: []string{"before", "takes its place"}},
		"destroy of all":                {own: own, to: copied(9000, "") + own, all: true, his: true, says: []string{has}, not: []string{"before"}},
		"destroy of all with one's own": {own: own, to: copied(9000, "") + own, all: true, not: []string{has}},
		"not read":                      {his: true, deaf: true, not: []string{has}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, copied(9000, "")+c.own)
			rig.Must(t, s.Converge(t.Context()))
			if c.his {
				w.Change(func(world *state.World) {
					g := world.Guests[400]
					if g.Snaps == nil {
						g.Snaps = map[string]map[string]string{}
					}
					g.Snaps["theirs"] = map[string]string{"snaptime": "1700000000"}
				})
				if len(c.says) > 0 {
					c.says = append(c.says, "theirs")
				}
			}
			if c.deaf {
				w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/snapshot"}, Times: -1, Phase: fault.Before, Status: 403}})
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, c.to)
			var options []terraformtest.PlanOption
			if c.all {
				options = append(options, terraformtest.ToDestroy())
			}
			_, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			wantSaid(t, "the plan", fmt.Sprint(s.Diagnostics()), c.says, c.not)
		})
	}
}
