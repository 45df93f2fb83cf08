package handle

import (
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func accessRoutes() Routes {
	return Routes{
		"GET /access":             subdirIndex("subdir", "users", "groups", "roles", "acl", "domains", "openid", "tfa", "ticket", "password"),
		"GET /access/ticket":      func(*Request) (any, error) { return nil, nil },
		"POST /access/ticket":     createTicket,
		"GET /access/permissions": effectivePermissions,
		"GET /access/domains":     listDomains,
		"GET /access/groups":      emptyList,
		"GET /access/tfa":         emptyList,
		"GET /access/acl":         listACL,
		"PUT /access/acl":         updateACL,
	}
}

// subdirIndex answers an index method.
func subdirIndex(key string, names ...string) Func {
	return func(*Request) (any, error) {
		list := []any{}
		for _, name := range names {
			list = append(list, map[string]any{key: name})
		}
		return list, nil
	}
}

func emptyList(*Request) (any, error) { return []any{}, nil }

func listDomains(*Request) (any, error) {
	return []any{
		map[string]any{"realm": "pam", "type": "pam", "comment": "Linux PAM standard authentication"},
		map[string]any{"realm": "pve", "type": "pve", "comment": "Proxmox VE authentication server"},
	}, nil
}

// listACL shows the entries on whose path the caller may change permissions, or all to who has Sys.Audit on /access.
func listACL(r *Request) (any, error) {
	audit := r.CheckAny("/access", "Sys.Audit", "Permissions.Modify") == nil
	list := []any{}
	for _, e := range r.W.ACL {
		may := evaluation{r.Server, r.W, r.Auth, nil}
		if !audit && may.modify(e.Path) != nil {
			continue
		}
		kind := "user"
		if strings.Contains(e.Subject, "!") {
			kind = "token"
		}
		list = append(list, map[string]any{"path": e.Path, "ugid": e.Subject, "roleid": e.Role, "type": kind, "propagate": flag(e.Propagate)})
	}
	return list, nil
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// updateACL is PUT /access/acl (access-control API2/ACL.pm).
func updateACL(r *Request) (any, error) {
	p := r.Params
	if p["users"] == "" && p["tokens"] == "" && p["groups"] == "" {
		const required = "either 'users', 'groups' or 'tokens' is required."
		return nil, &Error{Status: 400, Message: "Parameter verification failed.",
			Errors: map[string]string{"users": required, "groups": required, "tokens": required}}
	}
	if !knownACLPath(normalize(p["path"])) {
		return nil, Invalid("path", "invalid ACL path '"+p["path"]+"'")
	}
	for _, role := range listItems(p["roles"]) {
		if _, ok := r.W.Roles[role]; !ok {
			return nil, Die("ACL update failed: role '%s' does not exist", role)
		}
		subjects, err := r.aclSubjects()
		if err != nil {
			return nil, Die("ACL update failed: %s", flatten(err))
		}
		for _, subject := range subjects {
			entry := state.ACLEntry{Path: normalize(p["path"]), Subject: subject, Role: role, Propagate: p["propagate"] != "0"}
			r.W.ACL = slices.DeleteFunc(r.W.ACL, func(e state.ACLEntry) bool {
				return e.Path == entry.Path && e.Subject == subject && e.Role == role
			})
			if p["delete"] != "1" {
				r.W.ACL = append(r.W.ACL, entry)
			}
		}
	}
	return nil, nil
}

// aclSubjects are the users and tokens of a change of the ACL, all of whom must exist. There are no groups in the simulator.
func (r *Request) aclSubjects() ([]string, error) {
	for _, group := range listItems(r.Params["groups"]) {
		return nil, Die("group '%s' does not exist", group)
	}
	users, tokens := listItems(r.Params["users"]), listItems(r.Params["tokens"])
	for _, user := range users {
		if r.W.Users[user] == nil {
			return nil, Die("user '%s' does not exist", user)
		}
	}
	for _, id := range tokens {
		user, name, _ := strings.Cut(id, "!")
		switch {
		case r.W.Users[user] == nil: // AccessControl.pm, check_user_exist
			return nil, Die("no such user ('%s')", user)
		case r.W.Tokens[id] == nil:
			return nil, Die("no such token '%s' for user '%s'", name, user)
		}
	}
	return append(users, tokens...), nil
}

func knownACLPath(path string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains([]string{"", "access", "mapping", "nodes", "pool", "sdn", "storage", "vms"}, top)
}

// listItems splits a *-list value (pve-common Tools.pm, split_list).
func listItems(s string) []string {
	return strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune(",; \t\n\x00", c) })
}
