// Package snapshot takes, describes and removes snapshots of virtual machines. Taking one is a transaction: a failure at any step ends
// with no snapshot, or with an error that names what is left.
package snapshot

import (
	"context"
	"errors"
	"fmt"
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
}

// New gives access to them.
func New(jobs *job.Runner, guests *guest.Guests, remover *remove.Remover) *Snapshots {
	return &Snapshots{api: jobs.API, jobs: jobs, guests: guests, remover: remover}
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
	at, seen, err := s.guests.Find(ctx, ref.VM, nil)
	if err == nil {
		err = guest.Guard(ref.VM, at.Node, at.Config.Current())
	}
	var other *guest.IdentityError
	switch {
	case seen == guest.Gone || errors.As(err, &other):
		return Snapshot{}, fmt.Errorf("%w: %w", ErrGone, err)
	case err != nil:
		return Snapshot{}, err
	}
	all, err := s.api.ListSnapshots(ctx, at.Node, ref.VM.VMID)
	if err != nil {
		return Snapshot{}, err
	}
	i := slices.IndexFunc(all, func(found pve.Snapshot) bool { return found.Name == ref.Name })
	switch {
	case i < 0:
		return Snapshot{}, fmt.Errorf("%w: VM %d on node %s has no snapshot %s", ErrGone, ref.VM.VMID, at.Node, ref.Name)
	case ref.Taken != 0 && all[i].Taken != ref.Taken:
		return Snapshot{}, fmt.Errorf("%w: snapshot %s of VM %d on node %s is another one, taken at %s", ErrGone, ref.Name, ref.VM.VMID, at.Node,
			moment(all[i].Taken))
	}
	return Snapshot{Snapshot: all[i], Node: at.Node, VM: guest.IdentityOf(at.Config.Current())}, nil
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
		return s.api.DescribeSnapshot(ctx, now.Node, ref.VM.VMID, ref.Name, description)
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
