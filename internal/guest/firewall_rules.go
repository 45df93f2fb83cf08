package guest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// SetFirewall brings the firewall of a VM from the state to the plan. clean: options that are not planned go. guard
// looks whose VM it is, before each request. Digests are no proof of that. PVE makes them of the options alone, or of
// the rules alone, so VMs that have the same have the same one (pve-firewall Firewall.pm copy_opject_with_digest,
// copy_list_with_digest). An example is a VM that was restored over the id, where the file stays. PVE also asks for
// no digest when it adds a rule (API2/Firewall/Rules.pm create_rule).
func (g *Guests) SetFirewall(ctx context.Context, node string, vmid int, prior, want *Firewall, clean bool,
	guard func(context.Context) error) error {
	return firewallOf{g, node, vmid, guard}.change(ctx, prior, want, clean)
}

// change changes options and rules. Options that stop more than before come after the rules, and others go before
// them: nothing that passes before and after is stopped on the way.
func (f firewallOf) change(ctx context.Context, prior, want *Firewall, clean bool) error {
	steps := []func() error{
		func() error { return f.setOptions(ctx, prior, want, clean) },
		func() error { return f.setRules(ctx, prior, want) },
	}
	if tightens(prior.options(), want.options()) {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (f firewallOf) setRules(ctx context.Context, prior, want *Firewall) error {
	var before, after []FirewallRule
	if prior != nil {
		before = prior.Rules
	}
	if want != nil {
		after = want.Rules
	}
	same := func(a, b FirewallRule) bool { return sameRule(a.values(), b.values()) }
	if after == nil && len(before) == 0 || prior != nil && slices.EqualFunc(before, after, same) {
		return nil
	}
	plan := planSafely
	if prior == nil || prior.options()["enable"] != "1" || want.options()["enable"] != "1" {
		plan = planPlainly // it is off while the rules change
	}
	return f.arrange(ctx, prior, after, plan)
}

// arrange makes the rules the ones that are wanted, one request after the other. It looks before each, since
// positions shift. The digest refuses a change from outside that comes between the look and the request, unless that
// adds a rule. A list other than the one that our last request made is another user's work and is left alone. So is
// one other than the list in state, if state has any. Where a request is refused for another reason, the rules in state
// come back.
func (f firewallOf) arrange(ctx context.Context, prior *Firewall, rules []FirewallRule, plan planner) error {
	want := ruleValues(rules)
	has, err := f.s.api.Firewall(f.node, f.vmid).Rules(ctx)
	if err != nil {
		return f.refused("Cannot read the firewall rules of VM %d", notAll, err)
	}
	if prior != nil && !sameRules(has.Rules, ruleValues(prior.Rules)) && !sameRules(has.Rules, want) {
		return f.refused(changedMeanwhile, notAll, nil)
	}
	began, edits := has.Rules, plan(has.Rules, want)
	edit, done, err := f.carryOut(ctx, has, edits)
	switch {
	case err == nil || edit == nil:
		return err
	case pve.IsKind(err, pve.DigestMismatch):
		return f.refused(changedMeanwhile, notAll, err)
	}
	detail := notAll
	if prior != nil && done > 0 {
		late, cancel := f.s.jobs.LookAfter(ctx)
		defer cancel()
		if f.putBack(late, edits[done-1].after, began, plan) == nil {
			detail = "Its rules are as they were before"
		}
	}
	summary := fmt.Sprintf("Cannot %s a firewall rule of VM %%d", edit.verb)
	if edit.rule > 0 {
		summary = fmt.Sprintf("Cannot %s rule %d of the firewall of VM %%d", edit.verb, edit.rule)
	}
	return f.refused(summary, detail, err)
}

// planner works out the requests that lead from one list of rules to another.
type planner func(has, want []rule) []ruleEdit

const (
	notAll           = "Not all of its rules are the configured ones"
	changedMeanwhile = "The firewall rules of VM %d were changed by another user meanwhile"
)

// carryOut sends edits, beginning with a list that was just read. Of a request that failed it returns the edit, and
// how many were made before; an error without an edit says it all.
func (f firewallOf) carryOut(ctx context.Context, has pve.FirewallRules, edits []ruleEdit) (failed *ruleEdit, done int,
	err error) {
	for lost := 0; done < len(edits); {
		edit, before := &edits[done], has.Rules
		err := f.send(ctx, func(ctx context.Context) error { return f.do(ctx, edit, has) })
		var refused *guardError
		if errors.As(err, &refused) {
			return nil, done, refused.err
		}
		if err != nil && (!pve.IsKind(err, pve.Ambiguous) || lost == 2 || f.s.jobs.Pause(ctx, lost+1) != nil) {
			return edit, done, err
		}
		now, lookErr := f.s.api.Firewall(f.node, f.vmid).Rules(ctx)
		has = now
		switch {
		case lookErr != nil:
			return nil, done, f.refused("Cannot read the firewall rules of VM %d", notAll, lookErr)
		case sameRules(has.Rules, edit.after):
			done, lost = done+1, 0
		case err == nil || !sameRules(has.Rules, before):
			return nil, done, f.refused(changedMeanwhile, notAll, nil)
		default: // the lost request has done nothing
			lost++
		}
	}
	return nil, done, nil
}

// putBack brings the rules back that there were, if the server still has those that the last request left: among others
// may be a third party's.
func (f firewallOf) putBack(ctx context.Context, left, began []rule, plan planner) error {
	has, err := f.s.api.Firewall(f.node, f.vmid).Rules(ctx)
	if err == nil && !sameRules(has.Rules, left) {
		err = f.refused(changedMeanwhile, notAll, nil)
	}
	if err != nil {
		return err
	}
	_, _, err = f.carryOut(ctx, has, plan(has.Rules, began))
	return err
}

func sameRules(a, b []rule) bool { return slices.EqualFunc(a, b, sameRule) }

func ruleValues(rules []FirewallRule) []map[string]string {
	all := make([]map[string]string, len(rules))
	for i, r := range rules {
		all[i] = r.values()
	}
	return all
}

func (f firewallOf) refused(summary, detail string, err error) error {
	return &FieldError{Path: "firewall.rules", Summary: fmt.Sprintf(summary, f.vmid), Detail: detail, Err: err}
}

// do sends an edit of the rules that the server has.
func (f firewallOf) do(ctx context.Context, edit *ruleEdit, has pve.FirewallRules) error {
	params := pve.Params{}
	maps.Copy(params, edit.set)
	switch edit.verb {
	case "delete":
		return f.s.api.Firewall(f.node, f.vmid).DeleteRule(ctx, edit.at, has.Digest)
	case "add":
		return f.s.api.Firewall(f.node, f.vmid).AddRule(ctx, params)
	}
	params["digest"] = has.Digest
	if edit.verb == "move" {
		params["moveto"] = strconv.Itoa(edit.to)
		return f.s.api.Firewall(f.node, f.vmid).UpdateRule(ctx, edit.at, params)
	}
	var gone []string
	for name := range has.Rules[edit.at] {
		if _, wanted := edit.set[name]; !wanted {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		params["delete"] = strings.Join(gone, ",")
	}
	return f.s.api.Firewall(f.node, f.vmid).UpdateRule(ctx, edit.at, params)
}
