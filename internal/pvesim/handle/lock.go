package handle

import (
	"fmt"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

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

// Flock takes a file lock on a node, waiting on the world's clock with the mutex released meanwhile. The caller holds the
// mutex, and holds it again when Flock returns; release is called with it held and may be called twice. Use
// `defer release()` in a worker, so that the lock goes with a killed process.
// The error reads "can't lock file '<path>' - got timeout".
func (s *Server) Flock(w *state.World, node, path string, shared bool, timeout time.Duration) (release func(), err error) {
	release, _, err = s.flock(node, path, shared, timeout)
	return release, err
}

// flock is Flock, and tells whether somebody else held the lock at first.
func (s *Server) flock(node, path string, shared bool, timeout time.Duration) (release func(), blocked bool, err error) {
	key := node + ":" + path
	free := func() bool {
		l := s.locks[key]
		return l == nil || shared && !l.exclusive
	}
	if blocked = !free(); blocked {
		s.Wait(timeout, free)
	}
	if !free() {
		return nil, blocked, Die("can't lock file '%s' - got timeout", path)
	}
	l := s.locks[key]
	if l == nil {
		l = &fileLock{}
		s.locks[key] = l
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
			delete(s.locks, key)
		}
	}, blocked, nil
}
