package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestBulkPower: a node starts its guests by their start order, those that are to start with it or all, and ends them the
// other way round; a failure of one does not keep the others.
func TestBulkPower(t *testing.T) {
	g := newRig(t, func(c *engine.Config) {
		c.World.Users["op@pve"] = &state.User{ID: "op@pve", Password: "pw"}
		c.World.Tokens["op@pve!t"] = &state.Token{ID: "op@pve!t", Secret: "s"}
		c.World.ACL = append(c.World.ACL, state.ACLEntry{Path: "/vms/101", Subject: "op@pve", Role: "PVEVMUser", Propagate: true})
	})
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&onboot=1", "OK"},
		{"", "POST", "/qemu", "vmid=101&onboot=1&startup=order=1", "OK"},
		{"", "POST", "/qemu", "vmid=102", "OK"},
		{"", "POST", "/qemu", "vmid=103&onboot=1&startup=order=0&net0=virtio,bridge=vmbr7", "OK"}, // cannot start
	})
	g.s.Do(func(w *state.World) { w.Guests[8000].Running = nil })
	running := func() (ids []int) {
		g.s.Do(func(w *state.World) {
			for id, guest := range w.Guests {
				if guest.Running != nil && guest.Node == "pve1" && guest.Type == "qemu" {
					ids = append(ids, id)
				}
			}
		})
		slices.Sort(ids)
		return ids
	}
	all := func(as, route, params string) (log []string) {
		t.Helper()
		r := g.do(as, "POST", "/nodes/pve1/"+route, params)
		upid, _ := r.body.Data.(string)
		if r.status != 200 {
			t.Fatalf("%s: %d %s", route, r.status, r.reason)
		}
		g.s.Do(func(w *state.World) { log = slices.Clone(w.Tasks[upid].Log) })
		return log
	}
	started := strings.Join(all("root@pam!tf", "startall", ""), "\n")
	if !slices.Equal(running(), []int{100, 101}) || !strings.HasPrefix(started, "Starting VM 103\nStarting VM 103 failed: ") ||
		!strings.HasSuffix(started, "\nStarting VM 101\nStarting VM 100\nTASK OK") {
		t.Errorf("started %v: %s", running(), started)
	}
	if r := g.do("op@pve!t", "POST", "/nodes/pve1/stopall", "vms=100,101"); r.reason != "Permission check failed (/vms/100, VM.PowerMgmt)" {
		t.Errorf("with a right on one: %s", r.reason)
	}
	if r := g.do("op@pve!t", "POST", "/nodes/pve1/suspendall", ""); r.reason != "Permission check failed (/, VM.PowerMgmt && VM.Config.Disk)" {
		t.Errorf("with a right on one: %s", r.reason)
	}
	all("op@pve!t", "stopall", "vms=101")
	all("root@pam!tf", "startall", "force=1&vms=102")
	if !slices.Equal(running(), []int{100, 102}) {
		t.Errorf("running: %v", running())
	}
	ended := strings.Join(all("root@pam!tf", "stopall", "timeout=7"), "\n")
	if len(running()) != 0 || ended != "Stopping VM 102 (timeout = 7 seconds)\nStopping VM 100 (timeout = 7 seconds)\nTASK OK" {
		t.Errorf("stopped, running %v: %s", running(), ended)
	}
}

// TestPasswordIsChanged: root changes any password, a user its own if it confirms.
func TestPasswordIsChanged(t *testing.T) {
	g := newRig(t, nil)
	login := func(user, password string) int {
		return g.do("none", "POST", "/access/ticket", "username="+user+"&password="+password).status
	}
	if r := g.do("root", "PUT", "/access/password", "userid=auditor@pve&password=much-longer"); r.status != 200 {
		t.Errorf("by root: %d %s", r.status, r.reason)
	}
	if login("auditor@pve", "much-longer") != 200 {
		t.Error("the new password is refused")
	}
	if r := g.do("root", "PUT", "/access/password", "userid=none@pve&password=much-longer"); r.reason != "no such user ('none@pve')" {
		t.Errorf("of no user: %s", r.reason)
	}
}

// TestGuestsWithoutBackup: those that no job covers.
func TestGuestsWithoutBackup(t *testing.T) {
	g := newRig(t, func(c *engine.Config) {
		c.World.Backups = map[string]*state.BackupJob{"j": {ID: "j", VMIDs: []int{8000}}}
	})
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&name=web", "OK"}})
	names := map[any]any{}
	for _, row := range g.do("root", "GET", "/cluster/backup-info/not-backed-up", "").list() {
		names[row["vmid"]] = row["name"]
	}
	if _, covered := names[8000.0]; covered || names[100.0] != "web" {
		t.Errorf("without a backup: %v", names)
	}
}
