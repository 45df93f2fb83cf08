// Package snapshot takes, describes and removes snapshots of virtual machines. Taking one is a transaction: a failure
// at any step ends with no snapshot, or with an error that names what is left.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/zclconf/go-cty/cty/ctystrings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Snapshots are those of one cluster's VMs.
type Snapshots struct {
	api    *pve.Client
	jobs   *request.Runner
	guests *guest.Guests
	guard  *guard.Guard
	seen   request.Recent[view]
}

// view is where a VM was found, the options that identify it, and its snapshots.
type view struct {
	node   string
	config map[string]string
	all    []pve.Snapshot
}

// New makes Snapshots.
func New(jobs *request.Runner, guests *guest.Guests, guard *guard.Guard) *Snapshots {
	return &Snapshots{api: jobs.API, jobs: jobs, guests: guests, guard: guard,
		seen: request.Recent[view]{Life: math.MaxInt64}}
}

// Ref is a snapshot in state. PVE gives snapshots no id, so it is known by its VM, its name and the second in which it
// was taken.
type Ref struct {
	VM    guest.Ref
	Name  string
	Taken int64
}

// Snapshot is a snapshot on the server, and the VM that has it.
type Snapshot struct {
	pve.Snapshot
	VMID int
	Node string
	VM   guest.Identity
}

// Unwhole warns of a snapshot that is half made or half removed: PVE rolls no VM back to it (pve-guest-common
// AbstractConfig.pm snapshot_rollback).
func (s Snapshot) Unwhole() []guest.Warning {
	if s.State == "" {
		return nil
	}
	return []guest.Warning{{Path: "name",
		Summary: fmt.Sprintf("Snapshot %s of VM %d on node %s is not whole", s.Name, s.VMID, s.Node),
		Detail: fmt.Sprintf("A task is at work on it, or has died (snapstate %s). The VM cannot be rolled back to it. If no "+
			"task is at work, take the resource out of the configuration, or replace it (-replace): that removes the rest",
			s.State)}}
}

// ErrGone says that the snapshot in state does not exist any more: it was removed, with its VM or without, or the VM or
// the snapshot of that name is another one by now.
var ErrGone = errors.New("the snapshot is gone")

// ForgottenError is an ErrGone whose snapshot is there by name and time, of a VM that has another uuid than in state.
type ForgottenError struct {
	Ref  Ref
	Node string
	Err  error
}

// Error names both identities.
func (f *ForgottenError) Error() string { return f.Err.Error() }

// Unwrap returns the ErrGone.
func (f *ForgottenError) Unwrap() error { return f.Err }

// Warnings says that the snapshot stays, if err is a *ForgottenError.
func Warnings(err error) []guest.Warning {
	var f *ForgottenError
	if !errors.As(err, &f) {
		return nil
	}
	vmid, name := f.Ref.VM.VMID, f.Ref.Name
	return []guest.Warning{{
		Summary: fmt.Sprintf("Snapshot %s of VM %d leaves the state, and stays on the server", name, vmid),
		Detail: fmt.Sprintf("%v. It has a snapshot of that name and time. If that is the VM whose uuid was changed, import "+
			"the snapshot by the id %d/%s, or remove it: %s as root on node %s", f.Err, vmid, name,
			shell.Or(shell.VM("qm delsnapshot {vmid} {}", vmid, name), shell.ByHand), f.Node)}}
}

// Read reads a snapshot in state. ErrGone is certain; any other error says why this is unknown.
func (s *Snapshots) Read(ctx context.Context, ref Ref) (Snapshot, error) {
	seen, err := s.look(ctx, ref.VM)
	if err != nil {
		return Snapshot{}, err
	}
	return seen.find(ref)
}

// Refresh is Read for a refresh, whose results are those of its beginning: all snapshots of a VM share one read, until
// this process changes the VM. Do not change anything by it.
func (s *Snapshots) Refresh(ctx context.Context, ref Ref) (Snapshot, error) {
	seen, err := s.seenBy(ctx, ref.VM)
	if err != nil {
		return Snapshot{}, err
	}
	return seen.find(ref)
}

func (s *Snapshots) seenBy(ctx context.Context, vm guest.Ref) (view, error) {
	key := fmt.Sprintf("%s/%d/%d", vm.Node, vm.VMID, s.api.Listing().Changes(vm.VMID))
	return s.seen.Get(ctx, s.jobs.Clock, key, func(ctx context.Context) (view, error) { return s.look(ctx, vm) })
}

// look finds the VM with the VMID of one in state, and its snapshots.
func (s *Snapshots) look(ctx context.Context, vm guest.Ref) (view, error) {
	at, seen, err := s.guests.Find(ctx, vm, nil)
	var other *guest.IdentityError // a container has the id
	switch {
	case seen == guest.Gone || errors.As(err, &other):
		return view{}, fmt.Errorf("%w: %w", ErrGone, err)
	case err != nil:
		return view{}, err
	}
	all, err := s.api.QEMU(at.Node, vm.VMID).Snapshots(ctx)
	config := at.Config.Current()
	maps.DeleteFunc(config, func(option, _ string) bool {
		return option != "smbios1" && option != "meta" && option != "lock" && option != "parent" && option != "tpmstate0"
	})
	return view{node: at.Node, config: config, all: all}, err
}

// find finds the snapshot in state, if the VM is the one in state.
func (s view) find(ref Ref) (Snapshot, error) {
	err := guest.Guard(ref.VM, s.node, s.config)
	var other *guest.IdentityError
	switch {
	case errors.As(err, &other):
		err = fmt.Errorf("%w: %w", ErrGone, err)
		if ref.Taken != 0 && slices.ContainsFunc(s.all, func(found pve.Snapshot) bool {
			return found.Name == ref.Name && found.Taken == ref.Taken
		}) {
			err = &ForgottenError{Ref: ref, Node: s.node, Err: err}
		}
		return Snapshot{}, err
	case err != nil:
		return Snapshot{}, err
	}
	i := slices.IndexFunc(s.all, func(found pve.Snapshot) bool { return found.Name == ref.Name })
	switch {
	case i < 0:
		return Snapshot{}, fmt.Errorf("%w: VM %d on node %s has no snapshot %s", ErrGone, ref.VM.VMID, s.node, ref.Name)
	case ref.Taken != 0 && s.all[i].Taken != ref.Taken:
		return Snapshot{}, fmt.Errorf("%w: snapshot %s of VM %d on node %s is another one, taken at %s", ErrGone, ref.Name,
			ref.VM.VMID, s.node,
			moment(s.all[i].Taken))
	}
	return Snapshot{Snapshot: s.all[i], VMID: ref.VM.VMID, Node: s.node, VM: guest.IdentityOf(s.config)}, nil
}

// Describe changes the description of a snapshot in state. was is its text in the plan: one that a third party has
// written since stays, since the plan has not shown it.
func (s *Snapshots) Describe(ctx context.Context, ref Ref, was, description string) (Snapshot, error) {
	found, err := s.Read(ctx, ref)
	if err != nil || found.Description == description {
		return found, err
	}
	unchanged := func(now Snapshot) error { // Terraform keeps a text in its normal form
		if ctystrings.Normalize(now.Description) == ctystrings.Normalize(was) || now.Description == description {
			return nil
		}
		return &guest.FieldError{Path: "description",
			Summary: fmt.Sprintf("The description of snapshot %s of VM %d has changed since the plan", ref.Name, ref.VM.VMID),
			Detail: fmt.Sprintf("The plan knows it as %q, and it is %q now: a third party has written it. It was left as "+
				"it is. Make a new plan, which shows what is there", was, now.Description)}
	}
	err = s.describe(ctx, ref, found.Node, description, unchanged)
	found.Description = description
	return found, err
}

// describe writes the description as soon as no lock is on the VM. PVE binds this request to nothing, so each try first
// proves that the snapshot is the one in state and may be described, and is sent only while that proof is recent.
func (s *Snapshots) describe(ctx context.Context, ref Ref, node, description string, may func(Snapshot) error) error {
	look := func(ctx context.Context) error {
		now, err := s.Read(ctx, ref)
		node = now.Node
		if err == nil && may != nil {
			err = may(now)
		}
		return err
	}
	send := func(ctx context.Context) error {
		return s.api.QEMU(node, ref.VM.VMID).DescribeSnapshot(ctx, ref.Name, description)
	}
	return s.jobs.Contend(ctx, node, ref.VM.VMID, func(ctx context.Context) error {
		err := guest.SoonAfter(s.jobs.Clock, look, send)(ctx)
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

// Adopt reads a snapshot for import. It refuses one that is half made or half removed.
func (s *Snapshots) Adopt(ctx context.Context, vmid int, name string) (Snapshot, error) {
	vm, err := s.guests.Adopt(ctx, "", vmid)
	if err != nil {
		return Snapshot{}, err
	}
	found, err := s.Read(ctx, Ref{VM: guest.Ref{VMID: vmid, Node: vm.Node, Identity: vm.Identity}, Name: name})
	if err == nil && (found.State != "" || isMarked(found.Description)) {
		err = fmt.Errorf("snapshot %s of VM %d on node %s is not whole: a task is at work on it, or has died (snapstate "+
			"%q). If none is, %s as root on node %s removes it", name, vmid, found.Node, found.State,
			shell.Or(removal(vmid, name), "a command that you write yourself"), found.Node)
	}
	return found, err
}

// removal is the command that removes a snapshot that is not whole.
func removal(vmid int, name string) string {
	return shell.VM("qm delsnapshot {vmid} {} --force", vmid, name)
}

// isNewEnough refuses a snapshot of a running guest that PVE takes on no machine before 10.0 (qemu-server
// QemuServer.pm, qemu_volume_snapshot). A machine that is not pinned is of the QEMU that has started it.
func (t *taking) isNewEnough(ctx context.Context, is vm.Spec) error {
	old := is.BeforeChains()
	if len(old) == 0 || t.runs(ctx) != nil {
		return nil //nolint:nilerr // of a guest that is off the storage takes it
	}
	for _, slot := range slices.Sorted(maps.Keys(old)) {
		if t.isChained(ctx, old[slot]) {
			return field("vmid", fmt.Sprintf("VM %d runs as machine %s from %s on storage %s, which has "+
				"snapshot-as-volume-chain: PVE takes snapshots there of machines from 10.0 on. Shut it down first, or give it "+
				"a later machine", t.want.VMID, *is.Machine, slot, old[slot]))
		}
	}
	return nil
}
