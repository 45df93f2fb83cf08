package firewall

import (
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// securityGroups lists them with their comments (pve-firewall API2/Firewall/Groups.pm, $get_security_group_list).
func securityGroups(w *state.World) []map[string]string {
	var list []map[string]string
	for _, name := range slices.Sorted(maps.Keys(w.SecurityGroups)) {
		row := map[string]string{"group": name}
		if c := w.SecurityGroups[name]; c != "" {
			row["comment"] = c
		}
		list = append(list, row)
	}
	return list
}

// listSecurityGroups is GET /cluster/firewall/groups.
func listSecurityGroups(r *engine.Request) (any, error) {
	list, rows := []any{}, securityGroups(r.W)
	for _, row := range rows {
		out := map[string]any{"digest": objectsDigest(rows...)}
		for k, v := range row {
			out[k] = v
		}
		list = append(list, out)
	}
	return list, nil
}

// createSecurityGroup makes a group, or with "rename" gives one another name, wherever rules use it, and comment.
func createSecurityGroup(r *engine.Request) (any, error) {
	name, old := r.Params["group"], r.Params["rename"]
	_, exists := r.W.SecurityGroups[name]
	_, known := r.W.SecurityGroups[old]
	want := r.Params["digest"]
	switch {
	case old == "" && exists:
		return nil, perl.Invalid("group", "Security group '"+name+"' already exists")
	case old != "" && want != "" && want != objectsDigest(securityGroups(r.W)...):
		return nil, perl.Die("detected modified configuration - file changed by other user? Try again.")
	case old != "" && !known:
		return nil, perl.Invalid("group", "Security group '"+old+"' does not exist")
	case exists && old != name:
		return nil, perl.Invalid("group", "Security group '"+name+"' does already exist")
	}
	next := maps.Clone(r.W.SecurityGroups)
	if next == nil {
		next = map[string]string{}
	}
	comment := next[old]
	if c, ok := r.Params["comment"]; ok {
		comment = c
	}
	if old != "" && old != name {
		delete(next, old)
		renameGroup(r.W, old, name)
	}
	next[name], r.W.SecurityGroups = comment, next
	return nil, nil
}

// renameGroup moves a group's rules, and changes the rules that use it.
func renameGroup(w *state.World, old, name string) {
	if f := w.Firewalls[groupPrefix+old]; f != nil {
		delete(w.Firewalls, groupPrefix+old)
		w.Firewalls[groupPrefix+name] = f
	}
	files := append(slices.Collect(maps.Values(w.Firewalls)), slices.Collect(maps.Values(w.Firewall))...)
	for _, f := range files {
		for _, rule := range f.Rules {
			if rule["type"] == "group" && rule["action"] == old {
				rule["action"] = name
			}
		}
	}
}

// inGroup is for the routes of a group's rules (API2/Firewall/Rules.pm, GroupRules load_config).
func inGroup(f engine.Func) engine.Func {
	return func(r *engine.Request) (any, error) {
		if _, ok := r.W.SecurityGroups[r.Params["group"]]; !ok {
			return nil, perl.Die("no such security group '%s'", r.Params["group"])
		}
		return f(r)
	}
}

func deleteSecurityGroup(r *engine.Request) (any, error) {
	return inGroup(func(r *engine.Request) (any, error) {
		name := r.Params["group"]
		if len(firewallFile(r).Rules) > 0 {
			return nil, perl.Die("Security group '%s' is not empty", name)
		}
		r.W.SecurityGroups = maps.Clone(r.W.SecurityGroups)
		delete(r.W.SecurityGroups, name)
		delete(r.W.Firewalls, groupPrefix+name)
		return nil, nil
	})(r)
}
