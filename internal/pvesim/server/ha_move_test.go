package server

import (
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/control"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// where is the node of a guest, with "+" if it runs.
func (g *rig) where(vmid int) (at string) {
	g.s.Do(func(w *state.World) {
		if v := w.Guests[vmid]; v != nil {
			at = v.Node
			if v.Running != nil {
				at += "+"
			}
		}
	})
	return at
}

func (g *rig) wantWhere(vmid int, want string) {
	g.t.Helper()
	if got := g.where(vmid); got != want {
		g.t.Errorf("guest %d: %s, want %s", vmid, got, want)
	}
}

func (g *rig) wantLog(want string) {
	g.t.Helper()
	if log := strings.Join(control.ManagerLog(g.s.Engine), "\n"); !strings.Contains(log, want) {
		g.t.Errorf("the manager said %q, want %q", log, want)
	}
}

const round = state.DefaultHARound

// TestManagerTakesItsTime: requests are filed at once and acted on a round later; a stop becomes the requested state
// only then.
func TestManagerTakesItsTime(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&scsi0=shared-nfs:1", "OK"}})
	ok := func(method, path, params string) {
		t.Helper()
		if r := g.do("root@pam!tf", method, path, params); r.status != 200 {
			t.Errorf("%s %s: %d %s", method, path, r.status, r.reason)
		}
	}
	requested := func() string {
		s, _ := g.do("root@pam!tf", "GET", "/cluster/ha/resources/vm:100", "").object(t)["state"].(string)
		return s
	}
	ok("POST", "/cluster/ha/resources", "sid=vm:100")
	g.wantWhere(100, "pve1")
	g.pass(round)
	g.wantWhere(100, "pve1+")
	ok("POST", "/nodes/pve1/qemu/100/status/shutdown", "timeout=30")
	if g.where(100) != "pve1+" || requested() != "started" {
		t.Errorf("just filed: %s, %s", g.where(100), requested())
	}
	g.pass(round)
	if g.where(100) != "pve1" || requested() != "stopped" {
		t.Errorf("a round later: %s, %s", g.where(100), requested())
	}
	g.wantPowers("shutdown soft qmshutdown root@pam")
	ok("POST", "/nodes/pve1/qemu/100/status/start", "")
	if requested() != "started" || g.where(100) != "pve1" {
		t.Error("a start is the requested state at once, and acted on later")
	}
	g.pass(round)
	ok("POST", "/nodes/pve1/qemu/100/migrate", "target=pve2&online=1")
	g.wantWhere(100, "pve1+")
	g.pass(round)
	g.wantWhere(100, "pve2+")
	g.wantPowers()
	ok("POST", "/cluster/ha/resources/vm:100/relocate", "node=pve1")
	g.pass(4 * round)
	g.wantWhere(100, "pve1+")
	g.wantPowers("shutdown soft qmshutdown root@pam")
	ok("POST", "/nodes/pve1/qemu/100/status/reboot", "")
	g.wantPowers("reboot soft qmreboot root@pam!tf") // not the manager's business
	g.s.EndGuest(100)
	g.wantWhere(100, "pve1")
	g.pass(round)
	g.wantWhere(100, "pve1+")
}

func TestManagerMoves(t *testing.T) {
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) {
		w.Nodes["pve3"] = &state.Node{Name: "pve3", Address: "192.0.2.13", Bridges: []string{"vmbr0"}, Memory: 64 << 30}
		w.HAGroups["here"] = &state.HAGroup{ID: "here", Nodes: []string{"pve1"}, Restricted: true}
	})
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&scsi0=shared-nfs:1", "OK"},
		{"", "POST", "/qemu", "vmid=101&scsi0=local-zfs:1", "OK"}})
	move := func(sid, node, want string) {
		t.Helper()
		r := g.do("root@pam!tf", "POST", "/cluster/ha/resources/"+sid+"/migrate", "node="+node)
		if r.reason != want {
			t.Errorf("migrate %s: %s, want %s", sid, r.reason, want)
		}
		g.pass(round)
	}
	move("vm:100", "pve2", "resource 'vm:100' is not HA managed")
	for _, sid := range []string{"vm:100", "vm:101"} {
		g.do("root@pam!tf", "POST", "/cluster/ha/resources", "sid="+sid+"&group=here")
	}
	g.pass(round)
	move("vm:100", "pve3", "OK")
	g.wantWhere(100, "pve1+")
	g.wantLog("crm command error - node not online: migrate vm:100 pve3")
	move("vm:100", "pve1", "OK")
	g.wantLog("ignore crm command - service already on target node: migrate vm:100 pve1")
	move("vm:100", "pve2", "OK")
	g.wantWhere(100, "pve2+")
	g.pass(round) // the group fetches it back
	g.wantWhere(100, "pve1+")
	move("vm:101", "pve2", "OK") // local disks are no obstacle to the manager
	g.wantWhere(101, "pve2+")
	g.wantPowers()
	if c := g.do("root@pam!tf", "GET", "/cluster/ha/groups", "").list(); len(c) != 1 || c[0]["nodes"] != "pve1" {
		t.Errorf("groups %v", c)
	}
}

// TestManagerGivesUp: a service that does not start, after one more try there and as many on another node, is in state
// error until it is disabled.
func TestManagerGivesUp(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&net0=virtio,bridge%3Dvmbr9", "OK"}})
	g.do("root@pam!tf", "POST", "/cluster/ha/resources", "sid=vm:100")
	g.pass(2 * round)
	g.wantWhere(100, "pve1")
	g.pass(8 * round)
	g.wantLog("Failed nodes: pve1, pve2")
	if c := g.do("root@pam!tf", "GET", "/nodes/pve2/qemu/100/status/current",
		"").object(t); c["ha"].(map[string]any)["state"] != "error" {
		t.Errorf("ha: %v", c["ha"])
	}
	const inError = "service 'vm:100' in error state, must be disabled and fixed first"
	for _, s := range []struct{ method, path, params, want string }{
		{"PUT", "/cluster/ha/resources/vm:100", "state=started", inError},
		{"POST", "/cluster/ha/resources/vm:100/migrate", "node=pve1", inError},
		{"PUT", "/cluster/ha/resources/vm:100", "state=disabled", "OK"},
		{"PUT", "/cluster/ha/resources/vm:100", "state=started", "OK"},
	} {
		if r := g.do("root@pam!tf", s.method, s.path, s.params); r.reason != s.want {
			t.Errorf("%s %s %s: %s, want %s", s.method, s.path, s.params, r.reason, s.want)
		}
	}
}

// TestFence: a node that crashes takes its guests' power; HA brings up its own elsewhere, without what was local.
func TestFence(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&scsi0=shared-nfs:1&start=1", "OK"},
		{"", "POST", "/qemu", "vmid=101&start=1&onboot=1", "OK"}})
	g.do("root@pam!tf", "POST", "/cluster/ha/resources", "sid=vm:100")
	g.s.StaleLock(100, "backup", "")
	g.s.Fence("pve1")
	g.wantPowers("node hard", "node hard")
	g.wantWhere(100, "pve1")
	if r := g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/100/config", ""); r.status != 595 {
		t.Errorf("a crashed node answers %d", r.status)
	}
	g.pass(3 * round)
	g.wantWhere(100, "pve2+")
	g.wantWhere(101, "pve1")
	g.wantLog("recover service 'vm:100' from fenced node 'pve1' to node 'pve2'")
	g.s.SetNode("pve1", true)
	if r := g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/101/config", ""); r.status != 200 {
		t.Errorf("it is back: %d", r.status)
	}
	g.s.SetNode("pve2", false) // the network only
	g.pass(time.Minute)
	g.wantWhere(100, "pve2+")
	g.wantPowers()
}
