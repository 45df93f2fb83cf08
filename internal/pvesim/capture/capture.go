package capture

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Run looks at a cluster. It fails if it may not even see which nodes there are; what else it may not see is noted in
// the file.
func Run(ctx context.Context, c Config) (*state.File, error) {
	mask, err := newMask(c.Mask)
	if err != nil {
		return nil, err
	}
	k, err := newClient(ctx, c)
	if err != nil {
		return nil, err
	}
	defer k.http.CloseIdleConnections()
	l := &look{client: k, notSeen: map[string]bool{}}
	for _, step := range []func(context.Context) error{
		l.version, l.nodes, l.options, l.storages, l.volumes, l.guests, l.pools, l.ha, l.jobs, l.mappings, l.identities,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	l.fit()
	for note := range l.notSeen {
		l.file.Captured.NotSeen = append(l.file.Captured.NotSeen, note)
	}
	slices.Sort(l.file.Captured.NotSeen)
	l.secrets(c.Texts)
	mask.apply(&l.file)
	l.sort()
	l.tokenSecrets()
	return &l.file, nil
}

// fit gives volumes to guests that refer to storages whose content could not be seen.
func (l *look) fit() {
	unseen := map[string]bool{}
	for note := range l.notSeen {
		if path, _, ok := strings.Cut(note, "/content: "); ok {
			unseen[path[strings.LastIndexByte(path, '/')+1:]] = true
		}
	}
	known := map[string]bool{}
	for _, v := range l.file.Volumes {
		known[v.Node+" "+v.Volume] = true
	}
	for _, g := range l.file.Guests {
		for _, value := range g.Config {
			volid, rest, _ := strings.Cut(value, ",")
			id, _, ok := state.SplitVolid(strings.TrimPrefix(volid, "file="))
			s := l.storage(id)
			listed := ok && s != nil && !unseen[id] && !s.Offline && !s.Disabled && slices.Contains(s.Content, "images") &&
				!l.isOffline(g.Node)
			if !ok || s == nil || listed {
				continue
			}
			node := g.Node
			if everywhere(s) {
				node = ""
			}
			if volid = strings.TrimPrefix(volid, "file="); !known[node+" "+volid] {
				known[node+" "+volid] = true
				l.volume(s, node, volid, sizeOf(rest))
			}
		}
	}
}

// tokenSecrets gives the tokens secrets that are as public as their place in the file.
func (l *look) tokenSecrets() {
	for i := range l.file.Tokens {
		l.file.Tokens[i].Secret = fmt.Sprintf("00000000-0000-4000-8000-%012d", i+1)
	}
}

// sort puts the file into the order of the names that stand in it, so that the same cluster gives the same file.
func (l *look) sort() {
	f := &l.file
	order(f.Nodes, func(n state.FileNode) string { return n.Name })
	order(f.Storages, func(s state.FileStorage) string { return s.ID })
	order(f.Volumes, func(v state.FileVolume) string { return v.Volume + " " + v.Node })
	order(f.Pools, func(p state.FilePool) string { return p.ID })
	order(f.HAGroups, func(g state.FileHAGroup) string { return g.ID })
	order(f.Mappings, func(m state.FileMapping) string { return m.Kind + " " + m.ID })
	order(f.Users, func(u state.FileUser) string { return u.ID })
	order(f.Tokens, func(t state.FileToken) string { return t.ID })
	order(f.ACL, func(e state.FileACL) string { return e.Path + " " + e.Subject + " " + e.Role })
}

func order[T any](list []T, key func(T) string) {
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(key(a), key(b)) })
}

// freeTexts are options of guests in which users write freely. The environment and the start command of a container
// stand in env and entrypoint, in releases that have them.
var freeTexts = []string{"args", "description", "entrypoint", "env"}

// secrets takes out what must not leave the cluster, whether a release hides it or not. Free texts may hold any secret
// in any form, so they stay there unless keep asks for them: then known forms of secrets are masked in them.
func (l *look) secrets(keep bool) {
	text := func(values map[string]string, keys ...string) {
		for _, key := range keys {
			if value, ok := values[key]; ok && keep {
				values[key] = scrub(value)
			} else {
				delete(values, key)
			}
		}
	}
	comment := func(value string) string {
		if !keep {
			return ""
		}
		return scrub(value)
	}
	for i := range l.file.Guests {
		g := &l.file.Guests[i]
		for _, conf := range append([]map[string]string{g.Config, g.Pending}, ordered(g.Snapshots)...) {
			text(conf, freeTexts...)
			if smbios, ok := conf["smbios1"]; ok && !keep {
				conf["smbios1"] = onlyUUID(smbios)
			}
			if _, ok := conf["cipassword"]; ok {
				conf["cipassword"] = hidden
			}
		}
	}
	for _, f := range l.file.Firewall {
		for _, table := range append(slices.Clone(f.Rules), ordered(f.Aliases)...) {
			text(table, "comment")
		}
		for name, set := range f.IPSets {
			set.Comment = comment(set.Comment)
			for _, entry := range set.Entries {
				text(entry, "comment")
			}
			f.IPSets[name] = set
		}
	}
	for i := range l.file.Pools {
		l.file.Pools[i].Comment = comment(l.file.Pools[i].Comment)
	}
	for i := range l.file.HA {
		text(l.file.HA[i].Options, "comment")
		l.file.HA[i].Options = none(l.file.HA[i].Options)
	}
	for _, rule := range l.file.HARules {
		text(rule, "comment")
	}
}

// onlyUUID leaves out of smbios1 what a user writes into it, in base64 mostly.
func onlyUUID(smbios string) string {
	for _, part := range strings.Split(smbios, ",") {
		if strings.HasPrefix(part, "uuid=") {
			return part
		}
	}
	return ""
}
