package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// use is a privilege that the apply needs.
type use struct {
	path  string   // the attribute for which
	what  string   // what for
	on    []string // the paths on which it may be held: one suffices
	anyOf []string // the privileges of which one suffices
	below string   // where it may be held instead, as far as is known: a path and all below it
}

// Take is a privilege that an operation on another object than a VM needs on a path; one of several suffices.
type Take struct {
	Path  string // the attribute for which
	What  string // what for: "switch the VM"
	On    string
	AnyOf []string
}

// Permit reports the privileges that the identity lacks. A VM may be made in a pool that comes first, with other
// privileges.
func (c *Checker) Permit(ctx context.Context, takes ...Take) []*guest.FieldError {
	var all []use
	for _, t := range takes {
		u := use{path: t.Path, what: t.What, on: []string{t.On}, anyOf: t.AnyOf}
		if strings.HasPrefix(t.On, "/vms/") {
			u.below = "/pool"
		}
		all = append(all, u)
	}
	p := &planCheck{}
	p.privileges(ctx, c, all)
	return p.found
}

// heldBelow reports whether a privilege is held on one of the paths where it may be held instead, or whether that
// cannot be told.
func (c *Checker) heldBelow(ctx context.Context, u use) bool {
	if u.below == "" {
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

// privileges reports the privileges that the plan needs and the identity lacks. The server would refuse them in the
// middle of an apply.
func (p *planCheck) privileges(ctx context.Context, c *Checker, uses []use) {
	if c.api.Identity().IsRootTicket() {
		return
	}
	var lacks []use
	for _, u := range uses {
		held := false
		for _, at := range u.on {
			may, err := c.holds(ctx, at, u.anyOf...)
			held = held || may || err != nil // who cannot look does not judge
		}
		if !held && !p.mayChoose(ctx, c, u) && !c.heldBelow(ctx, u) {
			lacks = append(lacks, u)
		}
	}
	said := map[string]bool{}
	for _, u := range lacks {
		key := strings.Join(u.anyOf, "|") + " " + strings.Join(u.on, " ")
		if said[key] || p.isReported(u.path) && u.path != "" {
			continue
		}
		said[key] = true
		p.say(privilegeMissing, u.path, fmt.Sprintf("It takes %s on %s, which %s does not have. %s",
			strings.Join(u.anyOf, " or "),
			strings.ReplaceAll(strings.Join(u.on, " or "), anyVM, "/vms"), c.api.Identity().User, c.grant(ctx, u, lacks)),
			u.what)
	}
}

// grant is the command by which root gives the missing privileges on a path. An entry there replaces what is inherited,
// so the command gives the held privileges as well.
func (c *Checker) grant(ctx context.Context, u use, lacks []use) string {
	at := u.on[len(u.on)-1]
	all, _ := c.permissions(ctx) // who is here has them
	given := at
	if strings.HasPrefix(at, "/vms/") && len(all[at]) == 0 { // nothing is said of this VM alone
		given = "/vms"
	}
	held, err := c.exactly(ctx, given)
	if err != nil {
		return "Grant it"
	}
	// On a path count the privileges that such paths are asked for (pve-access-control RPCEnvironment.pm,
	// compute_api_permission).
	kind := strings.Split(given, "/")[1]
	families := map[string]string{"vms": "VM.", "storage": "Datastore.", "sdn": "SDN.",
		"pool": "VM. Pool. Datastore."}[kind]
	var privileges []string
	for _, privilege := range slices.Sorted(maps.Keys(held)) {
		if family, _, _ := strings.Cut(privilege, "."); slices.Contains(strings.Fields(families), family+".") ||
			family == "Permissions" {
			privileges = append(privileges, privilege)
		}
	}
	for _, other := range lacks {
		if other.on[len(other.on)-1] == at {
			privileges = append(privileges, other.anyOf[0])
		}
	}
	slices.Sort(privileges)
	who := c.api.Identity()
	role, user, to := "terraform"+strings.ReplaceAll(given, "/", "-"), who.User, "users"
	instead := ""
	if who.IsToken {
		user, _, _ = strings.Cut(user, "!")
		to = "tokens"
		instead = fmt.Sprintf("; to a token without privilege separation it is given with --users %s instead, and with "+
			"it both need it", user)
	}
	add := shell.Command("pveum role add {} --privs {}", role, strings.Join(slices.Compact(privileges), ","))
	modify := shell.Command("pveum acl modify {} --{} {} --roles {}", given, to, who.User, role)
	if add == "" || modify == "" {
		return "Grant it"
	}
	return fmt.Sprintf("As root: `%s`, `%s`. The role has what is held there too, since an entry replaces the inherited "+
		"ones%s", add, modify, instead)
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
