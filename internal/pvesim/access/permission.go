package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// effectivePermissions is GET /access/permissions: privilege -> propagate flag by path (API2/AccessControl.pm).
func effectivePermissions(r *engine.Request) (any, error) {
	who := r.Auth
	if id := r.Params["userid"]; id != "" {
		user, _, isToken := strings.Cut(id, "!")
		who = auth.Identity{ID: id, User: user, IsToken: isToken}
		if id != r.Auth.ID && user != r.Auth.ID {
			if err := r.Check("/access", "Sys.Audit"); err != nil {
				return nil, err
			}
		}
	}
	paths := defaultPaths(r.W)
	asked := r.Params["path"] != ""
	if asked {
		paths = []string{r.Params["path"]} // the answer names it as the question did
	}
	out := map[string]any{}
	for _, path := range paths {
		privs := map[string]any{}
		for priv, propagate := range auth.Permissions(r.W, who, path) {
			privs[priv] = perl.Flag(propagate)
		}
		if len(privs) > 0 || asked {
			out[path] = privs
		}
	}
	return out, nil
}

// defaultPaths are the paths listed without being asked for: the top levels, those with entries, and what pools hold
// (RPCEnvironment.pm, get_effective_permissions).
func defaultPaths(w *state.World) []string {
	paths := []string{"/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms"}
	for _, e := range w.ACL { // the tree has the paths above an entry, too
		for path := auth.Normalize(e.Path); path != ""; path = path[:strings.LastIndexByte(path, '/')] {
			paths = append(paths, path)
		}
	}
	for _, p := range w.Pools {
		for _, id := range p.Guests {
			paths = append(paths, fmt.Sprintf("/vms/%d", id))
		}
		for _, id := range p.Storages {
			paths = append(paths, "/storage/"+id)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// capabilities are what a login tells the web interface: privileges by area (RPCEnvironment.pm,
// compute_api_permission).
func capabilities(e *engine.Engine, w *state.World, a auth.Identity) map[string]any {
	areas := map[string]struct {
		prefix string
		paths  []string
	}{
		"vms": {"VM.", []string{"/vms"}}, "storage": {"Datastore.", []string{"/storage"}},
		"access": {"User.,Group.", []string{"/access", "/access/groups"}}, "nodes": {"Sys.", []string{"/nodes"}},
		"sdn": {"SDN.", []string{"/sdn"}}, "dc": {"Sys.Audit,Sys.Modify,SDN.", []string{"/"}},
		"mapping": {"Mapping.", []string{"/mapping"}},
	}
	out := map[string]any{}
	for area, rule := range areas {
		found := map[string]any{}
		for _, path := range rule.paths {
			for priv := range auth.Permissions(w, a, path) {
				if hasPrefix(priv, rule.prefix) || priv == "Permissions.Modify" && area != "dc" {
					found[priv] = 1
				}
			}
		}
		out[area] = found
	}
	return out
}

func hasPrefix(s, prefixes string) bool {
	return slices.ContainsFunc(strings.Split(prefixes, ","), func(p string) bool { return strings.HasPrefix(s, p) })
}
