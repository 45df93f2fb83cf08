package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// promises are the commands that the plans of a run have printed. Those of all plans agree with each other: each path
// gets roles of its own names, and PVE adds up the roles of one path, so that the order does not matter.
type promises struct {
	mu   sync.Mutex
	said map[string]string // the plan whose errors name a missing privilege, by privilege and path

	granting sync.Mutex         // one plan at a time, since the commands are made of the server's answers
	by       map[string]promise // by path
	taken    map[string]bool    // names of roles
	checked  bool               // taken has those of the server
}

// saidOf returns another plan of the run whose errors name all of these missing privileges, if there is one. Those that
// no plan has named are noted for this one.
func (p *promises) saidOf(who string, missing []string) (other string, isSaid bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isSaid = len(missing) > 1 && who != ""
	for _, key := range missing {
		by := p.said[key]
		if by == "" {
			p.said[key] = who
		}
		isSaid = isSaid && by != "" && by != who
		other = cmp.Or(other, by)
	}
	return other, isSaid
}

// promise is what the commands for a path grant.
type promise struct {
	privileges []string
	text       string // the commands
	where, who string // the summary of the error that has them, and whose plan that was
}

// granted is what the errors about a path say of its commands: the first one, and those after it.
type granted struct{ first, later string }

// grants are the commands by which root grants missing privileges, by path: one role for each path, with all privileges
// that are missing there. where are the summaries of the errors that are to have the commands, by path.
func (p *planCheck) grants(ctx context.Context, c *Checker, lacks []use, where map[string]string) map[string]granted {
	missing, texts := map[string][]string{}, map[string]granted{}
	for _, u := range lacks {
		missing[u.grantedOn()] = append(missing[u.grantedOn()], u.anyOf[0])
	}
	for _, at := range slices.Sorted(maps.Keys(where)) {
		texts[at] = c.promise(ctx, p, at, missing[at], where[at])
	}
	return texts
}

// grantedOn is the path on which a missing privilege is granted: the last of those that suffice, which is the pool of a
// VM that has one.
func (u use) grantedOn() string {
	at := u.on[len(u.on)-1]
	if at == anyVM {
		return "/vms"
	}
	return at
}

// promise returns the commands for a path, or names the error of this run that has them already.
func (c *Checker) promise(ctx context.Context, p *planCheck, at string, missing []string, where string) granted {
	missing = slices.Compact(slices.Sorted(slices.Values(missing)))
	c.promised.granting.Lock()
	defer c.promised.granting.Unlock()
	before := c.promised.by[at]
	isPromised := func(privilege string) bool { return slices.Contains(before.privileges, privilege) }
	who, here := cmp.Or(p.who, where), sameCommands(where, "")
	switch isNew := slices.ContainsFunc(missing, func(m string) bool { return !isPromised(m) }); {
	case p.unheard:
		return granted{}
	case !isNew && before.who == who: // Terraform plans it again
		return granted{before.text, here}
	case !isNew:
		there := sameCommands(before.where, before.who)
		return granted{there, there}
	}
	next := promise{privileges: slices.Concat(before.privileges, missing), who: who, where: where}
	next.text = c.commands(ctx, at, next.privileges)
	if id, isVM := strings.CutPrefix(at, "/vms/"); isVM && len(p.resources) > 0 && !isThere(p, id) {
		next.text += ". PVE removes the entry together with the VM" // qemu-server API2/Qemu.pm, destroy_vm
	}
	c.promised.by[at] = next
	return granted{next.text, here}
}

// sameCommands names the error that has the commands, by its summary and the plan that it is of.
func sameCommands(where, who string) string {
	if who == "" || who == where {
		return fmt.Sprintf("The commands of the error %q grant it", where)
	}
	return fmt.Sprintf("The commands of the error %q for %s grant it", where, ofPlan(who))
}

// ofPlan is the VM of another plan as a text names it.
func ofPlan(who string) string {
	if of, ok := strings.CutPrefix(who, "destroy "); ok {
		return "the destroy of " + ofPlan(of)
	}
	if node, name, ok := strings.Cut(who, " "); ok && node == "" {
		return name
	} else if ok && node != "VM" {
		return name + " on " + node
	}
	return who
}

// commands grant privileges on a path. A token with privilege separation has those that both it and its user have.
func (c *Checker) commands(ctx context.Context, at string, missing []string) string {
	held, err := c.exactly(ctx, at)
	if err != nil {
		return "Root can grant it"
	}
	entries, err := c.api.Access().ACL(ctx)
	token := c.api.Identity().User
	user, _, isToken := strings.Cut(token, "!")
	toUser, toToken := []string{"--users", user}, []string{"--tokens", token}
	its, separated, known := map[string]bool{}, false, false
	if isToken {
		its, separated, known = c.owner(ctx, entries, at, user)
		known = known && err == nil
	}
	lacks := slices.ContainsFunc(missing, func(m string) bool { _, has := its[m]; return !has })
	forUser := joined(entries, at, "user", user, held, missing)
	forToken := joined(entries, at, "token", token, held, missing)
	switch {
	case !isToken || known && lacks && !separated:
		return c.grant(ctx, at, forUser, toUser) + after(missing, forUser)
	case !known:
		return c.grant(ctx, at, joined(nil, at, "", "", held, missing), slices.Concat(toUser, toToken)) +
			"If " + user + " has more privileges there, add them to the role"
	case !lacks:
		return c.grant(ctx, at, forToken, toToken) + after(missing, forToken)
	}
	forUser = joined(entries, at, "user", user, its, missing)
	if slices.Equal(forUser, forToken) {
		return c.grant(ctx, at, forUser, slices.Concat(toUser, toToken)) + after(missing, forUser)
	}
	return c.grant(ctx, at, forToken, toToken) + "Its user needs it, too. " + c.grant(ctx, at, forUser, toUser) +
		after(missing, forUser)
}

// owner returns the privileges of a token's user on a path, and whether the token has privileges of its own. It takes
// Sys.Audit on /access.
func (c *Checker) owner(ctx context.Context, entries []pve.ACLEntry, at, user string) (held map[string]bool, separated,
	known bool) {
	all, err := c.api.Access().PermissionsOf(ctx, user, at)
	if err != nil {
		return nil, false, false
	}
	own, _ := c.permissions(ctx) // who is here has them
	return all[at], len(own) == 0 || slices.ContainsFunc(entries, func(e pve.ACLEntry) bool {
		return e.Type == "token" && e.Subject == c.api.Identity().User
	}), true
}

// joined are the missing privileges, and those that an entry on the path would take away: all that are held and count
// on such a path (pve-access-control RPCEnvironment.pm, compute_api_permission), unless the subject has an entry there.
// PVE adds up the roles of a subject on one path; they replace those that are inherited or its groups'
// (AccessControl.pm, roles).
func joined(entries []pve.ACLEntry, at, kind, subject string, held map[string]bool, missing []string) []string {
	all := slices.Clone(missing)
	addsUp := slices.ContainsFunc(entries, func(e pve.ACLEntry) bool {
		return e.Path == at && e.Type == kind && e.Subject == subject && (e.Propagate || at == "/")
	})
	families := map[string]string{"vms": "VM.", "storage": "Datastore.", "sdn": "SDN.", "mapping": "Mapping.",
		"nodes": "Sys.", "pool": "VM. Pool. Datastore."}[strings.Split(at, "/")[1]]
	for privilege := range held {
		family, _, _ := strings.Cut(privilege, ".")
		if !addsUp && (families == "" || family == "Permissions" || slices.Contains(strings.Fields(families), family+".")) {
			all = append(all, privilege)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// grant makes a role and gives it to users and tokens on a path. Each command is an indented line, which Terraform does
// not wrap.
func (c *Checker) grant(ctx context.Context, at string, privileges, to []string) string {
	line, words := "pveum acl modify {}", []string{at}
	for pair := range slices.Chunk(to, 2) {
		line, words = line+" "+pair[0]+" {}", append(words, pair[1])
	}
	if line += " --roles {}"; at == "/" { // and not on all below
		line += " --propagate 0"
	}
	role := c.roleFor(ctx, at)
	add := shell.Command("pveum role add {} --privs {}", role, strings.Join(privileges, ","))
	modify := shell.Command(line, append(words, role)...)
	if add == "" || modify == "" {
		return "Root can grant it. "
	}
	return fmt.Sprintf("As root:\n  %s\n  %s\n", add, modify)
}

// after is the sentence below the commands.
func after(missing, privileges []string) string {
	if slices.ContainsFunc(privileges, func(p string) bool { return !slices.Contains(missing, p) }) {
		return "The role has what is held there too, since an entry replaces the inherited ones"
	}
	return "Then plan again"
}

// roleFor is a name that no role has.
func (c *Checker) roleFor(ctx context.Context, at string) string {
	if !c.promised.checked {
		roles, err := c.api.Access().Roles(ctx)
		for name := range roles {
			c.promised.taken[name] = true
		}
		c.promised.checked = err == nil
	}
	base := "terraform" + strings.ReplaceAll(at, "/", "-")
	if at == "/" { // not that of the guide in small letters
		base += "root"
	}
	name := base
	for n := 2; c.promised.taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	c.promised.taken[name] = true
	return name
}
