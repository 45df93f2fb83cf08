// Package access has users, tokens, roles, access lists, tickets and the permission rules of routes.
package access

import (
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Routes are the routes of access lists, realms and tickets.
func Routes() engine.Routes {
	return engine.Routes{
		"GET /access": engine.SubdirIndex("subdir", "users", "groups", "roles", "acl", "domains", "openid", "tfa",
			"ticket", "password"),
		"GET /access/ticket":      func(*engine.Request) (any, error) { return nil, nil },
		"POST /access/ticket":     createTicket,
		"GET /access/permissions": effectivePermissions,
		"GET /access/domains":     listDomains,
		"GET /access/openid":      engine.SubdirIndex("subdir", "auth-url", "login"),
		"GET /access/tfa":         engine.EmptyList,
		"GET /access/acl":         listACL,
		"PUT /access/acl":         updateACL,
	}
}

func listDomains(*engine.Request) (any, error) {
	return []any{
		map[string]any{"realm": "pam", "type": "pam", "comment": "Linux PAM standard authentication"},
		map[string]any{"realm": "pve", "type": "pve", "comment": "Proxmox VE authentication server"},
	}, nil
}

// listACL shows the entries on whose path the caller may change permissions. A caller with Sys.Audit on /access sees
// all of them.
func listACL(r *engine.Request) (any, error) {
	audit := r.CheckAny("/access", "Sys.Audit", "Permissions.Modify") == nil
	list := []any{}
	for _, e := range r.W.ACL {
		may := Evaluation{r.Engine, r.W, r.Auth, nil}
		if !audit && may.Modify(e.Path) != nil {
			continue
		}
		kind := "user"
		group, isGroup := strings.CutPrefix(e.Subject, "@")
		switch {
		case isGroup:
			kind = "group"
		case strings.Contains(e.Subject, "!"):
			kind = "token"
		}
		list = append(list, map[string]any{"path": e.Path, "ugid": group, "roleid": e.Role, "type": kind,
			"propagate": perl.Flag(e.Propagate)})
	}
	return list, nil
}

// updateACL is PUT /access/acl (access-control API2/ACL.pm).
func updateACL(r *engine.Request) (any, error) {
	p := r.Params
	if p["users"] == "" && p["tokens"] == "" && p["groups"] == "" {
		const required = "either 'users', 'groups' or 'tokens' is required."
		return nil, &perl.Error{Status: 400, Message: "Parameter verification failed.",
			Errors: map[string]string{"users": required, "groups": required, "tokens": required}}
	}
	if !knownACLPath(auth.Normalize(p["path"])) {
		return nil, perl.Invalid("path", "invalid ACL path '"+p["path"]+"'")
	}
	for _, role := range perl.ListItems(p["roles"]) {
		if _, ok := r.W.Roles[role]; !ok {
			return nil, perl.Die("ACL update failed: role '%s' does not exist", role)
		}
		subjects, err := aclSubjects(r)
		if err != nil {
			return nil, perl.Die("ACL update failed: %s", perl.OneLine(err))
		}
		for _, subject := range subjects {
			entry := state.ACLEntry{Path: auth.Normalize(p["path"]), Subject: subject, Role: role,
				Propagate: p["propagate"] != "0"}
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

// aclSubjects are the groups, users and tokens of a change of the ACL, all of whom must exist.
func aclSubjects(r *engine.Request) ([]string, error) {
	subjects := []string{}
	for _, group := range perl.ListItems(r.Params["groups"]) {
		if r.W.Groups[group] == nil {
			return nil, perl.Die("group '%s' does not exist", group)
		}
		subjects = append(subjects, "@"+group)
	}
	users, tokens := perl.ListItems(r.Params["users"]), perl.ListItems(r.Params["tokens"])
	for _, user := range users {
		if r.W.Users[user] == nil {
			return nil, perl.Die("user '%s' does not exist", user)
		}
	}
	for _, id := range tokens {
		user, name, _ := strings.Cut(id, "!")
		switch {
		case r.W.Users[user] == nil: // AccessControl.pm, check_user_exist
			return nil, perl.Die("no such user ('%s')", user)
		case r.W.Tokens[id] == nil:
			return nil, perl.Die("no such token '%s' for user '%s'", name, user)
		}
	}
	return append(append(subjects, users...), tokens...), nil
}

func knownACLPath(path string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains([]string{"", "access", "mapping", "nodes", "pool", "sdn", "storage", "vms"}, top)
}
