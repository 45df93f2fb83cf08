// Package snapshot takes, describes and removes snapshots of virtual machines. Taking one is a transaction: a failure at any step ends
// with no snapshot, or with an error that names what is left.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// Snapshots are those of one cluster's VMs.
type Snapshots struct {
	api     *pve.Client
	jobs    *job.Runner
	guests  *guest.Guests
	remover *remove.Remover
	seen    job.Recent[sighting]
}

// sighting is where a VM was found, what of its configuration tells which VM it is, and its snapshots.
type sighting struct {
	node   string
	config map[string]string
	all    []pve.Snapshot
}

// New gives access to them.
func New(jobs *job.Runner, guests *guest.Guests, remover *remove.Remover) *Snapshots {
	return &Snapshots{api: jobs.API, jobs: jobs, guests: guests, remover: remover, seen: job.Recent[sighting]{Life: math.MaxInt64}}
}

// Ref is a snapshot in state. PVE gives none an id of its own, so it is known by its VM, its name and the second in which it was taken.
type Ref struct {
	VM    guest.Ref
	Name  string
	Taken int64
}

// Snapshot is one as it is on the server, and the VM that has it.
type Snapshot struct {
	pve.Snapshot
	Node string
	VM   guest.Identity
}

// ErrGone says that the snapshot in state is not there any more: it was removed, with its VM or without, or the VM or the snapshot of
// that name is another by now.
var ErrGone = errors.New("the snapshot is gone")

// Read reads a snapshot in state. ErrGone is certain; any other error says why it could not be told.
func (s *Snapshots) Read(ctx context.Context, ref Ref) (Snapshot, error) {
	seen, err := s.look(ctx, ref.VM)
	if err != nil {
		return Snapshot{}, err
	}
	return seen.find(ref)
}

// Refresh is Read for a refresh, which says what was true when it began: all snapshots of a VM share one look at it, until this process
// changes something about it. It is no basis for a change.
func (s *Snapshots) Refresh(ctx context.Context, ref Ref) (Snapshot, error) {
	key := fmt.Sprintf("%s/%d/%d", ref.VM.Node, ref.VM.VMID, s.api.Changes(ref.VM.VMID))
	seen, err := s.seen.Get(ctx, s.jobs.Clock, key, func(ctx context.Context) (sighting, error) { return s.look(ctx, ref.VM) })
	if err != nil {
		return Snapshot{}, err
	}
	return seen.find(ref)
}

// look finds the VM that has the id of one in state, and its snapshots.
func (s *Snapshots) look(ctx context.Context, vm guest.Ref) (sighting, error) {
	at, seen, err := s.guests.Find(ctx, vm, nil)
	var other *guest.IdentityError // a container has the id
	switch {
	case seen == guest.Gone || errors.As(err, &other):
		return sighting{}, fmt.Errorf("%w: %w", ErrGone, err)
	case err != nil:
		return sighting{}, err
	}
	all, err := s.api.ListSnapshots(ctx, at.Node, vm.VMID)
	config := at.Config.Current()
	maps.DeleteFunc(config, func(option, _ string) bool { return option != "smbios1" && option != "meta" && option != "lock" })
	return sighting{node: at.Node, config: config, all: all}, err
}

// find finds the snapshot in state, if the VM is the one in state.
func (s sighting) find(ref Ref) (Snapshot, error) {
	err := guest.Guard(ref.VM, s.node, s.config)
	var other *guest.IdentityError
	switch {
	case errors.As(err, &other):
		return Snapshot{}, fmt.Errorf("%w: %w", ErrGone, err)
	case err != nil:
		return Snapshot{}, err
	}
	i := slices.IndexFunc(s.all, func(found pve.Snapshot) bool { return found.Name == ref.Name })
	switch {
	case i < 0:
		return Snapshot{}, fmt.Errorf("%w: VM %d on node %s has no snapshot %s", ErrGone, ref.VM.VMID, s.node, ref.Name)
	case ref.Taken != 0 && s.all[i].Taken != ref.Taken:
		return Snapshot{}, fmt.Errorf("%w: snapshot %s of VM %d on node %s is another one, taken at %s", ErrGone, ref.Name, ref.VM.VMID, s.node,
			moment(s.all[i].Taken))
	}
	return Snapshot{Snapshot: s.all[i], Node: s.node, VM: guest.IdentityOf(s.config)}, nil
}

// Describe changes the description of a snapshot in state.
func (s *Snapshots) Describe(ctx context.Context, ref Ref, description string) (Snapshot, error) {
	found, err := s.Read(ctx, ref)
	if err == nil && found.Description != description {
		err = s.describe(ctx, ref, found.Node, description)
		found.Description = description
	}
	return found, err
}

// describe writes the description as soon as nobody holds the VM. It is bound to nothing by PVE, so it is looked whose the snapshot is
// before each try.
func (s *Snapshots) describe(ctx context.Context, ref Ref, node, description string) error {
	return s.jobs.Contend(ctx, node, ref.VM.VMID, func(ctx context.Context) error {
		now, err := s.Read(ctx, ref)
		if err != nil {
			return err
		}
		err = s.api.DescribeSnapshot(ctx, now.Node, ref.VM.VMID, ref.Name, description)
		if pve.IsKind(err, pve.Ambiguous) {
			look, cancel := s.jobs.LookAfter(ctx)
			defer cancel()
			if now, lookErr := s.Read(look, ref); lookErr == nil && now.Description == description {
				return nil
			}
		}
		return err
	})
}

// Delete removes a snapshot in state. One that is gone is a success.
func (s *Snapshots) Delete(ctx context.Context, ref Ref) error {
	found, err := s.Read(ctx, ref)
	switch {
	case errors.Is(err, ErrGone):
		return nil
	case err != nil:
		return err
	}
	err = s.remover.RemoveSnapshot(ctx, s.claim(ref, found.Node))
	if errors.Is(err, remove.ErrNoSnapshot) {
		return nil
	}
	return err
}

// claim is the claim on a snapshot in state.
func (s *Snapshots) claim(ref Ref, node string) remove.SnapshotClaim {
	return remove.SnapshotClaim{Node: node, VMID: ref.VM.VMID, Name: ref.Name, Tasks: &job.Tasks{},
		Guest: func(config pve.GuestConfig) error { return guest.Guard(ref.VM, node, config.Values) },
		Owns: func(options map[string]string) error {
			if options["snaptime"] != fmt.Sprint(ref.Taken) {
				return fmt.Errorf("%w: another one has its name", remove.ErrNoSnapshot)
			}
			return nil
		}}
}

// Adopt reads a snapshot for import. One that is half made or half removed is refused.
func (s *Snapshots) Adopt(ctx context.Context, vmid int, name string) (Snapshot, error) {
	vm, err := s.guests.Adopt(ctx, "", vmid)
	if err != nil {
		return Snapshot{}, err
	}
	found, err := s.Read(ctx, Ref{VM: guest.Ref{VMID: vmid, Node: vm.Node, Identity: vm.Identity}, Name: name})
	if err == nil && (found.State != "" || isMarked(found.Description)) {
		err = fmt.Errorf("snapshot %s of VM %d on node %s is not whole: a task is at work on it, or has died (snapstate %q). "+
			"If none is, `qm delsnapshot %d %s --force` as root on node %s removes it", name, vmid, found.Node, found.State, vmid, name, found.Node)
	}
	return found, err
}
