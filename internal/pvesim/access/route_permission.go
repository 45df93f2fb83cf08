package access

import (
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Authorize applies a method's own permission rule (RPCEnvironment.pm, check_api2_permissions). The parameters are not
// validated yet: permission comes first.
func Authorize(s *engine.Engine, w *state.World, a auth.Identity, p *schema.Permission,
	params map[string]string) error {
	switch {
	case p != nil && p.User == "world":
		return nil
	case a.ID == "":
		return perl.Denied("user != null")
	case a.IsRoot():
		return nil
	case p == nil:
		return perl.Denied("user != root@pam")
	case p.User == "all":
		return nil
	case p.Check == nil:
		return perl.Denied("")
	}
	e := Evaluation{s, w, a, params}
	return e.run(p.Check, false)
}

// Evaluation runs a permission expression (RPCEnvironment.pm, exec_api2_perm_check).
type Evaluation struct {
	Server *engine.Engine
	World  *state.World
	Auth   auth.Identity
	Params map[string]string
}

// run returns nil if the check holds. Inside an "or" the reasons of the branches are lost, as in PVE: the text is then
// the bare "Permission check failed".
func (e Evaluation) run(c *schema.Check, quiet bool) error {
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
		return perl.Denied("")
	case "perm":
		if need := c.Options["require_param"]; need != "" && e.Params[need] == "" {
			return perl.Denied("")
		}
		path := e.fill(c.Path)
		if c.Any {
			return auth.CheckAny(e.World, e.Auth, path, c.Privs)
		}
		return auth.Check(e.World, e.Auth, path, c.Privs)
	case "perm-modify":
		return e.Modify(e.fill(c.Path))
	case "userid-param", "userid-group":
		return e.user(c, quiet)
	}
	return perl.Die("unknown permission test")
}

func (e Evaluation) fill(template string) string {
	for {
		from := strings.IndexByte(template, '{')
		if from < 0 {
			return template
		}
		to := strings.IndexByte(template[from:], '}')
		if to < 0 {
			return template
		}
		template = template[:from] + e.Params[template[from+1:from+to]] + template[from+to+1:]
	}
}

// Modify is check_perm_modify: Permissions.Modify, or the right to allocate what the path stands for.
func (e Evaluation) Modify(path string) error {
	path = auth.Normalize(path)
	privs := []string{"Permissions.Modify"}
	switch {
	case strings.HasPrefix(path, "/storage/"):
		privs = append(privs, "Datastore.Allocate")
	case strings.HasPrefix(path, "/vms/"):
		privs = append(privs, "VM.Allocate")
	case strings.HasPrefix(path, "/pool/"):
		privs = append(privs, "Pool.Allocate")
	}
	return auth.CheckAny(e.World, e.Auth, path, privs)
}

func (e Evaluation) user(c *schema.Check, quiet bool) error {
	id := e.Params["userid"]
	exists := e.World.Users[id] != nil
	if c.Op == "userid-param" && c.Param != "self" {
		_, realm, _ := strings.Cut(id, "@")
		return auth.CheckAny(e.World, e.Auth, "/access/realm/"+realm, []string{c.Param})
	}
	if !exists && c.Options["groups_param"] != "create" {
		if quiet {
			return perl.Denied("")
		}
		return perl.Die("no such user ('%s')", id)
	}
	if c.Op == "userid-param" {
		if e.Auth.ID == id {
			return nil
		}
		return perl.Denied("")
	}
	return auth.CheckAny(e.World, e.Auth, "/access/groups", c.Privs)
}
