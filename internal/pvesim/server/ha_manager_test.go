package server

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestManagerActs: who puts a guest under HA asks for a state, and the manager brings it about in a task of its own.
func TestManagerActs(t *testing.T) {
	g := newRig(t, func(c *engine.Config) { c.World.HARound = -1 })
	running := func() (yes bool) {
		g.s.Do(func(w *state.World) { yes = w.Guests[8000].Running != nil })
		return yes
	}
	for _, step := range []struct {
		method, path, params string
		running              bool
	}{
		{"POST", "/cluster/ha/resources", "sid=vm:8000&state=stopped", false},
		{"PUT", "/cluster/ha/resources/vm:8000", "comment=x", false},
		{"PUT", "/cluster/ha/resources/vm:8000", "state=started", true},
		{"PUT", "/cluster/ha/resources/vm:8000", "state=ignored", true},
		{"PUT", "/cluster/ha/resources/vm:8000", "state=disabled", false},
		{"DELETE", "/cluster/ha/resources/vm:8000", "", false},
		{"POST", "/cluster/ha/resources", "sid=8000", true},
	} {
		if r := g.do("root@pam!tf", step.method, step.path, step.params); r.status != 200 {
			t.Fatalf("%s %s: %d %s", step.method, step.path, r.status, r.reason)
		}
		if running() != step.running {
			t.Errorf("after %s %s %s the guest runs: %v", step.method, step.path, step.params, running())
		}
	}
	status := g.do("root@pam!tf", "GET", "/cluster/ha/status/manager_status", "").object(t)
	manager, _ := status["manager_status"].(map[string]any)
	services, _ := manager["service_status"].(map[string]any)
	if row, _ := services["vm:8000"].(map[string]any); row["state"] != "started" || row["running"] != 1.0 ||
		row["node"] != "pve1" {
		t.Errorf("manager: %v", status)
	}
	var types []string
	for _, task := range g.do("root", "GET", "/nodes/pve1/tasks", "vmid=8000").list() {
		types = append([]string{task["type"].(string) + " " + task["user"].(string)}, types...)
	}
	if got := strings.Join(types, ", "); got != "qmstart root@pam, qmshutdown root@pam, qmstart root@pam" {
		t.Errorf("tasks: %s", got)
	}
}

// TestCreateManaged: 9.1 made an HA resource of a new guest on request; 9.2 asks for VM.PowerMgmt to start it.
func TestCreateManaged(t *testing.T) {
	g := newRig(t, func(c *engine.Config) { c.World.Profile, c.Schema = "9.2", schema.LoadVersion("9.2") })
	if r := g.do("terraform@pve!prov", "POST", "/nodes/pve1/qemu", "vmid=100&ha-managed=1"); r.status != 403 ||
		!strings.Contains(r.reason, "Sys.Console") {
		t.Errorf("without Sys.Console: %d %s", r.status, r.reason)
	}
	g.do("root@pam!tf", "POST", "/nodes/pve1/qemu", "vmid=100&ha-managed=1&start=1")
	g.s.Do(func(w *state.World) {
		if h := w.HA["vm:100"]; h == nil || h.State != "started" || w.Guests[100].Running == nil {
			t.Errorf("resource %+v of guest %+v", h, w.Guests[100])
		}
		w.Roles["NoPower"] = []string{"VM.Allocate", "VM.Config.Options"}
		w.Tokens["root@pam!np"] = &state.Token{ID: "root@pam!np", Secret: "s", Separated: true}
		w.ACL = append(w.ACL, state.ACLEntry{Path: "/", Subject: "root@pam!np", Role: "NoPower", Propagate: true})
	})
	if r := g.do("root@pam!np", "POST", "/nodes/pve1/qemu", "vmid=101&name=a"); r.status != 200 {
		t.Errorf("without start: %d %s", r.status, r.reason)
	}
	if r := g.do("root@pam!np", "POST", "/nodes/pve1/qemu", "vmid=102&start=1"); r.status != 403 ||
		!strings.Contains(r.reason, "VM.PowerMgmt") {
		t.Errorf("with start: %d %s", r.status, r.reason)
	}
}

func TestCapabilities(t *testing.T) {
	g := newRig(t, nil)
	machines := g.do("root@pam!tf", "GET", "/nodes/pve1/capabilities/qemu/machines", "").list()
	if len(machines) != 52 || machines[0]["id"] != "pc-q35-9.2+pve1" || machines[0]["changes"] == nil || machines[51]["type"] != "i440fx" {
		t.Errorf("machines %v", machines)
	}
	const key = "/nodes/pve1/qemu/8000/sendkey"
	if r := g.do("root@pam!tf", "PUT", key, "key=ctrl-alt-delete"); r.status != 500 || r.reason != "VM 8000 not running" {
		t.Errorf("key to a stopped guest: %d %s", r.status, r.reason)
	}
	g.do("root@pam!tf", "POST", "/nodes/pve1/qemu/8000/status/start", "")
	if r := g.do("root@pam!tf", "PUT", key, "key=ctrl-alt-delete"); r.status != 200 {
		t.Errorf("key: %d %s", r.status, r.reason)
	}
}
