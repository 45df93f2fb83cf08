package access

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// RoleRoutes are those of access-control API2/Role.pm.
func RoleRoutes() engine.Routes {
	const base = "/access/roles"
	return engine.Routes{
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
		if release.HasPrivilege(w.Profile, p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func listRoles(r *engine.Request) (any, error) {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Roles)) {
		privs := strings.Join(visible(r.W, r.W.Roles[id]), ",")
		list = append(list, map[string]any{"roleid": id, "privs": privs, "special": perl.Flag(state.IsSpecial(id))})
	}
	return list, nil
}

func readRole(r *engine.Request) (any, error) {
	privs, ok := r.W.Roles[r.Params["roleid"]]
	if !ok {
		return nil, perl.Die("role '%s' does not exist", r.Params["roleid"])
	}
	return ones(visible(r.W, privs)), nil
}

func createRole(r *engine.Request) (any, error) {
	id := r.Params["roleid"]
	if len(id) >= 3 && strings.EqualFold(id[:3], "PVE") {
		return nil, perl.Invalid("roleid", "cannot use role ID starting with the (case-insensitive) 'PVE' namespace")
	}
	if _, ok := r.W.Roles[id]; ok {
		return nil, perl.Die("create role failed: role '%s' already exists", id)
	}
	return nil, setRole(r, "create role failed", nil)
}

func updateRole(r *engine.Request) (any, error) {
	id := r.Params["roleid"]
	has, ok := r.W.Roles[id]
	switch {
	case state.IsSpecial(id):
		return nil, perl.Die("auto-generated role '%s' cannot be modified", id)
	case !ok:
		return nil, perl.Die("update role failed: role '%s' does not exist", id)
	case !r.Flag("append"):
		has = nil
	}
	return nil, setRole(r, "update role failed", has)
}

// setRole gives the role what it has and what the request adds (AccessControl.pm, add_role_privs).
func setRole(r *engine.Request, failed string, has []string) error {
	privs := slices.Clone(has)
	for _, priv := range perl.ListItems(r.Params["privs"]) {
		if !release.HasPrivilege(r.W.Profile, priv) {
			return perl.Die("%s: invalid privilege '%s'", failed, priv)
		}
		privs = append(privs, priv)
	}
	slices.Sort(privs)
	r.W.Roles[r.Params["roleid"]] = slices.Compact(privs)
	return nil
}

// deleteRole leaves the access list as it is: a role that does not exist gives nothing.
func deleteRole(r *engine.Request) (any, error) {
	id := r.Params["roleid"]
	if state.IsSpecial(id) {
		return nil, perl.Die("auto-generated role '%s' cannot be deleted", id)
	}
	if _, ok := r.W.Roles[id]; !ok {
		return nil, perl.Die("delete role failed: role '%s' does not exist", id)
	}
	delete(r.W.Roles, id)
	return nil, nil
}
