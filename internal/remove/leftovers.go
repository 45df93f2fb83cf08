package remove

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Recheck says which remembered residues of a VM in state are still there.
func (s *Remover) Recheck(ctx context.Context, ref guest.Ref, left []tx.Residue) ([]tx.Residue, error) {
	if len(left) == 0 {
		return nil, nil
	}
	var remaining []tx.Residue
	has := s.attached(ctx, ref)
	for _, residue := range left {
		if guest.Uses(has, residue.ID) {
			continue
		}
		there, err := s.exists(ctx, ref, residue)
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", residue.What, err)
		}
		if there {
			remaining = append(remaining, residue)
		}
	}
	return remaining, nil
}

// attached is the configuration of the VM in state, if it is there: what it has is no leftover, although a destroy that lost
// sight of the VM took it for one.
func (s *Remover) attached(ctx context.Context, ref guest.Ref) map[string]string {
	config, err := s.api.CurrentConfig(ctx, ref.Node, ref.VMID)
	if err != nil || !ref.Identity.Matches(guest.IdentityOf(config.Values)) {
		return nil
	}
	return config.Values
}

// exists looks for one residue. A VM under a residue's id that is somebody else's by now is none.
func (s *Remover) exists(ctx context.Context, ref guest.Ref, residue tx.Residue) (bool, error) {
	if residue.Kind == "guest" {
		vmid, err := strconv.Atoi(residue.ID)
		if err != nil {
			return false, err
		}
		config, err := s.api.CurrentConfig(ctx, residue.Node, vmid)
		switch {
		case pve.IsKind(err, pve.NotFound):
			return false, nil
		case err != nil:
			return false, err
		case ref.Proof != nil:
			return ref.Proof.Whose(config.Values) != guest.Stranger, nil
		}
		return ref.Identity.Matches(guest.IdentityOf(config.Values)), nil
	}
	vmid, _ := vm.VolumeOwner(residue.ID)
	volumes, err := s.api.Content(ctx, residue.Node, vm.VolumeStorage(residue.ID), "images", vmid)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(volumes, func(v pve.Volume) bool { return v.ID == residue.ID }) {
		return true, nil
	}
	f := guest.OwnFence(residue.Node, vmid, []string{residue.ID})
	err = f.Sees(ctx, s.guests) // PVE leaves out in silence what may not be seen: that is no proof
	return len(f.Blind) > 0, err
}
