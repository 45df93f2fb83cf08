package server

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/statistics"
)

func (g *rig) guest(vmid int) map[string]any {
	g.t.Helper()
	for _, row := range g.do("root@pam!tf", "GET", "/cluster/resources", "type=vm").list() {
		if row["vmid"] == float64(vmid) {
			return row
		}
	}
	return nil
}

// TestResourcesLag: name and status come from pvestatd, up to 10 s late; who exists, lock, tags and pool do not.
func TestResourcesLag(t *testing.T) {
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) {
		w.Guests[100] = &state.Guest{VMID: 100, Type: "qemu", Node: "pve2", LockCause: "state",
			Config: map[string]string{"name": "new", "tags": "a;b", "lock": "create"}}
		w.Pools["web"].Guests = []int{100}
	})
	want := map[string]any{
		"id": "qemu/100", "vmid": 100.0, "node": "pve2", "type": "qemu", "status": "unknown", "tags": "a;b", "lock": "create",
		"pool": "web",
	}
	if diff := cmp.Diff(want, g.guest(100)); diff != "" {
		t.Error(diff)
	}
	g.clock.Advance(statistics.StatisticsCycle)
	if row := g.guest(100); row["status"] != "stopped" || row["name"] != "new" || row["maxcpu"] != 1.0 {
		t.Errorf("after a cycle: %v", row)
	}
	g.s.Do(func(w *state.World) {
		w.Guests[100].Running = &state.Running{QMPStatus: "running", StartedAt: w.Clock.Now()}
		w.Guests[100].Config["name"] = "renamed"
		delete(w.Guests[100].Config, "lock")
	})
	if row := g.guest(100); row["status"] != "stopped" || row["name"] != "new" || row["lock"] != nil {
		t.Errorf("at once: %v", row)
	}
	g.clock.Advance(statistics.StatisticsCycle)
	if row := g.guest(100); row["status"] != "running" || row["name"] != "renamed" || row["uptime"] != 10.0 {
		t.Errorf("a cycle later: %v", row)
	}
	g.s.Do(func(w *state.World) { delete(w.Guests, 100) })
	if row := g.guest(100); row != nil {
		t.Errorf("after its end: %v", row)
	}
}

func TestResourcesShowWhatOneMaySee(t *testing.T) {
	g := newRig(t, nil)
	g.w.ACL = append(g.w.ACL, state.ACLEntry{Path: "/vms/8000", Subject: "root@pam!sep", Role: "PVEVMUser",
		Propagate: true})
	count := func(as string) map[any]int {
		n := map[any]int{}
		for _, row := range g.do(as, "GET", "/cluster/resources", "").list() {
			n[row["type"]]++
		}
		return n
	}
	if diff := cmp.Diff(map[any]int{"qemu": 2, "lxc": 1, "node": 2, "storage": 10, "pool": 1, "sdn": 2},
		count("root@pam!tf")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[any]int{"qemu": 1, "node": 2}, count("root@pam!sep")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[any]int{"qemu": 2, "lxc": 1, "node": 2, "storage": 10, "pool": 1, "sdn": 2},
		count("terraform@pve!prov")); diff != "" {
		t.Error(diff)
	}
	for _, row := range g.do("root@pam!sep", "GET", "/nodes", "").list() {
		if row["maxmem"] != nil || row["status"] != "online" {
			t.Errorf("figures without Sys.Audit: %v", row)
		}
	}
}

func TestClusterStatus(t *testing.T) {
	g := newRig(t, nil)
	list := g.do("root@pam!tf", "GET", "/cluster/status", "").list()
	if len(list) != 3 || list[0]["type"] != "cluster" || list[0]["quorate"] != 1.0 || list[1]["local"] != 1.0 ||
		list[2]["local"] != 0.0 {
		t.Errorf("%v", list)
	}
	if r := g.do("root@pam!sep", "GET", "/cluster/status", ""); r.reason != "Permission check failed (/, Sys.Audit)" {
		t.Errorf("without privilege: %s", r.reason)
	}
}

func TestNextID(t *testing.T) {
	g := newRig(t, nil)
	g.w.NextID.Lower, g.w.NextID.Upper = 8000, 8002
	if r := g.do("root@pam!sep", "GET", "/cluster/nextid", ""); r.body.Data != "8001" {
		t.Errorf("%v", r.body.Data)
	}
	g.w.Guests[8001] = &state.Guest{VMID: 8001, Type: "qemu", Node: "pve1", Config: map[string]string{}}
	if r := g.do("root@pam!sep", "GET", "/cluster/nextid",
		""); r.reason != "unable to get any free VMID in range [8000, 8002]" {
		t.Errorf("%d %s", r.status, r.reason)
	}
}

func TestPools(t *testing.T) {
	g := newRig(t, nil)
	const root = "root@pam!tf"
	g.w.Roles["Tenant"] = []string{"Permissions.Modify"}
	for _, who := range []string{"auditor@pve", "auditor@pve!ro"} {
		g.w.ACL = append(g.w.ACL, state.ACLEntry{Path: "/vms", Subject: who, Role: "Tenant", Propagate: true},
			state.ACLEntry{Path: "/pool/p1", Subject: who, Role: "Tenant", Propagate: true},
			state.ACLEntry{Path: "/pool/web", Subject: who, Role: "PVEPoolAdmin", Propagate: true})
	}
	for _, row := range []struct{ as, method, path, params, reason string }{
		{root, "POST", "/pools", "poolid=p1&comment=x", "OK"},
		{root, "PUT", "/pools/p1", "vms=8000", "OK"},
		{root, "PUT", "/pools/p1", "vms=9999", "OK"},
		{root, "PUT", "/pools/p1", "vms=8000", "update pools failed: VM 8000 is already a pool member"},
		{root, "PUT", "/pools/web", "vms=8000",
			"update pools failed: VM 8000 belongs already to pool 'p1' and 'allow-move' is not set"},
		{root, "DELETE", "/pools/p1", "", "delete pool failed: pool 'p1' is not empty (contains VM 8000)"},
		{"auditor@pve!ro", "PUT", "/pools/p1", "vms=8000", "Permission check failed (/pool/p1, Pool.Allocate)"},
		{"auditor@pve!ro", "PUT", "/pools", "poolid=web&vms=8000&allow-move=1",
			"update pools failed: 403 Permission check failed (/pool/p1, Pool.Allocate)"},
		{"auditor@pve!ro", "PUT", "/pools", "poolid=web&storage=local-zfs",
			"update pools failed: 403 Permission check failed (/storage/local-zfs, Permissions.Modify|Datastore.Allocate)"},
		{root, "PUT", "/pools", "poolid=web&vms=8000&allow-move=1", "OK"},
		{root, "PUT", "/pools/web", "vms=8000&delete=1", "OK"},
		{root, "PUT", "/pools/web", "vms=8000&delete=1", "update pools failed: VM 8000 is not a pool member"},
		{root, "DELETE", "/pools/p1", "", "OK"},
	} {
		if r := g.do(row.as, row.method, row.path, row.params); r.reason != row.reason {
			t.Errorf("%s %s %s: %q, want %q", row.method, row.path, row.params, r.reason, row.reason)
		}
		if row.params == "vms=9999" {
			list := g.do(root, "GET", "/pools", "poolid=p1").list()
			members, _ := list[0]["members"].([]any)
			if len(members) != 1 || list[0]["comment"] != "x" || list[0]["poolid"] != "p1" {
				t.Errorf("a member without configuration must not show: %v", list)
			}
		}
	}
}

var haDigestMember = regexp.MustCompile(`"digest":"[0-9a-f]{40}",`)

func TestHAResources(t *testing.T) {
	g := newRig(t, nil)
	const root = "root@pam!tf"
	for _, row := range []struct{ method, path, params, want string }{
		{"POST", "/cluster/ha/resources", "sid=8000&state=enabled", `{"data":null}`},
		{"GET", "/cluster/ha/resources/vm:8000", "", `{"data":{"sid":"vm:8000","state":"started","type":"vm"}}`},
		{"PUT", "/cluster/ha/resources/vm:8000", "state=ignored", `{"data":null}`},
		{"GET", "/cluster/ha/resources", "", `{"data":[{"sid":"vm:8000","state":"ignored","type":"vm"}]}`},
		{"DELETE", "/cluster/ha/resources/vm:8000", "", `{"data":null}`},
		{"GET", "/cluster/ha/resources", "type=vm", `{"data":[]}`},
	} {
		r := g.do(root, row.method, row.path, row.params)
		if got := haDigestMember.ReplaceAllString(r.text, ""); got != row.want {
			t.Errorf("%s %s: %s", row.method, row.path, got)
		}
	}
	if r := g.do(root, "POST", "/cluster/ha/resources", "sid=vm:4711"); r.status != 500 {
		t.Errorf("missing guest: %d", r.status)
	}
}

func TestTaskLists(t *testing.T) {
	g := newRig(t, nil)
	start := g.clock.Now()
	add := func(as, typ, id string, err error) {
		user, _, isToken := cutToken(as)
		g.s.Do(func(w *state.World) {
			r := &engine.Request{W: w, Engine: g.s.Engine, Auth: auth.Identity{ID: as, User: user, IsToken: isToken},
				Synchronous: true}
			r.Fork("pve1", typ, id, func(wk *engine.Worker) error { wk.Logf("line"); return err })
		})
		g.clock.Advance(time.Second)
	}
	add("root@pam!tf", "qmcreate", "100", nil)
	add("terraform@pve!prov", "qmcreate", "101", perl.Die("broken"))
	add("terraform@pve", "qmstart", "101", nil)
	count := func(as, params string) int { return g.do(as, "GET", "/nodes/pve1/tasks", params).body.Total }
	for _, row := range []struct {
		as, params string
		want       int
	}{
		{"root@pam!tf", "", 3}, {"root@pam!tf", "source=active", 0}, {"root@pam!tf", "vmid=101", 2}, {"root@pam!tf",
			"errors=1", 1},
		{"root@pam!tf", "typefilter=qmstart", 1}, {"root@pam!tf", "userfilter=TERRA", 2}, {"root@pam!tf",
			"statusfilter=ok,warning", 2},
		{"root@pam!tf", fmt.Sprintf("since=%d", start.Unix()+1), 2}, {"root@pam!tf", fmt.Sprintf("until=%d", start.Unix()+1),
			2},
		{"root@pam!sep", "", 0}, {"terraform@pve!prov", "", 3},
	} {
		if n := count(row.as, row.params); n != row.want {
			t.Errorf("%s %s: %d tasks, want %d", row.as, row.params, n, row.want)
		}
	}
	g.w.ACL = nil
	if n := count("terraform@pve!prov", ""); n != 1 {
		t.Errorf("a token sees %d tasks, want its own", n)
	}
	if r := g.do("root@pam!tf", "GET", "/nodes/pve1/tasks", "limit=1&start=1"); len(r.list()) != 1 ||
		r.list()[0]["status"] != "broken" {
		t.Errorf("page: %s", r.text)
	}
	list := g.do("root@pam!tf", "GET", "/cluster/tasks", "").list()
	if len(list) != 3 || list[0]["type"] != "qmstart" || list[0]["saved"] != "1" {
		t.Errorf("cluster tasks: %v", list)
	}
}

// TestClusterLog: tasks and changes of VMs are in the log as they happen, the latest first; those of containers are not. An
// identity without Sys.Syslog sees its own.
func TestClusterLog(t *testing.T) {
	g := newRig(t, nil)
	const root, other = "root@pam!tf", "terraform@pve!prov"
	g.s.Do(func(w *state.World) {
		w.Guests[100] = &state.Guest{VMID: 100, Type: "qemu", Node: "pve1", Config: map[string]string{"memory": "512"}}
	})
	g.do(root, "PUT", "/nodes/pve1/qemu/100/config", "cores=2")
	g.do(root, "POST", "/nodes/pve1/qemu/100/config", "cores=3")
	said := func(as, params string) (all []string) {
		for _, e := range g.do(as, "GET", "/cluster/log", params).list() {
			all = append(all, regexp.MustCompile(`UPID:\S+`).ReplaceAllString(e["msg"].(string), "UPID"))
		}
		return all
	}
	want := []string{"end task UPID OK", "update VM 100: -cores 3", "starting task UPID", "update VM 100: -cores 2"}
	if diff := cmp.Diff(want, said(root, "")); diff != "" {
		t.Error(diff)
	}
	if got := said(root, "max=1"); len(got) != 1 || got[0] != want[0] {
		t.Errorf("the latest: %v", got)
	}
	g.w.ACL = nil
	if got := said(other, ""); len(got) != 0 {
		t.Errorf("without Sys.Syslog: %v", got)
	}
}

func cutToken(id string) (user, token string, isToken bool) {
	for i := range id {
		if id[i] == '!' {
			return id[:i], id[i+1:], true
		}
	}
	return id, "", false
}
