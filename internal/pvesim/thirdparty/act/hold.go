// Package act carries out what third parties are ordered to do between two requests of a client.
package act

import (
	"strconv"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// lockTasks are the tasks that hold a configuration's lock.
var lockTasks = map[string]string{
	"backup": "vzdump", "clone": "qmclone", "create": "qmcreate", "migrate": "qmigrate", "rollback": "qmrollback",
	"snapshot": "qmsnapshot", "snapshot-delete": "qmdelsnapshot", "suspending": "qmsuspend", "suspended": "qmsuspend",
}

// HoldLock gives a guest's configuration a lock that a third party's task holds for d on the cluster's clock. It
// returns the task's UPID, "" if there is no such guest. A lock that was there before is replaced.
func HoldLock(e *engine.Engine, vmid int, lock string, d time.Duration, user string) (upid string) {
	e.Do(func(w *state.World) {
		g := w.Guests[vmid]
		if g == nil {
			return
		}
		t := thirdPartyTask(e, g, lock, user)
		e.After(d, func() {
			if t.Running {
				e.EndThirdParty(t, "OK")
			}
		})
		upid = t.UPID
	})
	return upid
}

// StaleLock gives a guest's configuration a lock without a holder. The task of user that set it died, or is
// forgotten if user is empty.
func StaleLock(e *engine.Engine, vmid int, lock, user string) {
	e.Do(func(w *state.World) {
		g := w.Guests[vmid]
		switch {
		case g == nil:
		case user == "":
			g.SetLock(lock, "state")
		default:
			e.EndThirdParty(thirdPartyTask(e, g, lock, user), "unexpected status")
		}
	})
}

func thirdPartyTask(e *engine.Engine, g *state.Guest, lock, user string) *state.Task {
	typ := lockTasks[lock]
	if typ == "" {
		typ = "vzdump"
	}
	w := e.NewWorker(g.Node, typ, strconv.Itoa(g.VMID), auth.Identity{ID: user, User: user})
	w.ThirdParty = true
	g.SetLock(lock, w.Task.UPID)
	return w.Task
}

// HoldFile lets a third party's process hold the file lock of a guest's configuration for d.
func HoldFile(e *engine.Engine, vmid int, d time.Duration) {
	e.Do(func(w *state.World) {
		if g := w.Guests[vmid]; g != nil {
			e.HoldKey(g.Node+":"+engine.GuestLock(vmid), d)
		}
	})
}

// HoldMigration lets a replication hold the migration lock of a guest for d.
func HoldMigration(e *engine.Engine, vmid int, d time.Duration) {
	e.Do(func(w *state.World) {
		if g := w.Guests[vmid]; g != nil {
			e.HoldKey(g.Node+":"+engine.MigrationLock(vmid), d)
		}
	})
}

// HoldStorage lets a third party hold the lock under which volumes are made and removed on a storage for d: a file lock
// of the node, or on a shared storage one of the cluster.
func HoldStorage(e *engine.Engine, node, storage string, d time.Duration) {
	e.Do(func(w *state.World) {
		if st := w.Storages[storage]; st != nil {
			e.HoldKey(engine.StorageLock(st, node), d)
		}
	})
}

// HoldUserConfig lets a third party hold the lock under which users, permissions and pools are written, for d: a
// synchronization of a realm holds it (pve-access-control API2/Domains.pm sync).
func HoldUserConfig(e *engine.Engine, d time.Duration) {
	e.Do(func(*state.World) { e.HoldKey(engine.UserConfigLock, d) })
}

// HoldFirewall lets a third party hold the lock under which a guest's firewall file is written, in the whole cluster,
// for d.
func HoldFirewall(e *engine.Engine, vmid int, d time.Duration) {
	e.Do(func(*state.World) { e.HoldKey(engine.FirewallLock(vmid), d) })
}
