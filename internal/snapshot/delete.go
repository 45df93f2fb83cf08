package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
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
		return Warnings(err), nil
	case err != nil:
		return nil, err
	}
	claim, before, half := s.claim(ref, found.Node), map[string]string(nil), false
	owns := claim.Owns
	claim.Owns = func(options map[string]string) error {
		if before == nil {
			before = options
		}
		half = half || options["snapstate"] != ""
		return owns(options)
	}
	kept, err := s.guard.Snapshots().Remove(ctx, claim)
	switch {
	case errors.Is(err, guard.ErrNoSnapshot):
		half, err = false, nil
	case err != nil && strings.Contains(err.Error(), refusedTPM):
		err = fmt.Errorf("%w. %s", err, stopFirst)
	case err != nil && len(claim.Tasks.UPIDs) > 0:
		err = s.halfRemoved(ctx, claim, before, err)
	}
	var warnings []guest.Warning
	if err == nil && half {
		warnings = s.forgotten(ctx, claim, before)
	}
	for _, one := range keptBy(kept, found.Node, ref.VM.VMID, ref.Name) {
		warnings = append(warnings, guest.Warning{
			Summary: fmt.Sprintf("VM %d has no snapshot %s any more, but %s may stay", ref.VM.VMID, ref.Name, one.What),
			Detail: fmt.Sprintf("PVE has passed it over: %s. Nothing names it now, and a new snapshot of that name would "+
				"fail. As root on node %s: %s", one.Reason, found.Node, shell.Or(one.Command, shell.ByHand))})
	}
	return warnings, err
}

// ForeseeRemoval is why PVE would not remove a snapshot while the guest runs, nil for none: it is the top-most one of a
// TPM state whose snapshots are volumes of their own (qemu-server API2/Qemu.pm, assert_tpm_snapshot_delete_possible).
// The answer is that of the last refresh, where there was one.
func (s *Snapshots) ForeseeRemoval(ctx context.Context, ref Ref) *guest.FieldError {
	seen, err := s.seenBy(ctx, ref.VM)
	volume := guest.VolumeOf(seen.config["tpmstate0"])
	isLatest := err == nil && seen.config["parent"] == ref.Name && strings.HasSuffix(volume, ".qcow2")
	if !isLatest || !s.isChained(ctx, volid.Storage(volume)) {
		return nil
	}
	if status, err := s.api.QEMU(seen.node, ref.VM.VMID).Status(ctx); err != nil || !status.IsRunning() {
		return nil //nolint:nilerr // the apply finds out
	}
	return &guest.FieldError{Path: "name",
		Summary: fmt.Sprintf("Snapshot %s of VM %d cannot be removed while the guest runs", ref.Name, ref.VM.VMID),
		Detail: "It is the latest one, and keeps a TPM state whose snapshots are volumes of their own " +
			"(snapshot-as-volume-chain). " + stopFirst}
}

// isChained reports whether the snapshots on a storage are volumes of their own, as far as the storages can be read.
func (s *Snapshots) isChained(ctx context.Context, storage string) bool {
	places, err := s.guard.Places(ctx)
	return err == nil && places[storage].VolumeChain
}

// stopFirst is the next step where PVE refuses to remove a snapshot of a running guest.
const stopFirst = "Shut the guest down first (power_state = \"stopped\" in an apply of its own), and start it again " +
	"after the removal"

// refusedTPM is PVE's refusal to remove a snapshot with a TPM state while the guest runs.
const refusedTPM = "top-most snapshot of TPM state"

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

// halfRemoved adds where the VM stands to the error of a removal whose task has failed. PVE leaves the lock then, and
// has taken the disks out of the snapshot that it has done with (AbstractConfig.pm snapshot_delete, remove_drive).
// before is what the snapshot kept before it.
func (s *Snapshots) halfRemoved(ctx context.Context, c guard.SnapshotClaim, before map[string]string,
	err error) error {
	ctx, cancel := s.jobs.LookAfter(ctx)
	defer cancel()
	api := s.api.QEMU(c.Node, c.VMID)
	config, lookErr := api.Config(ctx)
	if lookErr == nil && config.Values["lock"] != "snapshot-delete" {
		return err
	}
	var left map[string]string
	if lookErr == nil {
		left, lookErr = api.SnapshotConfig(ctx, c.Name)
	}
	maps.DeleteFunc(left, func(option, _ string) bool { return vm.IsUnused(option) }) // done with
	var loose []string
	if lookErr == nil {
		loose, lookErr = s.loose(ctx, c, before, left)
	}
	if lookErr != nil {
		return fmt.Errorf("%w. Where VM %d stands could not be looked at: %w", err, c.VMID, lookErr)
	}
	var disks []string
	for option, volume := range guest.Volumes(left) {
		if volid.Valid(volume) && !vm.IsOptical(left[option]) {
			disks = append(disks, fmt.Sprintf("%s (%s)", option, volume))
		}
	}
	slices.Sort(disks)
	still := "PVE has still to drop it from the configuration"
	if len(disks) > 0 {
		still = "Its snapshots are still to be removed of " + strings.Join(disks, ", ")
	}
	if len(loose) > 0 {
		still += fmt.Sprintf(". Only this snapshot had %s, and nothing names that now: once the VM is unlocked, %s makes "+
			"it an unused disk", strings.Join(loose, ", "),
			shell.Or(shell.VM("qm disk rescan --vmid {vmid}", c.VMID), shell.ByHand))
	}
	return fmt.Errorf("%w. VM %d on node %s is locked (snapshot-delete) by that, and snapshot %s can no longer be rolled "+
		"back to. %s. Remove the cause. If no task is at work on the VM, %s as root on node %s, and run Terraform again. "+
		"%s drops it from the VM in any case, and its storages may keep some of it", err, c.VMID, c.Node, c.Name, still,
		shell.Or(shell.VM("qm unlock {vmid}", c.VMID), shell.ByHand), c.Node,
		shell.Or(removal(c.VMID, c.Name), "A forced removal"))
}

// forgotten warns of the disks that only a half-made or half-removed snapshot had. PVE makes those alone unused disks
// of the VM that the same task has removed the snapshot of (AbstractConfig.pm snapshot_delete).
func (s *Snapshots) forgotten(ctx context.Context, c guard.SnapshotClaim, before map[string]string) []guest.Warning {
	summary := fmt.Sprintf("Snapshot %s of VM %d was perhaps the last that named a disk", c.Name, c.VMID)
	rescan := shell.Or(shell.VM("qm disk rescan --vmid {vmid}", c.VMID), shell.ByHand)
	loose, err := s.loose(ctx, c, before, nil)
	if err != nil {
		return []guest.Warning{{Summary: summary, Detail: fmt.Sprintf("Whether VM %d still names each of its disks could "+
			"not be looked at: %s. As root on node %s, %s makes those that nothing names unused disks", c.VMID, err, c.Node,
			rescan)}}
	}
	var warnings []guest.Warning
	for _, volume := range loose {
		warnings = append(warnings, guest.Warning{
			Summary: fmt.Sprintf("Snapshot %s of VM %d was the last that named %s", c.Name, c.VMID, volume),
			Detail: fmt.Sprintf("The snapshot is removed, in more than one try. PVE keeps such a disk on its storage, and "+
				"makes it an unused disk of the VM after a single try alone. As root on node %s, %s does that", c.Node, rescan)})
	}
	return warnings
}

// loose are the disks of a snapshot that nothing else of its VM names, and that are not left to do. A task keeps in
// memory which disks only the snapshot has, and makes them unusedN of the VM at its end (AbstractConfig.pm
// snapshot_delete). Where it fails, they are unusedN of the snapshot, and go with it (qemu-server QemuConfig.pm
// __snapshot_delete_remove_drive).
func (s *Snapshots) loose(ctx context.Context, c guard.SnapshotClaim, before, left map[string]string) ([]string,
	error) {
	pending, err := s.api.QEMU(c.Node, c.VMID).Pending(ctx)
	if err != nil {
		return nil, err
	}
	names, err := s.api.QEMU(c.Node, c.VMID).SnapshotNames(ctx)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == c.Name })
	named, err := s.guests.SnapshotConfigs(ctx, c.Node, c.VMID, names)
	if err != nil {
		return nil, err
	}
	named = append(named, left, pending.Current(), pending.Merged())
	var loose []string
	for option, volume := range guest.Volumes(before) {
		if option != "vmstate" && volid.Valid(volume) && !vm.IsOptical(before[option]) &&
			!slices.ContainsFunc(named, func(config map[string]string) bool { return guest.Uses(config, volume) }) {
			loose = append(loose, volume)
		}
	}
	slices.Sort(loose)
	return loose, nil
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
