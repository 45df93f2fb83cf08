package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// routesOf are the routes of a release, as method and template.
func routesOf(version string) []string {
	var all []string
	for _, r := range schema.LoadVersion(version).Routes() {
		all = append(all, r.Method+" "+r.Template)
	}
	return all
}

// TestNotImplementedMeansNoSuchRoute: in every release PVE's words for a route that does not exist are said of those
// alone. One that exists and has no semantics here says that it is not simulated.
func TestNotImplementedMeansNoSuchRoute(t *testing.T) {
	all := map[string][]string{} // route -> releases
	for _, version := range schema.Versions() {
		for _, route := range routesOf(version) {
			all[route] = append(all[route], version)
		}
	}
	if len(all) < 650 {
		t.Errorf("the releases have %d routes together", len(all))
	}
	values := strings.NewReplacer("{node}", "pve1", "{vmid}", "8000", "{storage}", "local", "{sid}", "vm:8000", "{", "",
		"}", "")
	for _, version := range schema.Versions() {
		g := releaseRig(t, version)
		g.w.Adapt()
		said := map[string]int{}
		for route, has := range all {
			method, template, _ := strings.Cut(route, " ")
			if method != "GET" {
				continue // the others would change the world
			}
			r := g.do("root", method, values.Replace(template), "")
			none := r.status == 501 && strings.HasSuffix(r.reason, "' not implemented")
			if none == slices.Contains(has, version) {
				t.Errorf("%s: %s: %d %q, and the route exists in %v", version, route, r.status, r.reason, has)
			}
			if _, known := g.s.Config.Routes[route]; !known && !none && r.status != 400 &&
				r.reason != "Method '"+route+"' not simulated" {
				t.Errorf("%s: %s: %d %q, and it has no semantics", version, route, r.status, r.reason)
			}
			said[r.reason[max(0, len(r.reason)-13):]]++
		}
		if said["not simulated"] < 50 || version != "9.2" && said["t implemented"] < 20 {
			t.Errorf("%s: %v", version, said)
		}
	}
}

// TestRoutesOfReleases: routes that came or went, in their own words.
func TestRoutesOfReleases(t *testing.T) {
	for _, c := range []struct{ route, releases string }{
		{"PUT /pools", "8.2 8.4 9.0 9.2"},
		{"PUT /pools/{poolid}", "7.4 8.0 8.2 8.4 9.0 9.2"},
		{"GET /cluster/mapping/pci", "7.4 8.0 8.2 8.4 9.0 9.2"},
		{"GET /cluster/mapping/dir", "8.4 9.0 9.2"},
		{"GET /cluster/notifications/matchers", "8.2 8.4 9.0 9.2"},
		{"GET /cluster/sdn/vnets/{vnet}/firewall/rules/{pos}", "8.4 9.0 9.2"},
		{"GET /nodes/{node}/lxc/{vmid}/interfaces", "8.2 8.4 9.0 9.2"},
		{"GET /nodes/{node}/scan/glusterfs", "7.4 8.0 8.2 8.4"},
		{"GET /cluster/ha/groups", "7.4 8.0 8.2 8.4 9.0 9.2"},
		{"GET /cluster/ha/rules", "9.0 9.2"},
		{"POST /cluster/ha/status/disarm-ha", "9.2"},
		{"DELETE /cluster/sdn/fabrics/node/{fabric_id}/{node_id}", "9.0 9.2"},
		{"POST /cluster/sdn/lock", "9.0 9.2"},
		{"GET /cluster/sdn/dry-run", "9.2"},
		{"POST /cluster/bulk-action/guest/start", "9.2"},
		{"GET /nodes/{node}/capabilities/qemu/migration", "9.0 9.2"},
		{"POST /nodes/{node}/qemu/{vmid}/dbus-vmstate", "9.0 9.2"},
		{"POST /cluster/qemu/custom-cpu-models", "9.2"},
		{"POST /nodes/{node}/storage/{storage}/oci-registry-pull", "9.2"},
		{"GET /nodes/{node}/storage/{storage}/import-metadata", "8.2 8.4 9.0 9.2"},
	} {
		var has []string
		for _, version := range schema.Versions() {
			if slices.Contains(routesOf(version), c.route) {
				has = append(has, version)
			}
		}
		if got := strings.Join(has, " "); got != c.releases {
			t.Errorf("%s is in %q, want %q", c.route, got, c.releases)
		}
	}
}

// TestServicesOfHA: which names of a service are taken (pve-ha-manager HA/Config.pm, parse_sid; HA/Resources/PVEVM.pm
// and PVECT.pm).
func TestServicesOfHA(t *testing.T) {
	eachProfile(t, func(t *testing.T, profile string, g *rig) {
		mistyped := "resource 'ct:8000' - guest with ID 8000 is not a container"
		if profile < "9.2" {
			mistyped = "OK"
		}
		for _, c := range []struct{ sid, want string }{
			{"foo:8000", "unknown section type 'foo'"},
			{"vm:x", "invalid VMID"},
			{"vm:777", "resource 'vm:777' does not exist in cluster"},
			{"777", "unable do detect SID from VMID - VM/CT 777 does not exist"},
			{"ct:8000", mistyped},
			{"8100", "OK"},
			{"ct:8100", "create resource failed: resource ID 'ct:8100' already defined"},
		} {
			if r := g.do("root@pam!tf", "POST", "/cluster/ha/resources", "sid="+c.sid+"&state=started"); r.reason != c.want {
				t.Errorf("%s: %d %q, want %q", c.sid, r.status, r.reason, c.want)
			}
		}
		g.check()
		g.s.Do(func(w *state.World) {
			if w.Guests[8000].Running != nil {
				t.Error("a service that is called a container has started a virtual machine")
			}
		})
	})
}

// TestPoolsOfOldReleases: until 8.1 a pool's name stands in the path, and pools hold no pools (pve-manager
// API2/Pool.pm).
func TestPoolsOfOldReleases(t *testing.T) {
	const undefined = "property is not defined in schema and the schema does not allow additional properties"
	for version, want := range map[string][3]string{
		"8.0": {"Method 'PUT /pools' not implemented", undefined, "pool name 'web/shop' contains invalid characters\n"},
		"8.4": {"OK", "", ""},
	} {
		g := releaseRig(t, version)
		if r := g.do("root@pam!tf", "PUT", "/pools", "poolid=web&comment=x"); r.reason != want[0] {
			t.Errorf("%s: PUT /pools: %d %q", version, r.status, r.reason)
		}
		if r := g.do("root@pam!tf", "GET", "/pools", "poolid=web"); r.body.Errors["poolid"] != want[1] {
			t.Errorf("%s: GET /pools with poolid: %d %v", version, r.status, r.body.Errors)
		}
		r := g.do("root@pam!tf", "POST", "/pools", "poolid=web/shop")
		if !strings.HasSuffix(r.body.Errors["poolid"], want[2]) || (r.status == 200) != (want[2] == "") {
			t.Errorf("%s: POST /pools with a nested one: %d %v", version, r.status, r.body.Errors)
		}
		if r := g.do("root@pam!tf", "PUT", "/pools/web", "comment=y"); r.status != 200 {
			t.Errorf("%s: PUT /pools/web: %d %s", version, r.status, r.reason)
		}
	}
}

// TestSmallRefusals are answers that a client may see once in its life.
func TestSmallRefusals(t *testing.T) {
	g := newRig(t, nil)
	for _, name := range []string{"Pending", "PENDING", "current"} {
		g.steps([]step{{"", "POST", "/qemu/8000/snapshot", "snapname=" + name,
			"unable to use snapshot name '" + strings.ToLower(name) + "' (reserved name)"}})
	}
	g.steps([]step{
		{"", "POST", "/qemu/8000/snapshot", "snapname=one", "OK"},
		{"", "PUT", "/qemu/8000/cloudinit", "", "OK"}, // which has no drive for it
		{"", "POST", "/qemu/8000/firewall/rules", "type=in&action=ACCEPT&proto=nope",
			"proto: invalid format - unknown protocol 'nope'"},
		{"", "GET", "/storage/local/import-metadata", "volume=local:import/x.ova",
			"unable to parse directory volume name 'local:import/x.ova'"},
		{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:0,import-from%3Dlocal:import/disk.qcow2&import-working-storage=nosuch", "OK"},
	})
	index := g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/8000/snapshot/one", "").list()
	if len(index) != 2 || index[0]["cmd"] != "rollback" || index[1]["cmd"] != "config" {
		t.Errorf("index of a snapshot: %v", index)
	}
	if c := g.do("root@pam!tf", "GET", "/access/permissions", "path=vms").object(t); len(c) != 1 || c["vms"] == nil {
		t.Errorf("permissions on a path without its slash: %v", c)
	}
	for id, free := range map[string]bool{"8000": false, "777": true} { // for every identity
		if r := g.do("auditor@pve!ro", "GET", "/cluster/nextid", "vmid="+id); (r.status == 200) != free {
			t.Errorf("nextid?vmid=%s: %d %s", id, r.status, r.reason)
		}
	}
}

// TestRootCannotBeDeleted: reading the list of users adds root again (access-control AccessControl.pm,
// userconfig_force_defaults).
func TestRootCannotBeDeleted(t *testing.T) {
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) { w.Users[auth.RootUser].Email = "root@example.invalid" })
	if r := g.do("root", "DELETE", "/access/users/root@pam", ""); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.reason)
	}
	g.login()
	if g.ticket == "" {
		t.Error("root cannot log in any more")
	}
	if u := g.do("root", "GET", "/access/users/root@pam", "").object(t); u["email"] != nil || u["enable"] != 1.0 {
		t.Errorf("root is %v", u)
	}
	if len(g.w.Tokens) == 0 || g.w.Tokens["root@pam!tf"] != nil {
		t.Error("root's tokens have outlived him, or all are gone")
	}
}

// TestAgentCommands: the guest agent API's refusals, and an answer to each command (API2/Qemu/Agent.pm).
func TestAgentCommands(t *testing.T) {
	g := newRig(t, nil)
	const prefix = "/qemu/8000/agent/"
	g.steps([]step{
		{"", "POST", prefix + "ping", "", "No QEMU guest agent configured"},
		{"", "PUT", "/qemu/8000/config", "agent=1", "OK"},
		{"", "POST", prefix + "ping", "", "VM 8000 is not running"},
		{"", "POST", "/qemu/8000/status/start", "", "OK"},
	})
	for command := range agent.Table() {
		if command == "shutdown" {
			continue
		}
		method := "POST"
		if _, ok := g.s.Config.Routes["GET "+agent.Base+"/"+command]; ok {
			method = "GET"
		}
		r := g.do("root@pam!tf", method, "/nodes/pve1"+prefix+command, "")
		if result, ok := r.object(t)["result"]; !ok || result == nil {
			t.Errorf("%s: %s", command, r.text)
		}
	}
	g.steps([]step{
		{"", "POST", prefix + "exec", "command=true", "OK"},
		{"", "GET", prefix + "exec-status?pid=1000", "", "OK"},
		{"", "GET", prefix + "exec-status?pid=99999", "", "Agent error: PID 99999 does not exist"},
		{"", "POST", prefix + "set-user-password", "username=u&password=secret1", "OK"},
		{"", "GET", prefix + "file-read?file=/x", "",
			"Agent error: failed to open file '/x' (mode: 'r'): No such file or directory"},
		{"", "POST", prefix + "shutdown", "", "OK"},
	})
	g.pass(1)
	g.wantPowers("shutdown soft")
}

// TestDownloadsStayOnTheMachine: a node fetches from the loopback interface alone, asks no name server, and says so;
// unless it is let out.
func TestDownloadsStayOnTheMachine(t *testing.T) {
	served := 0
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		served++
		_, _ = rw.Write([]byte("image"))
	}))
	defer server.Close()
	g := newRig(t, nil)
	for _, host := range []string{"example.invalid", "192.0.2.1", "[2001:db8::1]"} {
		r := g.do("root@pam!tf", "GET", "/nodes/pve1/query-url-metadata", "url=http://"+host+"/a.iso")
		if r.status != 500 || !strings.Contains(r.reason, "(Network is unreachable)") {
			t.Errorf("%s: %d %s", host, r.status, r.reason)
		}
		g.steps([]step{{"", "POST", "/storage/local/download-url", "content=iso&filename=a.iso&url=http://" + host + "/a.iso",
			"download failed: Connecting to " + host + ":80... failed: Network is unreachable."}})
		g.logs("downloads from elsewhere have to be allowed when it is started")
	}
	g.steps([]step{{"", "POST", "/storage/local/download-url", "content=iso&filename=a.iso&url=" + server.URL + "/a.iso",
		"OK"}})
	if served != 1 {
		t.Errorf("%d requests came to the server of this machine", served)
	}
	if !newRig(t, func(c *engine.Config) { c.Internet = true }).s.Config.Internet {
		t.Error("Config.Internet lets no download out")
	}
}
