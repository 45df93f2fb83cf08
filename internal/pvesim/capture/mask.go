package capture

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// apply masks a whole file.
func (m *mask) apply(f *state.File) {
	f.Captured.Masked = slices.Sorted(maps.Keys(m.kinds))
	for _, s := range f.Storages { // known before a configuration names one
		m.storage(s.ID)
	}
	for i := range f.Guests {
		g := &f.Guests[i]
		for _, conf := range append([]map[string]string{g.Config, g.Pending}, ordered(g.Snapshots)...) {
			m.config(conf)
		}
		m.interfaces(g.Agent)
	}
	for i := range f.Firewall {
		m.firewall(&f.Firewall[i])
	}
	if m.kinds["addresses"] {
		for i := range f.Nodes {
			f.Nodes[i].Address = m.addresses(f.Nodes[i].Address)
		}
	}
	if m.kinds["descriptions"] {
		for i := range f.Pools {
			f.Pools[i].Comment = m.description(f.Pools[i].Comment)
		}
		for _, h := range f.HA {
			m.comment(h.Options)
		}
		for _, r := range f.HARules {
			m.comment(r)
		}
	}
	if m.kinds["names"] {
		m.names(f)
	}
}

// names masks what things are called, and wherever they are referred to by it, but for the guests' configurations.
func (m *mask) names(f *state.File) {
	each := func(list []string, name func(string) string) {
		for i := range list {
			list[i] = name(list[i])
		}
	}
	for i := range f.Nodes {
		f.Nodes[i].Name = m.node(f.Nodes[i].Name)
	}
	for i := range f.Storages {
		s := &f.Storages[i]
		s.ID = m.storage(s.ID)
		each(s.Nodes, m.node)
		if s.Path != "" {
			s.Path = m.path(s.Type, s.Path)
		}
	}
	for i := range f.Volumes {
		f.Volumes[i].Volume, f.Volumes[i].Node = m.volume(f.Volumes[i].Volume), m.node(f.Volumes[i].Node)
	}
	for i := range f.Guests {
		f.Guests[i].Node = m.node(f.Guests[i].Node)
	}
	for i := range f.Pools {
		f.Pools[i].ID = m.pool(f.Pools[i].ID)
		each(f.Pools[i].Storages, m.storage)
	}
	for i := range f.HAGroups {
		f.HAGroups[i].ID = m.word("HA group", f.HAGroups[i].ID, "group%d")
		each(f.HAGroups[i].Nodes, m.node)
	}
	for i := range f.HA {
		f.HA[i].Group = m.word("HA group", f.HA[i].Group, "group%d")
	}
	m.haRules(f)
	for i := range f.Mappings {
		f.Mappings[i].ID = m.mapping(f.Mappings[i].ID)
		each(f.Mappings[i].Nodes, m.node)
	}
	for i := range f.Replication {
		f.Replication[i].Target = m.node(f.Replication[i].Target)
	}
	for i := range f.Backups {
		f.Backups[i].Storage = m.storage(f.Backups[i].Storage)
	}
	m.identities(f)
	m.notes(f.Captured)
}

// path keeps the form that a storage's path has.
func (m *mask) path(storageType, path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = m.word("path", parts[i], "path%d")
	}
	if storageType == "lvm" {
		return parts[0]
	}
	return strings.Join(parts, "/")
}

func (m *mask) haRules(f *state.File) {
	rules := map[string]map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(f.HARules)) {
		rule := f.HARules[id]
		if nodes, ok := rule["nodes"]; ok {
			list := strings.Split(nodes, ",")
			for i := range list {
				name, priority, has := strings.Cut(list[i], ":")
				if list[i] = m.node(name); has {
					list[i] += ":" + priority
				}
			}
			rule["nodes"] = strings.Join(list, ",")
		}
		rules[m.word("HA rule", id, "rule%d")] = rule
	}
	if len(rules) > 0 {
		f.HARules = rules
	}
}

func (m *mask) identities(f *state.File) {
	for i := range f.Users {
		f.Users[i].ID = m.subject(f.Users[i].ID)
	}
	for i := range f.Tokens {
		f.Tokens[i].ID = m.subject(f.Tokens[i].ID)
	}
	roles := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(f.Roles)) {
		roles[m.role(id)] = f.Roles[id]
	}
	if len(roles) > 0 {
		f.Roles = roles
	}
	for i := range f.ACL {
		e := &f.ACL[i]
		e.Subject, e.Role = m.subject(e.Subject), m.role(e.Role)
		parts := strings.SplitN(strings.TrimPrefix(e.Path, "/"), "/", 2)
		if len(parts) < 2 {
			continue
		}
		switch parts[0] {
		case "nodes":
			e.Path = "/nodes/" + m.node(parts[1])
		case "storage":
			e.Path = "/storage/" + m.storage(parts[1])
		case "pool":
			e.Path = "/pool/" + m.pool(parts[1])
		case "mapping":
			if kind, id, ok := strings.Cut(parts[1], "/"); ok {
				e.Path = "/mapping/" + kind + "/" + m.mapping(id)
			}
		}
	}
}

// notes replaces the names in what could not be seen, word by word; a word that is no name is the server's own.
func (m *mask) notes(c *state.FileCapture) {
	for i := range c.NotSeen {
		c.NotSeen[i] = noteWord.ReplaceAllStringFunc(c.NotSeen[i], func(word string) string {
			for _, sort := range []string{"node", "storage", "pool", "user", "token", "role", "HA group", "mapping", "file"} {
				if pseudonym := m.words[sort][word]; pseudonym != "" {
					return pseudonym
				}
			}
			return word
		})
	}
	slices.Sort(c.NotSeen)
}

var noteWord = regexp.MustCompile(`[\w.-]+`)
