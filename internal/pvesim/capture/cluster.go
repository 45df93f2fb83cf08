package capture

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func (l *look) pools(ctx context.Context) error {
	list, err := l.list(ctx, "/pools")
	if err != nil {
		return err
	}
	for _, r := range by("poolid", list) {
		id := r.text("poolid")
		p := state.FilePool{ID: id, Comment: r.text("comment")}
		pool, _, err := l.object(ctx, "/pools/"+escaped(id))
		if err != nil {
			return err
		}
		for _, m := range rows(pool["members"]) {
			switch {
			case m.text("vmid") != "" && l.hasGuest(int(m.number("vmid"))):
				p.Guests = append(p.Guests, int(m.number("vmid")))
			case m.text("storage") != "" && l.storage(m.text("storage")) != nil &&
				!slices.Contains(p.Storages, m.text("storage")):
				p.Storages = append(p.Storages, m.text("storage"))
			}
		}
		slices.Sort(p.Guests)
		slices.Sort(p.Storages)
		l.file.Pools = append(l.file.Pools, p)
	}
	return nil
}

// ha are the resources and what says where they may run: groups before 9.0, rules since.
func (l *look) ha(ctx context.Context) error {
	list, err := l.list(ctx, "/cluster/ha/resources")
	if err != nil {
		return err
	}
	for _, r := range by("sid", list) {
		_, id, _ := strings.Cut(r.text("sid"), ":")
		if vmid, err := strconv.Atoi(id); err != nil || !l.hasGuest(vmid) {
			l.note("HA resource %s: there is no such guest to be seen", r.text("sid"))
			continue
		}
		options := r.texts("sid", "type", "state", "group", "digest")
		l.file.HA = append(l.file.HA, state.FileHA{SID: r.text("sid"), State: r.text("state"), Group: r.text("group"),
			Options: none(options)})
	}
	if strings.HasPrefix(l.file.Profile, "9.") {
		return l.haRules(ctx)
	}
	groups, err := l.list(ctx, "/cluster/ha/groups")
	if err != nil {
		return err
	}
	for _, r := range by("group", groups) {
		g := state.FileHAGroup{ID: r.text("group"), Restricted: r.flag("restricted"), NoFailback: r.flag("nofailback")}
		for _, word := range r.words("nodes") {
			name, priority, has := strings.Cut(word, ":")
			if has {
				l.note("HA group %s: priority %s of node %s", g.ID, priority, name)
			}
			if l.hasNode(name) {
				g.Nodes = append(g.Nodes, name)
			}
		}
		l.file.HAGroups = append(l.file.HAGroups, g)
	}
	return nil
}

func (l *look) haRules(ctx context.Context) error {
	list, err := l.list(ctx, "/cluster/ha/rules")
	if err != nil {
		return err
	}
	for _, r := range list {
		if l.file.HARules == nil {
			l.file.HARules = map[string]map[string]string{}
		}
		l.file.HARules[r.text("rule")] = r.texts("rule", "digest", "order")
	}
	return nil
}

// jobs are what the cluster does with guests on its own.
func (l *look) jobs(ctx context.Context) error {
	list, err := l.list(ctx, "/cluster/replication")
	if err != nil {
		return err
	}
	for _, r := range by("id", list) {
		if !l.hasGuest(int(r.number("guest"))) || !l.hasNode(r.text("target")) {
			l.note("replication job %s: its guest or its target cannot be seen", r.text("id"))
			continue
		}
		l.file.Replication = append(l.file.Replication,
			state.FileReplication{ID: r.text("id"), Target: r.text("target"), Schedule: r.text("schedule")})
	}
	backups, err := l.list(ctx, "/cluster/backup")
	if err != nil {
		return err
	}
	for _, r := range by("id", backups) {
		b := state.FileBackup{ID: r.text("id"), All: r.flag("all"), VMIDs: numbers(r.words("vmid")),
			Exclude: numbers(r.words("exclude")),
			Storage: r.text("storage"), Schedule: r.text("schedule")}
		if b.All == (len(b.VMIDs) > 0) {
			l.note("backup job %s: it is neither of all guests nor of some by their ids", b.ID)
			continue
		}
		l.file.Backups = append(l.file.Backups, b)
	}
	return nil
}

func numbers(words []string) []int {
	var out []int
	for _, word := range words {
		if n, err := strconv.Atoi(word); err == nil {
			out = append(out, n)
		}
	}
	return out
}

func (l *look) mappings(ctx context.Context) error {
	for _, kind := range []string{"pci", "usb", "dir"} {
		list, err := l.list(ctx, "/cluster/mapping/"+kind)
		if err != nil {
			return err
		}
		for _, r := range by("id", list) {
			m := state.FileMapping{Kind: kind, ID: r.text("id"), LiveMigration: r.flag("live-migration-capable")}
			entries, _ := r["map"].([]any)
			for _, entry := range entries {
				if node := property(entry).text("node"); node != "" && !slices.Contains(m.Nodes, node) {
					m.Nodes = append(m.Nodes, node)
				}
			}
			l.file.Mappings = append(l.file.Mappings, m)
		}
	}
	return nil
}

// identities are accounts, tokens, roles and the access list. No password and no token's secret can be read, so they
// have known ones.
func (l *look) identities(ctx context.Context) error {
	list, err := l.list(ctx, "/access/users")
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(r row) bool { return r.text("userid") == "root@pam" }) {
		list = append(list, row{"userid": "root@pam", "enable": "1"})
	}
	for _, r := range by("userid", list) {
		l.file.Users = append(l.file.Users, state.FileUser{ID: r.text("userid"), Password: Password,
			Disabled: r.text("enable") == "0", Expire: r.number("expire")})
		tokens, err := l.list(ctx, "/access/users/"+escaped(r.text("userid"))+"/token")
		if err != nil {
			return err
		}
		for _, t := range by("tokenid", tokens) {
			l.file.Tokens = append(l.file.Tokens, state.FileToken{ID: r.text("userid") + "!" + t.text("tokenid"),
				Separate: t.flag("privsep"), Expire: t.number("expire")})
		}
	}
	if err := l.roles(ctx); err != nil {
		return err
	}
	return l.acl(ctx)
}

// Password is that of all users of a captured world.
const Password = "simulated"

func (l *look) roles(ctx context.Context) error {
	list, err := l.list(ctx, "/access/roles")
	if err != nil {
		return err
	}
	for _, r := range list {
		if r.flag("special") && builtIn(r.text("roleid")) {
			continue
		}
		if l.file.Roles == nil {
			l.file.Roles = map[string][]string{}
		}
		privileges := r.words("privs")
		slices.Sort(privileges)
		l.file.Roles[r.text("roleid")] = privileges
	}
	return nil
}

// builtIn reports whether a role is one that PVE makes itself, and that every world has.
func builtIn(role string) bool { return state.IsSpecial(role) && state.Default(nil).Roles[role] != nil }

func (l *look) acl(ctx context.Context) error {
	list, err := l.list(ctx, "/access/acl")
	if err != nil {
		return err
	}
	for _, r := range list {
		path, who, role := r.text("path"), r.text("ugid"), r.text("roleid")
		_, own := l.file.Roles[role]
		switch {
		case r.text("type") == "group":
			l.note("access to %s: group %s has the role %s, and the simulator has no groups", path, who, role)
			continue
		case !own && !builtIn(role):
			l.note("access to %s: the role %s cannot be seen", path, role)
			continue
		case !l.hasSubject(who):
			l.note("access to %s: %s cannot be seen", path, who)
			continue
		}
		e := state.FileACL{Path: path, Subject: who, Role: role}
		if !r.flag("propagate") {
			e.Propagate = new(bool)
		}
		l.file.ACL = append(l.file.ACL, e)
	}
	return nil
}

func (l *look) hasSubject(id string) bool {
	return slices.ContainsFunc(l.file.Users, func(u state.FileUser) bool { return u.ID == id }) ||
		slices.ContainsFunc(l.file.Tokens, func(t state.FileToken) bool { return t.ID == id })
}
