package destroy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// withoutAudit takes Sys.Audit from the token that the tests use, so that it sees its own tasks only.
func withoutAudit(w *state.World) {
	for name, privileges := range w.Roles {
		if !strings.HasPrefix(name, "Terraform") {
			continue
		}
		var kept []string
		for _, p := range privileges {
			if p != "Sys.Audit" {
				kept = append(kept, p)
			}
		}
		w.Roles[name] = kept
	}
}

// TestDestroyWaitsForLocks: a lock that a task holds is waited for, by every identity, also by one that does not see the task.
func TestDestroyWaitsForLocks(t *testing.T) {
	t.Parallel()
	for _, blind := range []bool{false, true} {
		for _, lock := range []string{"backup", "snapshot", "migrate"} {
			w, s := rig.Applied(t, rig.TokenNoSSH, rig.DestroyBlock(""))
			if blind {
				w.Change(withoutAudit)
			}
			w.Sim.HoldLock(400, lock, 4*time.Minute, "root@pam")
			before := w.Sim.World().Clock.Now()
			if err := s.Destroy(t.Context()); err != nil {
				t.Errorf("%s, blind %t: %v", lock, blind, err)
			}
			if waited := w.Sim.World().Clock.Now().Sub(before); waited < 4*time.Minute {
				t.Errorf("%s: destroyed after %s, while it was locked", lock, waited)
			}
			mustBeGone(t, w, 400)
			rig.MustNotDropPower(t, w, state.PowerShutdown)
		}
	}
}

// TestDestroyGivesUpOnLocks: a lock that outlasts the timeout is an error that says which, since when, by whom; nothing was
// touched.
func TestDestroyGivesUpOnLocks(t *testing.T) {
	t.Parallel()
	for _, blind := range []bool{false, true} {
		w, s := rig.Applied(t, rig.TokenNoSSH, rig.DestroyBlock(`timeouts = { delete = "1m" }`))
		says := []string{"VM is locked (backup)", "vzdump", "root@pam", "since", "pvenode task status"}
		if blind {
			w.Change(withoutAudit)
			says = []string{"VM is locked (backup)", "cannot be seen without Sys.Audit", "qm unlock 400"}
		}
		w.Sim.HoldLock(400, "backup", 24*time.Hour, "root@pam")
		w.Mark()
		w.Sim.ResetOps()
		rig.MustSay(t, s.Destroy(t.Context()), says...)
		mustBeUntouched(t, w, s)
	}
}

// TestDestroyOfADeadLock: an identity that may do so removes a lock whose task died. Any other names the command, and a token
// without Sys.Audit never removes one. A lock that no task is known to have set is never removed.
func TestDestroyOfADeadLock(t *testing.T) {
	t.Parallel()
	type world struct {
		who   rig.Identity
		blind bool
		user  string // of the dead task
	}
	for c, gone := range map[world]bool{
		{rig.RootTicket, false, "root@pam"}: true,
		{rig.TokenSSH, false, "root@pam"}:   true,
		{rig.TokenNoSSH, false, "root@pam"}: false,
		{rig.TokenSSH, true, "root@pam"}:    false,
		{rig.RootTicket, false, ""}:         false,
		{rig.TokenSSH, false, ""}:           false,
	} {
		locks := []string{"backup", "migrate"}
		if c.who == rig.TokenSSH && gone {
			locks = append(locks, "snapshot", "snapshot-delete", "rollback", "suspending", "create")
		}
		for _, lock := range locks {
			t.Run(fmt.Sprint(c, lock), func(t *testing.T) {
				t.Parallel()
				w, s := rig.Applied(t, c.who, rig.DestroyBlock(`timeouts = { delete = "2m" }`))
				if c.blind {
					w.Change(withoutAudit)
				}
				w.Sim.StaleLock(400, lock, c.user)
				w.Mark()
				w.Sim.ResetOps()
				err := s.Destroy(t.Context())
				if gone {
					if err != nil {
						t.Error(err)
					}
					mustBeGone(t, w, 400)
					if !strings.Contains(fmt.Sprint(s.Diagnostics()), "was taken away") {
						t.Error("no message says that a lock was taken away")
					}
					return
				}
				rig.MustSay(t, err, "locked ("+lock+")", "qm unlock 400")
				if c.user != "" && !c.blind {
					rig.MustSay(t, err, "died", "root@pam")
				}
				mustBeUntouched(t, w, s)
			})
		}
	}
}

// TestDestroyLeavesTheLockOfABackupProgram: a program outside PVE backs the VM up, and a backup of PVE was killed earlier. That one was
// of many guests, or the VM was started since, so the lock is not its own.
func TestDestroyLeavesTheLockOfABackupProgram(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]struct {
		id  string
		ago time.Duration
	}{"of many guests, before the VM was made": {"", 48 * time.Hour}, "of many guests, lately": {"", 0}, "of the VM, before its start": {"400", time.Minute}} {
		w, s := rig.Applied(t, rig.TokenSSH, rig.DestroyBlock(`timeouts = { delete = "2m" }`))
		w.Change(func(world *state.World) {
			start := world.Clock.Now().Add(-killed.ago)
			upid := fmt.Sprintf("UPID:pve1:0000ABCD:00112233:%08X:vzdump:%s:root@pam:", start.Unix(), killed.id)
			world.Tasks[upid] = &state.Task{UPID: upid, Node: "pve1", Type: "vzdump", ID: killed.id, User: "root@pam", Start: start,
				End: start.Add(time.Second), ExitStatus: "unexpected status"}
		})
		w.Sim.StaleLock(400, "backup", "")
		w.Mark()
		w.Sim.ResetOps()
		if err := s.Destroy(t.Context()); err == nil {
			t.Errorf("%s: destroyed", name)
		} else {
			rig.MustSay(t, err, "locked (backup)", "none that died is known", "qm unlock 400")
		}
		mustBeUntouched(t, w, s)
	}
}

// TestDestroyOfADeadMigration: what the dead migration left on the other node is named, and not touched.
func TestDestroyOfADeadMigration(t *testing.T) {
	t.Parallel()
	w, s := rig.Applied(t, rig.TokenSSH, rig.DestroyBlock(""))
	w.Sim.StaleLock(400, "migrate", "root@pam")
	w.Change(func(world *state.World) {
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve2", Name: "vm-400-disk-3", VMID: 400, Content: "images", Format: "raw", Size: 1 << 30})
	})
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(rig.TracesOf(w, 400)); got != "[local-zfs:vm-400-disk-3 on pve2]" {
		t.Errorf("left: %s", got)
	}
	if said := fmt.Sprint(s.Diagnostics()); !strings.Contains(said, "pvesm free local-zfs:vm-400-disk-3") || !strings.Contains(said, "pve2") {
		t.Errorf("the copy is not named: %s", said)
	}
}

// TestDestroyOfAnEmptyConfiguration: a destroy that died has left nothing but a lock. Nothing proves whose it is: a refresh keeps the state
// and warns, a destroy says the command, and after it all is well. One that is at work is waited for.
func TestDestroyOfAnEmptyConfiguration(t *testing.T) {
	t.Parallel()
	w, s := rig.Applied(t, rig.TokenSSH, rig.DestroyBlock(""))
	w.Change(func(world *state.World) {
		g := world.Guests[400]
		g.Config, g.Running = map[string]string{}, nil
		g.SetLock("destroyed", "state")
		state.ForgetGuest(world, 400)
		for key, v := range world.Volumes {
			if v.VMID == 400 {
				delete(world.Volumes, key)
			}
		}
	})
	w.Sim.Advance(20 * time.Second)
	if err := s.Refresh(t.Context()); err != nil {
		t.Errorf("refresh: %v", err)
	}
	if said := fmt.Sprint(s.Diagnostics()); !strings.Contains(said, "half destroyed") || len(s.Addresses()) != 1 {
		t.Errorf("after the refresh %v is in state, and it said: %s", s.Addresses(), said)
	}
	rig.MustSay(t, s.Destroy(t.Context()), "half destroyed", "qm unlock 400 && qm destroy 400 --purge")
	if len(s.Addresses()) != 1 {
		t.Fatal("dropped from state")
	}
	w.Change(func(world *state.World) { delete(world.Guests, 400) }) // as the command does
	w.Sim.Advance(20 * time.Second)
	if err := s.Destroy(t.Context()); err != nil || len(s.Addresses()) != 0 {
		t.Errorf("gone, and %v is in state: %v", s.Addresses(), err)
	}
}
