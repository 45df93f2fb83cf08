package remove

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// SnapshotClaim is a snapshot that somebody wants to remove, or to roll its VM back to, and the rules by which it is his.
type SnapshotClaim struct {
	Node string
	VMID int
	Name string
	// Guest judges the configuration that has the id: nil where its snapshots may be touched.
	Guest func(pve.GuestConfig) error
	// Owns judges what the snapshot keeps: nil where it is the one that is meant.
	Owns func(options map[string]string) error
	// Tasks are the claimant's own, which hold nothing any more. With Dead the lock is taken away that one of them has left together
	// with a half-made snapshot.
	Tasks *job.Tasks
	Dead  bool
	// back: what is on the disks goes back, too, which is no business of this VM alone where another guest has one of them attached.
	back bool
}

// ErrNoSnapshot says that the snapshot is not there, or is another of the same name, so that nothing is to be removed.
var ErrNoSnapshot = errors.New("the snapshot is not there any more")

// RemoveSnapshot removes a snapshot. It is proven before each try: a lock may be waited for, and the VM be another by then. What is half
// made or half removed already goes from the configuration also where PVE cannot free a volume of it.
func (s *Remover) RemoveSnapshot(ctx context.Context, c SnapshotClaim) error {
	return s.jobs.Contend(ctx, c.Node, c.VMID, func(ctx context.Context) error {
		e, options, err := s.proveSnapshot(ctx, c)
		if err != nil {
			return err
		}
		force := options["snapstate"] != ""
		if lock := e.config.Values["lock"]; lock != "" {
			if !c.Dead || !force || lock != "snapshot" && lock != "snapshot-delete" {
				return job.LockedBy(lock, fmt.Sprintf("delete snapshot %s of VM %d on node %s", c.Name, c.VMID, c.Node))
			}
			if err := s.takeLock(ctx, e, ""); err != nil {
				return err
			}
		}
		_, err = s.jobs.Settle(ctx, c.Tasks, job.Request{Node: c.Node, Type: "qmdelsnapshot", ID: c.VMID, Done: s.isWithout(c),
			Send: func(ctx context.Context) (pve.UPID, error) {
				return s.api.DeleteSnapshot(ctx, c.Node, c.VMID, c.Name, force)
			}})
		return err
	})
}

// RollBackTo takes a VM back to a snapshot: what came since is lost, as the user has asked for.
func (s *Remover) RollBackTo(ctx context.Context, c SnapshotClaim, start bool) (pve.TaskResult, error) {
	var result pve.TaskResult
	c.back = true
	err := s.jobs.Contend(ctx, c.Node, c.VMID, func(ctx context.Context) error {
		if _, _, err := s.proveSnapshot(ctx, c); err != nil {
			return err
		}
		params := pve.Params{}
		if start {
			params["start"] = "1"
		}
		var err error
		result, err = s.jobs.Settle(ctx, c.Tasks, job.Request{Node: c.Node, Type: "qmrollback", ID: c.VMID,
			Send: func(ctx context.Context) (pve.UPID, error) {
				return s.api.RollBackVM(ctx, c.Node, c.VMID, c.Name, params)
			}})
		return err
	})
	return result, err
}

// isWithout tells whether the snapshot is gone from the configuration.
func (s *Remover) isWithout(c SnapshotClaim) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		names, err := s.api.Snapshots(ctx, c.Node, c.VMID)
		return err == nil && !slices.Contains(names, c.Name), err
	}
}

// proveSnapshot makes evidence: the VM and the snapshot are those that are meant, and no other guest has a snapshot of the same name on
// one of the volumes. The storage knows a volume's snapshots by their names alone (pve-storage, volume_snapshot of the plugins), so
// such a one would go, or come back, with ours. The snapshot is read last: another may have been taken under its name meanwhile.
func (s *Remover) proveSnapshot(ctx context.Context, c SnapshotClaim) (Evidence, map[string]string, error) {
	before, err := s.api.SnapshotConfig(ctx, c.Node, c.VMID, c.Name)
	if pve.IsKind(err, pve.NotFound) {
		return Evidence{}, nil, fmt.Errorf("%w: %w", ErrNoSnapshot, err)
	}
	if err == nil {
		err = s.checkNamesakes(ctx, c, volumesOf(before))
	}
	if err != nil {
		return Evidence{}, nil, err
	}
	e, err := s.prove(ctx, claim{node: c.Node, vmid: c.VMID, guest: c.Guest, lock: c.Dead, tasks: c.Tasks.UPIDs})
	if err != nil {
		return Evidence{}, nil, err
	}
	now, err := s.api.SnapshotConfig(ctx, c.Node, c.VMID, c.Name)
	switch {
	case pve.IsKind(err, pve.NotFound):
		return Evidence{}, nil, fmt.Errorf("%w: %w", ErrNoSnapshot, err)
	case err != nil:
		return Evidence{}, nil, err
	case !maps.Equal(before, now):
		return Evidence{}, nil, fmt.Errorf("snapshot %s of VM %d on node %s changed while it was looked at; it was not touched", c.Name, c.VMID,
			c.Node)
	}
	return e, now, c.Owns(now)
}

// checkNamesakes is an error where another guest has a snapshot of the same name on one of the volumes, or may have; and for a roll-back
// where another guest has the volume itself: a storage takes the whole of it back, whoever writes to it (pve-storage Plugin.pm
// volume_snapshot_rollback).
func (s *Remover) checkNamesakes(ctx context.Context, c SnapshotClaim, volumes []string) error {
	if len(volumes) == 0 {
		return nil
	}
	scope, err := s.scope(ctx, nil, c.Node, volumes)
	if err != nil {
		return err
	}
	others, err := s.surveyor.Since(ctx, s.surveyor.Ask(), scope)
	if err != nil {
		return err
	}
	for _, volume := range volumes {
		for _, user := range others.UsersOf(volume, c.VMID) {
			if user.Where == "snapshot "+c.Name || c.back && !strings.HasPrefix(user.Where, "snapshot ") {
				used := &InUseError{Volume: volume, Users: []string{user.String()}}
				return fmt.Errorf("snapshot %s of VM %d was not touched: %w", c.Name, c.VMID, used)
			}
		}
		if owner, ok := vm.VolumeOwner(volume); others.Unseen != nil && (!ok || owner != c.VMID) {
			return fmt.Errorf("snapshot %s of VM %d was not touched: whether another guest has %s, or a snapshot of that name on it, cannot be "+
				"told: %w", c.Name, c.VMID, volume, others.Unseen)
		}
	}
	return nil
}

// volumesOf are the volumes that a snapshot of the VM is taken of, whoever they carry the id of: its disks, and no medium of a drive
// (qemu-server QemuConfig.pm __snapshot_create_vol_snapshot).
func volumesOf(options map[string]string) []string {
	all := map[string]bool{}
	for option, value := range options {
		if volume := guest.VolumeOf(value); option != "description" && vm.IsVolume(volume) && !strings.Contains(value, ",media=cdrom") {
			all[volume] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
