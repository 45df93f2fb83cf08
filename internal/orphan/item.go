package orphan

import (
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// Kind is what an item is.
type Kind string

// The kinds of items, in the order of a report.
const (
	HalfMade      Kind = "half_made"      // a VM that was begun and never finished
	ExpiredCreate Kind = "expired_create" // a VM with the mark of a create of this provider that is over
	HalfDestroyed Kind = "half_destroyed" // the lock of a destroy, and nothing else
	DeadLock      Kind = "lock"           // a guest that is locked although no task is at work on it
	Volume        Kind = "volume"         // a volume that carries an id which no guest has
	HAResource    Kind = "ha_resource"    // an entry of HA for such an id
	PoolMember    Kind = "pool_member"    // a pool's member of such an id
	ACLEntry      Kind = "acl_entry"      // a permission on such an id
)

// Kinds are all of them, in that order.
func Kinds() []Kind {
	return []Kind{HalfMade, ExpiredCreate, HalfDestroyed, DeadLock, Volume, HAResource, PoolMember, ACLEntry}
}

// NeedsUnlock reports whether removing an item of a kind takes an identity that can take a lock away.
func (k Kind) NeedsUnlock() bool { return k == DeadLock || k == HalfDestroyed }

// Certainty is how sure it is that an item is left over.
type Certainty string

// The degrees of certainty. An item that is unknown has no command: it may be in use.
const (
	Certain Certainty = "certain" // a leftover of something that is proven to be over; nothing uses it
	Likely  Certainty = "likely"  // nothing uses it, but a user may have made it for later
	Unknown Certainty = "unknown" // it may be in use, or could not be looked at
)

// Item is an object that no configuration and no guest owns, as far as can be told.
type Item struct {
	Kind Kind
	// ID names it: a volume id, a VMID, "vm:100", "/vms/100".
	ID   string
	VMID int
	// Name is a guest's; Node where it is, and where the command is to be run.
	Name, Node string
	// Storage and Size, in bytes, are a volume's; Size is also that of all volumes of a guest.
	Storage string
	Size    int64
	// Since is when it was made or left, zero where that is not known.
	Since     time.Time
	Certainty Certainty
	// Reason is what speaks for it, and what against.
	Reason string
	// Command removes it, as root on Node; "" unless it is certain that nothing uses it, and where a name is unusual.
	Command string

	found *found
}

// found is by what an item was judged, for who removes it.
type found struct {
	config    map[string]string
	digest    string
	dead      pve.UPID // task
	mark      ownership.Mark
	entry     pve.ACLEntry
	container bool
}

// Report is what was found, and what could not be looked at.
type Report struct {
	Items     []Item
	Unchecked []string
}

// Options say what is known besides.
type Options struct {
	// Exclusive are shared storages that no other cluster uses.
	Exclusive []string
}

func foundOf(r volumeuse.Reading) *found {
	return &found{config: r.Config.Current(), digest: r.Config.Digest, container: r.Guest.Type == "lxc"}
}
