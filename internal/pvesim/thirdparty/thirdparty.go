// Package thirdparty orders what third parties do to the cluster between two operations of a client.
//
// An Order is plain data, so that a run can be repeated. It names the operation that it precedes by what an outsider
// can see of it. Package act carries it out as PVE would let an administrator do it. PVE may refuse an act at that
// moment: then nothing happens, and the Report says why.
package thirdparty

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
)

// Act is something that a third party does. Its object is "the guest": the one that Order says, or else the one
// that the operation at hand is about, or else the lowest that is no third party's.
type Act string

// The acts. Those that make something of the third party's own mark it as such.
const (
	// a complete VM of its own under the id that the operation wants to use, if it is free
	TakeID Act = "take_id"
	// the same, but it is only being made: lock create, a running task, done after For
	MakeID          Act = "make_id"
	TakeName        Act = "take_name"        // a VM of his with the guest's name
	Attach          Act = "attach"           // the guest's first disk becomes one of his VM's, too
	AttachContainer Act = "attach_container" // … one of his container's
	Plant           Act = "plant"            // a volume of his under the guest's id, which nothing refers to
	GiveDisk        Act = "give_disk"        // a new disk of his in the guest, on Order.Storage or where its first disk is
	Lock            Act = "lock"             // Order.Lock (backup), held by a task that runs for For
	StaleLock       Act = "stale_lock"       // Order.Lock (backup), without a holder
	Unlock          Act = "unlock"           // qm unlock
	Snapshot        Act = "snapshot"         // of the guest
	Rollback        Act = "rollback"         // to the guest's latest snapshot
	Backup          Act = "backup"           // of the guest
	Restore         Act = "restore"          // the guest's oldest backup over its id
	RestoreHis      Act = "restore_his"      // a backup of his VM over the guest's id, or to it
	RestoreAside    Act = "restore_aside"    // the guest's oldest backup to an id of his
	Clone           Act = "clone"            // of the guest, to an id of his
	Rename          Act = "rename"           // the guest gets Order.Name
	Describe        Act = "describe"         // the guest gets a description of his
	Configure       Act = "configure"        // options of the guest, of its first disk and of net0 change
	Migrate         Act = "migrate"          // the guest goes to Order.Node, or the next node that is up
	Resize          Act = "resize"           // the guest's first disk grows by 1 GiB
	Detach          Act = "detach"           // the guest's first disk becomes unused
	Start           Act = "start"            // the guest
	Stop            Act = "stop"             // the guest, hard
	Delete          Act = "delete"           // the guest, with what belongs to it
	AddHA           Act = "add_ha"           // the guest to HA
	AddPool         Act = "add_pool"         // the guest to a pool of his
	Fill            Act = "fill"             // Order.Storage, or the guest's first disk's
	StorageOffline  Act = "storage_offline"  // Order.Storage, or the guest's first disk's; back after For
	NodeOffline     Act = "node_offline"     // Order.Node, or the guest's, leaves the network; back after For
	NodeCrash       Act = "node_crash"       // Order.Node, or the guest's, loses its power; back after For
	Rescan          Act = "rescan"           // qm rescan of the guest
	BackupRun       Act = "backup_run"       // a backup job starts the stopped guest, and stops it after For
	HAMove          Act = "ha_move"          // the guest's HA entry gets the order to go to Order.Node, or another
	Imitate         Act = "imitate"          // a VM of his gets the guest's name and description
	RotateLogs      Act = "rotate_logs"      // the tasks that have ended leave the list of tasks
)

// Acts are all acts, in the order above.
func Acts() []Act {
	return []Act{TakeID, MakeID, TakeName, Attach, AttachContainer, Plant, GiveDisk, Lock, StaleLock, Unlock, Snapshot,
		Rollback, Backup, Restore, RestoreHis, RestoreAside, Clone, Rename, Describe, Configure, Migrate, Resize,
		Detach, Start, Stop, Delete, AddHA, AddPool, Fill, StorageOffline, NodeOffline, NodeCrash, Rescan, BackupRun, HAMove,
		Imitate, RotateLogs}
}

// Orders are acts without a guest and a moment.
func Orders(acts ...Act) []Order {
	list := make([]Order, 0, len(acts))
	for _, a := range acts {
		list = append(list, Order{Act: a})
	}
	return list
}

// Preparations are the orders without which an act cannot be done, by act.
func Preparations() map[Act][]Order {
	return map[Act][]Order{Rollback: Orders(Snapshot), Unlock: Orders(StaleLock), Restore: Orders(Backup),
		RestoreAside: Orders(Backup), Rescan: Orders(Plant), HAMove: Orders(AddHA)}
}

// Order is one act to come. It is done once.
type Order struct {
	Act Act `json:"act"`
	// Before selects the operation before which it is done: fault.Match{Seq: 7} is the seventh.
	Before fault.Match `json:"before"`
	// VMID is the guest. 0: the one that the operation is about, or else the lowest that is no third party's.
	VMID int `json:"vmid,omitempty"`
	// Name, Lock, Storage and Node are arguments of some acts; empty ones have a default.
	Name    string `json:"name,omitempty"`
	Lock    string `json:"lock,omitempty"`
	Storage string `json:"storage,omitempty"`
	Node    string `json:"node,omitempty"`
	// ForMS is how long it lasts on the cluster's clock, for acts that end; 0 means for good, and an hour for what a task
	// holds.
	ForMS int `json:"for_ms,omitempty"`
}

// For is ForMS as a duration.
func (o Order) For() time.Duration { return time.Duration(o.ForMS) * time.Millisecond }

// Validate refuses orders that could never be carried out.
func (o Order) Validate() error {
	switch {
	case !slices.Contains(Acts(), o.Act):
		return fmt.Errorf("act %q is not one of %v", o.Act, Acts())
	case o.ForMS < 0 || o.VMID < 0:
		return fmt.Errorf("for_ms and vmid must not be negative")
	}
	return nil
}

// Report is an order whose moment has come.
type Report struct {
	Order
	Seq   int    `json:"seq"`            // of the operation before which it was; 0 if it was asked for at once
	Done  bool   `json:"done"`           // false: PVE would have refused it, and nothing happened
	Why   string `json:"why,omitempty"`  // it was not done
	About int    `json:"about"`          // the guest that it was about; 0 if none
	Made  int    `json:"made,omitempty"` // the guest of his own that it made
	// it is the end of a task of the third party's, which began with an earlier act of the same order
	Ends bool `json:"ends,omitempty"`
	// Was and Is are what belongs to third parties (state.World.ThirdParties) right before and right after it.
	Was []byte `json:"-"`
	Is  []byte `json:"-"`
	// Had and Has are the configuration of the guest that it was about right before and right after it, with the changes
	// that wait for the guest's next start; nil if there is no such guest.
	Had map[string]string `json:"-"`
	Has map[string]string `json:"-"`
}

// Set is the list of orders. The zero value has none. It is safe for concurrent use.
type Set struct {
	mu      sync.Mutex
	orders  []*waiting
	reports []Report
}

type waiting struct {
	Order
	seen int
	done bool
}

// Put replaces all orders and forgets what was done.
func (s *Set) Put(orders []Order) error {
	list := make([]*waiting, 0, len(orders))
	for i, o := range orders {
		if err := o.Validate(); err != nil {
			return fmt.Errorf("order %d: %w", i, err)
		}
		list = append(list, &waiting{Order: o})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders, s.reports = list, nil
	return nil
}

// Due counts an operation and returns the orders that are to be carried out before it, in the order in which they were
// put.
func (s *Set) Due(op fault.Operation) []Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []Order
	for _, o := range s.orders {
		if o.done || !o.Before.Matches(op) {
			continue
		}
		if o.seen++; o.seen < o.Before.Nth {
			continue
		}
		o.done = true
		due = append(due, o.Order)
	}
	return due
}

// Record keeps what became of an order.
func (s *Set) Record(d Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports = append(s.reports, d)
}

// Reports are the orders whose moment has come since they were put, in order.
func (s *Set) Reports() []Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reports)
}
