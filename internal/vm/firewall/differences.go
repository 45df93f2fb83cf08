package firewall

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ChangedParams are the parameters that change options from prior to want, where the server has others. Those that are
// left of another VM go too.
func ChangedParams(has, prior, want, left map[string]string) map[string]string {
	params, gone := map[string]string{}, []string{}
	for name, value := range want {
		if prior[name] != value && has[name] != value {
			params[name] = value
		}
	}
	for name, value := range has {
		_, wanted := want[name]
		_, known := prior[name]
		if old, isLeft := left[name]; !wanted && (known || isLeft && old == value) {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		params["delete"] = strings.Join(gone, ",")
	}
	return params
}

// Tightens tells whether options stop something that the ones before let pass (defaults of pve-firewall Firewall.pm).
func Tightens(before, after map[string]string) bool {
	accepts := func(options map[string]string, policy, otherwise string) bool {
		return options["enable"] != "1" || cmp.Or(options[policy], otherwise) == "ACCEPT"
	}
	for policy, otherwise := range map[string]string{"policy_in": "DROP", "policy_out": "ACCEPT"} {
		if accepts(before, policy, otherwise) && !accepts(after, policy, otherwise) {
			return true
		}
	}
	return before["enable"] != "1" && after["enable"] == "1"
}

// OptionsAfter are the options that a VM has after a change from prior to want.
func OptionsAfter(has, prior, want map[string]string, clean bool) map[string]string {
	after := map[string]string{}
	for name, value := range has {
		if _, known := prior[name]; !known && !clean {
			after[name] = value
		}
	}
	maps.Copy(after, want)
	return after
}

// UnknownRules describes the rules of a firewall that a configuration does not have. Whether a rule counts makes no
// difference: a change puts some rules in their places before it switches them on.
func UnknownRules(has *Settings, want []Rule) []string {
	wanted, unknown := List(want), []string{}
	on := func(r Listed) Listed {
		r = maps.Clone(r)
		r["enable"] = "1"
		return r
	}
	for _, r := range List(has.Rules) {
		at := slices.IndexFunc(wanted, func(w Listed) bool { return sameRule(on(r), on(w)) })
		if at < 0 {
			unknown = append(unknown, describe(r))
			continue
		}
		wanted = slices.Delete(wanted, at, at+1)
	}
	return unknown
}

// Beyond returns the options and rules of a firewall that another one does not have.
func Beyond(has, other *Settings) *Settings {
	options, known := has.Options(), other.Options()
	maps.DeleteFunc(options, func(name, value string) bool { return known[name] == value })
	left := List(other.Rules)
	rules := slices.DeleteFunc(List(has.Rules), func(r Listed) bool {
		at := slices.IndexFunc(left, func(other Listed) bool { return sameRule(r, other) })
		if at >= 0 {
			left = slices.Delete(left, at, at+1)
		}
		return at >= 0
	})
	return From(options, rules)
}

// describe is a rule in a line: "in ACCEPT dport=22 proto=tcp, off (comment)".
func describe(r Listed) string {
	said := r["type"] + " " + r["action"]
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if !slices.Contains([]string{"type", "action", "enable", "comment", "pos", "digest"}, name) && r[name] != "" {
			said += " " + name + "=" + r[name]
		}
	}
	if !isOn(r) {
		said += ", off"
	}
	if r["comment"] != "" {
		said += " (" + strings.TrimSpace(r["comment"]) + ")"
	}
	return said
}

// WhyRulesStay says why rules that the state does not know are left alone, and the next step.
func WhyRulesStay(unknown []string) string {
	return fmt.Sprintf("firewall.rules are all rules of a VM, so these would go, and no plan has shown them:\n  %s\n"+
		"They are left as they are. To keep them, write them into rules. To remove them, leave rules out for one apply and "+
		"set another option, such as enabled: then they are in the state, and the next plan shows what goes",
		strings.Join(unknown, "\n  "))
}

// OtherOptions describes the options of a firewall about which a configuration says nothing.
func OtherOptions(has, want *Settings) []string {
	var others []string
	wanted, is := want.Options(), has.Options()
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if _, said := wanted[name]; !said {
			others = append(others, fmt.Sprintf("%s: %s", name, is[name]))
		}
	}
	return others
}

// ChangedOptions describes the options of a firewall to which a configuration gives other values.
func ChangedOptions(has, want *Settings) []string {
	var changed []string
	was, is := has.Options(), want.Options()
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if value, set := was[name]; set && value != is[name] {
			changed = append(changed, fmt.Sprintf("%s: %s, becomes %s", name, value, is[name]))
		}
	}
	return changed
}

// OptionsSet are the options of a firewall that have another value than PVE takes without them (pve-firewall
// Firewall.pm ruleset_create_vm_chain, generate_tap_rules_direction, get_option_log_level). Of dhcp, PVE's description
// says 0.
func OptionsSet(f *Settings) *Settings {
	options := f.Options()
	for name, value := range map[string]string{"enable": "0", "dhcp": "1", "ndp": "1", "radv": "0", "ipfilter": "0",
		"macfilter": "1", "log_level_in": "nolog", "log_level_out": "nolog", "policy_in": "DROP",
		"policy_out": "ACCEPT"} {
		if options[name] == value {
			delete(options, name)
		}
	}
	return From(options, nil)
}

// WhyOptionsStay says why options that the state does not know are left alone, and the next step.
func WhyOptionsStay(changed []string) string {
	return fmt.Sprintf("The configuration has other values than these, in PVE's names, and no plan has shown them:\n"+
		"  %s\nThey are left as they are. Write them into firewall as they are, and apply: then they are in the state, and "+
		"the next plan shows the change", strings.Join(changed, "\n  "))
}
