package lifecycle_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestFirewallMadeByHand: an administrator has given the VM a firewall, which the state does not know, before the plan or
// after it, and then the configuration gets one. His rules are lost only by a plan that shows them; what remains of a
// killed apply, and rules that the configuration has as well, stand in no one's way.
func TestFirewallMadeByHand(t *testing.T) {
	t.Parallel()
	bastion := map[string]string{"type": "in", "action": "ACCEPT", "enable": "1", "proto": "tcp", "dport": "22",
		"source": "10.0.0.5", "comment": "bastion only"}
	drop := map[string]string{"type": "in", "action": "DROP", "enable": "1"}
	https := map[string]string{"type": "in", "action": "ACCEPT", "enable": "1", "proto": "tcp", "dport": "443"}
	off := maps.Clone(https)
	off["enable"] = "0"
	const one = `{ type = "in", action = "ACCEPT", proto = "tcp", dport = "443" }`
	const rest = `, { type = "in", action = "DROP" }`
	for name, tt := range map[string]struct {
		before, after []map[string]string // on the server, before and after the plan
		first         string              // the firewall of an apply in between
		rules         string              // of the configuration
		refused       string              // "plan", "apply" or ""
	}{
		"before the plan":       {before: []map[string]string{bastion, drop}, rules: one, refused: "plan"},
		"none are wanted":       {before: []map[string]string{bastion, drop}, refused: "plan"},
		"after the plan":        {after: []map[string]string{bastion, drop}, rules: one, refused: "apply"},
		"shown by a plan":       {before: []map[string]string{bastion, drop}, first: "enabled = true", rules: one},
		"the configured ones":   {before: []map[string]string{https, drop}, rules: one + rest},
		"the half of an update": {before: []map[string]string{off}, rules: one + rest},
		"none":                  {rules: one},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.RootTicket, bare)
			rig.Must(t, s.Converge(t.Context()))
			byHand := func(rules []map[string]string) {
				if rules != nil {
					w.Change(func(world *state.World) {
						world.Firewall[400] = &state.FirewallFile{Options: map[string]string{"enable": "1", "policy_in": "DROP"}, Rules: rules}
					})
				}
			}
			with := func(firewall string) {
				w.Reconfigure(t, s, rig.RootTicket, strings.TrimSuffix(bare, "}\n")+"  firewall = { "+firewall+" }\n}\n")
			}
			byHand(tt.before)
			if tt.first != "" {
				with(tt.first)
				rig.Must(t, s.Converge(t.Context()))
			}
			with(`policy_in = "ACCEPT", rules = [` + tt.rules + `]`)
			plan, err := s.Plan(t.Context())
			if said := err != nil && strings.Contains(err.Error(), "(bastion only)"); said != (tt.refused == "plan") {
				t.Fatalf("plan: %v", err)
			}
			if warned := strings.Contains(s.Diagnostics().String(), "policy_in: DROP, becomes ACCEPT"); warned != (tt.before != nil && tt.first == "") {
				t.Errorf("the plan warned %v", s.Diagnostics())
			}
			if err == nil {
				byHand(tt.after)
				err = s.Apply(t.Context(), plan)
				if said := err != nil && strings.Contains(err.Error(), "(bastion only)"); said != (tt.refused == "apply") {
					t.Fatalf("apply: %v", err)
				}
			}
			wall, _ := beside(w, 400)
			if kept := wall != nil && slices.EqualFunc(wall.Rules, []map[string]string{bastion, drop}, maps.Equal) &&
				wall.Options["policy_in"] == "DROP"; kept != (tt.refused != "") {
				t.Errorf("the server has %v", wall)
			}
			if tt.refused == "" {
				rig.Must(t, s.Converge(t.Context()))
			}
		})
	}
}
