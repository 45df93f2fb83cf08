package volumeuse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// ErrUnseen is why it is unknown whether another guest uses a volume.
var ErrUnseen = errors.New("this identity does not see all guests of the cluster")

// Visible returns why this identity may not see all guests, nil if it does: PVE leaves those without VM.Audit out of
// the listing, in silence (pve-manager API2/Cluster.pm resources). Every answer that says "no guest" depends on it.
func (s *Reader) Visible(ctx context.Context, asked uint64) (unseen, err error) {
	saw, err := s.sight(ctx, asked)
	return saw.unseen, err
}

// sight is what an identity sees.
type sight struct {
	unseen error // why there may be guests that it does not see; nil: there are none
	log    bool  // it sees the entries of all in the cluster's log (pve-manager API2/Cluster.pm log)
}

func (s *Reader) sight(ctx context.Context, asked uint64) (sight, error) {
	if s.api.Identity().IsRootTicket() {
		return sight{log: true}, nil
	}
	return s.visible.Since(ctx, asked, func(ctx context.Context) (sight, error) { return sightOf(ctx, s.api) })
}

// Hidden looks for permissions that hide guests. VM.Audit on /vms, propagated, is not enough: an entry on a deeper path
// replaces what is inherited (pve-access-control 9.1.1 AccessControl.pm roles), and NoAccess on a guest's pool wins
// over everything (RPCEnvironment.pm, $compile_acl_path). An identity is not told of the paths that it is denied
// (get_effective_permissions), so the whole list is read, which PVE shows to Sys.Audit on /access (API2/ACL.pm
// read_acl).
func Hidden(ctx context.Context, api pve.Reader) (unseen, err error) {
	if api.Identity().IsRootTicket() {
		return nil, nil
	}
	saw, err := sightOf(ctx, api)
	return saw.unseen, err
}

func sightOf(ctx context.Context, api pve.Reader) (sight, error) {
	held, err := api.Access().Permissions(ctx, "")
	if err != nil {
		return sight{}, err
	}
	_, log := held["/"]["Sys.Syslog"]
	unseen, err := hidden(ctx, api, held)
	return sight{unseen: unseen, log: log}, err
}

func hidden(ctx context.Context, api pve.Reader, held map[string]map[string]bool) (unseen, err error) {
	if !held["/vms"]["VM.Audit"] { // held, and for all below
		return fmt.Errorf("%w: that takes VM.Audit on /vms, propagated", ErrUnseen), nil
	}
	if _, audit := held["/access"]["Sys.Audit"]; !audit {
		return fmt.Errorf("%w for certain: permissions below /vms and on pools may hide some, and reading them takes "+
			"Sys.Audit on /access, or on / and propagated", ErrUnseen), nil
	}
	entries, err := api.Access().ACL(ctx)
	if err != nil {
		return nil, err
	}
	entries, err = ofIdentity(ctx, api, entries)
	if len(entries) == 0 || err != nil {
		return nil, err
	}
	roles, err := api.Access().Roles(ctx)
	if err != nil {
		return nil, err
	}
	var found, instead []string
	for _, e := range entries {
		if hides(e, entries, roles) {
			found = append(found, fmt.Sprintf("role %s of %s %s on %s", e.Role, e.Type, e.Subject, e.Path))
			instead = append(instead, remedy(e))
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	const most = 10
	if more := len(found) - most; more > 0 {
		found, instead = append(found[:most], fmt.Sprintf("%d more", more)), instead[:most]
	}
	return fmt.Errorf("%w: %s hides guests, as no VM.Audit comes with it. Next step: %s", ErrUnseen,
		strings.Join(found, ", "), strings.Join(slices.Compact(instead), "; ")), nil
}

// remedy lets the identity see the guests that an entry hides, and takes no role from another user. Entries of one
// subject on one path add up, so one role more is enough. NoAccess wins over what is added; that of a group is a ban of
// all its members, over which an entry of one user on the same path has precedence (AccessControl.pm, roles).
func remedy(e pve.ACLEntry) string {
	switch {
	case e.Role != noAccess:
		return shell.Or(shell.Command("pveum acl modify {} --{}s {} --roles PVEAuditor", e.Path, e.Type, e.Subject),
			"give a role with VM.Audit there as well")
	case e.Type == "group":
		return fmt.Sprintf("give the user a role with VM.Audit of its own on %s, which counts in place of the group's "+
			"roles there", e.Path)
	}
	return shell.Or(shell.Command("pveum acl delete {} --{}s {} --roles {}", e.Path, e.Type, e.Subject, e.Role),
		"take that role away")
}

// noAccess is the role that takes away all other roles on its path, and those on the guests of a pool.
const noAccess = "NoAccess"

// hides reports whether an entry takes VM.Audit on a guest from its subject. Entries of one subject on one path add up.
// A role on a pool, or on a path that pools inherit from, only adds to a guest's, unless it is NoAccess.
func hides(e pve.ACLEntry, all []pve.ACLEntry, roles map[string][]string) bool {
	return e.Role == noAccess || strings.HasPrefix(e.Path, "/vms/") && !slices.ContainsFunc(all,
		func(other pve.ACLEntry) bool {
			return other.Path == e.Path && other.Type == e.Type && other.Subject == e.Subject &&
				slices.Contains(roles[other.Role], "VM.Audit")
		})
}

// ofIdentity returns the entries that count for this identity, on paths that guests or their pools inherit from. Of a
// token those of its user count too: it has what both have, or what its user has. Those of a group count only where the
// user has none (AccessControl.pm, roles).
func ofIdentity(ctx context.Context, api pve.Reader, all []pve.ACLEntry) ([]pve.ACLEntry, error) {
	token := api.Identity().User
	user, _, _ := strings.Cut(token, "!")
	var groups []string
	var err error
	asked := false
	var found []pve.ACLEntry
	for _, e := range all {
		below := strings.HasPrefix(e.Path, "/vms/")
		if !below && (e.Role != noAccess || e.Path != "/" && e.Path != "/pool" && !strings.HasPrefix(e.Path, "/pool/")) {
			continue
		}
		counts := e.Subject == token
		switch {
		case user == "root@pam" && e.Type != "token": // its user may do everything, whatever the list says
		case e.Type == "user":
			counts = e.Subject == user
		case e.Type == "group" && !hasOwn(all, user, e.Path, below):
			if !asked {
				groups, err = api.Access().Groups(ctx, user)
				asked = true
			}
			if err != nil && !pve.IsKind(err, pve.Denied) {
				return nil, err
			}
			counts = err != nil || slices.Contains(groups, e.Subject) // who may not ask may be in any
		}
		if counts {
			found = append(found, e)
		}
	}
	return found, nil
}

// hasOwn reports whether a user has an entry of its own on a path, which counts in the place of those of its groups.
func hasOwn(all []pve.ACLEntry, user, path string, below bool) bool {
	return slices.ContainsFunc(all, func(own pve.ACLEntry) bool {
		return own.Subject == user && own.Path == path && (own.Propagate || below)
	})
}
