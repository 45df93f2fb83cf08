// Package harule makes, changes and removes HA rules. A rule has no mark and no uuid, so its id and its content say
// whose it is: a rule that was there before is never taken, and one that a third party has changed since it was read is
// left alone.
package harule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// The types of rules (pve-ha-manager HA/Rules/NodeAffinity.pm, ResourceAffinity.pm).
const (
	NodeAffinity     = "node-affinity"
	ResourceAffinity = "resource-affinity"
)

// Rules are the HA rules of one cluster.
type Rules struct {
	api   *pve.Client
	jobs  *request.Runner
	guard *guard.Guard

	mu    sync.Mutex
	known map[string]bool // the rules in state
}

// New makes Rules.
func New(jobs *request.Runner, guard *guard.Guard) *Rules {
	return &Rules{api: jobs.API, jobs: jobs, guard: guard, known: map[string]bool{}}
}

// ErrChanged says that a rule is no longer what the plan was made for.
var ErrChanged = errors.New("nothing was done. Next step: plan again, which shows the rule as it is now")

// Read reads a rule in state or for import. One that does not exist is NotFound.
func (r *Rules) Read(ctx context.Context, id string) (pve.HARule, error) {
	rule, _, err := r.api.HA().Rule(ctx, id)
	return rule, err
}

// NoteKnown notes that a rule is in state. If it is planned as a new one too, it is to be replaced.
func (r *Rules) NoteKnown(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[id] = true
}

// Check reports what the server would certainly refuse of a planned rule, as far as it is known: "" is an id that is
// not. made says that the rule is to be made.
func (r *Rules) Check(ctx context.Context, id string, nodes []string, made bool) []*guest.FieldError {
	if version, err := r.api.Cluster().Version(ctx); err == nil && version.Major != 0 && !version.AtLeast(9) {
		return []*guest.FieldError{{Summary: "HA rules need Proxmox VE 9.0 or later",
			Detail: fmt.Sprintf("The server runs Proxmox VE %s, which has HA groups instead: take the resource out, make a "+
				"group in Datacenter > HA > Groups, and name it in ha.group of each proxmox_vm", version.Version)}}
	}
	var found []*guest.FieldError
	if resources, err := r.api.Listing().Shared(ctx); err == nil {
		for _, node := range nodes {
			var field *guest.FieldError
			if _, there := resources.Node(node); !there && errors.As(guest.CheckNode(resources, node), &field) {
				field.Path = "nodes"
				found = append(found, field)
			}
		}
	}
	r.mu.Lock()
	replaced := r.known[id]
	r.mu.Unlock()
	if made && !replaced && id != "" {
		if now, err := r.Read(ctx, id); err == nil {
			found = append(found, taken(now))
		}
	}
	return found
}

// taken is the error for an id that has a rule already.
func taken(now pve.HARule) *guest.FieldError {
	return &guest.FieldError{Path: "rule", Summary: fmt.Sprintf("There is an HA rule %s already", now.ID),
		Detail: fmt.Sprintf("It is %s. This configuration has not made it, so it was left alone. Take another id, or take "+
			"that rule over: %s", describe(now), shell.Or(shell.Command("terraform import ADDRESS {}", now.ID), shell.ByHand))}
}

// describe is a rule in a few words.
func describe(rule pve.HARule) string {
	text := fmt.Sprintf("a rule of %s", rule.Type)
	if rule.Affinity != "" {
		text = fmt.Sprintf("a rule of %s resource affinity", rule.Affinity)
	}
	if len(rule.Resources) > 0 {
		text += " of " + strings.Join(rule.Resources, ", ")
	}
	if len(rule.Nodes) > 0 {
		text += " on " + strings.Join(slices.Sorted(maps.Keys(rule.Nodes)), ", ")
	}
	return text
}

// Create makes a rule. An id that is taken is an error.
func (r *Rules) Create(ctx context.Context, want pve.HARule) error { return r.settle(ctx, nil, want) }

// Update changes a rule in state to what is wanted. PVE removes a rule when the last of its guests is destroyed, so one
// that is gone is made again.
func (r *Rules) Update(ctx context.Context, was, want pve.HARule) error {
	return r.settle(ctx, &was, want)
}

// settle brings about that the server has a rule as it is wanted, as soon as no third party holds the lock of HA's
// configuration. Each try looks first, so one whose answer got lost can be repeated.
func (r *Rules) settle(ctx context.Context, was *pve.HARule, want pve.HARule) error {
	s := settling{Rules: r, was: was, want: want}
	return r.jobs.Contend(ctx, "", 0, func(ctx context.Context) error {
		err := r.jobs.Retry(ctx, request.Policy{Tries: tries, Again: request.Kinds(pve.DigestMismatch, pve.Exists)}, s.try)
		if !pve.IsKind(err, pve.Ambiguous) {
			return err
		}
		late, cancel := r.jobs.LookAfter(ctx) // an interrupt may have cut the line: a second try settles what is true
		defer cancel()
		return r.jobs.Retry(late, request.Policy{Tries: tries, Again: request.Kinds(pve.DigestMismatch, pve.Ambiguous,
			pve.Exists)}, s.try)
	})
}

// tries is how often a rule is looked at and written. All rules are in one file with one digest, and each is small.
const tries = 5

// settling is one rule that is being brought about.
type settling struct {
	*Rules
	was  *pve.HARule // nil: it is to be made
	want pve.HARule
	sent bool // a request of ours may have been carried out
}

func (s *settling) try(ctx context.Context) error {
	now, digest, err := s.api.HA().Rule(ctx, s.want.ID)
	isGone := pve.IsKind(err, pve.NotFound)
	switch {
	case err != nil && !isGone:
		return err
	case !isGone && s.sent && isSame(now, s.want):
		return nil
	case !isGone && s.was == nil:
		return taken(now)
	case !isGone && isSame(now, s.want):
		return nil
	case !isGone && !isLess(now, *s.was):
		return changed(now)
	}
	if isGone {
		err = s.api.HA().CreateRule(ctx, s.want)
	} else {
		err = s.api.HA().UpdateRule(ctx, s.want, digest)
	}
	s.sent = s.sent || pve.IsKind(err, pve.Ambiguous)
	return err
}

// Delete removes a rule in state, unless check refuses the server that has answered. One that is gone is a success.
func (r *Rules) Delete(ctx context.Context, was pve.HARule, check func() error) error {
	return guard.RemoveHARule(ctx, r.guard, was.ID, func(now pve.HARule) error {
		if err := check(); err != nil {
			return err
		}
		if !isLess(now, was) {
			return changed(now)
		}
		return nil
	})
}

func changed(now pve.HARule) error {
	return fmt.Errorf("a third party has changed HA rule %s since it was read, or has made another one: it is %s: %w",
		now.ID, describe(now), ErrChanged)
}

// isSame reports whether two rules say the same.
func isSame(a, b pve.HARule) bool {
	return isLess(a, b) && len(a.Resources) == len(b.Resources)
}

// isLess reports whether a rule is as it was, but for guests that PVE has taken out of it when they were destroyed
// (pve-ha-manager HA/Config.pm delete_service_from_config).
func isLess(now, was pve.HARule) bool {
	left := slices.ContainsFunc(now.Resources, func(sid string) bool { return !slices.Contains(was.Resources, sid) })
	return !left && now.Type == was.Type && maps.Equal(now.Nodes, was.Nodes) && now.Strict == was.Strict &&
		now.Affinity == was.Affinity && now.Disabled == was.Disabled && now.Comment == was.Comment
}
