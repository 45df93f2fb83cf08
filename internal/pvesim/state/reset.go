package state

import (
	"maps"
	"slices"
)

// Remember returns a function that puts back what no snapshot holds: the bytes of files that are there again,
// identities and their rights, roles, the datacenter's options and firewalls, mappings, the HA manager's pace and log,
// and the marks of third parties. It leaves the clock. The world's random numbers go on, so that none is drawn twice.
func (w *World) Remember() (restore func()) {
	users, tokens, groups := values(w.Users), values(w.Tokens), values(w.Groups)
	roles := map[string][]string{}
	for id, privs := range w.Roles {
		roles[id] = slices.Clone(privs)
	}
	acl, mappings := slices.Clone(w.ACL), slices.Clone(w.Mappings)
	raw := map[VolumeKey][]byte{}
	for at, v := range w.Volumes {
		raw[at] = v.Raw
	}
	next, tags, round, datacenter := w.NextID, w.CaseSensitiveTags, w.HARound, maps.Clone(w.Options)
	security, firewalls := maps.Clone(w.SecurityGroups), cloneFirewalls(w.Firewalls)
	return func() {
		w.Users, w.Tokens, w.Roles = pointers(users), pointers(tokens), map[string][]string{}
		w.Groups, w.Options = pointers(groups), maps.Clone(datacenter)
		for id, privs := range roles {
			w.Roles[id] = slices.Clone(privs)
		}
		for at, v := range w.Volumes {
			v.Raw = raw[at]
		}
		w.ACL, w.Mappings = slices.Clone(acl), slices.Clone(mappings)
		w.NextID, w.CaseSensitiveTags, w.HARound = next, tags, round
		w.SecurityGroups, w.Firewalls = maps.Clone(security), cloneFirewalls(firewalls)
		w.PowerOffs, w.HALog, w.ClusterLog, w.ThirdParties = nil, nil, nil, ThirdParties{}
		clear(w.Tasks)
	}
}

func cloneFirewalls(files map[string]*FirewallFile) map[string]*FirewallFile {
	out := map[string]*FirewallFile{}
	for name, f := range files {
		out[name] = f.Clone()
	}
	return out
}

func values[T any](m map[string]*T) map[string]T {
	out := map[string]T{}
	for k, v := range m {
		out[k] = *v
	}
	return out
}

func pointers[T any](m map[string]T) map[string]*T {
	out := map[string]*T{}
	for k, v := range maps.All(m) {
		out[k] = &v
	}
	return out
}
