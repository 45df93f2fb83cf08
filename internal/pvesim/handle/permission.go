package handle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// denied is a 403. A detail stands in brackets behind PVE's fixed words (pve-common Exception.pm, raise_perm_exc).
func denied(detail string) *Error {
	text := "Permission check failed"
	if detail != "" {
		text += " (" + detail + ")"
	}
	return &Error{Status: 403, Message: text}
}

// Check asks for all of privs on an ACL path. The error is a 403 "Permission check failed (<path>, <priv>)" with the first
// privilege that is missing.
func (r *Request) Check(path string, privs ...string) error {
	return r.Server.check(r.W, r.Auth, path, privs)
}

// CheckAny asks for one of privs on an ACL path; the 403 names them all, joined by "|".
func (r *Request) CheckAny(path string, privs ...string) error {
	return r.Server.checkAny(r.W, r.Auth, path, privs)
}

// Check is Request.Check for a worker.
func (w *Worker) Check(path string, privs ...string) error {
	return w.Server.check(w.W, w.Auth, path, privs)
}

// Has reports whether somebody has a privilege on an ACL path.
func (s *Server) Has(w *state.World, a Auth, path, priv string) bool {
	return a.IsRoot() || s.rights(w, a, path)(priv)
}

// rights answers for single privileges what permissions says of all: it is asked some times in each request.
func (s *Server) rights(w *state.World, a Auth, path string) func(priv string) bool {
	path = normalize(path)
	user := s.grants(w, a.User, path)
	if !a.IsToken {
		return s.grants(w, a.ID, path)
	}
	token := w.Tokens[a.ID]
	switch {
	case token == nil:
		return func(string) bool { return false }
	case !token.Separated:
		return user
	}
	own := s.grants(w, a.ID, path)
	return func(priv string) bool { return own(priv) && user(priv) }
}

// grants is privileges as a question.
func (s *Server) grants(w *state.World, subject, path string) func(priv string) bool {
	if subject == rootUser {
		return func(priv string) bool { return slices.Contains(allPrivileges(w), priv) }
	}
	roles := rolesWithPool(w, subject, path)
	_, none := roles["NoAccess"]
	return func(priv string) bool {
		if none || !knowsPrivilege(w, priv) {
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

func (s *Server) check(w *state.World, a Auth, path string, privs []string) error {
	if a.IsRoot() {
		return nil
	}
	has := s.rights(w, a, path)
	for _, priv := range privs {
		if !has(priv) {
			return denied(normalize(path) + ", " + priv)
		}
	}
	return nil
}

func (s *Server) checkAny(w *state.World, a Auth, path string, privs []string) error {
	if a.IsRoot() {
		return nil
	}
	has := s.rights(w, a, path)
	for _, priv := range privs {
		if has(priv) {
			return nil
		}
	}
	return denied(normalize(path) + ", " + strings.Join(privs, "|"))
}

// CheckPool refuses a pool that does not exist: 403, not 400 (access-control RPCEnvironment.pm, check_pool_exist).
func (r *Request) CheckPool(pool string) error {
	if r.W.Pools[pool] == nil {
		return denied(fmt.Sprintf("pool '%s' does not exist", pool))
	}
	return nil
}

// normalize is access-control's normalize_path.
func normalize(path string) string {
	if strings.HasPrefix(path, "/") && !strings.Contains(path, "//") && (len(path) == 1 || !strings.HasSuffix(path, "/")) {
		return path
	}
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	return "/" + strings.Join(parts, "/")
}

// permissions are the privileges that somebody has on a path, with their propagate flags (RPCEnvironment.pm, permissions).
// A separated token has what both it and its user have.
func (s *Server) permissions(w *state.World, a Auth, path string) map[string]bool {
	path = normalize(path)
	if !a.IsToken {
		return s.privileges(w, a.ID, path)
	}
	users := s.privileges(w, a.User, path)
	token := w.Tokens[a.ID]
	if token == nil {
		return nil
	}
	if !token.Separated {
		return users
	}
	both := map[string]bool{}
	for priv, propagate := range s.privileges(w, a.ID, path) {
		if also, ok := users[priv]; ok {
			both[priv] = propagate && also
		}
	}
	return both
}

// privileges turns the roles of one subject on a path into privileges; a role on a pool counts on its members.
func (s *Server) privileges(w *state.World, subject, path string) map[string]bool {
	set := map[string]bool{}
	if subject == rootUser {
		for _, priv := range allPrivileges(w) {
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
			if knowsPrivilege(w, priv) {
				set[priv] = set[priv] || propagate
			}
		}
	}
	return set
}

const rootUser = "root@pam"

// rolesWithPool are the roles of a subject on a path, and those on the pool that it is in.
func rolesWithPool(w *state.World, subject, path string) map[string]bool {
	roles := rolesOn(w, subject, path)
	if pool := poolOf(w, path); pool != "" {
		for role, propagate := range rolesOn(w, subject, "/pool/"+pool) {
			if _, ok := roles[role]; !ok {
				roles[role] = propagate
			}
		}
	}
	return roles
}

// rolesOn walks down the path: on each level an entry replaces what was inherited, and one that does not propagate counts
// on its own level only (AccessControl.pm, roles).
func rolesOn(w *state.World, subject, path string) map[string]bool {
	found := map[string]bool{}
	level := func(at string) {
		var here map[string]bool
		for _, e := range w.ACL {
			if e.Subject != subject || normalize(e.Path) != at || !e.Propagate && at != path {
				continue
			}
			if here == nil {
				here = map[string]bool{}
			}
			here[e.Role] = e.Propagate
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

// poolOf is the pool that lends its roles to /vms/<id> or /storage/<id>.
func poolOf(w *state.World, path string) string {
	if id, ok := strings.CutPrefix(path, "/vms/"); ok {
		vmid := number(id)
		for _, p := range w.Pools {
			if itoa(vmid) == id && slices.Contains(p.Guests, vmid) {
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

// allPrivileges are those that exist in the world's release (AccessControl.pm).
func allPrivileges(w *state.World) []string {
	all := strings.Fields(`Datastore.Allocate Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit
		Group.Allocate Mapping.Audit Mapping.Modify Mapping.Use Permissions.Modify Pool.Allocate Pool.Audit
		Realm.Allocate Realm.AllocateUser SDN.Allocate SDN.Audit SDN.Use Sys.AccessNetwork Sys.Audit Sys.Console Sys.Incoming
		Sys.Modify Sys.PowerMgmt Sys.Syslog User.Modify VM.Allocate VM.Audit VM.Backup VM.Clone VM.Config.CDROM VM.Config.CPU
		VM.Config.Cloudinit VM.Config.Disk VM.Config.HWType VM.Config.Memory VM.Config.Network VM.Config.Options VM.Console
		VM.GuestAgent.Audit VM.GuestAgent.FileRead VM.GuestAgent.FileSystemMgmt VM.GuestAgent.FileWrite
		VM.GuestAgent.Unrestricted VM.Migrate VM.Monitor VM.PowerMgmt VM.Replicate VM.Snapshot VM.Snapshot.Rollback`)
	return slices.DeleteFunc(all, func(priv string) bool { return !knowsPrivilege(w, priv) })
}

func knowsPrivilege(w *state.World, priv string) bool {
	switch {
	case priv == "VM.Monitor":
		return !w.Has(state.AgentPrivileges)
	case priv == "VM.Replicate":
		return w.Has(state.ReplicatePrivilege)
	case strings.HasPrefix(priv, "VM.GuestAgent."):
		return w.Has(state.AgentPrivileges)
	case priv == "Sys.AccessNetwork":
		return w.Has(state.AccessNetwork)
	}
	return true
}
