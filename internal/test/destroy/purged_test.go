package destroy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
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
	const ha, broken = "ha = { state = \"stopped\" }\n", "jobs that cannot be read"
	const last = ", which goes only with the last guest that it names" // which this destroy may remove, too
	jobs := []string{"backup job nightly, removed", "replication job 400-0 to node pve2, removed", "backup job both" + last}
	rules := append([]string{"HA rule licence, removed", "HA rule apart" + last}, jobs...)
	for name, c := range map[string]struct {
		lines, to, denied string // to: the configuration; denied: a path that may not be read, or cannot (broken)
		says, not         []string
	}{
		"destroy":                  {ha, "", "", rules, []string{"that takes its", "HA resource"}},
		"destroy without HA":       {"", "", "", jobs, []string{"HA r", "weekly"}},
		"replacement":              {ha, copied(8000, ha), "", append([]string{"The VM that takes its id is in none of the jobs"}, rules...), nil},
		"replacement without HA":   {"", copied(8000, ""), "", jobs, []string{"HA r"}},
		"no purge":                 {"on_destroy = { purge = false }\n", "", "", nil, []string{"nightly", "400-0"}},
		"jobs that are not shown":  {ha, "", "/cluster/backup", rules[:2], []string{"nightly", "backup job that"}},
		broken:                     {ha, "", "/cluster/backup", append([]string{"every backup job that names it, if there is one: "}, rules[:2]...), []string{"nightly"}},
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
				status := 403
				if name == broken {
					status = 500
				}
				w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: c.denied}, Times: -1, Phase: fault.Before, Status: status}})
			}
			w.Reconfigure(t, s, rig.RootTicket, c.to)
			_, err := s.Plan(t.Context())
			rig.Must(t, err)
			wantSaid(t, "the plan", fmt.Sprint(s.Diagnostics()), c.says, c.not)
		})
	}
}

// TestPlanIsSilentAboutTheConfigurationsOwnHARule: a proxmox_ha_rule names the VM. The plan that destroys it with the VM, or takes the VM out
// of it, does not name it; nor does an apply that removes the rule. That of a replacement does, since the new VM is not in it. A rule of which
// the plan has not seen the state is named with a sentence about those of the configuration.
func TestPlanIsSilentAboutTheConfigurationsOwnHARule(t *testing.T) {
	t.Parallel()
	const ha, named = "ha = { state = \"stopped\" }\n", "HA rule own"
	rule := func(resources string) string {
		return "resource \"proxmox_ha_rule\" \"r\" {\n  rule = \"own\"\n  type = \"node-affinity\"\n  nodes = { pve1 = 1 }\n" +
			"  resources = [" + resources + "]\n}\n"
	}
	both := rule(`"vm:${proxmox_vm.x.vmid}", "vm:9000"`)
	for name, c := range map[string]struct {
		to         string
		all, stale bool // terraform destroy; without a refresh
		says, not  []string
	}{
		"destroy of all":                {to: copied(9000, ha) + both, all: true, not: []string{named}},
		"both removed":                  {not: []string{named}},
		"both removed, no refresh":      {stale: true, not: []string{named}},
		"VM removed":                    {to: rule(`"vm:9000"`), not: []string{named}},
		"VM removed, nothing refreshed": {to: rule(`"vm:9000"`), stale: true, says: []string{named, "A proxmox_ha_rule among them needs no note"}},
		"replaced":                      {to: copied(8000, ha) + both, says: []string{named, "The VM that takes its id is in none of the jobs"}, not: []string{"needs no note"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
			w.Change(func(world *state.World) { world.HA["vm:9000"] = &state.HAResource{SID: "vm:9000", State: "ignored"} })
			s := w.Session(t, rig.RootTicket, copied(9000, ha)+both)
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.RootTicket, c.to)
			var options []terraformtest.PlanOption
			if c.all {
				options = append(options, terraformtest.ToDestroy())
			}
			if c.stale {
				options = append(options, terraformtest.WithoutRefresh())
			}
			plan, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			wantSaid(t, "the plan", fmt.Sprint(s.Diagnostics()), c.says, c.not)
			if rig.Must(t, s.Apply(t.Context(), plan)); c.to == "" || c.all {
				wantSaid(t, "the apply", fmt.Sprint(s.Diagnostics()), nil, c.not)
			}
		})
	}
}

// TestDestroyOfAJobsVMsSaysWhatWent: several VMs are in one backup job and one HA rule, and each has a snapshot. The plan of their destroy has
// one warning for each VM. The apply repeats none of it, and says once that the job and the rule were removed with the last. Before PVE 9.1
// a rule stays: the plan says that it may, and the apply does not say that it went.
func TestDestroyOfAJobsVMsSaysWhatWent(t *testing.T) {
	t.Parallel()
	const block = "resource \"proxmox_vm\" \"x\" {\n  count = 3\n  node = \"pve1\"\n  vmid = 400 + count.index\n  clone = { vmid = 9000, full = true }\n" +
		"  power_state = \"stopped\"\n  protection = false\n  ha = { state = \"stopped\" }\n}\n"
	for profile, c := range map[string]struct{ planned, says, not []string }{
		"9.2": {[]string{"backup job six, which goes only with the last guest", "HA rule apart, which goes only with the last guest"}, []string{"  backup job six, removed", "  HA rule apart, removed"}, nil},
		"9.0": {[]string{"backup job six, which goes only with the last guest", "HA rule apart, which PVE before 9.1 may leave as it is"}, []string{"  backup job six, removed"}, []string{"HA rule"}},
	} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: profile})
			s := w.Session(t, rig.RootTicket, block)
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				for vmid := 400; vmid < 403; vmid++ {
					world.Guests[vmid].Snaps = map[string]map[string]string{"nightly": {"snaptime": "1700000000"}}
				}
				world.Backups = map[string]*state.BackupJob{"six": {ID: "six", VMIDs: []int{400, 401, 402}, Storage: "local"}}
				world.HARules = map[string]map[string]string{"apart": {"type": "resource-affinity", "resources": "vm:400,vm:401,vm:402", "affinity": "negative"}}
			})
			w.Sim.Advance(20e9)
			plan, err := s.Plan(t.Context(), terraformtest.ToDestroy())
			rig.Must(t, err)
			said := s.Diagnostics().String()
			wantSaid(t, "the plan", said, append(c.planned, "snapshot nightly"), []string{"takes its id"})
			if n := strings.Count(said, "goes with more than its disks"); n != 3 || len(s.Diagnostics()) != 3 {
				t.Errorf("%d warnings for three VMs: %s", len(s.Diagnostics()), said)
			}
			rig.Must(t, s.Apply(t.Context(), plan))
			said = s.Diagnostics().String()
			wantSaid(t, "the apply", said, c.says, append(c.not, "nightly", "last guest"))
			if n := strings.Count(said, "backup job six"); n != 1 {
				t.Errorf("the removal of the job is said %d times: %s", n, said)
			}
		})
	}
}
