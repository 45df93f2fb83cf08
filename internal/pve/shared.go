package pve

import (
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/transport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// sharedLife is how long a listing serves the checks of a plan. PVE's own data behind it is up to 10 s old.
const sharedLife = 5 * time.Second

// sharedResources keeps one listing. A write makes it worthless at once, but to those who know what is new.
type sharedResources struct {
	writes atomic.Uint64  // moves with every write
	leaves atomic.Uint64  // moves with every write after which a guest may no longer be where it was
	turn   transport.Turn // guards everything below
	list   Resources
	guests map[int]Resource // of the list, by VMID
	away   map[string]bool  // nodes that the list says are offline
	at     time.Time
	seen   uint64 // writes when the listing was asked for
	left   uint64 // leaves then
	filled bool
}

func (s *sharedResources) invalidate(leaves bool) {
	s.writes.Add(1)
	if leaves {
		s.leaves.Add(1)
	}
}

// noteWrite notes a write: whether a guest leaves its place by it, and which VM it may change, if any.
func (c *Client) noteWrite(leaves bool, vmid int) {
	c.shared.invalidate(leaves)
	if vmid != 0 {
		c.changes.add(vmid)
	}
}

// noteTask notes the end of a task. A clone's names its source, which it leaves as it is.
func (c *Client) noteTask(upid UPID) {
	vmid, _ := strconv.Atoi(upid.ID()) // 0 for a task of no guest
	if upid.Type() == "qmclone" {
		vmid = 0
	}
	c.noteWrite(upid.Type() == "qmdestroy" || upid.Type() == "qmigrate", vmid)
}

// leaves tells whether a guest may no longer be where it was after the request.
func leaves(r *transport.Request) bool {
	return r.Method == http.MethodDelete || strings.HasSuffix(r.Path, "/migrate")
}

// Shared is the listing of at most 5 s ago, fetched once for all who ask at the same time. A write by this
// Client, and the end of a task that it waited for, make it fetch again. It is no basis for a baseline.
func (l ListingReader) Shared(ctx context.Context) (Resources, error) {
	s := &l.client.shared
	if err := l.client.listing(ctx, sharedLife, s.isCurrent); err != nil {
		return nil, err
	}
	defer s.turn.Give()
	return slices.Clone(s.list), nil
}

// Recent is the listing of at most 5 s ago, also when this Client has written since: VMs that it has made since are
// not in it, and VMs that it has removed or migrated since are not there any more either. at is the time at which the
// listing was asked for. It serves callers that look again, in Resources, for VMs that are not in it, and that leave it
// to the server to refuse a request that later changes forbid.
func (l ListingReader) Recent(ctx context.Context) (list Resources, at time.Time, err error) {
	s := &l.client.shared
	if err := l.client.listing(ctx, sharedLife, s.isComplete); err != nil {
		return nil, time.Time{}, err
	}
	defer s.turn.Give()
	return slices.Clone(s.list), s.at, nil
}

// Forget has the next caller fetch the listing again: the server has refused a request because of something that is
// not in it.
func (l ListingReader) Forget() { l.client.shared.invalidate(true) }

// isCurrent tells whether this Client has written nothing since the listing was asked for.
func (s *sharedResources) isCurrent() bool { return s.seen == s.writes.Load() }

// isComplete tells whether nothing that this Client wrote since has taken a guest from its place.
func (s *sharedResources) isComplete() bool { return s.left == s.leaves.Load() }

// Guest is a VM or container in the one listing that all refreshes of a run share, however long it takes: a refresh
// says what was true when it began. A caller that does not find its guest there asks Resources, and so does
// everything that must not be wrong. It is fetched again as Shared is, but for its age.
func (l ListingReader) Guest(ctx context.Context, vmid int) (Resource, bool, error) {
	s := &l.client.shared
	if err := l.client.listing(ctx, math.MaxInt64, s.isCurrent); err != nil {
		return Resource{}, false, err
	}
	defer s.turn.Give()
	guest, ok := s.guests[vmid]
	return guest, ok, nil
}

// IsAway reports whether a node is offline, as that listing says.
func (l ListingReader) IsAway(ctx context.Context, node string) (bool, error) {
	s := &l.client.shared
	if err := l.client.listing(ctx, math.MaxInt64, s.isCurrent); err != nil {
		return false, err
	}
	defer s.turn.Give()
	return s.away[node], nil
}

// listing takes the turn of the shared listing and sees to it that it is valid and not older than life. The turn is
// given back if there is an error, else by the caller.
func (c *Client) listing(ctx context.Context, life time.Duration, valid func() bool) error {
	s := &c.shared
	if err := s.turn.Take(ctx); err != nil {
		return &Error{Op: "list the cluster's resources", Message: err.Error(), Err: err}
	}
	now := c.clock.Now()
	if s.filled && valid() && isYoung(s.at, now, life) {
		return nil
	}
	seen, left := s.writes.Load(), s.leaves.Load()
	list, err := c.Cluster().Resources(ctx)
	if err != nil {
		s.turn.Give()
		return err
	}
	s.list, s.guests, s.at, s.filled = list, make(map[int]Resource, len(list)), now, true
	s.seen, s.left = seen, left
	s.away = map[string]bool{}
	for _, r := range list {
		// By the cluster's membership (pve-manager API2Tools.pm, extract_node_stats).
		if r.Type == "node" && r.Status == "offline" {
			s.away[r.Node] = true
		}
		if _, twice := s.guests[r.VMID]; r.IsGuest() && !twice {
			s.guests[r.VMID] = r
		}
	}
	return nil
}

// guestChanges counts what may have changed guests, by VMID.
type guestChanges struct {
	mu sync.Mutex
	of map[int]uint64
}

func (g *guestChanges) add(vmid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of[vmid]++
}

func (g *guestChanges) all() map[int]uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.of)
}

// Changes grows with each request of this Client that may change a VM, and with the end of its task. Anything read
// of the VM before it grew may be outdated.
func (l ListingReader) Changes(vmid int) uint64 {
	l.client.changes.mu.Lock()
	defer l.client.changes.mu.Unlock()
	return l.client.changes.of[vmid]
}

// changes is the VM that a write may change, 0 if it is none or not known. A clone leaves its source as it is.
func changes(r *transport.Request) int {
	parts := strings.Split(r.Path, "/") // "", nodes, NODE, qemu, VMID, ...
	if len(parts) < 5 || parts[3] != "qemu" || parts[len(parts)-1] == "clone" {
		return 0
	}
	vmid, _ := strconv.Atoi(parts[4]) // 0 for a text that is no number
	return vmid
}

// sharedVersions keep the version of each node.
type sharedVersions struct {
	mu    sync.Mutex
	nodes map[string]*sharedVersion
}

func (s *sharedVersions) on(node string) *sharedVersion {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[node] == nil {
		s.nodes[node] = &sharedVersion{node: node, turn: transport.NewTurn()}
	}
	return s.nodes[node]
}

// sharedVersion keeps the answer to /version, or to that of one node.
type sharedVersion struct {
	node    string
	turn    transport.Turn // guards everything below
	version Version
	filled  bool
	err     error // of one node, which is off: its answer for a while
	failed  time.Time
}

// failedLife is how long the failure of a node to tell its version serves all who ask.
const failedLife = 30 * time.Second

func (s *sharedVersion) get(ctx context.Context, c *Client) (Version, error) {
	op, path := "read the server's version", "/version"
	if s.node != "" {
		op, path = "read the version of node "+s.node, "/nodes/"+s.node+path
	}
	if err := s.turn.Take(ctx); err != nil {
		return Version{}, &Error{Op: op, Message: err.Error(), Err: err}
	}
	defer s.turn.Give()
	if s.filled {
		return s.version, nil
	}
	if s.err != nil && isYoung(s.failed, c.clock.Now(), failedLife) {
		return Version{}, s.err
	}
	w, err := fetch[versionWire](ctx, c, op, path, nil)
	if err != nil {
		if s.node != "" && ctx.Err() == nil {
			s.err, s.failed = err, c.clock.Now()
		}
		return Version{}, err
	}
	s.version, s.filled = w.version(), true
	return s.version, nil
}

// sharedPower keeps the power status of the VMs of each node.
type sharedPower struct {
	mu    sync.Mutex
	nodes map[string]*nodePower
}

// nodePower is what one node has said of its VMs. The holder of the turn may read and write it.
type nodePower struct {
	turn  transport.Turn
	seen  map[int]seenPower
	alone time.Time // when a single VM was asked for last
}

// seenPower is the power status of a VM, when it was asked for, and how often this Client had changed the VM by then.
type seenPower struct {
	status  string
	at      time.Time
	changes uint64
}

type powerWire struct {
	VMID   wire.Int    `json:"vmid"`
	Status wire.String `json:"status"`
}

// Power is the power status of a VM as its node had it at most 5 s ago, and after the last change that this Client made
// of the VM. A node answers for all its VMs by one list, which looks for their processes as status/current does
// (qemu-server API2/Qemu.pm vmlist, QemuServer.pm vmstatus); the cluster's listing is up to ten seconds late. The first
// question about a node asks for that VM only, since the list of a large node is expensive.
func (l ListingReader) Power(ctx context.Context, node string, vmid int) (string, error) {
	c := l.client
	p := c.power.on(node)
	if err := p.turn.Take(ctx); err != nil {
		return "", &Error{Op: "read the status of the VMs on node " + node, Message: err.Error(), Err: err}
	}
	defer p.turn.Give()
	now, changes := c.clock.Now(), l.Changes(vmid)
	known := func() bool {
		seen, ok := p.seen[vmid]
		return ok && isYoung(seen.at, now, sharedLife) && seen.changes == changes
	}
	if !known() && isYoung(p.alone, now, sharedLife) {
		before := c.changes.all()
		list, err := fetch[[]powerWire](ctx, c, "list the VMs of node "+node, "/nodes/"+node+"/qemu", nil)
		if err != nil {
			return "", err
		}
		for _, vm := range list {
			id := int(vm.VMID)
			p.seen[id] = seenPower{string(vm.Status), now, before[id]}
		}
	}
	if known() {
		return p.seen[vmid].status, nil
	}
	p.alone = now
	status, err := c.QEMU(node, vmid).Status(ctx)
	if err != nil {
		return "", err
	}
	p.seen[vmid] = seenPower{status.Status, now, changes}
	return status.Status, nil
}

// isYoung reports whether something was learnt less than a while ago. A clock that was set back tells nothing.
func isYoung(at, now time.Time, life time.Duration) bool {
	age := Elapsed(at, now)
	return age >= 0 && age < life
}

func (s *sharedPower) on(node string) *nodePower {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[node] == nil {
		s.nodes[node] = &nodePower{turn: transport.NewTurn(), seen: map[int]seenPower{}}
	}
	return s.nodes[node]
}
