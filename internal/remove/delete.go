package remove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Delete destroys a VM and looks that nothing of it is left, whatever PVE says. A VM that is gone already is a success.
// What is left is returned with the error, to be kept in state.
func (s *Remover) Delete(ctx context.Context, r Request) ([]tx.Residue, []guest.Warning, error) {
	defer s.guests.Occupy(r.Ref.VMID)() // what carries the id is ours until the last look
	remove := s.deleteInState
	if r.Ref.Proof != nil {
		remove = s.deleteUncommitted
	}
	left, warnings, err := remove(ctx, r)
	if err != nil {
		return merge(left, r.Left), warnings, err
	}
	remembered, err := s.clear(ctx, r)
	return remembered, warnings, err
}

// merge adds the residues that are not in the list yet.
func merge(left, more []tx.Residue) []tx.Residue {
	for _, m := range more {
		if !slices.ContainsFunc(left, func(l tx.Residue) bool { return l.Kind == m.Kind && l.Node == m.Node && l.ID == m.ID }) {
			left = append(left, m)
		}
	}
	return left
}

func (s *Remover) deleteInState(ctx context.Context, r Request) ([]tx.Residue, []guest.Warning, error) {
	d := &destruction{s: s, r: r, pool: r.Pool}
	left, err := d.run(ctx)
	return left, d.warnings, err
}

// deleteUncommitted goes on with the rollback of a create that left something, under the proof that the create had.
func (s *Remover) deleteUncommitted(ctx context.Context, r Request) ([]tx.Residue, []guest.Warning, error) {
	notes, err := s.RemoveAll(ctx, targets(r.Ref.Proof))
	return report(r.Ref.VMID, notes, err)
}

func report(vmid int, notes []string, err error) ([]tx.Residue, []guest.Warning, error) {
	var warnings []guest.Warning
	for _, note := range notes {
		warnings = append(warnings, guest.Warning{Summary: fmt.Sprintf("Destroy of VM %d", vmid), Detail: note})
	}
	var left *tx.LeftError
	if errors.As(err, &left) {
		return left.Left, warnings, err
	}
	return nil, warnings, err
}

// clear retries remembered residues and returns those that are still there. A guest that is left is not removed here: the
// delete of the VM in state has just tried that, with proof.
func (s *Remover) clear(ctx context.Context, r Request) ([]tx.Residue, error) {
	var failed error
	var open []tx.Residue
	for _, residue := range r.Left {
		if residue.Kind != "volume" {
			open = append(open, residue)
			continue
		}
		if err := s.clearVolume(ctx, r, residue); err != nil {
			open = append(open, residue)
			failed = errors.Join(failed, fmt.Errorf("remove %s: %w", residue.What, err))
		}
	}
	remaining, err := s.Recheck(ctx, r.Ref, open)
	if err != nil {
		return open, err
	}
	if len(remaining) > 0 {
		return remaining, &tx.LeftError{Left: remaining, Err: failed}
	}
	return nil, nil
}

// clearVolume removes a remembered volume, unless a VM has its id now: then it may be that VM's.
func (s *Remover) clearVolume(ctx context.Context, r Request, residue tx.Residue) error {
	vmid, ok := vm.VolumeOwner(residue.ID)
	if !ok {
		return fmt.Errorf("no VMID in %q", residue.ID)
	}
	if err := s.ProveLeftOver(ctx, residue.Node, vmid, []string{residue.ID}); err != nil {
		return err
	}
	resources, err := s.api.SharedResources(ctx)
	if err != nil {
		return err
	}
	f := guest.OwnFence(residue.Node, vmid, []string{residue.ID})
	f.Unremoved = map[string]string{residue.ID: residue.Reason}
	sweep := &removal{s: s, identity: r.Ref.Identity, Target: Target{VMID: vmid, Nodes: []string{residue.Node}, Fence: f, Tasks: &job.Tasks{}, Stub: NewStub("", nil), Pool: r.Pool,
		Stamp: guest.NewStamp(guest.ClusterName(resources), vmid, s.guests.Deadline(0))}}
	return sweep.run(ctx)
}

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

// targets are what is left of a create, to go on where its own rollback gave up.
func targets(p *guest.Proof) []Target {
	l := &job.Tasks{}
	for _, upid := range p.Tasks {
		l.Add(pve.UPID(upid))
	}
	for _, upid := range p.Guessed {
		l.Guess(pve.UPID(upid))
	}
	var all []Target
	stub := NewStub(p.Stub, l.UPIDs)
	for _, f := range p.RestoreFences() {
		t := Target{VMID: p.VMID, Nodes: p.Nodes, Fence: f, Tasks: l, Stub: stub, Stamp: p.Stamp(), Owns: p.Identity.Proves, Managed: p.HA, Pool: p.Pool}
		if p.Lost {
			t.Lost = &job.Lost{}
		}
		all = append(all, t)
	}
	if !p.Identity.IsZero() { // the VM is where it ended up
		slices.Reverse(all)
	}
	return all
}
