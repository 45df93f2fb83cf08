package destroy_test

import (
	"fmt"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// copied is VM 400, a copy of another one.
func copied(source int, lines string) string {
	return rig.NodeVMBlock(rig.Stopped + fmt.Sprintf("clone = { vmid = %d, full = true }\nprotection = false\n", source) + lines)
}

// TestPlanNamesWhatADestroyPurges: PVE takes a VM that it destroys out of jobs and HA rules, and removes those that name no other. The plan of
// a destroy or of a replacement names them, as far as the identity may read them, unless the destroy leaves them.
func TestPlanNamesWhatADestroyPurges(t *testing.T) {
	t.Parallel()
	const ha = "ha = { state = \"stopped\" }\n"
	const last = " the others that it names and is removed with the last of them" // which this destroy may remove, too
	jobs := []string{"backup job nightly, which names no other guest and is removed", "replication job 400-0 to node pve2",
		"backup job both, which backs up" + last}
	rules := append([]string{"HA rule licence, which names no other guest and is removed", "HA rule apart, which keeps" + last}, jobs...)
	for name, c := range map[string]struct {
		lines, to, denied string // to: the configuration; denied: a path that may not be read
		says, not         []string
	}{
		"destroy":                  {ha, "", "", rules, []string{"takes its place", "HA resource"}},
		"destroy without HA":       {"", "", "", jobs, []string{"HA r", "weekly"}},
		"replacement":              {ha, copied(8000, ha), "", append([]string{"The VM that takes its place is in none of them"}, rules...), nil},
		"replacement without HA":   {"", copied(8000, ""), "", jobs, []string{"HA r"}},
		"no purge":                 {"on_destroy = { purge = false }\n", "", "", nil, []string{"nightly", "400-0"}},
		"jobs that are not shown":  {ha, "", "/cluster/backup", rules[:2], []string{"nightly"}},
		"rules that are not shown": {ha, "", "/cluster/ha/rules", append([]string{"every HA rule that names it, if there is one: "}, jobs...), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
			s := w.Session(t, rig.RootTicket, copied(9000, c.lines))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				world.Backups = map[string]*state.BackupJob{"nightly": {ID: "nightly", VMIDs: []int{400}, Storage: "local"},
					"both":   {ID: "both", VMIDs: []int{400, 8000}, Storage: "local"},
					"weekly": {ID: "weekly", VMIDs: []int{8000}, Storage: "local"}}
				world.Replication["400-0"] = &state.ReplicationJob{ID: "400-0", Guest: 400, Target: "pve2", Schedule: "*/15"}
				world.HARules = map[string]map[string]string{"licence": {"type": "node-affinity", "resources": "vm:400", "nodes": "pve1"},
					"apart": {"type": "resource-affinity", "resources": "vm:400,vm:8000", "affinity": "negative"}}
			})
			if c.denied != "" {
				w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: c.denied}, Times: -1, Phase: fault.Before, Status: 403}})
			}
			w.Reconfigure(t, s, rig.RootTicket, c.to)
			_, err := s.Plan(t.Context())
			rig.Must(t, err)
			wantSaid(t, "the plan", fmt.Sprint(s.Diagnostics()), c.says, c.not)
		})
	}
}
