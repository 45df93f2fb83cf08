package engine

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// FirewallLock is the key of the cluster's lock on a guest's firewall file.
func FirewallLock(vmid int) string { return "cluster:firewall-vm-" + strconv.Itoa(vmid) }

// UserConfigLock is the key of the cluster's lock on user.cfg, which has users, permissions and pools.
const UserConfigLock = "cluster:file-user_cfg"

// HoldKey holds a lock exclusively for d. A lock under the same key is replaced.
func (e *Engine) HoldKey(key string, d time.Duration) {
	l := &fileLock{exclusive: true}
	e.Locks[key] = l
	e.After(d, func() {
		if e.Locks[key] == l {
			delete(e.Locks, key)
		}
	})
}

// StorageLock is the key of the lock under which volumes of a storage are made: the cluster's if it is shared, else
// the node's.
func StorageLock(s *state.Storage, node string) string {
	if s.Shared {
		return "cluster:storage-" + s.ID
	}
	return node + ":/var/lock/pve-manager/pve-storage-" + s.ID
}

// LockStorage waits for the lock under which volumes are made and removed (pve-storage Plugin.pm cluster_lock_storage).
// In the simulator the work under it takes no time, so the lock is never held here.
func (r *Request) LockStorage(node, id string) error {
	s := r.W.Storages[id]
	if s == nil {
		return nil // its absence is told by who uses it
	}
	free := func() bool { return r.Engine.Locks[StorageLock(s, node)] == nil }
	if free() {
		return nil
	}
	r.Engine.Wait(LockTimeout, free)
	switch {
	case free():
		return nil
	case s.Shared:
		return perl.Die("cfs-lock 'storage-%s' error: got lock request timeout", id)
	}
	return perl.Die("can't lock file '/var/lock/pve-manager/pve-storage-%s' - got timeout", id)
}

// AddToPool enters a guest into a pool, under the lock of user.cfg. It does nothing if the pool is gone by then
// (pve-access-control AccessControl.pm add_vm_to_pool; pve-cluster Cluster.pm cfs_lock).
func (r *Request) AddToPool(vmid int, pool string) error {
	if pool == "" {
		return nil
	}
	if err := r.lockUserConfig(fmt.Sprintf("can't add VM %d to pool '%s'", vmid, pool)); err != nil {
		return err
	}
	if p := r.W.Pools[pool]; p != nil && !slices.Contains(p.Guests, vmid) {
		p.Guests = append(p.Guests, vmid)
	}
	return nil
}

// LeaveAccess takes what user.cfg has of a guest's id out of it, under its lock (pve-access-control AccessControl.pm
// remove_vm_access).
func (r *Request) LeaveAccess(vmid int) error {
	err := r.lockUserConfig(fmt.Sprintf("access permissions cleanup for VM %d failed", vmid))
	if err == nil {
		state.LeaveAccess(r.W, vmid)
	}
	return err
}

// lockUserConfig waits for the lock of user.cfg (AccessControl.pm lock_user_config). The work under it takes no time.
func (r *Request) lockUserConfig(failed string) error {
	free := func() bool { return r.Engine.Locks[UserConfigLock] == nil }
	if !free() {
		r.Engine.Wait(LockTimeout, free)
	}
	if !free() {
		return perl.Die("%s: cfs-lock 'file-user_cfg' error: got lock request timeout", failed)
	}
	return nil
}

// Timeouts of the file locks (guest-common AbstractConfig.pm, qemu-server API2/Qemu.pm).
const (
	LockTimeout       = 10 * time.Second // lock_config
	CreateLockTimeout = 5 * time.Second  // create_and_lock_config
	WorkerLockTimeout = time.Second      // create worker, clone source and target, restore
	ImportLockTimeout = 30 * time.Second // owner of an import source
)

type fileLock struct {
	exclusive bool
	shared    int
}

// GuestLock is the path of the file lock of a virtual machine's configuration (qemu-server QemuConfig.pm).
func GuestLock(vmid int) string { return fmt.Sprintf("/var/lock/qemu-server/lock-%d.conf", vmid) }

// MigrationLock is the path of the file lock that a migration and a replication of a guest hold (guest-common
// GuestHelpers.pm guest_migration_lock).
func MigrationLock(vmid int) string { return fmt.Sprintf("/var/lock/pve-manager/pve-migrate-%d", vmid) }

// Flock takes a file lock on a node, waiting on the world's clock with the mutex released meanwhile. The caller holds
// the mutex, and holds it again when Flock returns; release is called with it held and may be called twice. Use `defer
// release()` in a worker, so that the lock goes with a killed process. The error reads "can't lock file '<path>' - got
// timeout".
func (e *Engine) Flock(w *state.World, node, path string, shared bool, timeout time.Duration) (release func(),
	err error) {
	release, _, err = e.TakeFlock(node, path, shared, timeout)
	return release, err
}

// TakeFlock is Flock, and tells whether the lock was held at first.
func (e *Engine) TakeFlock(node, path string, shared bool, timeout time.Duration) (release func(), blocked bool,
	err error) {
	key := node + ":" + path
	free := func() bool {
		l := e.Locks[key]
		return l == nil || shared && !l.exclusive
	}
	if blocked = !free(); blocked {
		e.Wait(timeout, free)
	}
	if !free() {
		return nil, blocked, perl.Die("can't lock file '%s' - got timeout", path)
	}
	l := e.Locks[key]
	if l == nil {
		l = &fileLock{}
		e.Locks[key] = l
	}
	if shared {
		l.shared++
	} else {
		l.exclusive = true
	}
	released := false
	return func() {
		if released {
			return
		}
		released = true
		if shared {
			l.shared--
		}
		if l.shared == 0 {
			delete(e.Locks, key)
		}
	}, blocked, nil
}
