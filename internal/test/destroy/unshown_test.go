package destroy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestReplacementNamesWhatNoPlanIsShown: Terraform shows no plan the state of a tainted VM, and no warning of the plan of -replace. The plan
// of a tainted VM names its jobs, its firewall and its permissions all the same, once. After a replacement of either kind the apply
// names them. After a destroy it is silent: the plan has named the job, and no VM is left without its firewall.
func TestReplacementNamesWhatNoPlanIsShown(t *testing.T) {
	t.Parallel()
	const job, went = "backup job nightly, removed", "VM 400 went with more than its disks"
	settings := []string{"firewall options or rules", "permissions on /vms/400"}
	for name, c := range map[string]struct {
		lines           string
		taint           bool
		options         []terraformtest.PlanOption
		planned, gone   []string
		silent, notGone []string
	}{
		"taint": {"", true, nil, append([]string{job}, settings...), append([]string{job, went}, settings...), nil, nil},
		"taint of a VM with a firewall": {"firewall = { enabled = true, policy_in = \"DROP\" }\n", true, nil,
			[]string{job, settings[1]}, []string{job, settings[1]}, settings[:1], settings[:1]},
		"taint without purge": {"on_destroy = { purge = false }\n", true, nil, settings, settings, []string{job}, []string{job}},
		"replace":             {"", false, nil, nil, append([]string{job, went}, settings...), settings, nil},
		"destroy":             {"", false, []terraformtest.PlanOption{terraformtest.ToDestroy()}, []string{job}, nil, settings, append(settings, went)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
			s := w.Session(t, rig.RootTicket, copied(9000, c.lines))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				world.Backups = map[string]*state.BackupJob{"nightly": {ID: "nightly", VMIDs: []int{400}, Storage: "local"}}
				world.ACL = append(world.ACL, state.ACLEntry{Path: "/vms/400", Subject: "auditor@pve", Role: "PVEVMUser"})
				if !strings.HasPrefix(c.lines, "firewall") {
					world.Firewall[400] = &state.FirewallFile{Options: map[string]string{"policy_in": "DROP", "enable": "1"}}
				}
			})
			options := c.options
			for _, address := range s.Addresses() {
				if c.taint {
					s.Taint(address, true)
				} else if name == "replace" {
					options = append(options, terraformtest.Replacing(address))
				}
			}
			plan, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			said := fmt.Sprint(s.Diagnostics())
			wantSaid(t, "the plan", said, c.planned, c.silent)
			if strings.Count(said, settings[1]) > 1 {
				t.Errorf("the plan says it twice: %s", said)
			}
			rig.Must(t, s.Apply(t.Context(), plan))
			wantSaid(t, "the apply", fmt.Sprint(s.Diagnostics()), c.gone, c.notGone)
			w.Change(func(world *state.World) {
				world.Firewall[400] = &state.FirewallFile{Options: map[string]string{"dhcp": "0"}}
			})
			rig.Must(t, s.Destroy(t.Context()))
			wantSaid(t, "the destroy of the new VM", fmt.Sprint(s.Diagnostics()), nil, []string{went})
		})
	}
}
