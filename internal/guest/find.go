package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Location is where a VM in state is by now, and its configuration there.
type Location struct {
	Node   string
	Config pve.PendingConfig
	Asked  time.Time    // when that was asked for
	Listed pve.Resource // what the cluster's list says of it; zero where that has it on no node
}

// Find reads the configuration of a VM in state, wherever it is by now: it may be moving to another node at this
// moment. listed says where to look first; without it that is where state has it. Whose VM it is Guard says.
//
// Gone needs proof: its configuration is missing, the cluster does not list it, all of the cluster could be seen, and
// it is that of the state; PVE's answer is the error. When that cannot be had the VM is Unknown, with the reason as
// error. An id that has a container by now is an *IdentityError.
func (g *Guests) Find(ctx context.Context, ref Ref, listed pve.Resources) (Location, Presence, error) {
	for attempt := range 3 {
		if err := g.jobs.Pause(ctx, attempt); err != nil {
			return Location{}, Unknown, err
		}
		at := Location{Node: ref.Node, Asked: g.clock.Now()}
		if r, ok := listed.Guest(ref.VMID); ok && r.Type == "qemu" {
			at.Node, at.Listed = r.Node, r
		}
		var err error
		if at.Config, err = g.api.QEMU(at.Node, ref.VMID).Pending(ctx); err == nil {
			return at, Found, nil
		}
		absent := fmt.Errorf("read VM %d on node %s: %w", ref.VMID, at.Node, err)
		isAbsent := pve.IsKind(err, pve.NotFound) || g.isFree(ctx, ref.VMID, err) || isForeign(ctx, g, at.Node, err)
		if !isAbsent {
			return Location{}, Unknown, absent
		}
		// the one before may be that of the beginning of a refresh
		if listed, err = g.api.Cluster().Resources(ctx); err != nil {
			return Location{}, Unknown, fmt.Errorf("list the cluster's guests: %w", err)
		}
		if seen, err := missing(ref, listed, at.Node, absent); err != nil {
			return Location{}, seen, err
		}
	}
	return Location{}, Unknown, fmt.Errorf("VM %d is moving from node to node: try again when its migration has ended",
		ref.VMID)
}

// missing decides what it means that a VM's configuration is not on the node where it was looked for. It is nil where
// the VM is on another one.
func missing(ref Ref, resources pve.Resources, node string, absent error) (Presence, error) {
	if listed, ok := resources.Guest(ref.VMID); ok {
		switch {
		case listed.Type != "qemu":
			return Found, &IdentityError{VMID: ref.VMID, Node: listed.Node, Home: ref.Node, State: ref.Identity}
		case listed.Node != node:
			return Found, nil
		}
		return Unknown, fmt.Errorf("VM %d is listed on node %s, but its configuration is not there", ref.VMID, node)
	}
	known := ref.Node == ""
	for _, n := range resources.Nodes() {
		if n.Status != "online" {
			return Unknown, fmt.Errorf("VM %d was not found, but node %s is %s and may have it", ref.VMID, n.Node, n.Status)
		}
		known = known || n.Node == ref.Node
	}
	if !known { // a wrong endpoint must not empty a state
		return Unknown, fmt.Errorf("VM %d was not found: this cluster has the nodes %s, and no node %s, where the state has "+
			"it. Either the endpoint is that of another cluster: correct it. Or the node was removed from the cluster, and the "+
			"VM with it: take it out of the state (terraform state rm)", ref.VMID,
			strings.ReplaceAll(ClusterName(resources), ",", ", "), ref.Node)
	}
	return Gone, absent
}

// FindUnlocked finds the VM in state and waits until no task holds it. The digest of a locked configuration is that
// of a file with the lock in it, and useless once the lock is gone; and a migration that holds the VM takes it to
// another node. A guest that was suspended to disk keeps its lock; it is not waited for.
func (g *Guests) FindUnlocked(ctx context.Context, ref Ref) (Location, error) {
	return g.findUnlocked(ctx, ref, func(node string, config map[string]string) error { return Guard(ref, node, config) })
}

// findUnlocked is FindUnlocked with another proof of whose VM it is.
func (g *Guests) findUnlocked(
	ctx context.Context, ref Ref, check func(node string, config map[string]string) error,
) (Location, error) {
	q := g.jobs.Queue(ref.Node, ref.VMID)
	for {
		at, _, err := g.Find(ctx, ref, nil)
		if err == nil {
			err = check(at.Node, at.Config.Current())
		}
		lock := at.Config.Current()["lock"]
		if err != nil || lock == "" || lock == request.Suspended {
			return at, err
		}
		q.Node = at.Node
		if err := q.Wait(ctx, request.LockedBy(lock, fmt.Sprintf("change VM %d on node %s", ref.VMID, at.Node))); err != nil {
			return at, err
		}
	}
}

// isFree reports whether a VM that may not be read is gone. PVE refuses a VM that left the pool from which the
// identity has its privileges before it looks for it. But PVE tells every user whether an id is free (pve-manager
// API2/Cluster.pm nextid).
func (g *Guests) isFree(ctx context.Context, vmid int, err error) bool {
	if !pve.IsKind(err, pve.Denied) {
		return false
	}
	free, err := g.api.Cluster().IsFreeID(ctx, vmid)
	return err == nil && free
}

// isForeign reports whether a request failed since the cluster has no such node. PVE passes it on all the same, to the
// address that the name has in DNS (pve-cluster Cluster.pm remote_node_ip): its own words name the lookup or the
// connection.
func isForeign(ctx context.Context, g *Guests, node string, err error) bool {
	const noConnection = 595 // and the statuses above it
	var answer *pve.Error
	isLost := errors.As(err, &answer) && answer.Status >= noConnection
	if node == "" || !isLost && !pve.IsKind(err, pve.Unhealthy) {
		return false
	}
	resources, _, err := g.api.Listing().Recent(ctx)
	_, isMember := resources.Node(node)
	return err == nil && len(resources.Nodes()) > 0 && !isMember
}

// Guard is the check before every read, change and removal of a VM in state.
func Guard(ref Ref, node string, config map[string]string) error {
	seen := IdentityOf(config)
	same := ref.Identity.Matches(seen) || ref.Identity.IsZero() && !ref.Identity.Contradicts(seen)
	if same || ref.NextUUID != "" && strings.EqualFold(ref.NextUUID, seen.UUID) {
		return nil
	}
	if IsHalfDestroyed(config) {
		return HalfDestroyed(ref, node, nil)
	}
	if IsRestoring(config) {
		return &RestoringError{VMID: ref.VMID, Node: node}
	}
	return &IdentityError{VMID: ref.VMID, Node: node, Home: ref.Node, State: ref.Identity, Server: seen}
}

// HalfDestroyed is the error for a VM of which a destroy that died has left only a lock.
func HalfDestroyed(ref Ref, node string, err error) error {
	text := fmt.Sprintf("VM %d on node %s is half destroyed: its configuration holds nothing but the lock of a "+
		"destroy, so nothing proves that it is the VM in state. It was not touched. If no task is at work on it, `qm "+
		"unlock %d && qm destroy %d --purge` as root on node %s removes it; volumes that are left over then show in `pvesm "+
		"list STORAGE --vmid %d`", ref.VMID, node, ref.VMID, ref.VMID, node,
		ref.VMID)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return fmt.Errorf("%s", text)
}

// Holdings tells, for a plan that names volumes, which ones a VM in state has. The sizes of those that are detached
// are looked up on their storages as far as this identity may (Datastore.Audit), and so are volumes that the VM does
// not have. sized are the volumes whose size matters, named those that the plan names.
func (g *Guests) Holdings(ctx context.Context, ref Ref, sized, named []string) (Holdings, error) {
	at, _, err := g.Find(ctx, ref, nil)
	if err != nil {
		return Holdings{}, err
	}
	held := HoldingsOf(at.Config)
	lookUp(ctx, g, held, at.Node, ref.VMID, sized, named)
	return held, nil
}

// lookUp adds to what a VM has what a node's storages tell of it.
func lookUp(ctx context.Context, g *Guests, held Holdings, node string, vmid int, sized, named []string) {
	seen := map[string]bool{}
	for _, volume := range slices.Concat(sized, named) {
		storage := volid.Storage(volume)
		_, unused := held.Unused[volume]
		known := held.SlotOf(volume) != "" || unused && !slices.Contains(sized, volume)
		if known || seen[storage] || volid.IsDevice(volume) {
			continue
		}
		seen[storage] = true
		content, err := g.api.Storage(node, storage).Content(ctx, "images", vmid)
		if err != nil {
			continue // the apply tells
		}
		for _, v := range content {
			if _, unused := held.Unused[v.ID]; unused {
				held.Unused[v.ID] = v.Size
			} else if v.VMID == vmid && slices.Contains(named, v.ID) && held.SlotOf(v.ID) == "" {
				held.Loose[v.ID] = v.Size
			}
		}
	}
}

// HoldingsListed is Holdings of the VM that the cluster lists with an id, be it in a state or not; false: there is
// none. The volumes that are named are looked up on the node beside, too, if that is another.
func (g *Guests) HoldingsListed(ctx context.Context, vmid int, beside string, named []string) (held Holdings,
	there bool, err error) {
	resources, err := g.api.Listing().Shared(ctx)
	if err != nil {
		return Holdings{}, false, err
	}
	listed, there := resources.Guest(vmid)
	if !there {
		return Holdings{}, false, nil
	}
	held, err = g.Holdings(ctx, Ref{VMID: vmid, Node: listed.Node}, nil, named)
	if err == nil && beside != "" && beside != listed.Node {
		lookUp(ctx, g, held, beside, vmid, nil, named)
	}
	return held, true, err
}

// SnapshotConfigs are the options that snapshots keep, in the order of their names. One that cannot be read is an
// error: what it alone names would be forgotten.
func (g *Guests) SnapshotConfigs(ctx context.Context, node string, vmid int, names []string) ([]map[string]string,
	error) {
	all := make([]map[string]string, len(names))
	for i, name := range names {
		config, err := g.api.QEMU(node, vmid).SnapshotConfig(ctx, name)
		if err != nil {
			return nil, err
		}
		all[i] = config
	}
	return all, nil
}

// Choice is a VM that a user names by its VMID, and what else must be true of it; "" is not checked.
type Choice struct {
	VMID       int
	Node, UUID string
}

// Pick finds the VM, wherever it is, and reads its configuration.
func (g *Guests) Pick(ctx context.Context, c Choice) (Location, error) {
	resources, err := g.api.Cluster().Resources(ctx)
	if err != nil {
		return Location{}, fmt.Errorf("list the cluster's guests: %w", err)
	}
	listed, ok := resources.Guest(c.VMID)
	switch {
	case !ok:
		return Location{}, g.notListed(ctx, c.VMID)
	case listed.Type != "qemu":
		return Location{}, noVM(listed)
	}
	at, _, err := g.Find(ctx, Ref{VMID: c.VMID, Node: listed.Node}, resources)
	if err != nil {
		return at, err
	}
	return at, c.Check(at)
}

// Check refuses a VM that is not the one which was chosen.
func (c Choice) Check(at Location) error {
	seen := IdentityOf(at.Config.Current())
	switch {
	case c.Node != "" && c.Node != at.Node:
		return &FieldError{Path: "node", Summary: fmt.Sprintf("VM %d is on another node", c.VMID),
			Detail: fmt.Sprintf("It is on node %s, not on %s; it was not touched", at.Node, c.Node)}
	case c.UUID != "" && !strings.EqualFold(c.UUID, seen.UUID):
		return &FieldError{Path: "uuid", Summary: fmt.Sprintf("VM %d is another VM", c.VMID),
			Detail: fmt.Sprintf("The VM on node %s that has this id now has %s, not uuid %s; it was not touched", at.Node, seen,
				c.UUID)}
	}
	return nil
}

// notListed says of an id that has no guest in the list what that means.
func (g *Guests) notListed(ctx context.Context, vmid int) error {
	free, err := g.api.Cluster().IsFreeID(ctx, vmid)
	switch {
	case err != nil:
		return err
	case !free:
		return &FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d cannot be seen", vmid),
			Detail: fmt.Sprintf("A guest has this id, but this identity may not see it: that takes VM.Audit on /vms/%d", vmid)}
	}
	return &FieldError{Path: "vmid", Summary: fmt.Sprintf("There is no VM %d", vmid),
		Detail: "No guest of the cluster has this id"}
}

// Unusable returns why nothing can ever be done to the guest of a chosen VM, as far as that shows now: its VMID has a
// container, a template or another VM. It is nil for a VM that is not there or could not be read: that may change
// later.
func (g *Guests) Unusable(ctx context.Context, c Choice) error {
	resources, err := g.api.Cluster().Resources(ctx)
	if err != nil {
		return nil //nolint:nilerr // the act looks again, and says it
	}
	listed, ok := resources.Guest(c.VMID)
	switch {
	case !ok:
		return nil
	case listed.Type != "qemu":
		return noVM(listed)
	}
	at, _, err := g.Find(ctx, Ref{VMID: c.VMID, Node: listed.Node}, resources)
	switch {
	case err != nil:
		return nil //nolint:nilerr // likewise
	case at.Config.Current()["template"] == "1":
		return IsTemplate(c.VMID)
	}
	return Choice{VMID: c.VMID, UUID: c.UUID}.Check(at) // it may have moved by then
}

// noVM refuses a container.
func noVM(listed pve.Resource) error {
	return &FieldError{Path: "vmid", Summary: fmt.Sprintf("%d is no VM", listed.VMID),
		Detail: fmt.Sprintf("%s on node %s has this id; it was not touched", Named(listed), listed.Node)}
}

// IsTemplate refuses a template, which has no guest.
func IsTemplate(vmid int) error {
	return &FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d is a template", vmid),
		Detail: "A template has no guest, and nothing was done"}
}
