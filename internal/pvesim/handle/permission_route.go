package handle

import (
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// authorize applies a method's own permission rule (RPCEnvironment.pm, check_api2_permissions). The parameters are not
// validated yet: permission comes first.
func (s *Server) authorize(w *state.World, a Auth, p *schema.Permission, params map[string]string) error {
	switch {
	case p != nil && p.User == "world":
		return nil
	case a.ID == "":
		return denied("user != null")
	case a.IsRoot():
		return nil
	case p == nil:
		return denied("user != root@pam")
	case p.User == "all":
		return nil
	case p.Check == nil:
		return denied("")
	}
	e := evaluation{s, w, a, params}
	return e.run(p.Check, false)
}

// evaluation runs a permission expression (RPCEnvironment.pm, exec_api2_perm_check).
type evaluation struct {
	server *Server
	world  *state.World
	auth   Auth
	params map[string]string
}

// run returns nil if the check holds. Inside an "or" the reasons of the branches are lost, as in PVE: the text is then the
// bare "Permission check failed".
func (e evaluation) run(c *schema.Check, quiet bool) error {
	switch c.Op {
	case "and":
		for _, sub := range c.Args {
			if err := e.run(sub, false); err != nil {
				return err
			}
		}
		return nil
	case "or":
		for _, sub := range c.Args {
			if e.run(sub, true) == nil {
				return nil
			}
		}
		return denied("")
	case "perm":
		if need := c.Options["require_param"]; need != "" && e.params[need] == "" {
			return denied("")
		}
		path := e.fill(c.Path)
		if c.Any {
			return e.server.checkAny(e.world, e.auth, path, c.Privs)
		}
		return e.server.check(e.world, e.auth, path, c.Privs)
	case "perm-modify":
		return e.modify(e.fill(c.Path))
	case "userid-param", "userid-group":
		return e.user(c, quiet)
	}
	return Die("unknown permission test")
}

func (e evaluation) fill(template string) string {
	for {
		from := strings.IndexByte(template, '{')
		if from < 0 {
			return template
		}
		to := strings.IndexByte(template[from:], '}')
		if to < 0 {
			return template
		}
		template = template[:from] + e.params[template[from+1:from+to]] + template[from+to+1:]
	}
}

// modify is check_perm_modify: Permissions.Modify, or the right to allocate what the path stands for.
func (e evaluation) modify(path string) error {
	path = normalize(path)
	privs := []string{"Permissions.Modify"}
	switch {
	case strings.HasPrefix(path, "/storage/"):
		privs = append(privs, "Datastore.Allocate")
	case strings.HasPrefix(path, "/vms/"):
		privs = append(privs, "VM.Allocate")
	case strings.HasPrefix(path, "/pool/"):
		privs = append(privs, "Pool.Allocate")
	}
	return e.server.checkAny(e.world, e.auth, path, privs)
}

func (e evaluation) user(c *schema.Check, quiet bool) error {
	id := e.params["userid"]
	exists := e.world.Users[id] != nil
	if c.Op == "userid-param" && c.Param != "self" {
		_, realm, _ := strings.Cut(id, "@")
		return e.server.checkAny(e.world, e.auth, "/access/realm/"+realm, []string{c.Param})
	}
	if !exists && c.Options["groups_param"] != "create" {
		if quiet {
			return denied("")
		}
		return Die("no such user ('%s')", id)
	}
	if c.Op == "userid-param" {
		if e.auth.ID == id {
			return nil
		}
		return denied("")
	}
	return e.server.checkAny(e.world, e.auth, "/access/groups", c.Privs)
}
