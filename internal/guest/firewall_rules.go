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
	return firewallOf{g, node, vmid, guard, false}.change(ctx, prior, want, clean)
}

// TakeFirewall is SetFirewall for a VM in state whose firewall the state does not know: options that are not wanted
// stay. It refuses options with other values, and rules that are not wanted.
func TakeFirewall(ctx context.Context, g *Guests, node string, vmid int, want *Firewall,
	guard func(context.Context) error) error {
	return firewallOf{g, node, vmid, guard, true}.change(ctx, &Firewall{}, want, false)
}

// change changes options and rules. Options that stop more than before come after the rules, and others go before
// them: nothing that passes before and after is stopped on the way. The server's own options count, since a firewall
// that the state does not know may be in force.
func (f firewallOf) change(ctx context.Context, prior, want *Firewall, clean bool) error {
	before, wanted := prior.options(), want.options()
	var read *optionsRead
	if clean || !maps.Equal(before, wanted) || before["enable"] != "1" {
		has, err := f.s.api.Firewall(f.node, f.vmid).Options(ctx)
		if err != nil {
			return f.notSet(err)
		}
		if err := f.checkOptions(has.Values, prior, want); err != nil {
			return err // before the rules have changed
		}
		read, before = &optionsRead{FirewallOptions: has}, has.Values
	}
	after := optionsAfter(before, prior.options(), wanted, clean)
	plan := planSafely
	if before["enable"] != "1" || after["enable"] != "1" {
		plan = planPlainly // it is off while the rules change
	}
	setRules, err := f.readRules(ctx, prior, want)
	if err != nil {
		return err // before the options have changed
	}
	steps := []func() error{
		func() error { return f.setOptions(ctx, prior, want, clean, read) },
		func() error { return setRules(plan) },
	}
	if tightens(before, after) {
		slices.Reverse(steps)
		read.late = true
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// optionsAfter are the options that a VM has after a change from prior to want.
func optionsAfter(has, prior, want map[string]string, clean bool) map[string]string {
	after := map[string]string{}
	for name, value := range has {
		if _, known := prior[name]; !known && !clean {
			after[name] = value
		}
	}
	maps.Copy(after, want)
	return after
}

// readRules reads the rules, unless there is nothing to change. It returns the function that changes them.
func (f firewallOf) readRules(ctx context.Context, prior, want *Firewall) (func(planner) error, error) {
	var before, after []FirewallRule
	if prior != nil {
		before = prior.Rules
	}
	if want != nil {
		after = want.Rules
	}
	same := func(a, b FirewallRule) bool { return sameRule(a.values(), b.values()) }
	if after == nil && len(before) == 0 || before != nil && slices.EqualFunc(before, after, same) {
		return func(planner) error { return nil }, nil
	}
	has, err := f.s.api.Firewall(f.node, f.vmid).Rules(ctx)
	if err != nil {
		return nil, f.refused("Cannot read the firewall rules of VM %d", notAll, err)
	}
	if err := f.checkKnown(has.Rules, prior, after); err != nil {
		return nil, err
	}
	return func(plan planner) error { return f.arrange(ctx, prior, has, ruleValues(after), plan) }, nil
}

// arrange makes the rules that were read the ones that are wanted, one request after the other. It looks after each,
// since positions shift. The digest refuses a change from outside that comes between the look and the request, unless
// that adds a rule. A list other than the one that our last request made is another user's work and is left alone.
// Where a request is refused for another reason, the rules in state come back.
func (f firewallOf) arrange(ctx context.Context, prior *Firewall, has pve.FirewallRules, want []rule,
	plan planner) error {
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

// checkKnown refuses to change rules that are other ones than those in state, if there is a state. Where that says
// nothing, those of an update that was killed may be there.
func (f firewallOf) checkKnown(has []rule, prior *Firewall, want []FirewallRule) error {
	switch {
	case prior == nil, sameRules(has, ruleValues(prior.Rules)), sameRules(has, ruleValues(want)):
		return nil
	case !f.unknown:
		return f.refused(changedMeanwhile, notAll, nil)
	}
	if unknown := unknownRules(has, want); len(unknown) > 0 {
		return f.refused("VM %d has firewall rules that the state does not know", WhyRulesStay(unknown), nil)
	}
	return nil
}

// UnknownRules describes the rules of a firewall that a configuration does not have. Whether a rule counts makes no
// difference: a change puts some rules in their places before it switches them on.
func UnknownRules(has *Firewall, want []FirewallRule) []string {
	return unknownRules(ruleValues(has.Rules), want)
}

func unknownRules(has []rule, want []FirewallRule) []string {
	wanted, unknown := ruleValues(want), []string{}
	on := func(r rule) rule {
		r = maps.Clone(r)
		r["enable"] = "1"
		return r
	}
	for _, r := range has {
		at := slices.IndexFunc(wanted, func(w rule) bool { return sameRule(on(r), on(w)) })
		if at < 0 {
			unknown = append(unknown, describeRule(r))
			continue
		}
		wanted = slices.Delete(wanted, at, at+1)
	}
	return unknown
}

// BeyondFirewall returns the options and rules of a firewall that another one does not have.
func BeyondFirewall(has, other *Firewall) *Firewall {
	options, known := has.options(), other.options()
	maps.DeleteFunc(options, func(name, value string) bool { return known[name] == value })
	left := ruleValues(other.Rules)
	rules := slices.DeleteFunc(ruleValues(has.Rules), func(r rule) bool {
		at := slices.IndexFunc(left, func(other rule) bool { return sameRule(r, other) })
		if at >= 0 {
			left = slices.Delete(left, at, at+1)
		}
		return at >= 0
	})
	return firewallFrom(options, rules)
}

// describeRule is a rule in a line: "in ACCEPT dport=22 proto=tcp, off (comment)".
func describeRule(r rule) string {
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
