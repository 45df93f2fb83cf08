package guest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// ruleEdit is one change of a list of rules, and the list that it leads to.
type ruleEdit struct {
	verb  string // add, change, delete
	at    int    // position on the server, for change and delete
	rule  int    // number of the wanted rule, from 1, for add and change
	after []map[string]string
}

// nextEdit is the first thing to do to turn one list of rules into another; nil when there is nothing to do. PVE puts a new
// rule on top, so a list grows from its end upwards; rules in excess go from the end.
func nextEdit(has, want []map[string]string) *ruleEdit {
	if len(has) > len(want) {
		at := len(has) - 1
		return &ruleEdit{verb: "delete", at: at, after: has[:at]}
	}
	missing := len(want) - len(has)
	for at, rule := range has {
		if !sameRule(rule, want[missing+at]) {
			after := slices.Clone(has)
			after[at] = want[missing+at]
			return &ruleEdit{verb: "change", at: at, rule: missing + at + 1, after: after}
		}
	}
	if missing == 0 {
		return nil
	}
	return &ruleEdit{verb: "add", rule: missing, after: slices.Insert(slices.Clone(has), 0, want[missing-1])}
}

// arrange makes the rules the ones that are wanted, one request after the other. It looks before each, since positions shift:
// the digest refuses a change from outside that comes between the look and the request, and a list that is not what our last
// request made of it is somebody else's work and is left alone. So is one that is not what state knows, if it knows any.
func (w wall) arrange(ctx context.Context, prior *Firewall, rules []FirewallRule) error {
	want := ruleValues(rules)
	var expected [][]map[string]string // what the list can be by now
	if prior != nil {
		expected = [][]map[string]string{ruleValues(prior.Rules), want}
	}
	for lost := 0; ; {
		has, err := w.look(ctx, len(want) > 0)
		if err != nil {
			return w.refused("Cannot read the firewall rules of VM %d", err)
		}
		if expected != nil && !slices.ContainsFunc(expected, func(list []map[string]string) bool { return slices.EqualFunc(list, has.Rules, sameRule) }) {
			return w.refused("The firewall rules of VM %d were changed by somebody else meanwhile", nil)
		}
		edit := nextEdit(has.Rules, want)
		if edit == nil {
			return nil
		}
		expected = [][]map[string]string{edit.after}
		err = w.s.jobs.Contend(ctx, w.node, w.vmid, func(ctx context.Context) error { return w.do(ctx, edit, has, want) })
		switch {
		case err == nil:
			lost = 0
		case !pve.IsKind(err, pve.Ambiguous) || lost == 2 || w.s.jobs.Pause(ctx, lost+1) != nil:
			summary := fmt.Sprintf("Cannot %s a firewall rule of VM %%d", edit.verb)
			if edit.rule > 0 {
				summary = fmt.Sprintf("Cannot %s rule %d of the firewall of VM %%d", edit.verb, edit.rule)
			}
			return w.refused(summary, err)
		default: // it may have taken effect
			expected, lost = append(expected, has.Rules), lost+1
		}
	}
}

func ruleValues(rules []FirewallRule) []map[string]string {
	all := make([]map[string]string, len(rules))
	for i, r := range rules {
		all[i] = r.values()
	}
	return all
}

// look reads the rules with the digest that they have at that moment. Only rules carry it, so where there are none it is taken
// from the options, which are read first then.
func (w wall) look(ctx context.Context, toChange bool) (pve.FirewallRules, error) {
	has, err := w.s.api.FirewallRules(ctx, w.node, w.vmid)
	if err != nil || has.Digest != "" || !toChange {
		return has, err
	}
	options, err := w.s.api.FirewallOptions(ctx, w.node, w.vmid)
	if err != nil {
		return has, err
	}
	if has, err = w.s.api.FirewallRules(ctx, w.node, w.vmid); err == nil && has.Digest == "" {
		has.Digest = options.Digest
	}
	return has, err
}

func (w wall) refused(summary string, err error) error {
	return &FieldError{Path: "firewall.rules", Summary: fmt.Sprintf(summary, w.vmid), Detail: "Not all of its rules are the configured ones", Err: err}
}

func (w wall) do(ctx context.Context, edit *ruleEdit, has pve.FirewallRules, want []map[string]string) error {
	if edit.verb == "delete" {
		return w.s.api.DeleteFirewallRule(ctx, w.node, w.vmid, edit.at, has.Digest)
	}
	rule := want[edit.rule-1]
	params := pve.Params{}
	maps.Copy(params, rule)
	params["digest"] = has.Digest
	if edit.verb == "add" {
		return w.s.api.AddFirewallRule(ctx, w.node, w.vmid, params)
	}
	var gone []string
	for name := range has.Rules[edit.at] {
		if _, wanted := rule[name]; !wanted {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		params["delete"] = strings.Join(gone, ",")
	}
	return w.s.api.UpdateFirewallRule(ctx, w.node, w.vmid, edit.at, params)
}
