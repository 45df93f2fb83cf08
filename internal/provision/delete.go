package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Delete destroys a VM and looks that nothing of it is left, whatever PVE says. A VM that is gone already is a success.
// What is left is returned with the error, to be kept in state.
func (s *Service) Delete(ctx context.Context, r DeleteRequest) ([]Residue, []Warning, error) {
	remove := s.deleteGuest
	if r.Ref.Proof != nil {
		remove = s.deleteUncommitted
	}
	left, warnings, err := remove(ctx, r)
	if err != nil {
		return merge(left, r.Left), warnings, err
	}
	remembered, err := s.clear(ctx, r.Ref, r.Left)
	return remembered, warnings, err
}

// merge adds the residues that are not in the list yet.
func merge(left, more []Residue) []Residue {
	for _, m := range more {
		if !slices.ContainsFunc(left, func(l Residue) bool { return l.Kind == m.Kind && l.Node == m.Node && l.ID == m.ID }) {
			left = append(left, m)
		}
	}
	return left
}

func (s *Service) deleteGuest(ctx context.Context, r DeleteRequest) ([]Residue, []Warning, error) {
	resources, err := s.api.Resources(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list the cluster's guests: %w", err)
	}
	vmid := r.Ref.VMID
	node, config, err := s.locate(ctx, resources, r.Ref)
	if err != nil || node == "" {
		return nil, nil, err
	}
	if err := guard(r.Ref, node, config.Values); err != nil {
		return nil, nil, err
	}
	if r.Ref.Identity.IsZero() {
		return nil, nil, fmt.Errorf("state does not know which VM %d it means: it has no uuid. It was not touched; run terraform refresh first", vmid)
	}
	if err := removable(vmid, config.Values); err != nil {
		return nil, nil, err
	}
	return s.destroyGuest(ctx, r, resources, node, config.Values)
}

// removable says no before anything is shut down.
func removable(vmid int, config map[string]string) error {
	if config["protection"] == "1" {
		return &FieldError{Path: "protection", Summary: fmt.Sprintf("VM %d is protected", vmid),
			Detail: "It was not touched. Set protection = false and apply, then destroy"}
	}
	if lock := config["lock"]; lock != "" && lock != "suspended" {
		return fmt.Errorf("VM %d is locked (%s): a task is at work on it, or died. It was not touched; try again when the task has ended, "+
			"or remove a dead lock with `qm unlock %d` on the node", vmid, lock, vmid)
	}
	return nil
}

// locate finds the configuration of a VM in state, also when it moves to another node at this moment. Node is "" when the
// VM is proven to be gone.
func (s *Service) locate(ctx context.Context, resources pve.Resources, ref Ref) (string, pve.GuestConfig, error) {
	node := ref.Node
	for attempt := range 3 {
		if err := s.pause(ctx, attempt); err != nil {
			return "", pve.GuestConfig{}, err
		}
		if listed, ok := resources.Guest(ref.VMID); ok && listed.Type == "qemu" {
			node = listed.Node
		}
		config, err := s.api.CurrentConfig(ctx, node, ref.VMID)
		if err == nil {
			return node, config, nil
		}
		if !pve.IsKind(err, pve.NotFound) {
			return "", pve.GuestConfig{}, fmt.Errorf("read VM %d on node %s: %w", ref.VMID, node, err)
		}
		_, seen, err := s.missing(ctx, ref, node)
		switch {
		case seen == Gone:
			return "", pve.GuestConfig{}, nil
		case err != nil:
			return "", pve.GuestConfig{}, err
		}
		if resources, err = s.api.Resources(ctx); err != nil { // found on another node
			return "", pve.GuestConfig{}, fmt.Errorf("list the cluster's guests: %w", err)
		}
	}
	return "", pve.GuestConfig{}, fmt.Errorf("VM %d is moving from node to node: try again when its migration has ended", ref.VMID)
}

func (s *Service) destroyGuest(ctx context.Context, r DeleteRequest, resources pve.Resources, node string, config map[string]string) ([]Residue, []Warning, error) {
	if err := s.reachable(ctx, node, r.Ref.VMID, config); err != nil {
		return nil, nil, err
	}
	l := &ledger{}
	status, err := s.api.GuestStatus(ctx, node, r.Ref.VMID)
	if err != nil {
		return nil, nil, err
	}
	if status.Status == "running" {
		if err := s.shutDownForGood(ctx, l, node, r, status.HAManaged); err != nil {
			return nil, nil, err
		}
	}
	storages, err := s.imageStorages(ctx, resources, node)
	if err != nil {
		return nil, nil, err
	}
	f, err := s.newFence(ctx, node, r.Ref.VMID, storages)
	if err != nil {
		return nil, nil, err
	}
	f.release(config, r.Ref.VMID)
	identity := identityOf(config)
	gone := &removal{s: s, vmid: r.Ref.VMID, nodes: []string{node}, fence: f, ledger: l, committed: true, force: r.ForceStop,
		stamp: newStamp(clusterName(resources), r.Ref.VMID, s.deadline(0)),
		owns:  func(now map[string]string) bool { return !identity.IsZero() && identity.Matches(identityOf(now)) }}
	err = gone.run(ctx)
	return report(gone.vmid, gone.notes, err)
}

// deleteUncommitted goes on with the rollback of a create that left something, under the proof that the create had.
func (s *Service) deleteUncommitted(ctx context.Context, r DeleteRequest) ([]Residue, []Warning, error) {
	notes, err := removeAll(ctx, r.Ref.Proof.removals(s))
	return report(r.Ref.VMID, notes, err)
}

func report(vmid int, notes []string, err error) ([]Residue, []Warning, error) {
	var warnings []Warning
	for _, note := range notes {
		warnings = append(warnings, Warning{Summary: fmt.Sprintf("Destroy of VM %d", vmid), Detail: note})
	}
	var left *tx.LeftError
	if errors.As(err, &left) {
		return left.Left, warnings, err
	}
	return nil, warnings, err
}

// release opens the fence for the volumes that a configuration of ours owns: those that carry its own id. A volume of
// another id is somebody else's, and PVE only detaches it.
func (f *fence) release(config map[string]string, vmid int) {
	for volume := range f.before {
		owner, ok := vm.VolumeOwner(volume)
		if ok && owner == vmid && uses(config, volume) {
			delete(f.before, volume)
		}
	}
}

// clear retries remembered residues and returns those that are still there. A guest that is left is not removed here: the
// delete of the VM in state has just tried that, with proof.
func (s *Service) clear(ctx context.Context, ref Ref, left []Residue) ([]Residue, error) {
	var failed error
	for _, residue := range left {
		if residue.Kind != "volume" {
			continue
		}
		if err := s.clearVolume(ctx, residue); err != nil {
			failed = errors.Join(failed, fmt.Errorf("remove %s: %w", residue.What, err))
		}
	}
	remaining, err := s.Recheck(ctx, ref, left)
	if err != nil {
		return left, err
	}
	if len(remaining) > 0 {
		return remaining, &tx.LeftError{Left: remaining, Err: failed}
	}
	return nil, nil
}

// clearVolume removes a remembered volume, unless a VM has its id now: then it may be that VM's.
func (s *Service) clearVolume(ctx context.Context, residue Residue) error {
	vmid, ok := vm.VolumeOwner(residue.ID)
	if !ok {
		return fmt.Errorf("no VMID in %q", residue.ID)
	}
	resources, err := s.api.Resources(ctx)
	if err != nil {
		return err
	}
	if _, taken := resources.Guest(vmid); taken {
		return fmt.Errorf("VM %d exists, and the volume may be in use by it", vmid)
	}
	if err := s.unattached(ctx, resources, []string{residue.ID}); err != nil {
		return err
	}
	f := &fence{node: residue.Node, vmid: vmid, storages: []string{vm.VolumeStorage(residue.ID)}, blind: map[string]error{}, before: map[string]struct{}{}}
	volumes, err := f.strays(ctx, s)
	if err != nil {
		return err
	}
	for _, v := range volumes {
		if v != residue.ID {
			f.before[v] = struct{}{}
		}
	}
	sweep := &removal{s: s, vmid: vmid, nodes: []string{residue.Node}, fence: f, ledger: &ledger{},
		stamp: newStamp(clusterName(resources), vmid, s.deadline(0))}
	return sweep.run(ctx)
}

// Recheck says which remembered residues of a VM in state are still there.
func (s *Service) Recheck(ctx context.Context, ref Ref, left []Residue) ([]Residue, error) {
	var remaining []Residue
	for _, residue := range left {
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

// exists looks for one residue. A VM under a residue's id that is somebody else's by now is none.
func (s *Service) exists(ctx context.Context, ref Ref, residue Residue) (bool, error) {
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
			return ref.Proof.whose(config.Values) != stranger, nil
		}
		return ref.Identity.Matches(identityOf(config.Values)), nil
	}
	vmid, _ := vm.VolumeOwner(residue.ID)
	volumes, err := s.api.Content(ctx, residue.Node, vm.VolumeStorage(residue.ID), "images", vmid)
	if err != nil {
		return false, err
	}
	for _, v := range volumes {
		if v.ID == residue.ID {
			return true, nil
		}
	}
	return false, nil
}
