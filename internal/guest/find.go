package guest

import (
	"context"
	"errors"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Unlocked finds the VM in state and waits until nobody holds it: the digest of a locked configuration is that of a file with
// the lock in it, and good for nothing once the lock is gone; and a migration that holds it takes it to another node. A guest
// that was suspended to disk keeps its lock; it is not waited for.
func (s *Guests) Unlocked(ctx context.Context, ref Ref) (string, pve.PendingConfig, error) {
	q := s.jobs.Queue(ref.Node, ref.VMID)
	for {
		node, config, err := s.Find(ctx, ref)
		if err == nil {
			err = Guard(ref, node, config.Current())
		}
		lock := config.Current()["lock"]
		if err != nil || lock == "" || lock == job.Suspended {
			return node, config, err
		}
		q.Node = node
		if err := q.Wait(ctx, job.LockedBy(lock, fmt.Sprintf("change VM %d on node %s", ref.VMID, node))); err != nil {
			return node, config, err
		}
	}
}

// Locate finds the configuration of a VM in state, also when it moves to another node at this moment. Node is "" when the
// VM is proven to be gone.
func (s *Guests) Locate(ctx context.Context, resources pve.Resources, ref Ref) (string, pve.PendingConfig, error) {
	node := ref.Node
	for attempt := range 3 {
		if err := s.jobs.Pause(ctx, attempt); err != nil {
			return "", pve.PendingConfig{}, err
		}
		if listed, ok := resources.Guest(ref.VMID); ok && listed.Type == "qemu" {
			node = listed.Node
		}
		config, err := s.api.PendingConfig(ctx, node, ref.VMID)
		if err == nil {
			return node, config, nil
		}
		if !pve.IsKind(err, pve.NotFound) && !s.isFree(ctx, ref.VMID, err) {
			return "", pve.PendingConfig{}, fmt.Errorf("read VM %d on node %s: %w", ref.VMID, node, err)
		}
		_, seen, err := s.missing(ctx, ref, node)
		switch {
		case seen == Gone:
			return "", pve.PendingConfig{}, nil
		case err != nil:
			return "", pve.PendingConfig{}, err
		}
		if resources, err = s.api.Resources(ctx); err != nil { // found on another node
			return "", pve.PendingConfig{}, fmt.Errorf("list the cluster's guests: %w", err)
		}
	}
	return "", pve.PendingConfig{}, fmt.Errorf("VM %d is moving from node to node: try again when its migration has ended", ref.VMID)
}

// Find reads the configuration of a VM in state, wherever it is by now.
func (s *Guests) Find(ctx context.Context, ref Ref) (string, pve.PendingConfig, error) {
	node := ref.Node
	for attempt := 0; ; attempt++ {
		if err := s.jobs.Pause(ctx, attempt); err != nil {
			return "", pve.PendingConfig{}, err
		}
		config, err := s.api.PendingConfig(ctx, node, ref.VMID)
		if err == nil {
			return node, config, nil
		}
		err = fmt.Errorf("read VM %d on node %s: %w", ref.VMID, node, err)
		if attempt == 2 || !pve.IsKind(err, pve.NotFound) {
			return "", pve.PendingConfig{}, err
		}
		resources, listErr := s.api.Resources(ctx)
		if listErr != nil {
			return "", pve.PendingConfig{}, errors.Join(err, listErr)
		}
		listed, ok := resources.Guest(ref.VMID)
		if !ok || listed.Type != "qemu" {
			return "", pve.PendingConfig{}, err
		}
		node = listed.Node
	}
}
