package destroy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDestroyNamesHARules: PVE takes a VM out of the HA rules that name it as it destroys it, and removes a rule that
// names no other. A destroy and a replacement name them, whichever party made the VM's HA entry. Before PVE 9 there are
// none.
func TestDestroyNamesHARules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ha, profile string
		says, not   []string
	}{
		"own entry": {`ha = { state = "stopped" }`, "9.2",
			[]string{"HA rule licence, removed", "HA rule apart, which goes only with the last guest that it names"}, []string{"HA resource", "others-only"}},
		"an entry made by hand":       {"", "9.2", []string{"HA rule licence", "HA rule apart"}, nil},
		"rules that cannot be listed": {`ha = { state = "stopped" }`, "9.2", []string{"every HA rule that names it, if there is one: ", "list the HA rules"}, nil},
		"before PVE 9":                {`ha = { state = "stopped" }`, "8.4", nil, []string{"HA"}},
		"no HA":                       {"", "9.2", nil, []string{"HA"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: c.profile})
			s := w.Session(t, rig.RootTicket, rig.DestroyBlock("power_state = \"stopped\"\n"+c.ha))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				if name == "an entry made by hand" {
					world.HA["vm:400"] = &state.HAResource{SID: "vm:400", State: "stopped"}
				}
				if c.profile == "9.2" && len(c.says) > 0 {
					world.HARules = map[string]map[string]string{
						"licence":     {"type": "node-affinity", "resources": "vm:400", "nodes": "pve1,pve2", "strict": "1"},
						"apart":       {"type": "resource-affinity", "resources": "vm:400,vm:8000", "affinity": "negative"},
						"others-only": {"type": "node-affinity", "resources": "vm:8000", "nodes": "pve1"}}
				}
			})
			if name == "rules that cannot be listed" {
				w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/cluster/ha/rules"}, Times: -1, Phase: fault.Before, Status: 403}})
			}
			rig.Must(t, s.Destroy(t.Context()))
			said := fmt.Sprint(s.Diagnostics())
			for _, words := range c.says {
				if !strings.Contains(said, words) {
					t.Errorf("%q is not said: %s", words, said)
				}
			}
			for _, words := range c.not {
				if strings.Contains(said, words) {
					t.Errorf("%q is said: %s", words, said)
				}
			}
		})
	}
}

// TestRefreshNamesAnEntryThatHAIgnores: a destroy was killed and has left an administrator's HA entry ignored. The next
// plan says so, with the command. That of an entry of the configuration does not.
func TestRefreshNamesAnEntryThatHAIgnores(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ha, state string
		named     bool
	}{
		"an administrator's": {"", "ignored", true},
		"in force":           {"", "started", false},
		"configured":         {`ha = { state = "ignored" }`, "ignored", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.RootTicket, rig.DestroyBlock(c.ha))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				world.HA["vm:400"] = &state.HAResource{SID: "vm:400", State: c.state}
			})
			_, err := s.Plan(t.Context())
			rig.Must(t, err)
			said := fmt.Sprint(s.Diagnostics())
			if named := strings.Contains(said, "`ha-manager set vm:400 --state started`"); named != c.named {
				t.Errorf("named %t: %s", named, said)
			}
		})
	}
}
