package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// Delete removes a snapshot in state, wherever its VM is by now. It succeeds if the snapshot is gone.
func (s *Snapshots) Delete(ctx context.Context, ref Ref) ([]guest.Warning, error) {
	for attempt := 0; ; attempt++ {
		warnings, err := s.delete(ctx, ref)
		if !pve.IsKind(err, pve.NotFound) || attempt == attempts || s.jobs.Pause(ctx, attempt+1) != nil {
			return warnings, err
		}
	}
}

// delete is one try. Its error is NotFound if the VM has left its node since it was found there.
func (s *Snapshots) delete(ctx context.Context, ref Ref) ([]guest.Warning, error) {
	found, err := s.Read(ctx, ref)
	switch {
	case errors.Is(err, ErrGone):
		return nil, nil
	case err != nil:
		return nil, err
	}
	kept, err := s.guard.Snapshots().Remove(ctx, s.claim(ref, found.Node))
	if errors.Is(err, guard.ErrNoSnapshot) {
		err = nil
	}
	var warnings []guest.Warning
	for _, one := range keptBy(kept, found.Node, ref.VM.VMID, ref.Name) {
		warnings = append(warnings, guest.Warning{
			Summary: fmt.Sprintf("VM %d has no snapshot %s any more, but %s may stay", ref.VM.VMID, ref.Name, one.What),
			Detail: fmt.Sprintf("PVE has passed it over: %s. Nothing names it now, and a new snapshot of that name would "+
				"fail. As root on node %s: %s", one.Reason, found.Node, shell.Or(one.Command, shell.ByHand))})
	}
	return warnings, err
}

// claim is the claim on a snapshot in state.
func (s *Snapshots) claim(ref Ref, node string) guard.SnapshotClaim {
	return guard.SnapshotClaim{Node: node, VMID: ref.VM.VMID, Name: ref.Name, Tasks: &request.Tasks{},
		Guest: func(config pve.GuestConfig) error { return guest.Guard(ref.VM, node, config.Values) },
		Owns: func(options map[string]string) error {
			if options["snaptime"] != fmt.Sprint(ref.Taken) {
				return fmt.Errorf("%w: another one has its name", guard.ErrNoSnapshot)
			}
			return nil
		}}
}

// keptBy names snapshots that volumes may have kept without their VM, as leftovers.
func keptBy(kept []guard.KeptSnapshot, node string, vmid int, name string) []saga.Residue {
	var left []saga.Residue
	for _, k := range kept {
		left = append(left, saga.Residue{Kind: "snapshot", Node: node, ID: k.Volume + "@" + name, Reason: k.Why,
			Command: shell.DropSnapshot(node, vmid, name, k.Volume),
			What:    fmt.Sprintf("snapshot %s of volume %s on node %s", name, k.Volume, node)})
	}
	return left
}
