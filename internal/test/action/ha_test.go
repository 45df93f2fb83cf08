package action_test

import (
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// underHA is VM 500 with an HA entry that keeps its guest running, which may be an administrator's.
func underHA(t *testing.T) *actor {
	t.Helper()
	a := newActor(t, rig.RootTicket, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	a.w.Change(func(world *state.World) { world.HA["vm:500"] = &state.HAResource{SID: "vm:500", State: "started"} })
	return a
}

// TestStopUnderHATellsOfTheEntry: HA's manager notes a stop and a shutdown that it is asked for in the HA entry, and starts the guest no more. The action
// says so.
func TestStopUnderHATellsOfTheEntry(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"stop", "shutdown"} {
		a := underHA(t)
		a.w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
		told, err := a.act("action = \"" + action + "\"")
		entry := ""
		a.w.Change(func(world *state.World) { entry = world.HA["vm:500"].State })
		if err != nil || entry != "stopped" || !strings.Contains(told, `sets the state of the VM's HA entry to "stopped"`) {
			t.Errorf("%s: the HA entry has the state %s now; it says %q, %v", action, entry, told, err)
		}
	}
}

// TestRollBackUnderHATellsThatTheGuestIsStarted: a guest that HA is to keep running does not stay off after a roll-back.
func TestRollBackUnderHATellsThatTheGuestIsStarted(t *testing.T) {
	t.Parallel()
	a := underHA(t)
	rig.RunTask(t, a.w, "/nodes/pve1/qemu/500/snapshot", "snapname=before")
	nap := func() { a.w.Sim.Advance(90 * time.Second) }
	nap()
	a.w.ExpectPowerOffs(state.PowerRollback)
	told, err := rig.Invoke(t, a.s, "proxmox_vm_snapshot_rollback", "vmid = 500\nname = \"before\"", nil)
	nap()
	if err != nil || strings.Contains(told, "stays off") || !strings.Contains(told, "HA starts it again") || a.guest() != "running" {
		t.Errorf("%v; it says %q, and the guest is %s", err, told, a.guest())
	}
}
