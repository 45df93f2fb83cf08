package pvesim

import (
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// PowerOff is one power-off or restart of a guest, and who caused it.
type PowerOff = state.PowerOff

// PowerOffs are the power-offs and restarts of guests since the start, the last reset of the state or ResetPowerOffs,
// in order. A migration is none.
func (s *Sim) PowerOffs() []PowerOff { return s.server.PowerOffs() }

// ResetPowerOffs starts the count again.
func (s *Sim) ResetPowerOffs() { s.server.ResetPowerOffs() }

// EndGuest lets a running guest power itself off, or die. HA starts one in its care again, a round later.
func (s *Sim) EndGuest(vmid int) { s.server.EndGuest(vmid) }

// SetNode takes a node from the network, or brings it back. Off the network it answers nothing, its workers die, its
// guests run on.
func (s *Sim) SetNode(node string, online bool) { s.server.SetNode(node, online) }

// Fence lets a node crash, guests and all, and HA bring its services up elsewhere a round later.
func (s *Sim) Fence(node string) { s.server.Fence(node) }

// HoldLock gives a guest's configuration a lock ("backup", "clone", "migrate", "snapshot" …) that a running task of
// user holds for d. It returns the task's UPID, "" if there is no such guest.
//
// On the clock that moves by itself, a hold ends when requests and waits have moved the clock so far.
func (s *Sim) HoldLock(vmid int, lock string, d time.Duration, user string) (upid string) {
	return s.server.HoldLock(vmid, lock, d, user)
}

// StaleLock gives a guest's configuration a lock without a holder: the task of user died, or there is no task if
// user is empty.
func (s *Sim) StaleLock(vmid int, lock, user string) { s.server.StaleLock(vmid, lock, user) }

// HoldGuestFile lets a third party's process hold the file lock of a guest's configuration for d.
func (s *Sim) HoldGuestFile(vmid int, d time.Duration) { s.server.HoldFile(vmid, d) }

// HoldMigration lets a replication hold the migration lock of a guest for d.
func HoldMigration(s *Sim, vmid int, d time.Duration) { s.server.HoldMigration(vmid, d) }

// HoldFirewall lets a third party hold the cluster's lock on a guest's firewall file for d; the guest need not exist
// yet.
func (s *Sim) HoldFirewall(vmid int, d time.Duration) { s.server.HoldFirewall(vmid, d) }

// HoldUserConfig lets a third party hold the cluster's lock on user.cfg, which has the pools, for d.
func HoldUserConfig(s *Sim, d time.Duration) { s.server.HoldUserConfig(d) }

// HoldStorage lets a third party hold the lock under which volumes are made and removed on a storage, of the node or,
// if it is shared, of the cluster, for d.
func (s *Sim) HoldStorage(node, storage string, d time.Duration) {
	s.server.HoldStorage(node, storage, d)
}
