package provision

import (
	"context"
	"errors"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Update changes a VM in place: exactly what differs between Prior and Planned is sent. On an error the guest, if it has a
// VMID, is what is true now.
func (s *Service) Update(ctx context.Context, r UpdateRequest) (Guest, []Warning, error) {
	config, err := s.api.PendingConfig(ctx, r.Ref.Node, r.Ref.VMID)
	if err != nil {
		return Guest{}, nil, fmt.Errorf("read VM %d on node %s: %w", r.Ref.VMID, r.Ref.Node, err)
	}
	if err := guard(r.Ref, r.Ref.Node, config.Current()); err != nil {
		return Guest{}, nil, err
	}
	warnings, err := s.change(ctx, r, config)
	guest, readErr := s.readBack(context.WithoutCancel(ctx), r.Ref.Node, r.Ref.VMID)
	if readErr == nil {
		readErr = s.attend(context.WithoutCancel(ctx), &guest, r.Ref.Firewall || r.Firewall != nil, r.Ref.HA || r.HA != nil)
	}
	guest.Pool = r.Pool
	if err != nil && r.Pool != r.PriorPool {
		guest.Pool = r.PriorPool
	}
	if readErr != nil {
		return Guest{}, warnings, errors.Join(err, fmt.Errorf("read VM %d back: %w", r.Ref.VMID, readErr))
	}
	return guest, warnings, err
}

func (s *Service) change(ctx context.Context, r UpdateRequest, config pve.PendingConfig) ([]Warning, error) {
	server := vm.Decode(config.Merged())
	prior, planned := onto(server, r.Prior, r.Planned)
	change := vm.Diff(vm.WithRest(prior, server), planned)
	if len(change.Problems) > 0 {
		return nil, problems("change", r.Ref.VMID, change)
	}
	l := &ledger{}
	node, vmid := r.Ref.Node, r.Ref.VMID
	if early := onExisting(change, prior); len(early.Moves)+len(early.Grow) > 0 {
		var err error
		if config, err = s.reshape(ctx, l, node, vmid, early, config); err != nil {
			return nil, err
		}
		server = vm.Decode(config.Merged())
		prior = reshaped(prior, server, early)
		change = vm.Diff(vm.WithRest(prior, server), planned)
	}
	_, convert := change.Set["template"] // by a request of its own, which converts the volumes too
	delete(change.Set, "template")
	var err error
	keepDrive(&change, config.Current())
	if config, err = s.vacate(ctx, node, vmid, &change, config); err != nil {
		return nil, err
	}
	if err := s.apply(ctx, l, node, vmid, change, config.Digest); err != nil {
		return nil, s.takeBack(ctx, node, vmid, change, config, err)
	}
	if err := s.shape(ctx, l, node, vmid, change); err != nil {
		return nil, err
	}
	if err := s.regroup(ctx, vmid, r.PriorPool, r.Pool); err != nil {
		return nil, err
	}
	if err := (wall{s, node, vmid}).change(ctx, r.PriorFirewall, r.Firewall, false); err != nil {
		return nil, err
	}
	if r.HA == nil { // else a guest that is shut down would be started again
		if err := s.changeHA(ctx, vmid, r.PriorHA, nil); err != nil {
			return nil, err
		}
	}
	warnings, err := s.switchPower(ctx, l, r)
	if err == nil && r.HA != nil {
		err = s.changeHA(ctx, vmid, r.PriorHA, r.HA)
	}
	if err != nil || !convert {
		return warnings, err
	}
	return warnings, s.convert(ctx, l, node, vmid)
}
