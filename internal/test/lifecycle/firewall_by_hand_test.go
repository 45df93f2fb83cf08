package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
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
				t.Fatalf("plan: %v %v", err, plan)
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

// TestFirewallOptionsMadeByHand: likewise an option that an administrator has set, before the plan or after it, keeps its value, also where that
// of the configuration is not known yet. One with PVE's default is set in name only.
func TestFirewallOptionsMadeByHand(t *testing.T) {
	t.Parallel()
	accept, drop := cty.StringVal("ACCEPT"), cty.StringVal("DROP")
	object := func(policy cty.Value) cty.Value { return cty.ObjectVal(map[string]cty.Value{"policy_out": policy}) }
	const one, whole = `firewall = { policy_out = var.it }`, `firewall = var.it`
	for name, tt := range map[string]struct {
		before, after map[string]string
		first, body   string    // of the configuration, in an apply in between and in the last
		open, is      cty.Value // the value in the plan and in the apply
		refused, says string    // by "plan", "apply" or ""; what the plan says
	}{
		"before the plan":        {before: map[string]string{"policy_out": "DROP"}, body: one, open: accept, is: accept, refused: "plan", says: "policy_out: DROP, becomes ACCEPT"},
		"after the plan":         {after: map[string]string{"policy_out": "DROP"}, body: one, open: accept, is: accept, refused: "apply"},
		"shown by a plan":        {before: map[string]string{"policy_out": "DROP"}, first: `firewall = { policy_out = "DROP" }`, body: one, open: accept, is: accept},
		"as configured":          {before: map[string]string{"policy_out": "DROP"}, body: one, open: drop, is: drop},
		"not known yet":          {before: map[string]string{"policy_out": "DROP"}, body: one, open: cty.DynamicVal, is: accept, refused: "apply", says: "not known yet:\n  policy_out: DROP"},
		"not known, the same":    {before: map[string]string{"policy_out": "DROP"}, body: one, open: cty.DynamicVal, is: drop, says: "not known yet:\n  policy_out: DROP"},
		"not known as a whole":   {before: map[string]string{"policy_out": "DROP"}, body: whole, open: cty.DynamicVal, is: object(accept), refused: "apply", says: "not known yet:\n  policy_out: DROP"},
		"not known, and default": {before: map[string]string{"policy_out": "ACCEPT"}, body: one, open: cty.DynamicVal, is: drop},
		"a default":              {after: map[string]string{"policy_out": "ACCEPT"}, body: one, open: drop, is: drop},
		"of another option":      {after: map[string]string{"dhcp": "0"}, body: one, open: drop, is: drop},
		"switched on since":      {after: map[string]string{"enable": "1"}, body: `firewall = { enabled = var.it }`, open: cty.False, is: cty.False, refused: "apply"},
		"none":                   {body: one, open: accept, is: accept},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			byHand := func(options map[string]string) {
				if options != nil {
					w.Change(func(world *state.World) { world.Firewall[400] = &state.FirewallFile{Options: maps.Clone(options)} })
				}
			}
			with := func(body string) string {
				return "variable \"it\" {}\n" + strings.TrimSuffix(bare, "}\n") + "  " + body + "\n}\n"
			}
			s := w.Session(t, rig.RootTicket, with(""))
			s.SetVariable("it", cty.NullVal(cty.String))
			rig.Must(t, s.Converge(t.Context()))
			byHand(tt.before)
			if tt.first != "" {
				w.Reconfigure(t, s, rig.RootTicket, with(tt.first))
				rig.Must(t, s.Converge(t.Context()))
			}
			w.Reconfigure(t, s, rig.RootTicket, with(tt.body))
			s.SetVariable("it", tt.open)
			plan, err := s.Plan(t.Context())
			said := s.Diagnostics().String()
			if plain := strings.ReplaceAll(said, "\n    ", "\n  "); (err != nil) != (tt.refused == "plan") || !strings.Contains(plain, tt.says) || tt.says == "" && said != "" {
				t.Fatalf("the plan says %s", said)
			}
			if err == nil {
				byHand(tt.after)
				s.SetVariable("it", tt.is)
				if err = s.Apply(t.Context(), plan); (err != nil) != (tt.refused == "apply") {
					t.Fatalf("the apply says %v", err)
				}
			}
			wall, _ := beside(w, 400)
			for _, byHand := range []map[string]string{tt.before, tt.after} {
				for option, value := range byHand {
					if tt.refused != "" && wall.Options[option] != value {
						t.Errorf("the server has %v", wall)
					}
				}
			}
			if tt.refused == "" {
				rig.Must(t, s.Converge(t.Context()))
			}
		})
	}
}

// TestHAEntryMadeByHand: an administrator has put the VM under HA, before the plan or after it, and then the configuration
// does. The refresh takes an entry into the state, so a plan shows the values that it changes. An entry that no plan has
// shown keeps its values, and the update does not begin.
func TestHAEntryMadeByHand(t *testing.T) {
	t.Parallel()
	entry := func(is string, options ...string) *state.HAResource {
		made := &state.HAResource{SID: "vm:400", State: is, Options: map[string]string{}}
		for i := 0; i < len(options); i += 2 {
			made.Options[options[i]] = options[i+1]
		}
		return made
	}
	in := func(group string, made *state.HAResource) *state.HAResource {
		made.Group = group
		return made
	}
	const wanted = `state = "started", max_restart = 3, comment = "web"`
	all := entry("started", "max_restart", "3", "comment", "web")
	fsck := entry("disabled", "max_restart", "0", "comment", "fsck runs, do not start")
	for name, tt := range map[string]struct {
		before, after *state.HAResource // on the server, before and after the plan
		gone          bool              // before the apply
		ha            string            // of the configuration
		profile       string
		shown         string // by the plan
		refused       string // what the error says, or ""
		left          *state.HAResource
	}{
		"shown by the plan":      {before: fsck, ha: wanted, shown: `"fsck runs, do not start" -> "web"`, left: all},
		"shown, and gone since":  {before: fsck, gone: true, ha: wanted, refused: "is not under HA any more"},
		"after the plan":         {after: fsck, ha: wanted, refused: "state: disabled, becomes started", left: fsck},
		"another than a default": {after: entry("started"), ha: wanted, refused: "max_restart: 1, becomes 3", left: entry("started")},
		"the configured one":     {after: all, ha: wanted, left: all},
		"defaults":               {after: entry("started"), ha: "max_restart = 1", left: entry("started", "max_restart", "1")},
		"more than configured":   {after: fsck, ha: "max_restart = 0", left: fsck},
		"in a group":             {after: in("big", entry("started")), ha: `state = "started"`, profile: "8.4", left: in("big", entry("started"))},
		"in another group":       {after: in("big", entry("started")), ha: `group = "small"`, profile: "8.4", refused: "group: big, becomes small", left: in("big", entry("started"))},
		"failback by default":    {after: all, ha: wanted + ", failback = true", profile: "9.0", left: entry("started", "max_restart", "3", "comment", "web", "failback", "1")},
		"failback":               {after: all, ha: wanted + ", failback = false", profile: "9.0", refused: "failback: 1, becomes 0", left: all},
		"none":                   {ha: wanted, left: all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: tt.profile})
			byHand := func(made *state.HAResource) {
				w.Change(func(world *state.World) {
					world.HAGroups["big"], world.HAGroups["small"] = &state.HAGroup{ID: "big"}, &state.HAGroup{ID: "small"}
					if made != nil {
						world.HA["vm:400"] = &state.HAResource{SID: made.SID, State: made.State, Group: made.Group, Options: maps.Clone(made.Options)}
					} else if tt.gone {
						delete(world.HA, "vm:400")
					}
				})
			}
			s := w.Session(t, rig.RootTicket, bare)
			rig.Must(t, s.Converge(t.Context()))
			byHand(tt.before)
			w.Reconfigure(t, s, rig.RootTicket, strings.TrimSuffix(bare, "}\n")+"  description = \"x\"\n  ha = { "+tt.ha+" }\n}\n")
			plan, err := s.Plan(t.Context())
			rig.Must(t, err)
			if shown := fmt.Sprint(plan); !strings.Contains(shown, tt.shown) {
				t.Errorf("the plan shows %s", shown)
			}
			byHand(tt.after)
			w.ResetCalls()
			err = s.Apply(t.Context(), plan)
			if _, has := beside(w, 400); !cmp.Equal(has, tt.left) {
				t.Errorf("the entry (-want +got):\n%s", cmp.Diff(tt.left, has))
			}
			if tt.refused == "" {
				rig.Must(t, err)
			} else if err == nil || !strings.Contains(err.Error(), tt.refused) || len(writes(w)) > 0 {
				t.Errorf("after %v: %v", writes(w), err)
			}
			if changed := rig.GuestOf(w, 400).Config["description"] != ""; tt.after != nil && changed != (tt.refused == "") {
				t.Errorf("the update has begun: %t", changed)
			}
			rig.Must(t, s.Converge(t.Context())) // the next plan knows the entry
		})
	}
}

// TestFirewallOptionChangedSinceThePlan: an option that the plan changes, and that an administrator has given a third
// value since, keeps that value, and the rules stay as well. One that he has changed to the planned value, or that the
// plan does not change, stands in no one's way.
func TestFirewallOptionChangedSinceThePlan(t *testing.T) {
	t.Parallel()
	const prior = `enabled = true, policy_in = "REJECT"`
	const rules = `, rules = [{ type = "in", action = "ACCEPT", proto = "tcp", dport = "443" }]`
	for name, tt := range map[string]struct {
		firewall string            // of the new configuration
		since    map[string]string // the options that have changed since the plan, "" for one that is gone
		refused  string
		left     map[string]string
	}{
		"changed":        {`enabled = true, policy_in = "ACCEPT"`, map[string]string{"policy_in": "DROP"}, "policy_in: was REJECT, is DROP, planned ACCEPT", map[string]string{"enable": "1", "policy_in": "DROP"}},
		"taken out":      {`enabled = true`, map[string]string{"policy_in": "DROP"}, "policy_in: was REJECT, is DROP, planned none", map[string]string{"enable": "1", "policy_in": "DROP"}},
		"gone":           {`enabled = true, policy_in = "ACCEPT"`, map[string]string{"policy_in": ""}, "policy_in: was REJECT, is none, planned ACCEPT", map[string]string{"enable": "1"}},
		"new":            {prior + `, policy_out = "ACCEPT"`, map[string]string{"policy_out": "DROP"}, "policy_out: was none, is DROP, planned ACCEPT", map[string]string{"enable": "1", "policy_in": "REJECT", "policy_out": "DROP"}},
		"before rules":   {prior + `, policy_out = "REJECT"` + rules, map[string]string{"policy_out": "DROP"}, "policy_out: was none, is DROP, planned REJECT", map[string]string{"enable": "1", "policy_in": "REJECT", "policy_out": "DROP"}},
		"as planned":     {`enabled = true, policy_in = "ACCEPT"`, map[string]string{"policy_in": "ACCEPT"}, "", map[string]string{"enable": "1", "policy_in": "ACCEPT"}},
		"another option": {`enabled = true, policy_in = "ACCEPT"`, map[string]string{"dhcp": "1"}, "", map[string]string{"enable": "1", "policy_in": "ACCEPT", "dhcp": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := func(firewall string) string {
				return strings.TrimSuffix(bare, "}\n") + "  firewall = { " + firewall + " }\n}\n"
			}
			w := rig.NewWorld(t)
			s := w.Session(t, rig.RootTicket, with(prior))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.RootTicket, with(tt.firewall))
			plan, err := s.Plan(t.Context())
			rig.Must(t, err)
			w.Change(func(world *state.World) {
				for option, value := range tt.since {
					if world.Firewall[400].Options[option] = value; value == "" {
						delete(world.Firewall[400].Options, option)
					}
				}
			})
			err = s.Apply(t.Context(), plan)
			if said := err != nil && strings.Contains(err.Error(), tt.refused); said != (tt.refused != "") || err != nil && !said {
				t.Errorf("the apply said %v", err)
			}
			wall, _ := beside(w, 400)
			if diff := cmp.Diff(&state.FirewallFile{Options: tt.left}, wall); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			rig.Must(t, s.Converge(t.Context())) // the next plan shows it
		})
	}
}

// TestHAEntryChangedSinceThePlan: an administrator has changed the HA entry since the plan, or has made another one. An
// option that the plan changes keeps his value, and an entry that the plan removes stays. A state that PVE has written
// for a power request, also for one of the update itself, stands in no one's way.
func TestHAEntryChangedSinceThePlan(t *testing.T) {
	t.Parallel()
	made := func(is string, options map[string]string) *state.HAResource {
		return &state.HAResource{SID: "vm:400", State: is, Options: options}
	}
	const prior = `ha = { state = "started", max_restart = 3 }`
	theirs := made("started", map[string]string{"max_restart": "5", "comment": "critical"})
	for name, tt := range map[string]struct {
		body    string // of the new configuration
		since   *state.HAResource
		refused string
		left    *state.HAResource
	}{
		"option changed":        {`ha = { state = "started", max_restart = 2 }`, theirs, "max_restart: was 3, is 5, planned 2", theirs},
		"option taken out":      {`ha = { state = "started" }`, theirs, "max_restart: was 3, is 5, planned 1", theirs},
		"option reset":          {`ha = { state = "started", max_restart = 2 }`, made("started", nil), "max_restart: was 3, is 1, planned 2", made("started", nil)},
		"option as planned":     {`ha = { state = "started", max_restart = 5 }`, theirs, "", theirs},
		"disabled":              {`ha = { state = "ignored", max_restart = 3 }`, made("disabled", map[string]string{"max_restart": "3"}), "state: was started, is disabled, planned ignored", made("disabled", map[string]string{"max_restart": "3"})},
		"removed":               {"", theirs, "comment: was none, is critical, planned none", theirs},
		"removed, and gone":     {"", made("", nil), "", nil},
		"removed, and switched": {"", made("stopped", map[string]string{"max_restart": "3"}), "", nil},
		"shut down by the update": {`power_state = "stopped"` + "\n" + `ha = { state = "disabled", max_restart = 3 }`, nil, "",
			made("disabled", map[string]string{"max_restart": "3"})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := func(body string) string { return strings.TrimSuffix(bare, "}\n") + body + "\n}\n" }
			w := rig.NewWorld(t)
			s := w.Session(t, rig.RootTicket, with(prior))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.RootTicket, with(tt.body))
			plan, err := s.Plan(t.Context())
			rig.Must(t, err)
			w.Change(func(world *state.World) {
				if since := tt.since; since != nil && since.State == "" {
					delete(world.HA, "vm:400")
				} else if since != nil {
					world.HA["vm:400"] = &state.HAResource{SID: since.SID, State: since.State, Options: maps.Clone(since.Options)}
				}
			})
			err = s.Apply(t.Context(), plan)
			if said := err != nil && strings.Contains(err.Error(), tt.refused); said != (tt.refused != "") || err != nil && !said {
				t.Errorf("the apply said %v", err)
			}
			if _, has := beside(w, 400); !cmp.Equal(has, tt.left) {
				t.Errorf("left (-want +got):\n%s", cmp.Diff(tt.left, has))
			}
			rig.Must(t, s.Converge(t.Context())) // the next plan shows it
		})
	}
}
