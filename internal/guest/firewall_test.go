package guest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func drawRules(t *rapid.T, label string) []rule {
	one := rapid.Custom(func(t *rapid.T) rule {
		r := rule{"type": "in", "action": rapid.SampledFrom([]string{"ACCEPT", "ACCEPT", "DROP", "REJECT"}).Draw(t, "action"),
			"enable": rapid.SampledFrom([]string{"1", "1", "1", "0"}).Draw(t, "enable")}
		if port := rapid.SampledFrom([]string{"", "22", "80", "443"}).Draw(t, "port"); port != "" {
			r["proto"], r["dport"] = "tcp", port
		}
		if rapid.Bool().Draw(t, "named") {
			r["comment"] = rapid.SampledFrom([]string{"a", "b "}).Draw(t, "comment")
		}
		return r
	})
	return rapid.SliceOfN(one, 0, 5).Draw(t, label)
}

// does what PVE does with an edit.
func does(t *rapid.T, now []rule, edit ruleEdit) []rule {
	now = slices.Clone(now)
	if edit.verb != "add" && edit.at >= len(now) {
		t.Fatalf("%+v of %v", edit, now)
	}
	switch edit.verb {
	case "add":
		now = slices.Insert(now, 0, edit.set)
	case "change":
		now[edit.at] = edit.set
	case "delete":
		now = slices.Delete(now, edit.at, edit.at+1)
	case "move":
		moved := now[edit.at]
		var all []rule
		for i, r := range now {
			if i == edit.to {
				all = append(all, moved)
			}
			if i != edit.at {
				all = append(all, r)
			}
		}
		if edit.to >= len(now) {
			all = append(all, moved)
		}
		now = all
	}
	if !slices.EqualFunc(now, edit.after, maps.Equal) {
		t.Fatalf("%s leads to %v, not to %v", edit.verb, now, edit.after)
	}
	return now
}

// TestEditsLeadToTheWantedRules: whatever rules there are, the edits lead to the wanted ones. While the firewall is
// off there are no more of them than rules on either side.
func TestEditsLeadToTheWantedRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		has, want := drawRules(t, "has"), drawRules(t, "want")
		for name, plan := range map[string]planner{"plainly": planPlainly, "safely": planSafely} {
			now := has
			edits := plan(has, want)
			for _, edit := range edits {
				now = does(t, now, edit)
			}
			if !slices.EqualFunc(now, want, sameRule) {
				t.Fatalf("%s from %v to %v: ended with %v", name, has, want, now)
			}
			if most := max(len(has), len(want)); name == "plainly" && len(edits) > most || len(edits) > len(has)+3*len(want) {
				t.Fatalf("%s: %d edits from %v to %v", name, len(edits), has, want)
			}
		}
	})
}

// passes tells whether rules and a policy let a packet to a port pass.
func passes(rules []rule, port string, policy bool) bool {
	for _, r := range rules {
		if r["enable"] == "1" && (r["dport"] == "" || r["dport"] == port) {
			return r["action"] == "ACCEPT"
		}
	}
	return policy
}

// TestFirewallChangeKeepsAccess: traffic that passes before and after a change of the rules passes at every moment of
// it.
func TestFirewallChangeKeepsAccess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		has, want := drawRules(t, "has"), drawRules(t, "want")
		for _, port := range []string{"22", "80", "443", "8006"} {
			for _, policy := range []bool{false, true} {
				if !passes(has, port, policy) || !passes(want, port, policy) {
					continue
				}
				for i, edit := range planSafely(has, want) {
					if !passes(edit.after, port, policy) {
						t.Fatalf("port %s (policy %v) is shut by edit %d, %s, on the way from %v to %v: %v", port, policy, i,
							edit.verb, has, want, edit.after)
					}
				}
			}
		}
	})
}

// TestFirewallChangeTakesFewRequests: a rule that changes, comes first or goes takes one request.
func TestFirewallChangeTakesFewRequests(t *testing.T) {
	accept := func(port string) rule {
		return rule{"type": "in", "action": "ACCEPT", "enable": "1", "proto": "tcp", "dport": port}
	}
	drop := rule{"type": "in", "action": "DROP", "enable": "1"}
	for name, tt := range map[string]struct {
		has, want []rule
		verbs     string
	}{
		"nothing":          {[]rule{accept("22"), drop}, []rule{accept("22"), drop}, ""},
		"one changes":      {[]rule{accept("22"), accept("80"), drop}, []rule{accept("22"), accept("443"), drop}, "change"},
		"one comes first":  {[]rule{accept("22"), drop}, []rule{accept("80"), accept("22"), drop}, "add"},
		"one goes":         {[]rule{accept("22"), accept("80"), drop}, []rule{accept("22"), drop}, "delete"},
		"one comes behind": {[]rule{accept("22"), drop}, []rule{accept("22"), accept("80"), drop}, "add move change"},
		"two swap ports":   {[]rule{accept("22"), accept("80")}, []rule{accept("80"), accept("22")}, "add delete"},
		"all is stopped":   {[]rule{accept("22")}, []rule{drop}, "change"},
	} {
		var verbs []string
		for _, edit := range planSafely(tt.has, tt.want) {
			verbs = append(verbs, edit.verb)
		}
		if got := strings.Join(verbs, " "); got != tt.verbs {
			t.Errorf("%s: %s, want %s", name, got, tt.verbs)
		}
	}
}

// TestTighterFirewallOptionsComeLast: options that stop more than before wait for the rules.
func TestTighterFirewallOptionsComeLast(t *testing.T) {
	options := func(pairs ...string) map[string]string {
		all := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = pairs[i+1]
		}
		return all
	}
	for name, tt := range map[string]struct {
		before, after map[string]string
		want          bool
	}{
		"switched on":         {options(), options("enable", "1"), true},
		"switched off":        {options("enable", "1"), options(), false},
		"in is stopped":       {options("enable", "1", "policy_in", "ACCEPT"), options("enable", "1"), true},
		"in is let pass":      {options("enable", "1"), options("enable", "1", "policy_in", "ACCEPT"), false},
		"out is stopped":      {options("enable", "1"), options("enable", "1", "policy_out", "REJECT"), true},
		"another way to stop": {options("enable", "1", "policy_in", "REJECT"), options("enable", "1", "policy_in", "DROP"), false},
		"while it is off":     {options("policy_in", "ACCEPT"), options("policy_in", "DROP"), false},
		"another option":      {options("enable", "1"), options("enable", "1", "dhcp", "1"), false},
	} {
		if got := tightens(tt.before, tt.after); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOnlyWhatDiffersIsSent(t *testing.T) {
	before := map[string]string{"state": "started", "comment": "a", "max_restart": "3"}
	for name, tt := range map[string]struct{ after, has, want map[string]string }{
		"nothing": {before, before, map[string]string{}},
		"one changes": {map[string]string{"state": "started", "comment": "b", "max_restart": "3"},
			before, map[string]string{"comment": "b"}},
		"one goes":               {map[string]string{"state": "started", "comment": "a"}, before, map[string]string{"delete": "max_restart"}},
		"a state is never reset": {map[string]string{"comment": "a", "max_restart": "3"}, before, map[string]string{}},
		"it is so already": {map[string]string{"state": "ignored", "comment": "a"},
			map[string]string{"state": "ignored", "comment": "a"}, map[string]string{}},
		"a third party's change is left alone": {map[string]string{"state": "started", "comment": "b", "max_restart": "3"},
			map[string]string{"state": "ignored", "comment": "a"}, map[string]string{"comment": "b"}},
	} {
		if got := differing(before, tt.after, tt.has); !maps.Equal(got, tt.want) {
			t.Errorf("%s: sent %v, want %v", name, got, tt.want)
		}
	}
}
