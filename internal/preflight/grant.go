package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

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
	privileges  []string
	where, text string // the error that has the commands, and its text
	who         string // whose plan that was
}

// grants adds to findings about missing privileges the commands by which root grants them: one role for each path, with
// all privileges that are missing there.
func (p *planCheck) grants(ctx context.Context, c *Checker, lacks []use) map[string]string {
	missing, first := map[string][]string{}, map[string]use{}
	for _, u := range lacks {
		at := c.grantedOn(ctx, u)
		if first[at].what == "" {
			first[at] = u
		}
		missing[at] = append(missing[at], u.anyOf[0])
	}
	texts := map[string]string{}
	for _, at := range slices.Sorted(maps.Keys(missing)) {
		texts[at] = c.promise(ctx, p, at, missing[at], first[at])
	}
	return texts
}

// grantedOn is the path on which a missing privilege is granted: that of the object, or the one above it if nothing is
// said of this VM alone.
func (c *Checker) grantedOn(ctx context.Context, u use) string {
	at := u.on[len(u.on)-1]
	all, _ := c.permissions(ctx) // who is here has them
	if _, named := all[at]; strings.HasPrefix(at, "/vms/") && !named {
		return "/vms"
	}
	return at
}

// promise returns the commands for a path, or names the error of this run that has them already.
func (c *Checker) promise(ctx context.Context, p *planCheck, at string, missing []string, first use) string {
	missing = slices.Compact(slices.Sorted(slices.Values(missing)))
	c.promised.granting.Lock()
	defer c.promised.granting.Unlock()
	before := c.promised.by[at]
	isPromised := func(privilege string) bool { return slices.Contains(before.privileges, privilege) }
	who := cmp.Or(p.who, first.what)
	switch isNew := slices.ContainsFunc(missing, func(m string) bool { return !isPromised(m) }); {
	case p.unheard:
		return ""
	case !isNew && before.who == who: // Terraform plans it again
		return before.text
	case !isNew:
		return sameCommands(before.where)
	}
	next := promise{privileges: slices.Concat(before.privileges, missing), who: who, where: first.summary()}
	next.text = c.commands(ctx, at, next.privileges)
	c.promised.by[at] = next
	return next.text
}

// sameCommands names the error that has the commands.
func sameCommands(summary string) string {
	return fmt.Sprintf("The commands of the error %q grant it", summary)
}

// commands grant privileges on a path. An entry there replaces what is inherited, so they grant what is held there as
// well. A token with privilege separation has what both it and its user have.
func (c *Checker) commands(ctx context.Context, at string, missing []string) string {
	held, err := c.exactly(ctx, at)
	if err != nil {
		return "Root can grant it"
	}
	who := c.api.Identity()
	own := joined(at, held, missing)
	if !who.IsToken {
		return c.command(ctx, at, own, "--users", who.User)
	}
	user, _, _ := strings.Cut(who.User, "!")
	its, separated, known := c.owner(ctx, at, user)
	lacks := slices.ContainsFunc(missing, func(m string) bool { _, has := its[m]; return !has })
	switch {
	case !known:
		return c.command(ctx, at, own, "--users", user, "--tokens", who.User) +
			". If " + user + " has more privileges there, add them to the role"
	case !lacks:
		return c.command(ctx, at, own, "--tokens", who.User)
	case !separated:
		return c.command(ctx, at, own, "--users", user)
	}
	theirs := joined(at, its, missing)
	if slices.Equal(own, theirs) {
		return c.command(ctx, at, own, "--users", user, "--tokens", who.User)
	}
	return c.command(ctx, at, own, "--tokens", who.User) + ". Its user needs it, too. " +
		c.command(ctx, at, theirs, "--users", user)
}

// owner returns the privileges of a token's user on a path, and whether the token has privileges of its own. Both take
// Sys.Audit on /access.
func (c *Checker) owner(ctx context.Context, at, user string) (held map[string]bool, separated, known bool) {
	all, err := c.api.Access().PermissionsOf(ctx, user, at)
	if err != nil {
		return nil, false, false
	}
	entries, err := c.api.Access().ACL(ctx)
	own, _ := c.permissions(ctx) // who is here has them
	separated = len(own) == 0
	for _, e := range entries {
		separated = separated || e.Type == "token" && e.Subject == c.api.Identity().User
	}
	return all[at], separated, err == nil
}

// joined are the missing privileges and those that are held and count on such a path (pve-access-control
// RPCEnvironment.pm, compute_api_permission).
func joined(at string, held map[string]bool, missing []string) []string {
	families := map[string]string{"vms": "VM.", "storage": "Datastore.", "sdn": "SDN.", "mapping": "Mapping.",
		"nodes": "Sys.", "pool": "VM. Pool. Datastore."}[strings.Split(at, "/")[1]]
	all := slices.Clone(missing)
	for privilege := range held {
		family, _, _ := strings.Cut(privilege, ".")
		if families == "" || family == "Permissions" || slices.Contains(strings.Fields(families), family+".") {
			all = append(all, privilege)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// command makes a role and gives it to users and tokens on a path.
func (c *Checker) command(ctx context.Context, at string, privileges []string, to ...string) string {
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
		return "Root can grant it"
	}
	return fmt.Sprintf("As root: `%s`, `%s`. The role has what is held there too, since an entry replaces the inherited "+
		"ones", add, modify)
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
	base := strings.TrimSuffix("terraform"+strings.ReplaceAll(at, "/", "-"), "-")
	name := base
	for n := 2; c.promised.taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	c.promised.taken[name] = true
	return name
}
