package handle

import (
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// lockTasks are the tasks that hold a configuration's lock.
var lockTasks = map[string]string{
	"backup": "vzdump", "clone": "qmclone", "create": "qmcreate", "migrate": "qmigrate", "rollback": "qmrollback",
	"snapshot": "qmsnapshot", "snapshot-delete": "qmdelsnapshot", "suspending": "qmsuspend", "suspended": "qmsuspend",
}

// HoldLock gives a guest's configuration a lock that a stranger's task holds for d on the cluster's clock. It returns the
// task's UPID, "" if there is no such guest. A lock that was there before is replaced.
func (s *Server) HoldLock(vmid int, lock string, d time.Duration, user string) (upid string) {
	s.Do(func(w *state.World) {
		g := w.Guests[vmid]
		if g == nil {
			return
		}
		t := s.foreignTask(g, lock, user)
		s.after(d, func() {
			if t.Running {
				s.endForeign(t, "OK")
			}
		})
		upid = t.UPID
	})
	return upid
}

// StaleLock gives a guest's configuration a lock that nobody holds any more. The task of user that set it died, or is
// forgotten if user is empty.
func (s *Server) StaleLock(vmid int, lock, user string) {
	s.Do(func(w *state.World) {
		g := w.Guests[vmid]
		switch {
		case g == nil:
		case user == "":
			g.SetLock(lock, "state")
		default:
			s.endForeign(s.foreignTask(g, lock, user), "unexpected status")
		}
	})
}

func (s *Server) foreignTask(g *state.Guest, lock, user string) *state.Task {
	typ := lockTasks[lock]
	if typ == "" {
		typ = "vzdump"
	}
	w := s.newWorker(g.Node, typ, itoa(g.VMID), Auth{ID: user, User: user})
	w.foreign = true
	g.SetLock(lock, w.Task.UPID)
	return w.Task
}

// endForeign ends a stranger's task; its locks go with it unless it died.
func (s *Server) endForeign(t *state.Task, status string) {
	w := s.workers[t.UPID]
	t.Running, t.End, t.ExitStatus = false, s.world.Clock.Now(), status
	if status == "OK" {
		t.Log = append(t.Log, "TASK OK")
	}
	for _, g := range s.world.Guests {
		if g.LockCause == t.UPID && status != "unexpected status" {
			g.SetLock("", "")
		}
	}
	if w != nil {
		delete(s.workers, t.UPID)
		close(w.ended)
	}
}

// HoldFile lets a stranger's process hold the file lock of a guest's configuration for d.
func (s *Server) HoldFile(vmid int, d time.Duration) {
	s.Do(func(w *state.World) {
		if g := w.Guests[vmid]; g != nil {
			s.holdKey(g.Node+":"+GuestLock(vmid), d)
		}
	})
}

// HoldStorage lets a stranger hold the lock under which volumes are made and removed on a storage for d: a file lock of the
// node, or on a shared storage one of the cluster.
func (s *Server) HoldStorage(node, storage string, d time.Duration) {
	s.Do(func(w *state.World) {
		if st := w.Storages[storage]; st != nil {
			s.holdKey(storageLock(st, node), d)
		}
	})
}

// HoldFirewall lets a stranger hold the lock under which a guest's firewall file is written, in the whole cluster, for d.
func (s *Server) HoldFirewall(vmid int, d time.Duration) {
	s.Do(func(*state.World) { s.holdKey(firewallLock(vmid), d) })
}

func firewallLock(vmid int) string { return "cluster:firewall-vm-" + itoa(vmid) }

// lockFirewall waits for that lock; it is never held here, as what the simulator does under it takes no time.
func (s *Server) lockFirewall(vmid int) error {
	free := func() bool { return s.locks[firewallLock(vmid)] == nil }
	if free() {
		return nil
	}
	if s.Wait(LockTimeout, free); free() {
		return nil
	}
	return Die("cfs-lock 'firewall-vm-%d' error: got lock request timeout", vmid)
}

func (s *Server) holdKey(key string, d time.Duration) {
	l := &fileLock{exclusive: true}
	s.locks[key] = l
	s.after(d, func() {
		if s.locks[key] == l {
			delete(s.locks, key)
		}
	})
}

func storageLock(s *state.Storage, node string) string {
	if s.Shared {
		return "cluster:storage-" + s.ID
	}
	return node + ":/var/lock/pve-manager/pve-storage-" + s.ID
}

// lockStorage waits for the lock under which volumes are made and removed (pve-storage Plugin.pm cluster_lock_storage). What
// the simulator does under it takes no time, so the lock is never held here.
func (r *Request) lockStorage(node, id string) error {
	s := r.W.Storages[id]
	if s == nil {
		return nil // its absence is told by who uses it
	}
	free := func() bool { return r.Server.locks[storageLock(s, node)] == nil }
	if free() {
		return nil
	}
	r.Server.Wait(LockTimeout, free)
	switch {
	case free():
		return nil
	case s.Shared:
		return Die("cfs-lock 'storage-%s' error: got lock request timeout", id)
	}
	return Die("can't lock file '/var/lock/pve-manager/pve-storage-%s' - got timeout", id)
}
