package handle

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// roleRoutes are those of access-control API2/Role.pm.
func roleRoutes() Routes {
	const base = "/access/roles"
	return Routes{
		"GET " + base: listRoles, "POST " + base: createRole, "GET " + base + "/{roleid}": readRole,
		"PUT " + base + "/{roleid}": updateRole, "DELETE " + base + "/{roleid}": deleteRole,
	}
}

func ones(names []string) map[string]any {
	m := map[string]any{}
	for _, name := range names {
		m[name] = 1
	}
	return m
}

func visible(w *state.World, privs []string) []string {
	out := []string{}
	for _, p := range privs {
		if knowsPrivilege(w, p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func listRoles(r *Request) (any, error) {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Roles)) {
		privs := strings.Join(visible(r.W, r.W.Roles[id]), ",")
		list = append(list, map[string]any{"roleid": id, "privs": privs, "special": flag(state.IsSpecial(id))})
	}
	return list, nil
}

func readRole(r *Request) (any, error) {
	privs, ok := r.W.Roles[r.Params["roleid"]]
	if !ok {
		return nil, Die("role '%s' does not exist", r.Params["roleid"])
	}
	return ones(visible(r.W, privs)), nil
}

func createRole(r *Request) (any, error) {
	id := r.Params["roleid"]
	if len(id) >= 3 && strings.EqualFold(id[:3], "PVE") {
		return nil, Invalid("roleid", "cannot use role ID starting with the (case-insensitive) 'PVE' namespace")
	}
	if _, ok := r.W.Roles[id]; ok {
		return nil, Die("create role failed: role '%s' already exists", id)
	}
	return nil, r.setRole("create role failed", nil)
}

func updateRole(r *Request) (any, error) {
	id := r.Params["roleid"]
	has, ok := r.W.Roles[id]
	switch {
	case state.IsSpecial(id):
		return nil, Die("auto-generated role '%s' cannot be modified", id)
	case !ok:
		return nil, Die("update role failed: role '%s' does not exist", id)
	case !r.flag("append"):
		has = nil
	}
	return nil, r.setRole("update role failed", has)
}

// setRole gives the role what it has and what the request adds (AccessControl.pm, add_role_privs).
func (r *Request) setRole(failed string, has []string) error {
	privs := slices.Clone(has)
	for _, priv := range listItems(r.Params["privs"]) {
		if !knowsPrivilege(r.W, priv) {
			return Die("%s: invalid privilege '%s'", failed, priv)
		}
		privs = append(privs, priv)
	}
	slices.Sort(privs)
	r.W.Roles[r.Params["roleid"]] = slices.Compact(privs)
	return nil
}

// deleteRole leaves the access list as it is: a role that does not exist gives nothing.
func deleteRole(r *Request) (any, error) {
	id := r.Params["roleid"]
	if state.IsSpecial(id) {
		return nil, Die("auto-generated role '%s' cannot be deleted", id)
	}
	if _, ok := r.W.Roles[id]; !ok {
		return nil, Die("delete role failed: role '%s' does not exist", id)
	}
	delete(r.W.Roles, id)
	return nil, nil
}
