package server

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func releaseRig(t *testing.T, version string) *rig {
	t.Helper()
	return newRig(t, func(c *engine.Config) { c.World.Profile, c.Schema = version, schema.LoadVersion(version) })
}

// TestGroupsBecameRules: a route that exists is never answered with PVE's words for one that does not.
func TestGroupsBecameRules(t *testing.T) {
	for _, version := range []string{"8.4", "9.0", "9.2"} {
		g := releaseRig(t, version)
		g.s.Do(func(w *state.World) { w.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "started"} })
		rules := strings.HasPrefix(version, "9.")
		for _, c := range []struct{ request, params, old, later string }{
			{"GET /cluster/ha/groups", "", "200", "500 cannot index groups: ha groups have been migrated to rules"},
			{"POST /cluster/ha/groups", "group=front&nodes=pve1,pve2", "200",
				"500 cannot create group: ha groups have been migrated to rules"},
			{"POST /cluster/ha/groups", "group=front&nodes=pve1",
				"500 create ha group failed: ha group ID 'front' already defined", "500 cannot create group: ha groups have " +
					"been migrated to rules"},
			{"PUT /cluster/ha/groups/back", "nodes=pve1", "500 update ha group failed: no such ha group 'back'",
				"500 cannot update group: ha groups have been migrated to rules"},
			{"PUT /cluster/ha/resources/vm:8000", "group=back", "500 HA group 'back' does not exist",
				"500 invalid parameter 'group': ha groups have been migrated to rules"},
			{"PUT /cluster/ha/resources/vm:8000", "group=front", "200",
				"500 invalid parameter 'group': ha groups have been migrated to rules"},
			{"DELETE /cluster/ha/groups/front", "", "500 delete ha group failed: ha group is used by service 'vm:8000'",
				"500 cannot delete group: ha groups have been migrated to rules"},
			{"GET /cluster/ha/rules", "", "501 Method 'GET /cluster/ha/rules' not implemented", "200"},
			{"POST /cluster/ha/rules", "rule=near&type=node-affinity&resources=vm:8000&nodes=pve1:2,pve2",
				"501 Method 'POST /cluster/ha/rules' not implemented", "200"},
			{"POST /cluster/ha/rules", "rule=near&type=node-affinity&resources=vm:8000&nodes=pve1",
				"501 Method 'POST /cluster/ha/rules' not implemented", "500 create ha rule failed: HA rule 'near' already defined"},
			{"POST /cluster/ha/rules", "rule=far&type=node-affinity&resources=vm:8000,vm:9000&nodes=pve1",
				"501 Method 'POST /cluster/ha/rules' not implemented", "500 create ha rule failed: cannot use unmanaged " +
					"resource(s) vm:9000."},
			{"POST /cluster/ha/rules", "rule=far&type=node-affinity&resources=vm:8000&nodes=pve7",
				"501 Method 'POST /cluster/ha/rules' not implemented", "500 create ha rule failed: cannot use non-existent " +
					"node(s) pve7."},
			{"PUT /cluster/ha/rules/near", "type=node-affinity&strict=1",
				"501 Method 'PUT /cluster/ha/rules/near' not implemented", "200"},
			{"PUT /cluster/ha/rules/far", "type=node-affinity&strict=1",
				"501 Method 'PUT /cluster/ha/rules/far' not implemented", "500 update HA rules failed: HA rule 'far' does not " +
					"exist"},
			{"GET /cluster/ha/rules/far", "", "501 Method 'GET /cluster/ha/rules/far' not implemented",
				"500 no such ha rule 'far'"},
			{"GET /cluster/sdn/fabrics", "", "501 Method 'GET /cluster/sdn/fabrics' not implemented",
				"501 Method 'GET /cluster/sdn/fabrics' not simulated"},
		} {
			method, path, _ := strings.Cut(c.request, " ")
			values, err := url.ParseQuery(c.params)
			if err != nil {
				t.Fatal(err)
			}
			r := g.do("root@pam!tf", method, path, values.Encode())
			want := c.old
			if rules {
				want = c.later
			}
			got := strconv.Itoa(r.status)
			if r.status != 200 {
				got += " " + r.reason
			}
			if got != want {
				t.Errorf("%s: %s %s: %q, want %q", version, c.request, c.params, got, want)
			}
		}
		if !rules {
			continue
		}
		if row := g.do("root@pam!tf", "GET", "/cluster/ha/rules", "resource=vm%3A8000").list(); len(row) != 1 ||
			row[0]["strict"] != 1.0 || row[0]["nodes"] != "pve1:2,pve2" {
			t.Errorf("%s: rules %v", version, row)
		}
	}
}
