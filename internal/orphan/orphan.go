// Package orphan finds what nobody owns any more: volumes without a guest, guests that were half made or half destroyed, locks that no
// task holds, entries elsewhere that name an id without a guest. It reads, and judges by the rules of packages guest and
// remove/usage. What it removes is one item that somebody names, found
// once more, by way of package remove.
package orphan

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove/usage"
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

// Certainty is how sure it is that an item is left over.
type Certainty string

// The degrees of certainty. An item that is unknown has no command: somebody may use it.
const (
	Certain Certainty = "certain" // what is left of something that is proven to be over; nobody uses it
	Likely  Certainty = "likely"  // nobody uses it, but somebody may have made it for what is to come
	Unknown Certainty = "unknown" // somebody may use it, or it could not be looked at
)

// Item is something that nobody owns, as far as can be told.
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
	// Command removes it, as root on Node; "" unless it is certain that nobody uses it.
	Command string

	found *found
}

// found is by what an item was judged, for who removes it.
type found struct {
	config    map[string]string
	digest    string
	dead      pve.UPID // task
	mark      guest.Stamp
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

// Finder looks for orphans in one cluster.
type Finder struct {
	api      *pve.Client
	jobs     *job.Runner
	guests   *guest.Guests
	surveyor *usage.Surveyor
}

// New makes a Finder.
func New(jobs *job.Runner, guests *guest.Guests) *Finder {
	return &Finder{api: jobs.API, jobs: jobs, guests: guests, surveyor: usage.New(jobs, &job.Order{})}
}

// fresh is how long something that was just made may be waiting for whoever made it. It is a create's lease.
const fresh = 30 * time.Minute

// look is one look at the cluster. What was there before the volumes were listed is in before: a volume that was listed after its
// guest is no orphan because the guest has gone meanwhile, and one that is new is none because its guest came with it.
type look struct {
	*Finder
	options Options
	before  pve.Resources
	unseen  error // why there may be guests that this identity does not see
	surveys []survey
	free    map[int]bool // ids that were asked for
	volumes []placed
	listed  int // storages
	only    *Named
	report  Report
}

// placed is a volume, and the storage and the node from which it was seen.
type placed struct {
	pve.Volume
	storage pve.Storage
	node    string
}

// survey is a look at the guests of a node, or of all with node "".
type survey struct {
	node string
	*usage.Survey
	err error
}

// miss notes what could not be looked at.
func (l *look) miss(what string, why error) {
	l.report.Unchecked = append(l.report.Unchecked, fmt.Sprintf("%s: %v", what, why))
}

// add notes an item. What is unknown has no command.
func (l *look) add(i Item) {
	if i.Certainty == Unknown {
		i.Command = ""
	}
	l.report.Items = append(l.report.Items, i)
}

// survey reads all guests that can be read: at once where all nodes are there, else node by node.
func (l *look) survey(ctx context.Context) error {
	var err error
	if l.unseen, err = l.surveyor.Sight(ctx, l.surveyor.Ask()); err != nil {
		return err
	}
	if l.unseen != nil {
		l.miss("guests that are not listed", l.unseen)
	}
	if len(l.offline()) == 0 {
		l.surveyNode(ctx, "", "the guests of the cluster")
		return ctx.Err()
	}
	for _, n := range l.nodes() {
		l.surveyNode(ctx, n, "the guests of node "+n)
	}
	return ctx.Err()
}

func (l *look) surveyNode(ctx context.Context, node, what string) {
	s := survey{node: node}
	if s.Survey, s.err = l.surveyor.Since(ctx, l.surveyor.Ask(), node); s.err != nil {
		l.miss(what, s.err)
	}
	l.surveys = append(l.surveys, s)
}

// of is the survey that has the guests of a node; with node "" that of all guests.
func (l *look) of(node string) (*usage.Survey, error) {
	for _, s := range l.surveys {
		if s.node == "" || s.node == node {
			return s.Survey, s.err
		}
	}
	return nil, fmt.Errorf("guests of the nodes %v, which are not online, may use it", l.offline())
}

// nodes are those that are online.
func (l *look) nodes() []string {
	return l.nodesThat(func(status string) bool { return status == "online" })
}

func (l *look) offline() []string {
	return l.nodesThat(func(status string) bool { return status != "online" })
}

func (l *look) nodesThat(fits func(status string) bool) []string {
	var names []string
	for _, n := range l.before.Nodes() {
		if fits(n.Status) {
			names = append(names, n.Node)
		}
	}
	slices.Sort(names)
	return names
}

// isFree reports whether no guest has an id, nor had it when the look began. PVE tells everybody, also of guests that he does not see.
func (l *look) isFree(ctx context.Context, vmid int) (bool, error) {
	if _, ok := l.before.Guest(vmid); ok {
		return false, nil
	}
	if free, asked := l.free[vmid]; asked {
		return free, nil
	}
	free, err := l.api.IsFreeID(ctx, vmid)
	if err == nil {
		l.free[vmid] = free
	}
	return free, err
}

// nameOf is the name in the configuration of a guest.
func nameOf(config map[string]string) string {
	if name := config["name"]; name != "" {
		return name
	}
	return config["hostname"]
}
