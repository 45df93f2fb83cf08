package firewall

import "testing"

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
		if got := Tightens(tt.before, tt.after); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
