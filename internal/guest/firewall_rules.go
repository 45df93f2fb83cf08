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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// SetFirewall brings the firewall of a VM from the state to the plan. clean: options that are not planned go. guard
// looks whose VM it is, before each request. Digests are no proof of that. PVE makes them of the options alone, or of
// the rules alone, so VMs that have the same have the same one (pve-firewall Firewall.pm copy_opject_with_digest,
// copy_list_with_digest). An example is a VM that was restored over the id, where the file stays. PVE also asks for
// no digest when it adds a rule (API2/Firewall/Rules.pm create_rule).
func (g *Guests) SetFirewall(ctx context.Context, node string, vmid int, prior, want *firewall.Settings, clean bool,
	guard func(context.Context) error) error {
	return firewallOf{g, node, vmid, guard, false}.change(ctx, prior, want, clean)
}

// TakeFirewall is SetFirewall for a VM in state whose firewall the state does not know: options that are not wanted
// stay. It refuses options with other values, and rules that are not wanted.
func TakeFirewall(ctx context.Context, g *Guests, node string, vmid int, want *firewall.Settings,
	guard func(context.Context) error) error {
	return firewallOf{g, node, vmid, guard, true}.change(ctx, &firewall.Settings{}, want, false)
}

// change changes options and rules. Options that stop more than before come after the rules, and others go before
// them: nothing that passes before and after is stopped on the way. The server's own options count, since a firewall
// that the state does not know may be in force.
func (f firewallOf) change(ctx context.Context, prior, want *firewall.Settings, clean bool) error {
	before, wanted := prior.Options(), want.Options()
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
	after := firewall.OptionsAfter(before, prior.Options(), wanted, clean)
	plan := firewall.PlanSafely
	if before["enable"] != "1" || after["enable"] != "1" {
		plan = firewall.PlanPlainly // it is off while the rules change
	}
	setRules, err := f.readRules(ctx, prior, want)
	if err != nil {
		return err // before the options have changed
	}
	steps := []func() error{
		func() error { return f.setOptions(ctx, prior, want, clean, read) },
		func() error { return setRules(plan) },
	}
	if firewall.Tightens(before, after) {
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

// readRules reads the rules, unless there is nothing to change. It returns the function that changes them.
func (f firewallOf) readRules(ctx context.Context, prior, want *firewall.Settings) (func(firewall.Planner) error,
	error) {
	var before, after []firewall.Rule
	if prior != nil {
		before = prior.Rules
	}
	if want != nil {
		after = want.Rules
	}
	isSame := before != nil && firewall.SameRules(firewall.List(before), firewall.List(after))
	if isSame || after == nil && len(before) == 0 {
		return func(firewall.Planner) error { return nil }, nil
	}
	has, err := f.s.api.Firewall(f.node, f.vmid).Rules(ctx)
	if err != nil {
		return nil, f.refused("Cannot read the firewall rules of VM %d", notAll, err)
	}
	if err := f.checkKnown(has.Rules, prior, after); err != nil {
		return nil, err
	}
	return func(plan firewall.Planner) error { return f.arrange(ctx, prior, has, firewall.List(after), plan) }, nil
}

// arrange makes the rules that were read the ones that are wanted, one request after the other. It looks after each,
// since positions shift. The digest refuses a change from outside that comes between the look and the request, unless
// that adds a rule. A list other than the one that our last request made is another user's work and is left alone.
// Where a request is refused for another reason, the rules in state come back.
func (f firewallOf) arrange(ctx context.Context, prior *firewall.Settings, has pve.FirewallRules,
	want []firewall.Listed, plan firewall.Planner) error {
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
		if f.putBack(late, edits[done-1].After, began, plan) == nil {
			detail = "Its rules are as they were before"
		}
	}
	summary := fmt.Sprintf("Cannot %s a firewall rule of VM %%d", edit.Verb)
	if edit.Rule > 0 {
		summary = fmt.Sprintf("Cannot %s rule %d of the firewall of VM %%d", edit.Verb, edit.Rule)
	}
	return f.refused(summary, detail, err)
}

// checkKnown refuses to change rules that are other ones than those in state, if there is a state. Where that says
// nothing, those of an update that was killed may be there.
func (f firewallOf) checkKnown(has []firewall.Listed, prior *firewall.Settings, want []firewall.Rule) error {
	switch {
	case prior == nil, firewall.SameRules(has, firewall.List(prior.Rules)), firewall.SameRules(has, firewall.List(want)):
		return nil
	case !f.unknown:
		return f.refused(changedMeanwhile, notAll, nil)
	}
	if unknown := firewall.UnknownRules(firewall.From(nil, has), want); len(unknown) > 0 {
		return f.refused("VM %d has firewall rules that the state does not know", firewall.WhyRulesStay(unknown), nil)
	}
	return nil
}

const (
	notAll           = "Not all of its rules are the configured ones"
	changedMeanwhile = "The firewall rules of VM %d were changed by another user meanwhile"
)

// carryOut sends edits, beginning with a list that was just read. Of a request that failed it returns the edit, and
// how many were made before; an error without an edit says it all.
func (f firewallOf) carryOut(ctx context.Context, has pve.FirewallRules, edits []firewall.Edit) (failed *firewall.Edit,
	done int, err error) {
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
		case firewall.SameRules(has.Rules, edit.After):
			done, lost = done+1, 0
		case err == nil || !firewall.SameRules(has.Rules, before):
			return nil, done, f.refused(changedMeanwhile, notAll, nil)
		default: // the lost request has done nothing
			lost++
		}
	}
	return nil, done, nil
}

// putBack brings the rules back that there were, if the server still has those that the last request left: among others
// may be a third party's.
func (f firewallOf) putBack(ctx context.Context, left, began []firewall.Listed, plan firewall.Planner) error {
	has, err := f.s.api.Firewall(f.node, f.vmid).Rules(ctx)
	if err == nil && !firewall.SameRules(has.Rules, left) {
		err = f.refused(changedMeanwhile, notAll, nil)
	}
	if err != nil {
		return err
	}
	_, _, err = f.carryOut(ctx, has, plan(has.Rules, began))
	return err
}

func (f firewallOf) refused(summary, detail string, err error) error {
	return &FieldError{Path: "firewall.rules", Summary: fmt.Sprintf(summary, f.vmid), Detail: detail, Err: err}
}

// do sends an edit of the rules that the server has.
func (f firewallOf) do(ctx context.Context, edit *firewall.Edit, has pve.FirewallRules) error {
	params := pve.Params{}
	maps.Copy(params, edit.Set)
	switch edit.Verb {
	case "delete":
		return f.s.api.Firewall(f.node, f.vmid).DeleteRule(ctx, edit.At, has.Digest)
	case "add":
		return f.s.api.Firewall(f.node, f.vmid).AddRule(ctx, params)
	}
	params["digest"] = has.Digest
	if edit.Verb == "move" {
		params["moveto"] = strconv.Itoa(edit.To)
		return f.s.api.Firewall(f.node, f.vmid).UpdateRule(ctx, edit.At, params)
	}
	var gone []string
	for name := range has.Rules[edit.At] {
		if _, wanted := edit.Set[name]; !wanted {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		params["delete"] = strings.Join(gone, ",")
	}
	return f.s.api.Firewall(f.node, f.vmid).UpdateRule(ctx, edit.At, params)
}
