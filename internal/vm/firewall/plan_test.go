package firewall

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func drawRules(t *rapid.T, label string) []Listed {
	one := rapid.Custom(func(t *rapid.T) Listed {
		r := Listed{"type": "in", "action": rapid.SampledFrom([]string{"ACCEPT", "ACCEPT", "DROP", "REJECT"}).Draw(t, "action"),
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
func does(t *rapid.T, now []Listed, edit Edit) []Listed {
	now = slices.Clone(now)
	if edit.Verb != "add" && edit.At >= len(now) {
		t.Fatalf("%+v of %v", edit, now)
	}
	switch edit.Verb {
	case "add":
		now = slices.Insert(now, 0, edit.Set)
	case "change":
		now[edit.At] = edit.Set
	case "delete":
		now = slices.Delete(now, edit.At, edit.At+1)
	case "move":
		moved := now[edit.At]
		var all []Listed
		for i, r := range now {
			if i == edit.To {
				all = append(all, moved)
			}
			if i != edit.At {
				all = append(all, r)
			}
		}
		if edit.To >= len(now) {
			all = append(all, moved)
		}
		now = all
	}
	if !slices.EqualFunc(now, edit.After, maps.Equal) {
		t.Fatalf("%s leads to %v, not to %v", edit.Verb, now, edit.After)
	}
	return now
}

// TestEditsLeadToTheWantedRules: whatever rules there are, the edits lead to the wanted ones. While the firewall is
// off there are no more of them than rules on either side.
func TestEditsLeadToTheWantedRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		has, want := drawRules(t, "has"), drawRules(t, "want")
		for name, plan := range map[string]Planner{"plainly": PlanPlainly, "safely": PlanSafely} {
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
func passes(rules []Listed, port string, policy bool) bool {
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
				for i, edit := range PlanSafely(has, want) {
					if !passes(edit.After, port, policy) {
						t.Fatalf("port %s (policy %v) is shut by edit %d, %s, on the way from %v to %v: %v", port, policy, i,
							edit.Verb, has, want, edit.After)
					}
				}
			}
		}
	})
}

// TestFirewallChangeTakesFewRequests: a rule that changes, comes first or goes takes one request.
func TestFirewallChangeTakesFewRequests(t *testing.T) {
	accept := func(port string) Listed {
		return Listed{"type": "in", "action": "ACCEPT", "enable": "1", "proto": "tcp", "dport": port}
	}
	drop := Listed{"type": "in", "action": "DROP", "enable": "1"}
	for name, tt := range map[string]struct {
		has, want []Listed
		verbs     string
	}{
		"nothing":          {[]Listed{accept("22"), drop}, []Listed{accept("22"), drop}, ""},
		"one changes":      {[]Listed{accept("22"), accept("80"), drop}, []Listed{accept("22"), accept("443"), drop}, "change"},
		"one comes first":  {[]Listed{accept("22"), drop}, []Listed{accept("80"), accept("22"), drop}, "add"},
		"one goes":         {[]Listed{accept("22"), accept("80"), drop}, []Listed{accept("22"), drop}, "delete"},
		"one comes behind": {[]Listed{accept("22"), drop}, []Listed{accept("22"), accept("80"), drop}, "add move change"},
		"two swap ports":   {[]Listed{accept("22"), accept("80")}, []Listed{accept("80"), accept("22")}, "add delete"},
		"all is stopped":   {[]Listed{accept("22")}, []Listed{drop}, "change"},
	} {
		var verbs []string
		for _, edit := range PlanSafely(tt.has, tt.want) {
			verbs = append(verbs, edit.Verb)
		}
		if got := strings.Join(verbs, " "); got != tt.verbs {
			t.Errorf("%s: %s, want %s", name, got, tt.verbs)
		}
	}
}
