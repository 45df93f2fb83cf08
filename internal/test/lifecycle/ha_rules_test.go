package lifecycle_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// ruled is a VM under HA, without a firewall.
var ruled = strings.Replace(bare, "networks = ", `on_destroy = { power_off = "graceful_only" }
  ha = { state = "started", max_restart = 3, comment = "web" }
  networks = `, 1)

// ruledVM is a cluster with that VM, which two rules of the administrator name.
func ruledVM(t *testing.T, profile string, log ...*engine.Interrupter) (*rig.World, *terraformtest.Session) {
	t.Helper()
	w := rig.NewWorld(t, pvesim.Options{Profile: profile})
	for _, keys := range log {
		keys.World = w
		w.LogTo(keys)
	}
	s := w.Session(t, rig.RootTicket, ruled)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		world.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored"}
		world.HARules = map[string]map[string]string{
			"licence": {"type": "node-affinity", "resources": "vm:400", "nodes": "pve1", "strict": "1"},
			"apart":   {"type": "resource-affinity", "resources": "vm:400,vm:8000", "affinity": "negative"},
		}
	})
	return w, s
}

// rulesOf are the HA rules with their resources.
func rulesOf(w *rig.World) map[string]string {
	found := map[string]string{}
	w.Change(func(world *state.World) {
		for id, rule := range world.HARules {
			found[id] = rule["resources"]
		}
	})
	return found
}

var bothRules = map[string]string{"licence": "vm:400", "apart": "vm:400,vm:8000"}

const (
	shutdownPath = "/nodes/{node}/qemu/{vmid}/status/shutdown"
	vmPath       = "/nodes/{node}/qemu/{vmid}"
)

// TestHARulesSurviveAFailedDestroy: a destroy that fails or is cancelled leaves the HA entry and the administrator's
// rules as they were, wherever it ends; the next one removes the VM, and its own deletion alone takes it out of the rules.
func TestHARulesSurviveAFailedDestroy(t *testing.T) {
	t.Parallel()
	gone := map[string]map[string]string{"8.4": bothRules, "9.0": bothRules, "9.2": {"apart": "vm:8000"}}
	for profile, after := range gone {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			w, s := ruledVM(t, profile)
			_, entry := beside(w, 400)
			for _, rule := range []fault.Rule{
				{Match: fault.Match{Method: "POST", Path: shutdownPath}, Phase: fault.Before},
				{Match: fault.Match{Method: "POST", Path: shutdownPath}, Phase: fault.Task},
				{Match: fault.Match{Method: "DELETE", Path: vmPath}, Phase: fault.Before, Times: -1}, // and the guest is off
			} {
				w.Sim.SetFaults([]fault.Rule{rule})
				if err := s.Destroy(t.Context()); err == nil {
					t.Fatalf("no error names %+v", rule)
				}
				w.Sim.SetFaults(nil)
				if _, now := beside(w, 400); !cmp.Equal(now, entry) {
					t.Errorf("%+v: the HA entry is %+v, and was %+v", rule, now, entry)
				}
				if now := rulesOf(w); !maps.Equal(now, bothRules) {
					t.Errorf("%+v: the rules are %v", rule, now)
				}
			}
			if err := s.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if now := rulesOf(w); !maps.Equal(now, after) {
				t.Errorf("the VM is gone, and the rules are %v, want %v", now, after)
			}
		})
	}
}

// TestHARulesSurviveACancelledDestroy: interrupted in the shutdown, a destroy puts the entry back.
func TestHARulesSurviveACancelledDestroy(t *testing.T) {
	t.Parallel()
	keys := &engine.Interrupter{At: fault.Match{Method: "POST", Path: shutdownPath, Nth: 1}}
	w, s := ruledVM(t, "9.2", keys)
	_, entry := beside(w, 400)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.Change(func(world *state.World) { world.Guests[400].Ignores = []string{"shutdown"} })
	keys.Press = cancel
	if err := s.Destroy(ctx); err == nil {
		t.Fatal("cancelled, and no error says so")
	}
	if _, now := beside(w, 400); !cmp.Equal(now, entry) || !maps.Equal(rulesOf(w), bothRules) {
		t.Errorf("the HA entry is %+v, and was %+v; the rules are %v", now, entry, rulesOf(w))
	}
}

// TestHARulesSurviveLeavingHA: an update that takes a VM out of HA leaves the rules alone, also where the server does
// not know how to change them yet.
func TestHARulesSurviveLeavingHA(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"8.4", "9.0", "9.2"} {
		w, s := ruledVM(t, profile)
		w.Reconfigure(t, s, rig.RootTicket, strings.Replace(ruled, "ha = {", "# ha = {", 1))
		if err := s.Converge(t.Context()); err != nil {
			t.Fatalf("%s: %v", profile, err)
		}
		if _, now := beside(w, 400); now != nil || !maps.Equal(rulesOf(w), bothRules) {
			t.Errorf("%s: entry %+v, rules %v", profile, now, rulesOf(w))
		}
	}
}

// TestHARulesOfAServiceInError: HA changes no entry of a service that it has given up, so the entry is made again, and
// the VM's deletion takes it out of the rules.
func TestHARulesOfAServiceInError(t *testing.T) {
	t.Parallel()
	w, s := ruledVM(t, "9.2")
	w.Change(func(world *state.World) { world.HA["vm:400"].Failed = true })
	_, entry := beside(w, 400)
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: shutdownPath}, Phase: fault.Before}})
	if err := s.Destroy(t.Context()); err == nil {
		t.Fatal("the guest did not shut down, and no error says so")
	}
	w.Sim.SetFaults(nil)
	if _, now := beside(w, 400); !cmp.Equal(now, entry) || !maps.Equal(rulesOf(w), bothRules) {
		t.Errorf("the HA entry is %+v, and was %+v; the rules are %v", now, entry, rulesOf(w))
	}
	w.Change(func(world *state.World) { world.HA["vm:400"].Failed = true })
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := rulesOf(w); !maps.Equal(now, map[string]string{"apart": "vm:8000"}) {
		t.Errorf("the rules are %v", now)
	}
}

// TestPlanAfterAFailover: HA has recovered a VM from its configured node, which stays off. The plan follows the VM until that is back, and
// other resources can be planned and applied.
func TestPlanAfterAFailover(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2", "pve3"}, Clock: rig.NewFastClock()})
	config := func(tags string) string {
		return rig.VMBlock("vmid = 400\n node = \"pve2\"\n ha = { state = \"started\" }\n" + tags +
			"disks = { scsi0 = { storage = \"shared-nfs\", size = \"1G\" } }\n")
	}
	s := w.Session(t, rig.RootTicket, config(""))
	rig.Must(t, s.Converge(t.Context()))
	w.Sim.Fence("pve2")
	w.Sim.Advance(5 * time.Minute)
	const on = "pve3"
	w.Change(func(world *state.World) { world.Guests[400].Node = on })
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	if !pl.Empty() || !strings.Contains(s.Diagnostics().String(), "stays on node "+on) {
		t.Errorf("planned %s, said %s", pl, s.Diagnostics())
	}
	w.Reconfigure(t, s, rig.RootTicket, config("tags = [\"a\"]\n"))
	rig.Must(t, s.Converge(t.Context()))
	if g := rig.GuestOf(w, 400); g.Node != on || g.Config["tags"] != "a" {
		t.Errorf("it is on %s: %v", g.Node, g.Config)
	}
	w.Reconfigure(t, s, rig.RootTicket, strings.Replace(config(""), "pve2", "pve9", 1))
	_, err = s.Plan(t.Context())
	rig.MustSay(t, err, `Unknown node "pve9"`)
	w.Sim.SetNode("pve2", true)
	w.Reconfigure(t, s, rig.RootTicket, config(""))
	rig.Must(t, s.Converge(t.Context()))
	if g := rig.GuestOf(w, 400); g.Node != "pve2" {
		t.Errorf("it is on %s, and pve2 is back", g.Node)
	}
}

// TestPlanAfterAFailoverHoldsInTheApply: the configured node returns, or goes, between a plan and its apply. The apply plans the same VM
// again, by the refresh of the first plan.
func TestPlanAfterAFailoverHoldsInTheApply(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		isOff      bool // while it is planned
		says, then string
	}{
		"returns": {true, "", "pve3"},
		"goes":    {false, "Node pve2 is not online", "pve3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2", "pve3"}, Clock: rig.NewFastClock()})
			config := func(tags string) string {
				return rig.VMBlock("vmid = 400\n node = \"pve2\"\n ha = { state = \"started\" }\n" + tags +
					"disks = { scsi0 = { storage = \"shared-nfs\", size = \"1G\" } }\n")
			}
			s := w.Session(t, rig.RootTicket, config(""))
			rig.Must(t, s.Converge(t.Context()))
			w.Sim.Fence("pve2")
			w.Sim.Advance(5 * time.Minute)
			w.Change(func(world *state.World) { world.Guests[400].Node = "pve3" })
			w.Sim.SetNode("pve2", !c.isOff)
			w.Reconfigure(t, s, rig.RootTicket, config("tags = [\"a\"]\n"))
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			w.Sim.SetNode("pve2", c.isOff)
			w.Sim.Advance(time.Minute)
			if err := s.Apply(t.Context(), pl); c.says == "" {
				rig.Must(t, err)
			} else {
				rig.MustSay(t, err, c.says)
			}
			if g := rig.GuestOf(w, 400); g.Node != c.then {
				t.Errorf("it is on %s", g.Node)
			}
			w.Sim.SetNode("pve2", true)
			rig.Must(t, s.Converge(t.Context()))
			if g := rig.GuestOf(w, 400); g.Node != "pve2" || g.Config["tags"] != "a" {
				t.Errorf("at the end it is on %s: %v", g.Node, g.Config)
			}
		})
	}
}

// TestMigrationUnderHAToAnotherStorage: PVE hands the migration on to HA without targetstorage. Where the target lacks the old storage, the
// plan says so.
func TestMigrationUnderHAToAnotherStorage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ ha, then, want string }{
		"under HA": {"ha = { state = \"started\" }\n", "ha = { state = \"started\" }\n", "migrates disks to storages of their name alone"},
		"ignored":  {ha: "ha = { state = \"ignored\" }\n", then: "ha = { state = \"ignored\" }\n"},
		"without":  {}, "taken out of HA": {ha: "ha = { state = \"started\" }\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := threeNodes(t)
			config := func(node, storage, ha string) string {
				return rig.VMBlock("vmid = 400\n node = \"" + node + "\"\n" + ha + "disks = { scsi0 = { storage = \"" + storage + "\", size = \"1G\" } }\n")
			}
			s := w.Session(t, rig.RootTicket, config("pve1", "local-zfs", c.ha))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) { world.Storages["local-zfs"].Nodes = []string{"pve1", "pve3"} })
			w.Reconfigure(t, s, rig.RootTicket, config("pve2", "local-lvm", c.then))
			pl, err := s.Plan(t.Context())
			if c.want != "" {
				rig.MustSay(t, err, c.want, "leave ha out")
				return
			}
			rig.Must(t, err)
			rig.Must(t, s.Apply(t.Context(), pl))
		})
	}
}
