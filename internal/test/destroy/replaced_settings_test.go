package destroy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// settings are what an administrator has made for VM 400.
func settings(f func(*state.FirewallFile)) func(*state.World) {
	return func(world *state.World) {
		if world.Firewall[400] == nil {
			world.Firewall[400] = &state.FirewallFile{Options: map[string]string{}}
		}
		f(world.Firewall[400])
	}
}

// TestPlanNamesSettingsThatAReplacementLoses: a refresh puts an administrator's firewall rules and options, and those of HA, into state
// beside the configured ones. The new VM has none of them, so the plan names them, and nothing that the configuration sets or has set.
func TestPlanNamesSettingsThatAReplacementLoses(t *testing.T) {
	t.Parallel()
	const pool = "pool = \"web\"\n"
	const firewall = "firewall = { enabled = true, policy_in = \"ACCEPT\" }\n"
	const ha, loses = "ha = { state = \"stopped\" }\n", "loses settings of its id"
	for name, c := range map[string]struct {
		was, is string
		by      func(world *state.World)
		says    []string
		not     []string
	}{
		"rules": {firewall, firewall, settings(func(f *state.FirewallFile) {
			f.Rules = []map[string]string{{"type": "in", "action": "DROP", "enable": "1", "proto": "tcp", "dport": "22"}}
		}), []string{loses, "firewall.rules"}, []string{"firewall.policy_in", "firewall.enabled"}},
		"an option": {firewall, firewall, settings(func(f *state.FirewallFile) { f.Options["policy_out"] = "DROP" }),
			[]string{loses, "firewall.policy_out"}, []string{"firewall.policy_in", "firewall.rules"}},
		"IP sets": {"", "", settings(func(f *state.FirewallFile) { f.IPSets = map[string]*state.IPSet{"ipfilter-net0": {}} }),
			[]string{loses, "aliases and IP sets: +ipfilter-net0"}, []string{"options or rules"}},
		"IP sets beside a configured firewall": {firewall, firewall, settings(func(f *state.FirewallFile) {
			f.IPSets = map[string]*state.IPSet{"ipfilter-net0": {}}
			f.Aliases = map[string]map[string]string{"home": {"name": "home", "cidr": "192.0.2.1"}}
		}), []string{loses, "aliases and IP sets: +ipfilter-net0, home"}, []string{"firewall.policy_in"}},
		"permissions": {"", "", func(world *state.World) {
			world.ACL = append(world.ACL, state.ACLEntry{Path: "/vms/400", Subject: "auditor@pve", Role: "PVEVMUser"})
		}, []string{loses, "permissions on /vms/400"}, nil},
		"permissions beside a pool": {pool, pool, func(world *state.World) {
			world.ACL = append(world.ACL, state.ACLEntry{Path: "/vms/400", Subject: "auditor@pve", Role: "PVEVMUser"})
		}, []string{loses, "the role PVEVMUser of auditor@pve on /vms/400"}, nil},
		"a pool":                       {pool, pool, nil, nil, []string{loses}},
		"a configured value that goes": {firewall, "firewall = { enabled = true }\n", nil, nil, []string{loses}},
		"a configured firewall":        {firewall, firewall, nil, nil, []string{loses}},
		"an option of HA": {ha, ha, func(world *state.World) {
			world.HA["vm:400"].Options = map[string]string{"max_restart": "5"}
		},
			[]string{loses, "ha.max_restart"}, []string{"ha.state", "HA resource"}},
		"an HA entry": {"", "", func(world *state.World) {
			world.HA["vm:400"] = &state.HAResource{SID: "vm:400", State: "stopped", Options: map[string]string{"comment": "theirs"}}
		}, []string{"HA resource vm:400, removed"}, []string{loses}},
		"a configured HA entry": {ha, ha, nil, nil, []string{loses, "HA r"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
			s := w.Session(t, rig.RootTicket, copied(9000, c.was))
			rig.Must(t, s.Converge(t.Context()))
			if c.by != nil {
				w.Change(c.by)
			}
			w.Sim.Advance(20e9) // HA's manager has seen it
			w.Reconfigure(t, s, rig.RootTicket, copied(8000, c.is))
			plan, err := s.Plan(t.Context())
			rig.Must(t, err)
			wantSaid(t, "the plan", fmt.Sprint(s.Diagnostics()), c.says, c.not)
			rig.Must(t, s.Apply(t.Context(), plan))
			wantSaid(t, "the apply", fmt.Sprint(s.Diagnostics()), nil, []string{"went with more"})
		})
	}
}

// TestPlanRefusesARuleWhoseSetGoes: a rule names an IP set that only the VM has, so the firewall of the VM that takes its place could not be
// set, and the old VM would be gone by then. The datacenter or the source of the copy may have the set as well.
func TestPlanRefusesARuleWhoseSetGoes(t *testing.T) {
	t.Parallel()
	admins := func() map[string]*state.IPSet { return map[string]*state.IPSet{"admins": {}} }
	for name, has := range map[string]func(world *state.World){
		"": nil,
		"the datacenter": func(world *state.World) {
			world.Firewalls = map[string]*state.FirewallFile{"cluster": {IPSets: admins()}}
		},
		"the source": func(world *state.World) { world.Firewall[8000] = &state.FirewallFile{IPSets: admins()} },
	} {
		t.Run("also "+name, func(t *testing.T) {
			t.Parallel()
			const rules = "firewall = { enabled = true, rules = [{ type = \"in\", action = \"ACCEPT\", source = \"+admins\" }] }\n"
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, copied(9000, ""))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(settings(func(f *state.FirewallFile) { f.IPSets = admins() }))
			w.Reconfigure(t, s, rig.TokenNoSSH, copied(9000, rules))
			rig.Must(t, s.Run(t.Context()))
			if has != nil {
				w.Change(has)
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, copied(8000, rules))
			err := s.Run(t.Context())
			if has != nil {
				rig.Must(t, err)
				return
			}
			rig.MustSay(t, err, `Unknown alias or IP set "+admins"`)
			w.Change(func(world *state.World) {
				if f := world.Firewall[400]; world.Guests[400] == nil || f == nil || f.IPSets["admins"] == nil {
					t.Error("the VM or its set is gone")
				}
			})
		})
	}
}

func wantSaid(t *testing.T, by, said string, words, not []string) {
	t.Helper()
	for _, words := range words {
		if !strings.Contains(said, words) {
			t.Errorf("%s does not say %q: %s", by, words, said)
		}
	}
	for _, words := range not {
		if strings.Contains(said, words) {
			t.Errorf("%s says %q: %s", by, words, said)
		}
	}
}
