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
	if a.IsRoot() {
		return true
	}
	_, has := s.permissions(w, a, path)[priv]
	return has
}

func (s *Server) check(w *state.World, a Auth, path string, privs []string) error {
	if a.IsRoot() {
		return nil
	}
	have := s.permissions(w, a, path)
	for _, priv := range privs {
		if _, ok := have[priv]; !ok {
			return denied(normalize(path) + ", " + priv)
		}
	}
	return nil
}

func (s *Server) checkAny(w *state.World, a Auth, path string, privs []string) error {
	if a.IsRoot() {
		return nil
	}
	have := s.permissions(w, a, path)
	for _, priv := range privs {
		if _, ok := have[priv]; ok {
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
	roles := rolesOn(w, subject, path)
	if pool := poolOf(w, path); pool != "" {
		for role, propagate := range rolesOn(w, subject, "/pool/"+pool) {
			if _, ok := roles[role]; !ok {
				roles[role] = propagate
			}
		}
	}
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

// rolesOn walks down the path: on each level an entry replaces what was inherited, and one that does not propagate counts
// on its own level only (AccessControl.pm, roles).
func rolesOn(w *state.World, subject, path string) map[string]bool {
	found := map[string]bool{}
	level := func(at string) {
		here := map[string]bool{}
		for _, e := range w.ACL {
			if e.Subject == subject && normalize(e.Path) == at && (e.Propagate || at == path) {
				here[e.Role] = e.Propagate
			}
		}
		if len(here) > 0 {
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
		for _, p := range w.Pools {
			if slices.ContainsFunc(p.Guests, func(n int) bool { return fmt.Sprint(n) == id }) {
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
