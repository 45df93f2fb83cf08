package action_test

import (
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestActionsUnlock: the action removes a lock that a killed task has left, and a lock whose owner is unknown if the user accepts that.
// It never removes the lock of a running task, nor that of a VM that is half made. The plan refuses an identity that can never unlock.
func TestActionsUnlock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, config, says, lock string
		prepare                  func(w *rig.World)
	}{
		{name: "not locked", says: "is not locked: there is nothing to do"},
		{name: "of a dead task", says: "The lock (backup) of VM 500 on node pve1 was removed: vzdump of root@pam",
			prepare: func(w *rig.World) { w.Sim.StaleLock(500, "backup", "root@pam") }},
		{name: "of a dead migration", config: "lock = \"migrate\"", says: "The lock (migrate)",
			prepare: func(w *rig.World) { w.Sim.StaleLock(500, "migrate", "root@pam") }},
		{name: "of no known task", says: "!none that died over it is known", lock: "backup",
			prepare: func(w *rig.World) { w.Sim.StaleLock(500, "backup", "") }},
		{name: "of no known task, accepted", config: "accept = \"unknown\"", says: "The lock (backup)",
			prepare: func(w *rig.World) { w.Sim.StaleLock(500, "backup", "") }},
		{name: "of a live task", config: "accept = \"unknown\"", says: "!VM 500 is locked (backup) by vzdump of root@pam", lock: "backup",
			prepare: func(w *rig.World) { w.Sim.HoldLock(500, "backup", time.Hour, "root@pam") }},
		{name: "another one", config: "lock = \"migrate\"", says: "!It is locked (backup), not (migrate)", lock: "backup",
			prepare: func(w *rig.World) { w.Sim.StaleLock(500, "backup", "root@pam") }},
		{name: "suspended", says: "!VM 500 is suspended to disk", lock: "suspended", config: "accept = \"unknown\"",
			prepare: func(w *rig.World) {
				w.ExpectPowerOffs(state.PowerSuspend)
				w.Sim.StaleLock(500, "suspended", "root@pam")
			}},
		{name: "half destroyed", says: "!VM 500 is not whole", lock: "destroyed", config: "accept = \"unknown\"",
			prepare: func(w *rig.World) { w.Sim.StaleLock(500, "destroyed", "root@pam") }},
		{name: "another VM", says: "!VM 500 is another VM", config: "uuid = \"00000000-0000-0000-0000-000000000000\"", lock: "backup",
			prepare: func(w *rig.World) { w.Sim.StaleLock(500, "backup", "root@pam") }},
	} {
		for _, id := range rig.Identities() {
			t.Run(c.name+" "+string(id), func(t *testing.T) {
				t.Parallel()
				a := newActor(t, id)
				if c.prepare != nil {
					c.prepare(a.w)
				}
				planned := true
				told, err := rig.Invoke(t, a.s, "proxmox_vm_unlock", "vmid = 500\n"+c.config, func() { planned = false })
				says, refused := strings.CutPrefix(c.says, "!")
				lock := c.lock
				if id != rig.RootTicket && id != rig.TokenSSH {
					says, refused, lock = "No way to take a lock away", true, "?"
					if !planned {
						t.Error("it was not refused in the plan")
					}
				}
				if refused != (err != nil) || err != nil && !strings.Contains(err.Error(), says) || err == nil && !strings.Contains(told, says) {
					t.Errorf("told %q, error %v", told, err)
				}
				var now string
				a.w.Change(func(world *state.World) { now = world.Guests[500].Lock() })
				if lock != "?" && now != lock {
					t.Errorf("its lock is %q", now)
				}
			})
		}
	}
}

// TestActionsUnlockTakenMeanwhile: a task takes the lock at a request of the action; it keeps it.
func TestActionsUnlockTakenMeanwhile(t *testing.T) {
	t.Parallel()
	for _, id := range []rig.Identity{rig.RootTicket, rig.TokenSSH} {
		first := newActor(t, id)
		first.w.Sim.StaleLock(500, "backup", "root@pam")
		world := first.w.Sim.Snapshot()
		first.w.Sim.ResetOps()
		if _, err := rig.Invoke(t, first.s, "proxmox_vm_unlock", "vmid = 500", nil); err != nil {
			t.Fatal(err)
		}
		requests := first.w.Sim.LastOp()
		last := requests - 2 // the last look at the tasks; the request and a look follow, and before that by SSH another one at the VM
		if id == rig.TokenSSH {
			last -= 2 // the first time alone the nodes are listed, for the certificate of the host
		}
		for n := 1; n <= last; n++ {
			if err := first.w.Sim.Load(world); err != nil {
				t.Fatal(err)
			}
			before := fault.Match{Nth: n}
			first.w.Sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Unlock, VMID: 500, Before: before},
				{Act: thirdparty.Lock, VMID: 500, Before: before, ForMS: 3600_000}})
			told, err := rig.Invoke(t, first.s, "proxmox_vm_unlock", "vmid = 500", nil)
			if got := first.guest(); !strings.HasSuffix(got, " backup") {
				t.Errorf("%s, request %d: a live task lost its lock, it is %s; told %q, error %v", id, n, got, told, err)
			}
		}
	}
}

// TestSSHUnlockIsSentOnce loses the connection in `qm unlock`, before its effect and after it: the command is not sent again, and the
// error says what may have happened only if the lock is still there.
func TestSSHUnlockIsSentOnce(t *testing.T) {
	t.Parallel()
	command := fault.Match{Method: "SSH", Path: "qm unlock"}
	for when, lost := range map[string]fault.Rule{"before": {Match: command, Phase: fault.Before, Status: 596}, "after": {Match: command, Phase: fault.After}} {
		a := newActor(t, rig.TokenSSH)
		a.w.Sim.StaleLock(500, "backup", "root@pam")
		a.w.Sim.SetFaults([]fault.Rule{lost})
		told, err := rig.Invoke(t, a.s, "proxmox_vm_unlock", "vmid = 500", nil)
		if when == "after" && (err != nil || !strings.Contains(told, "was removed")) {
			t.Errorf("%s: told %q, error %v", when, told, err)
		}
		if when == "before" {
			rig.MustSay(t, err, "VM 500 is still locked (backup)", "qm unlock 500", "may have had its effect, or be still at work", "Next step")
		}
		sent := 0
		for _, op := range a.w.Sim.Ops() {
			if op.Path == "qm unlock" {
				sent++
			}
		}
		if sent != 1 {
			t.Errorf("%s: it was sent %d times", when, sent)
		}
	}
}
