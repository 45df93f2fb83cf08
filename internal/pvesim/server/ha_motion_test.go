package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestCompanionsMoveAlong: a migration under HA takes the guests of a positive rule along, stopped ones too, and a
// container that runs is shut down before and started after that. The preconditions name them, and those that keep the
// guest from a node (pve-ha-manager HA/Manager.pm queue_resource_motion, HA/Resources/PVECT.pm migrate; qemu-server
// API2/Qemu.pm migrate_vm_precondition).
func TestCompanionsMoveAlong(t *testing.T) {
	for _, version := range []string{"9.0", "9.2"} {
		g := releaseRig(t, version)
		g.s.Do(func(w *state.World) {
			w.HARound = -1
			for _, sid := range []string{"vm:8000", "vm:9000", "ct:8100"} {
				w.HA[sid] = &state.HAResource{SID: sid, State: "stopped"}
			}
			w.HA["ct:8100"].State, w.Guests[8100].Running = "started", &state.Running{}
			w.Guests[9000].Config["template"] = ""
			w.HARules = map[string]map[string]string{
				"together": {"type": "resource-affinity", "affinity": "positive", "resources": "vm:8000,ct:8100"},
				"apart":    {"type": "resource-affinity", "affinity": "negative", "resources": "ct:8100,vm:9000"},
			}
		})
		said := g.do("root", "GET", "/nodes/pve1/qemu/9000/migrate", "").object(t)
		if blocked := fmt.Sprint(said["not_allowed_nodes"]); strings.Contains(blocked, "blocking-ha-resources") {
			t.Errorf("%s: nothing is on another node, but %s", version, blocked)
		}
		said = g.do("root", "GET", "/nodes/pve1/qemu/8000/migrate", "").object(t)
		if also := fmt.Sprint(said["dependent-ha-resources"]); also != "[ct:8100]" {
			t.Errorf("%s: dependent: %s", version, also)
		}
		if r := g.do("root", "POST", "/nodes/pve1/qemu/8000/migrate", "target=pve2"); r.status != 200 {
			t.Fatalf("%s: %d %s", version, r.status, r.reason)
		}
		g.pass(round)
		g.wantWhere(8000, "pve2")
		g.wantWhere(8100, "pve2+")
		g.wantPowers("shutdown soft vzmigrate root@pam")
		said = g.do("root", "GET", "/nodes/pve1/qemu/9000/migrate", "").object(t)
		if blocked := fmt.Sprint(said["not_allowed_nodes"]); !strings.Contains(blocked, "ct:8100") {
			t.Errorf("%s: blocked: %s", version, blocked)
		}
		if allowed := fmt.Sprint(said["allowed_nodes"]); strings.Contains(allowed, "pve2") {
			t.Errorf("%s: allowed: %s", version, allowed)
		}
	}
}
