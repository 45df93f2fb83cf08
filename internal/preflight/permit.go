package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// use is a privilege that the apply needs.
type use struct {
	path  string   // the attribute for which
	what  string   // what for
	on    []string // the paths on which it may be held: one suffices
	anyOf []string // the privileges of which one suffices
	below string   // where it may be held instead, as far as is known: a path and all below it

	seesAll bool   // what it is for takes an identity from which no guest is hidden
	bridge  string // what it is about, if it is one: held below only if that is a VNet
	instead string // what can be done without it
	rule    string // the finding, if it is another one than that of a missing privilege, with its subject
	detail  string // what precedes the explanation
	left    string // the pool that the VM has left by then

	unless func(ctx context.Context) bool // tells that it is not needed after all; asked where it is lacking; may be nil
}

// values are those of the finding's summary.
func (u use) values() []string {
	if u.rule != "" {
		return []string{u.bridge}
	}
	return []string{u.what}
}

func (u use) summary() string { return rule(cmp.Or(u.rule, privilegeMissing)).about(u.values()) }

// Take is a privilege that an operation on another object than a VM needs on a path; one of several suffices.
type Take struct {
	Path  string // the attribute for which
	What  string // what for: "switch the VM"
	On    string
	AnyOf []string
	// Instead is what can be done without it; may be "".
	Instead string
	// Unless tells that it is not needed after all; asked where it is lacking; may be nil.
	Unless func(ctx context.Context) bool

	seesAll bool
}

func (t Take) use() use {
	return use{path: t.Path, what: t.What, on: []string{t.On}, anyOf: t.AnyOf, instead: t.Instead, seesAll: t.seesAll,
		unless: t.Unless}
}

// SeeAll are the privileges to see all guests, of which one may use a volume or a file.
func SeeAll(path, what string) []Take {
	return []Take{{Path: path, What: what, On: "/vms", AnyOf: []string{"VM.Audit"}},
		{Path: path, What: what + " for certain", On: "/access", AnyOf: []string{"Sys.Audit"}, seesAll: true}}
}

// Permit reports the privileges that the identity lacks. A VM that is not there may be made in a pool that comes first,
// with other privileges.
func (c *Checker) Permit(ctx context.Context, takes ...Take) []*guest.FieldError {
	var all []use
	for _, t := range takes {
		u := t.use()
		if id, ok := strings.CutPrefix(t.On, "/vms/"); ok && !c.isListed(ctx, id) {
			u.below = "/pool"
		}
		all = append(all, u)
	}
	p := &planCheck{}
	p.privileges(ctx, c, all)
	return p.found
}

// isListed reports whether the identity sees a guest.
func (c *Checker) isListed(ctx context.Context, id string) bool {
	resources, _, err := c.api.Listing().Recent(ctx)
	vmid, _ := strconv.Atoi(id)
	_, there := resources.Guest(vmid)
	return err == nil && there
}

// isThere reports whether the listing of the check has a guest.
func isThere(p *planCheck, id string) bool {
	vmid, _ := strconv.Atoi(id)
	_, there := p.resources.Guest(vmid)
	return there
}

// heldBelow reports whether a privilege is held on one of the paths where it may be held instead, or whether that
// cannot be told.
func (c *Checker) heldBelow(ctx context.Context, node string, u use) bool {
	if u.below == "" || u.bridge != "" && c.isNodesOwn(ctx, node, u.bridge) {
		return false
	}
	all, err := c.permissions(ctx)
	for at, held := range all {
		for _, privilege := range u.anyOf {
			if _, has := held[privilege]; has && (at == u.below || strings.HasPrefix(at, u.below+"/")) {
				return true
			}
		}
	}
	return err != nil
}

// hidden reports permissions that hide guests from an identity that sees all others.
func (p *planCheck) hidden(ctx context.Context, c *Checker, u use) {
	unseen, err := c.unseen.Get(ctx, c.clock, "", func(ctx context.Context) (error, error) {
		return volumeuse.Hidden(ctx, c.api)
	})
	if err == nil && unseen != nil && !p.isReported(u.path) {
		p.say(privilegeMissing, u.path, sentence(unseen.Error()), u.what)
	}
}

// sentence is a text with a capital letter.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// privileges reports the privileges that the plan needs and the identity lacks. The server would refuse them in the
// middle of an apply.
func (p *planCheck) privileges(ctx context.Context, c *Checker, uses []use) {
	if identity := c.api.Identity(); identity.IsRootTicket() || identity.PlanOnly {
		return
	}
	lacks := slices.DeleteFunc(slices.Clone(uses), func(u use) bool {
		return c.holdsOn(ctx, u) || p.mayChoose(ctx, c, u) || c.heldBelow(ctx, p.node, u) ||
			u.unless != nil && u.unless(ctx)
	})
	for _, u := range uses {
		if u.seesAll && len(lacks) == 0 {
			p.hidden(ctx, c, u)
		}
	}
	if len(lacks) == 0 || c.repeats(ctx, p, lacks) {
		return
	}
	toShow, where := shown(p, lacks)
	commands, besides := p.grants(ctx, c, lacks, where), onlyLooks(ctx, c)
	for _, u := range toShow {
		at, it := u.grantedOn(), "It"
		if u.detail != "" {
			it = "it"
		}
		detail := fmt.Sprintf("%s%s takes %s on %s, which %s does not have. %s", u.detail, it,
			strings.Join(u.anyOf, " or "),
			strings.ReplaceAll(strings.Join(u.on, " or "), anyVM, "/vms"), c.api.Identity().User, commands[at].first)
		if u.instead != "" {
			detail += ". Or " + u.instead
		}
		detail, besides = detail+besides, ""
		p.say(cmp.Or(u.rule, privilegeMissing), u.path, detail, u.values()...)
		commands[at] = granted{commands[at].later, commands[at].later}
	}
}

// shown are the missing privileges that get an error: one for each attribute and each privilege. where are the
// summaries of the first ones, by the path on which they are granted.
func shown(p *planCheck, lacks []use) (all []use, where map[string]string) {
	said, where := map[string]bool{}, map[string]string{}
	for _, u := range lacks {
		key := strings.Join(u.anyOf, "|") + " " + strings.Join(u.on, " ")
		if said[key] || u.path != "" && (said["at "+u.path] || p.isReported(u.path)) {
			continue
		}
		said[key], said["at "+u.path] = true, true
		all = append(all, u)
		if where[u.grantedOn()] == "" {
			where[u.grantedOn()] = u.summary()
		}
	}
	return all, where
}

// holdsOn reports whether a privilege is held on one of its paths, or whether that cannot be told.
func (c *Checker) holdsOn(ctx context.Context, u use) bool {
	return slices.ContainsFunc(u.on, func(at string) bool {
		may, err := c.holds(ctx, at, u.anyOf...)
		if may && u.left != "" && strings.HasPrefix(at, "/vms/") {
			may, err = c.keeps(ctx, at, u.left, u.anyOf)
		}
		return may || err != nil
	})
}

// onlyLooks is a hint for an identity all of whose privileges are for looking, "" for any other one.
func onlyLooks(ctx context.Context, c *Checker) string {
	all, err := c.permissions(ctx)
	if err != nil || len(all) == 0 {
		return ""
	}
	for _, held := range all {
		for privilege := range held {
			if !strings.HasSuffix(privilege, ".Audit") {
				return ""
			}
		}
	}
	return ". All privileges of " + c.api.Identity().User + " are for looking: if another identity applies, set " +
		"plan_only (PROXMOX_VE_PLAN_ONLY)"
}

// repeats reports in one error privileges that the errors of another plan of this run name already, all of them.
func (c *Checker) repeats(ctx context.Context, p *planCheck, lacks []use) bool {
	if p.unheard {
		return false
	}
	missing := make([]string, len(lacks))
	for i, u := range lacks {
		at := u.grantedOn()
		if strings.HasPrefix(at, "/vms/") { // on another path for each VM
			at = "/vms"
		}
		missing[i] = strings.Join(u.anyOf, "|") + " " + at
	}
	missing = slices.Compact(slices.Sorted(slices.Values(missing)))
	other, isSaid := c.promised.saidOf(p.who, missing)
	if !isSaid {
		return false
	}
	where := map[string]string{}
	for _, u := range lacks {
		where[u.grantedOn()] = rule(privilegesMissing).Summary
	}
	detail := fmt.Sprintf("The same %d privileges are missing as for %s, whose errors name them", len(missing),
		ofPlan(other))
	commands := p.grants(ctx, c, lacks, where)
	said := map[string]bool{}
	for _, at := range slices.Sorted(maps.Keys(commands)) {
		if text := commands[at].first; !said[text] {
			detail += ". " + text
			said[text] = true
		}
	}
	p.say(privilegesMissing, "", detail)
	return true
}

// anyVM is the path of a VM whose VMID is not chosen yet: no entry names it (pve-access-control AccessControl.pm,
// roles).
const anyVM = "/vms/999999999"

// mayChoose reports whether a privilege that is held on single VMIDs without a VM may turn out to be held on the VMID
// that is chosen.
func (p *planCheck) mayChoose(ctx context.Context, c *Checker, u use) bool {
	if !slices.Contains(u.on, anyVM) {
		return false
	}
	all, err := c.permissions(ctx)
	for at, held := range all {
		id, isVM := strings.CutPrefix(at, "/vms/")
		vmid, _ := strconv.Atoi(id)
		if _, there := p.resources.Guest(vmid); !isVM || there {
			continue
		}
		for _, privilege := range u.anyOf {
			if _, ok := held[privilege]; ok {
				return true
			}
		}
	}
	return err != nil
}
