package auth

import (
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Has reports whether an identity has a privilege on an ACL path.
func Has(w *state.World, a Identity, path, priv string) bool {
	held := a.IsRoot() || rights(w, a, path)(priv)
	tell(w, a, path, []string{priv}, held, true)
	return held
}

// tell reports a question to the world's observer.
func tell(w *state.World, a Identity, path string, anyOf []string, held, soft bool) {
	if w.Asked != nil {
		w.Asked(state.Question{Identity: a.ID, Path: Normalize(path), AnyOf: anyOf, Held: held, Soft: soft})
	}
}

// rights answers for single privileges what permissions says of all: it is asked some times in each request.
func rights(w *state.World, a Identity, path string) func(priv string) bool {
	path = Normalize(path)
	user := grants(w, a.User, path)
	if !a.IsToken {
		return grants(w, a.ID, path)
	}
	token := w.Tokens[a.ID]
	switch {
	case token == nil:
		return func(string) bool { return false }
	case !token.Separated:
		return user
	}
	own := grants(w, a.ID, path)
	return func(priv string) bool { return own(priv) && user(priv) }
}

// grants is privileges as a question.
func grants(w *state.World, subject, path string) func(priv string) bool {
	if subject == RootUser {
		return func(priv string) bool { return release.HasPrivilege(w.Profile, priv) }
	}
	roles := rolesWithPool(w, subject, path)
	_, none := roles["NoAccess"]
	return func(priv string) bool {
		if none || !release.HasPrivilege(w.Profile, priv) {
			return false
		}
		for role := range roles {
			if slices.Contains(w.Roles[role], priv) {
				return true
			}
		}
		return false
	}
}

// Check asks for all of privs on an ACL path. The error is a 403 that names the first missing privilege.
func Check(w *state.World, a Identity, path string, privs []string) error {
	if a.IsRoot() {
		return nil
	}
	if path = Normalize(path); !isPath(path) {
		return perl.Denied(", " + strings.Join(privs[:min(1, len(privs))], ""))
	}
	has := rights(w, a, path)
	for _, priv := range privs {
		held := has(priv)
		if tell(w, a, path, []string{priv}, held, false); !held {
			return perl.Denied(Normalize(path) + ", " + priv)
		}
	}
	return nil
}

// CheckAny asks for one of privs on an ACL path. The error is a 403 that names them all, joined by "|".
func CheckAny(w *state.World, a Identity, path string, privs []string) error {
	if a.IsRoot() {
		return nil
	}
	held := slices.ContainsFunc(privs, rights(w, a, path))
	if tell(w, a, path, privs, held, false); held {
		return nil
	}
	return perl.Denied(Normalize(path) + ", " + strings.Join(privs, "|"))
}

// isPath reports whether a normalized path is one: of others normalize_path makes nothing.
func isPath(path string) bool {
	return strings.IndexFunc(path, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(".-_/", c))
	}) < 0
}

// Normalize is access-control's normalize_path.
func Normalize(path string) string {
	if strings.HasPrefix(path, "/") && !strings.Contains(path, "//") && (len(path) == 1 || !strings.HasSuffix(path, "/")) {
		return path
	}
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	return "/" + strings.Join(parts, "/")
}

// Permissions are the privileges that an identity has on a path, with their propagate flags (RPCEnvironment.pm,
// permissions). A separated token has what both it and its user have.
func Permissions(w *state.World, a Identity, path string) map[string]bool {
	path = Normalize(path)
	if !a.IsToken {
		return privileges(w, a.ID, path)
	}
	users := privileges(w, a.User, path)
	token := w.Tokens[a.ID]
	if token == nil {
		return nil
	}
	if !token.Separated {
		return users
	}
	both := map[string]bool{}
	for priv, propagate := range privileges(w, a.ID, path) {
		if also, ok := users[priv]; ok {
			both[priv] = propagate && also
		}
	}
	return both
}

// privileges turns the roles of one subject on a path into privileges; a role on a pool counts on its members.
func privileges(w *state.World, subject, path string) map[string]bool {
	set := map[string]bool{}
	if subject == RootUser {
		for _, priv := range release.Privileges(w.Profile) {
			set[priv] = true
		}
		return set
	}
	roles := rolesWithPool(w, subject, path)
	if _, none := roles["NoAccess"]; none {
		return set
	}
	for role, propagate := range roles {
		for _, priv := range w.Roles[role] {
			if release.HasPrivilege(w.Profile, priv) {
				set[priv] = set[priv] || propagate
			}
		}
	}
	return set
}

// rolesWithPool are the roles of a subject on a path, and those on the pool that it is in, which never propagate
// (RPCEnvironment.pm, compile_acl_path).
func rolesWithPool(w *state.World, subject, path string) map[string]bool {
	roles := rolesOn(w, subject, path)
	if pool := PoolOf(w, path); pool != "" {
		for role := range rolesOn(w, subject, "/pool/"+pool) {
			if _, ok := roles[role]; !ok {
				roles[role] = false
			}
		}
	}
	return roles
}

// rolesOn walks down the path: on each level an entry replaces what was inherited, and one that does not propagate
// counts on its own level only. Those of a user override those of its groups, which are all in force (AccessControl.pm,
// roles).
func rolesOn(w *state.World, subject, path string) map[string]bool {
	found := map[string]bool{}
	var groups []string
	if u := w.Users[subject]; u != nil {
		groups = u.Groups
	}
	rolesAt := func(at string, has func(subject string) bool) (here map[string]bool) {
		for _, e := range w.ACL {
			if !has(e.Subject) || Normalize(e.Path) != at || !e.Propagate && at != path {
				continue
			}
			if here == nil {
				here = map[string]bool{}
			}
			here[e.Role] = e.Propagate
		}
		return here
	}
	level := func(at string) {
		here := rolesAt(at, func(s string) bool { return s == subject })
		if here == nil && len(groups) > 0 {
			here = rolesAt(at, func(s string) bool {
				group, ok := strings.CutPrefix(s, "@")
				return ok && slices.Contains(groups, group)
			})
		}
		if here != nil {
			found = here
		}
	}
	level("/")
	at := ""
	for _, part := range strings.FieldsFunc(path, func(c rune) bool { return c == '/' }) {
		at += "/" + part
		level(at)
	}
	return found
}

// PoolOf is the pool that lends its roles to /vms/<id> or /storage/<id>.
func PoolOf(w *state.World, path string) string {
	if id, ok := strings.CutPrefix(path, "/vms/"); ok {
		vmid := perl.Number(id)
		for _, p := range w.Pools {
			if strconv.Itoa(vmid) == id && slices.Contains(p.Guests, vmid) {
				return p.ID
			}
		}
	}
	if id, ok := strings.CutPrefix(path, "/storage/"); ok {
		for _, p := range w.Pools {
			if slices.Contains(p.Storages, id) {
				return p.ID
			}
		}
	}
	return ""
}
