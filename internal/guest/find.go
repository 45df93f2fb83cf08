package guest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Location is where a VM in state is by now, and its configuration there.
type Location struct {
	Node   string
	Config pve.PendingConfig
	Listed pve.Resource // what the cluster's list says of it; zero where that has it on no node
}

// Find reads the configuration of a VM in state, wherever it is by now: it may be moving to another node at this moment. listed
// says where to look first; without it that is where state has it. Whose VM it is Guard says.
//
// Gone needs proof: its configuration is missing, the cluster does not list it, all of the cluster could be seen, and it is that of the
// state; PVE's answer is the error. When that cannot be had the VM is Unknown, with the reason as error. An id that has a container by now
// is an *IdentityError.
func (s *Guests) Find(ctx context.Context, ref Ref, listed pve.Resources) (Location, Seen, error) {
	for attempt := range 3 {
		if err := s.jobs.Pause(ctx, attempt); err != nil {
			return Location{}, Unknown, err
		}
		at := Location{Node: ref.Node}
		if r, ok := listed.Guest(ref.VMID); ok && r.Type == "qemu" {
			at.Node, at.Listed = r.Node, r
		}
		var err error
		if at.Config, err = s.api.PendingConfig(ctx, at.Node, ref.VMID); err == nil {
			return at, Found, nil
		}
		absent := fmt.Errorf("read VM %d on node %s: %w", ref.VMID, at.Node, err)
		if !pve.IsKind(err, pve.NotFound) && !s.isFree(ctx, ref.VMID, err) {
			return Location{}, Unknown, absent
		}
		if listed, err = s.api.Resources(ctx); err != nil { // the one before may be that of the beginning of a refresh
			return Location{}, Unknown, fmt.Errorf("list the cluster's guests: %w", err)
		}
		if seen, err := missing(ref, listed, at.Node, absent); err != nil {
			return Location{}, seen, err
		}
	}
	return Location{}, Unknown, fmt.Errorf("VM %d is moving from node to node: try again when its migration has ended", ref.VMID)
}

// missing decides what it means that a VM's configuration is not on the node where it was looked for. It is nil where the VM is on
// another one.
func missing(ref Ref, resources pve.Resources, node string, absent error) (Seen, error) {
	if listed, ok := resources.Guest(ref.VMID); ok {
		switch {
		case listed.Type != "qemu":
			return Found, &IdentityError{VMID: ref.VMID, Node: listed.Node, State: ref.Identity}
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
		return Unknown, fmt.Errorf("VM %d was not found, but this cluster has no node %s, where the state has it: this may be another cluster. "+
			"If that node was removed, and the VM with it, take it out of the state (terraform state rm)", ref.VMID, ref.Node)
	}
	return Gone, absent
}

// FindUnlocked finds the VM in state and waits until nobody holds it: the digest of a locked configuration is that of a file with
// the lock in it, and good for nothing once the lock is gone; and a migration that holds it takes it to another node. A guest
// that was suspended to disk keeps its lock; it is not waited for.
func (s *Guests) FindUnlocked(ctx context.Context, ref Ref) (Location, error) {
	q := s.jobs.Queue(ref.Node, ref.VMID)
	for {
		at, _, err := s.Find(ctx, ref, nil)
		if err == nil {
			err = Guard(ref, at.Node, at.Config.Current())
		}
		lock := at.Config.Current()["lock"]
		if err != nil || lock == "" || lock == job.Suspended {
			return at, err
		}
		q.Node = at.Node
		if err := q.Wait(ctx, job.LockedBy(lock, fmt.Sprintf("change VM %d on node %s", ref.VMID, at.Node))); err != nil {
			return at, err
		}
	}
}

// isFree reports whether a VM that may not be read is gone: one that left the pool from which the identity has its privileges is
// refused before PVE looks for it, but whether an id is free PVE tells everybody (pve-manager API2/Cluster.pm nextid).
func (s *Guests) isFree(ctx context.Context, vmid int, err error) bool {
	if !pve.IsKind(err, pve.Denied) {
		return false
	}
	free, err := s.api.IsFreeID(ctx, vmid)
	return err == nil && free
}

// Guard is the check before every read, change and removal of a VM in state.
func Guard(ref Ref, node string, config map[string]string) error {
	seen := IdentityOf(config)
	if ref.Identity.IsZero() || ref.Identity.Matches(seen) || ref.NextUUID != "" && strings.EqualFold(ref.NextUUID, seen.UUID) {
		return nil
	}
	if IsStub(config) {
		return HalfDestroyed(ref, node, nil)
	}
	return &IdentityError{VMID: ref.VMID, Node: node, State: ref.Identity, Server: seen}
}

// HalfDestroyed is the error for a VM of which a destroy that died has left only a lock.
func HalfDestroyed(ref Ref, node string, err error) error {
	text := fmt.Sprintf("VM %d on node %s is half destroyed: all that is left of its configuration is the lock of a destroy, "+
		"so nothing proves that it is the VM in state. "+
		"It was not touched. If no task is at work on it, `qm unlock %d && qm destroy %d --purge` as root on node %s removes it; "+
		"volumes that are left over then show in `pvesm list STORAGE --vmid %d`", ref.VMID, node, ref.VMID, ref.VMID, node, ref.VMID)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return fmt.Errorf("%s", text)
}

// Holdings tells, for a plan that names volumes, which ones a VM in state has. The sizes of those that are detached are looked
// up on their storages as far as this identity may (Datastore.Audit), and so are volumes that the VM does not have. sized are the
// volumes whose size matters, named those that the plan names.
func (s *Guests) Holdings(ctx context.Context, ref Ref, sized, named []string) (Holdings, error) {
	at, _, err := s.Find(ctx, ref, nil)
	if err != nil {
		return Holdings{}, err
	}
	held := HoldingsOf(at.Config)
	seen := map[string]bool{}
	for _, volume := range slices.Concat(sized, named) {
		storage := vm.VolumeStorage(volume)
		_, unused := held.Unused[volume]
		known := held.SlotOf(volume) != "" || unused && !slices.Contains(sized, volume)
		if known || seen[storage] || vm.IsDevice(volume) {
			continue
		}
		seen[storage] = true
		content, err := s.api.Content(ctx, ref.Node, storage, "images", ref.VMID)
		if err != nil {
			continue // the apply tells
		}
		for _, v := range content {
			if _, unused := held.Unused[v.ID]; unused {
				held.Unused[v.ID] = v.Size
			} else if v.VMID == ref.VMID && slices.Contains(named, v.ID) && held.SlotOf(v.ID) == "" {
				held.Loose[v.ID] = v.Size
			}
		}
	}
	return held, nil
}

// SnapshotConfigs are the options that snapshots keep, in the order of their names. One that cannot be read is an error: what
// it alone names would be forgotten.
func (s *Guests) SnapshotConfigs(ctx context.Context, node string, vmid int, names []string) ([]map[string]string, error) {
	all := make([]map[string]string, len(names))
	for i, name := range names {
		config, err := s.api.SnapshotConfig(ctx, node, vmid, name)
		if err != nil {
			return nil, err
		}
		all[i] = config
	}
	return all, nil
}
