package lifecycle_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// guarded is a VM with a firewall and under HA; the parts are replaced by the tests.
const guarded = `
resource "proxmox_vm" "x" {
  name     = "x"
  node     = "pve1"
  vmid     = 400
  disks    = { scsi0 = { storage = "local-zfs", size = "1G" } }
  networks = { net0 = { bridge = "vmbr0", firewall = true } }
  firewall = {
    enabled   = true
    policy_in = "DROP"
    rules = [
      { type = "in", action = "ACCEPT", macro = "ssh", source = "10.0.0.0/8", comment = "admins " },
      { type = "in", action = "ACCEPT", proto = "tcp", dport = "80", iface = "net0", enabled = false },
      { type = "out", action = "REJECT", proto = "icmp", icmp_type = "echo-request", log = "info" },
    ]
  }
  ha = { state = "started", max_restart = 3, comment = "web" }
}
`

// bare is guarded without the two.
var bare = strings.Split(guarded, "  firewall = {")[0] + "}\n"

// beside is what the server has beside the VM's configuration.
func beside(w *rig.World, vmid int) (wall *state.FirewallFile, ha *state.HAResource) {
	w.Change(func(world *state.World) {
		if f := world.Firewall[vmid]; f != nil {
			wall = &state.FirewallFile{Options: maps.Clone(f.Options), Rules: slices.Clone(f.Rules)}
		}
		if h := world.HA["vm:400"]; h != nil {
			ha = &state.HAResource{SID: h.SID, State: h.State, Group: h.Group, Options: maps.Clone(h.Options)}
		}
	})
	return wall, ha
}

var guardedWall = &state.FirewallFile{
	Options: map[string]string{"enable": "1", "policy_in": "DROP"},
	Rules: []map[string]string{
		{"type": "in", "action": "ACCEPT", "enable": "1", "macro": "SSH", "source": "10.0.0.0/8", "comment": "admins "},
		{"type": "in", "action": "ACCEPT", "enable": "0", "proto": "tcp", "dport": "80", "iface": "net0"},
		{"type": "out", "action": "REJECT", "enable": "1", "proto": "icmp", "icmp-type": "echo-request", "log": "info"},
	},
}

func wantBeside(t *testing.T, w *rig.World, wall *state.FirewallFile, ha *state.HAResource) {
	t.Helper()
	gotWall, gotHA := beside(w, 400)
	if diff := cmp.Diff(wall, gotWall); diff != "" {
		t.Errorf("firewall (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ha, gotHA); diff != "" {
		t.Errorf("HA (-want +got):\n%s", diff)
	}
}

// writes are the requests about firewall and HA that changed something since the last ResetCalls.
func writes(w *rig.World) []string {
	var all []string
	for _, op := range w.Sim.Ops() {
		if op.Method != http.MethodGet && op.Status < http.StatusBadRequest && (strings.Contains(op.Path, "/firewall/") || strings.Contains(op.Path, "/ha/")) {
			all = append(all, op.Method+" "+op.Path)
		}
	}
	return all
}

func touches(w *rig.World) int {
	n := 0
	for _, op := range w.Sim.Ops() {
		if strings.Contains(op.Path, "/firewall/") || strings.Contains(op.Path, "/ha/") {
			n++
		}
	}
	return n
}

// TestFirewallAndHA goes through the life of both: made with the VM, changed one by one, imported, taken out.
func TestFirewallAndHA(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, guarded)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	entry := &state.HAResource{SID: "vm:400", State: "started", Options: map[string]string{"max_restart": "3", "comment": "web"}}
	wantBeside(t, w, guardedWall, entry)

	t.Run("import", func(t *testing.T) {
		again := w.Session(t, rig.RootTicket, guarded)
		if err := again.Import(t.Context(), "proxmox_vm.x", "pve1/400"); err != nil {
			t.Fatal(err)
		}
		if plan, err := again.Plan(t.Context()); err != nil || !plan.Empty() {
			t.Errorf("plan after import: %v, %v", plan, err)
		}
		without := w.Session(t, rig.RootTicket, bare)
		if err := without.Import(t.Context(), "proxmox_vm.x", "400"); err != nil {
			t.Fatal(err)
		}
		if plan, err := without.Plan(t.Context()); err != nil || !plan.Empty() {
			t.Errorf("plan of a configuration without them after import: %v, %v", plan, err)
		}
	})

	step := func(config string, want ...string) {
		t.Helper()
		w.Reconfigure(t, s, rig.RootTicket, config)
		w.ResetCalls()
		if err := s.Converge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := writes(w); !slices.Equal(got, want) {
			t.Errorf("requests: %v, want %v", got, want)
		}
	}
	const vmPath, haPath = "/nodes/{node}/qemu/{vmid}/firewall", "/cluster/ha/resources/{sid}"
	changed := strings.Replace(guarded, `policy_in = "DROP"`, `policy_out = "REJECT"`, 1)
	step(changed, "PUT "+vmPath+"/options")
	changed = strings.Replace(changed, `dport = "80", iface = "net0", enabled = false`, `dport = "443"`, 1)
	step(changed, "PUT "+vmPath+"/rules/{pos}")
	changed = strings.Replace(changed, `      { type = "out", action = "REJECT", proto = "icmp", icmp_type = "echo-request", log = "info" },`+"\n", "", 1)
	step(changed, "DELETE "+vmPath+"/rules/{pos}")
	changed = strings.Replace(changed, `max_restart = 3, comment = "web"`, `max_restart = 2`, 1)
	step(changed, "PUT "+haPath)
	wantBeside(t, w, &state.FirewallFile{Options: map[string]string{"enable": "1", "policy_out": "REJECT"}, Rules: []map[string]string{
		guardedWall.Rules[0], {"type": "in", "action": "ACCEPT", "enable": "1", "proto": "tcp", "dport": "443"}}},
		&state.HAResource{SID: "vm:400", State: "started", Options: map[string]string{"max_restart": "2"}})
	step(guarded, "PUT "+vmPath+"/options", // a rule that is not the first: switched off on top, to its place, on
		"POST "+vmPath+"/rules", "PUT "+vmPath+"/rules/{pos}", "PUT "+vmPath+"/rules/{pos}", "PUT "+vmPath+"/rules/{pos}", "PUT "+haPath)
	wantBeside(t, w, guardedWall, entry)

	step(bare, "DELETE "+haPath, "PUT "+vmPath+"/options", "DELETE "+vmPath+"/rules/{pos}", "DELETE "+vmPath+"/rules/{pos}", "DELETE "+vmPath+"/rules/{pos}")
	wantBeside(t, w, &state.FirewallFile{Options: map[string]string{}, Rules: []map[string]string{}}, nil)
	w.ResetCalls()
	if err := s.Converge(t.Context()); err != nil || touches(w) != 0 {
		t.Errorf("%d requests about objects that are not configured; %v", touches(w), err)
	}
	step(guarded, "POST "+vmPath+"/rules", "POST "+vmPath+"/rules", "POST "+vmPath+"/rules", "PUT "+vmPath+"/options", "POST /cluster/ha/resources")
	wantBeside(t, w, guardedWall, entry)
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.MustBeClean(t)
}

// TestFirewallOfAClone: what is configured is enforced over the template's firewall, the rest stays as the template has it.
func TestFirewallOfAClone(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) {
		world.Firewall[9000] = &state.FirewallFile{Options: map[string]string{"enable": "0", "macfilter": "1"},
			Rules: []map[string]string{{"type": "in", "action": "DROP", "enable": "1", "comment": "the template's"}}}
		world.Firewall[401] = &state.FirewallFile{Options: map[string]string{"policy_in": "ACCEPT"},
			Rules: []map[string]string{{"type": "in", "action": "ACCEPT", "enable": "1", "comment": "an earlier VM's"}}}
	})
	s := w.Session(t, rig.TokenNoSSH, `
resource "proxmox_vm" "clone" {
  name     = "x"
  vmid     = 400
  clone    = { vmid = 9000 }
  firewall = { enabled = true }
}
resource "proxmox_vm" "fresh" {
  name     = "y"
  node     = "pve1"
  vmid     = 401
  firewall = { enabled = true }
}
`)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if wall, _ := beside(w, 400); wall.Options["enable"] != "1" || wall.Options["macfilter"] != "1" || len(wall.Rules) != 1 {
		t.Errorf("firewall of the clone: %+v", wall)
	}
	if rule := s.Attr("proxmox_vm.clone", "firewall.rules"); rule.IsNull() || rule.LengthInt() != 1 {
		t.Errorf("rules of the clone in state: %s", terraformtest.ShowValue(rule))
	}
	if wall, _ := beside(w, 401); len(wall.Options) != 1 || len(wall.Rules) != 0 {
		t.Errorf("a VM made from scratch has a firewall that an earlier one left: %+v", wall)
	}
}

// TestRollbackOfFirewallAndHA fails each of the requests about them in both ways.
func TestRollbackOfFirewallAndHA(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) {
		world.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored", Options: map[string]string{"comment": "a third party's"}}
		world.Firewall[8000] = &state.FirewallFile{Options: map[string]string{"enable": "1"}, Rules: []map[string]string{{"type": "in", "action": "DROP", "enable": "1"}}}
	})
	w.Mark()
	fw := "/nodes/{node}/qemu/{vmid}/firewall"
	fired := 0
	for _, c := range []struct {
		method, path string
		nth          int
	}{{"PUT", fw + "/options", 1}, {"POST", fw + "/rules", 1}, {"POST", fw + "/rules", 3}, {"GET", fw + "/rules", 2},
		{"POST", "/cluster/ha/resources", 1}, {"PUT", "/nodes/{node}/qemu/{vmid}/config", 1}} {
		for _, phase := range []fault.Phase{fault.Before, fault.After} {
			s := w.Session(t, rig.RootTicket, guarded)
			w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: c.method, Path: c.path, Nth: c.nth}, Phase: phase, Times: 1}})
			err := s.Run(t.Context())
			fired += w.Sim.FaultsFired()
			w.Sim.SetFaults(nil)
			if phase == fault.Before && c.method != "GET" && (err == nil || len(s.Addresses()) != 0) {
				t.Errorf("%s %s refused: %v, in state %v", c.method, c.path, err, s.Addresses())
			}
			if err == nil { // a lost answer was looked after
				wantBeside(t, w, guardedWall, &state.HAResource{SID: "vm:400", State: "started", Options: map[string]string{"max_restart": "3", "comment": "web"}})
				if err := s.Destroy(t.Context()); err != nil {
					t.Errorf("%s %s, %s: %v", c.method, c.path, phase, err)
				}
			}
			w.MustBeClean(t)
		}
	}
	if fired != 12 {
		t.Errorf("%d faults fired, want 12", fired)
	}
}

// TestDestroyUnderHA: HA is to ignore the guest before it is shut down, and no longer if it does not shut down.
func TestDestroyUnderHA(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, guarded)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, entry := beside(w, 400)
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/shutdown"}, Phase: fault.Before}})
	if err := s.Destroy(t.Context()); err == nil {
		t.Fatal("the guest did not shut down, and no message said so")
	}
	if _, now := beside(w, 400); !cmp.Equal(now, entry) {
		t.Errorf("the HA entry was not put back: %+v", now)
	}
	w.Sim.SetFaults(nil)
	w.ResetCalls()
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	order := []string{}
	for _, op := range w.Sim.Ops() {
		if op.Method != http.MethodGet && op.VMID != 0 || strings.HasPrefix(op.Path, "/cluster/ha") && op.Method == http.MethodPut {
			order = append(order, op.Method+" "+op.Path)
		}
	}
	if len(order) < 3 || order[0] != "PUT /cluster/ha/resources/{sid}" || !strings.HasSuffix(order[1], "/status/shutdown") {
		t.Errorf("order of the destroy: %v", order)
	}
	w.MustBeClean(t)
}

// TestHAIsRefusedInThePlan: HA is the cluster's, and the documented role has no say in it.
func TestHAIsRefusedInThePlan(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	w.Mark()
	s := w.Session(t, rig.TokenNoSSH, guarded)
	if _, err := s.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "Sys.Console") {
		t.Errorf("want a refusal that names Sys.Console, got %v", err)
	}
	w.MustBeClean(t)
	w.Reconfigure(t, s, rig.RootTicket, strings.Replace(guarded, "ha = {", `power_state = "stopped"`+"\n  ha = {", 1))
	if err := s.Validate(t.Context()); err == nil || !strings.Contains(err.Error(), "ha.state") {
		t.Errorf("want a contradiction to be refused, got %v", err)
	}
}

// TestGroupsEndWithPVE9: they are refused in the plan there.
func TestGroupsEndWithPVE9(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{Profile: "9.0"})
	s := w.Session(t, rig.RootTicket, strings.Replace(guarded, `comment = "web"`, `group = "big"`, 1))
	if _, err := s.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "HA rule") {
		t.Errorf("want a refusal that names HA rules, got %v", err)
	}
}

// TestFailbackNeedsPVE9: it is refused in the plan before, and works from there on.
func TestFailbackNeedsPVE9(t *testing.T) {
	t.Parallel()
	config := strings.Replace(guarded, `comment = "web"`, "failback = false", 1)
	for profile, refused := range map[string]bool{"8.4": true, "9.0": false} {
		w := rig.NewWorld(t, pvesim.Options{Profile: profile})
		s := w.Session(t, rig.RootTicket, config)
		err := s.Converge(t.Context())
		if refused != (err != nil && strings.Contains(err.Error(), "needs Proxmox VE 9.0")) {
			t.Errorf("%s: %v", profile, err)
		}
		if _, ha := beside(w, 400); !refused && (ha == nil || ha.Options["failback"] != "0") {
			t.Errorf("%s: HA entry %+v; %v", profile, ha, err)
		}
	}
}

// TestRuleWhoseSetWasRemoved: PVE lets an administrator remove an IP set that a VM's rule names, and lists the rule with
// an object of errors from then on (pve-firewall Firewall.pm verify_rule). The VM can be planned, changed and destroyed
// as before, and the refresh says which rule is not followed.
func TestRuleWhoseSetWasRemoved(t *testing.T) {
	t.Parallel()
	rule := map[string]string{"type": "in", "action": "DROP", "source": "+bad", "enable": "1"}
	const ours = `firewall = { enabled = true, rules = [{ type = "in", action = "DROP", source = "%s" }] }` + "\n"
	for name, body := range map[string]string{"ours": fmt.Sprintf(ours, "+bad"), "by hand": "firewall = { enabled = true }\n",
		"by hand, without a firewall": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				world.Firewalls = map[string]*state.FirewallFile{"cluster": {IPSets: map[string]*state.IPSet{"bad": {}}}}
			})
			s := w.Session(t, rig.RootTicket, rig.NodeVMBlock(rig.OneDisk+"\n"+body))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				world.Firewalls["cluster"].IPSets = nil
				world.Firewall[400] = &state.FirewallFile{Options: map[string]string{"enable": "1"},
					Rules: []map[string]string{rule}}
			})
			plan, err := s.Plan(t.Context())
			rig.Must(t, err)
			if !plan.Empty() {
				t.Errorf("a plan without a change:\n%s", plan)
			}
			said := fmt.Sprint(s.Diagnostics().Warnings())
			if strings.Contains(said, "rule 0, source: no such ipset 'bad'") != (body != "") {
				t.Errorf("of the rule the refresh says: %s", said)
			}
			w.Reconfigure(t, s, rig.RootTicket, rig.NodeVMBlock(rig.OneDisk+"\n"+body+"description = \"x\"\n"))
			rig.Must(t, s.Converge(t.Context()))
			if name == "ours" {
				w.Reconfigure(t, s, rig.RootTicket, rig.NodeVMBlock(rig.OneDisk+"\n"+fmt.Sprintf(ours, "10.0.0.0/8")))
				rig.Must(t, s.Converge(t.Context()))
			}
			replaced := strings.Replace(rig.NodeVMBlock(rig.OneDisk), "vmid = 400", "vmid = 401", 1)
			w.Reconfigure(t, s, rig.RootTicket, replaced)
			_, err = s.Plan(t.Context())
			rig.Must(t, err)
			if said := fmt.Sprint(s.Diagnostics().Warnings()); body == "" && !strings.Contains(said, "firewall options or rules") {
				t.Errorf("the plan of the replacement does not name the rules: %s", said)
			}
			w.Reconfigure(t, s, rig.RootTicket, "")
			rig.Must(t, s.Run(t.Context()))
		})
	}
}

// TestRefreshNamesAServiceThatHAHasGivenUp: HA keeps the VM running no more, which a plan without changes says.
func TestRefreshNamesAServiceThatHAHasGivenUp(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, rig.VMBlock("vmid = 500\nnode = \"pve1\"\nha = { state = \"started\" }\n"+
		"disks = { scsi0 = { storage = \"shared-nfs\", size = \"1G\" } }\n"))
	rig.Must(t, s.Converge(t.Context()))
	const said = "HA has given up VM 500"
	for _, failed := range []bool{false, true} {
		w.Sim.Advance(time.Minute)
		w.Change(func(world *state.World) { world.HA["vm:500"].Failed = failed })
		_, err := s.Plan(t.Context())
		rig.Must(t, err)
		if got := fmt.Sprint(s.Diagnostics()); strings.Contains(got, said) != failed {
			t.Errorf("given up: %t; the plan says: %s", failed, got)
		}
	}
}
