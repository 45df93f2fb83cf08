package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// SnapshotClaim is a snapshot that a caller wants to remove, or to roll its VM back to, and the rules by which the
// caller may.
type SnapshotClaim struct {
	Node string
	VMID int
	Name string
	// Guest judges the configuration that has the VMID: nil if its snapshots may be touched.
	Guest func(pve.GuestConfig) error
	// Owns judges the options that the snapshot keeps: nil if it is the one that is meant.
	Owns func(options map[string]string) error
	// Tasks are the caller's own, which no longer hold anything. With Dead, the lock is taken away that one of them has
	// left together with a half-made snapshot, or a half-removed one.
	Tasks *request.Tasks
	Dead  bool
	// back: the content of the disks goes back, too. That concerns every guest that has one of them attached.
	back bool
}

// Snapshots removes snapshots and rolls VMs back.
type Snapshots struct{ *Guard }

// Snapshots returns the part of the guard that handles snapshots.
func (g *Guard) Snapshots() Snapshots { return Snapshots{g} }

// ErrNoSnapshot says that the snapshot is not there, or is another of the same name, so that nothing is to be
// removed.
var ErrNoSnapshot = errors.New("the snapshot is not there any more")

// KeptSnapshot is a volume that may have kept a snapshot which its VM does not have any more, and why.
type KeptSnapshot struct{ Volume, Why string }

// Remove removes a snapshot. It is proven before each try: a lock may be waited for, and the VM may be another by
// then. A half-made one goes from the configuration even if a volume of it has no snapshot, as by PVE's own clean-up
// (pve-guest-common AbstractConfig.pm snapshot_create). So does one that the caller's own try has left half removed.
// Then kept are the volumes of which PVE says in its log that they could not let go of it, and those passed over.
func (s Snapshots) Remove(ctx context.Context, c SnapshotClaim) (kept []KeptSnapshot, err error) {
	err = s.jobs.Contend(ctx, c.Node, c.VMID, func(ctx context.Context) error {
		e, options, err := s.prove(ctx, c)
		if err != nil {
			return err
		}
		state := options["snapstate"]
		force := state == "prepare" || state != "" && c.Dead
		if lock := e.config.Values["lock"]; lock != "" {
			if !c.Dead || !force || lock != "snapshot" && lock != "snapshot-delete" {
				return request.LockedBy(lock, fmt.Sprintf("delete snapshot %s of VM %d on node %s", c.Name, c.VMID, c.Node))
			}
			err := s.TakeLock(ctx, e, "")
			if err != nil && !pve.IsKind(err, pve.Ambiguous) { // PVE refuses the deletion while the lock is there
				return err
			}
		}
		if err := s.CheckFresh(e); err != nil {
			return err
		}
		before := len(c.Tasks.UPIDs)
		_, err = s.jobs.Settle(ctx, c.Tasks, request.Request{Node: c.Node, Type: "qmdelsnapshot", ID: c.VMID,
			Done: s.isWithout(c),
			Send: func(ctx context.Context) (pve.UPID, error) {
				return s.api.QEMU(c.Node, c.VMID).DeleteSnapshot(guest.Soon(ctx, s.clock, e.at), c.Name, force)
			}})
		if err == nil {
			kept = passedOver(c.Name, options)
		}
		if err == nil && force {
			kept = append(kept, s.kept(ctx, c.Tasks.UPIDs[before:], volumesOf(options))...)
		}
		return err
	})
	return kept, err
}

// ofBackups is the name of the snapshot that PVE takes for the backup of a container.
const ofBackups = "vzdump"

// passedOver are the volumes that keep a snapshot with the name of a backup's: PVE removes it of no disk without
// backup=1, drops it from the VM, and ends well (pve-guest-common AbstractConfig.pm snapshot_delete).
func passedOver(name string, options map[string]string) (kept []KeptSnapshot) {
	for option, volume := range guest.Volumes(options) {
		if name == ofBackups && vm.IsSlot(option) && volid.Valid(volume) && !vm.IsOptical(options[option]) &&
			!strings.Contains(options[option]+",", ",backup=1,") {
			why := "it removes no snapshot of the name " + name + " of a disk without backup=1"
			kept = append(kept, KeptSnapshot{volume, why})
		}
	}
	slices.SortFunc(kept, func(a, b KeptSnapshot) int { return strings.Compare(a.Volume, b.Volume) })
	return kept
}

// forcedLog is how many lines of a forced removal's log are read: a few for each of a VM's disks.
const forcedLog = 500

// kept are the volumes of a snapshot that a forced removal has passed over. Its task ends well all the same, and counts
// no warnings (AbstractConfig.pm snapshot_delete, `warn $err`). A volume that had no snapshot is none of them.
func (s Snapshots) kept(ctx context.Context, tasks []pve.UPID, volumes []string) (kept []KeptSnapshot) {
	var log []string
	err := errors.New("its task was not found")
	if len(tasks) > 0 {
		log, err = s.api.Tasks().Log(ctx, tasks[len(tasks)-1], forcedLog)
	}
	for _, volume := range volumes {
		if err != nil {
			kept = append(kept, KeptSnapshot{volume, fmt.Sprintf("the log of its removal could not be read: %v", err)})
			continue
		}
		names := regexp.MustCompile(regexp.QuoteMeta(volumeuse.LastPart(volume)) + `([^A-Za-z0-9.-]|$)`)
		failed := slices.IndexFunc(log, func(line string) bool {
			return names.MatchString(line) && failedDrop.MatchString(line) && !hadNone.MatchString(line)
		})
		if failed >= 0 {
			kept = append(kept, KeptSnapshot{volume, strings.TrimSpace(log[failed])})
		}
	}
	return kept
}

// failedDrop is a line by which a plugin says that it could not remove a snapshot, or free the volume with the memory.
// hadNone is one that says that there was none (pve-storage ZFSPoolPlugin.pm, LvmThinPlugin.pm, RBDPlugin.pm, Plugin.pm
// volume_snapshot_delete, free_image).
var (
	failedDrop = regexp.MustCompile(`(?i)error|failed|cannot|can't|could not|unable`)
	hadNone    = regexp.MustCompile(`(?i)could not find|failed to find|does not exist|no such`)
)

// RollBackTo takes a VM back to a snapshot. All later changes are lost, as the user has asked for.
func (s Snapshots) RollBackTo(ctx context.Context, c SnapshotClaim, start bool) (pve.TaskResult, error) {
	var result pve.TaskResult
	c.back = true
	err := s.jobs.Contend(ctx, c.Node, c.VMID, func(ctx context.Context) error {
		e, _, err := s.prove(ctx, c)
		if err == nil {
			err = s.CheckFresh(e)
		}
		if err != nil {
			return err
		}
		params := pve.Params{}
		if start {
			params["start"] = "1"
		}
		result, err = s.jobs.Settle(ctx, c.Tasks, request.Request{Node: c.Node, Type: "qmrollback", ID: c.VMID,
			Send: func(ctx context.Context) (pve.UPID, error) {
				return s.api.QEMU(c.Node, c.VMID).RollBackToSnapshot(guest.Soon(ctx, s.clock, e.at), c.Name, params)
			}})
		return err
	})
	return result, err
}

// isWithout reports whether the snapshot is gone from the configuration.
func (s Snapshots) isWithout(c SnapshotClaim) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		names, err := s.api.QEMU(c.Node, c.VMID).SnapshotNames(ctx)
		return err == nil && !slices.Contains(names, c.Name), err
	}
}

// prove makes evidence: the VM and the snapshot are those that are meant, and no other guest has a snapshot of the
// same name on one of the volumes. The storage knows a volume's snapshots by their names alone (pve-storage,
// volume_snapshot of the plugins), so such a one would go, or come back, with ours. The snapshot is read last:
// another may have been taken under its name meanwhile.
func (s Snapshots) prove(ctx context.Context, c SnapshotClaim) (Evidence, map[string]string, error) {
	before, err := s.read(ctx, c)
	var seen pve.GuestConfig
	if err == nil && c.back {
		seen, err = s.api.QEMU(c.Node, c.VMID).Config(ctx)
	}
	if err == nil && c.back {
		if err = CheckBases(ctx, s.Guard, c.Node, volumesOf(before)); err != nil {
			err = fmt.Errorf("VM %d was not rolled back to snapshot %s: %w", c.VMID, c.Name, err)
		}
	}
	freed := freedBy(before, seen.Values)
	var unseen error
	if err == nil {
		unseen, err = s.checkNamesakes(ctx, c, volumesOf(before), freed)
	}
	if err != nil {
		return Evidence{}, nil, err
	}
	e, err := s.Prove(ctx, Claim{Node: c.Node, VMID: c.VMID, Guest: c.Guest, Lock: c.Dead, Tasks: c.Tasks.UPIDs})
	if err != nil {
		return Evidence{}, nil, err
	}
	if c.back {
		err = c.takesNone(before, e.config.Values)
	}
	if err != nil {
		return Evidence{}, nil, err
	}
	if held := vm.HeldVolume(c.VMID, e.config.Values); held != "" && unseen != nil { // it is there for others to have
		return Evidence{}, nil, c.untold(held, unseen)
	}
	now, err := s.read(ctx, c)
	switch {
	case err != nil:
		return Evidence{}, nil, err
	case !isAlike(before, now) || c.back && !slices.Equal(freed, freedBy(now, e.config.Values)):
		return Evidence{}, nil, fmt.Errorf("snapshot %s of VM %d on node %s changed while it was looked at; it was not "+
			"touched", c.Name, c.VMID,
			c.Node)
	}
	return e, now, c.Owns(now)
}

// isAlike reports whether a snapshot is as before but for its parent, which changes where that one is removed
// (pve-guest-common AbstractConfig.pm snapshot_delete).
func isAlike(before, now map[string]string) bool {
	before, now = maps.Clone(before), maps.Clone(now)
	delete(before, "parent")
	delete(now, "parent")
	return maps.Equal(before, now)
}

// read reads the options that the snapshot keeps. ErrNoSnapshot is certain: where the VM itself is missing, it may have
// moved with its snapshots to another node, and the error is a NotFound that says so.
func (s Snapshots) read(ctx context.Context, c SnapshotClaim) (map[string]string, error) {
	options, err := s.api.QEMU(c.Node, c.VMID).SnapshotConfig(ctx, c.Name)
	if !pve.IsKind(err, pve.NotFound) {
		return options, err
	}
	if _, missing := s.api.QEMU(c.Node, c.VMID).Config(ctx); missing != nil {
		return nil, missing
	}
	return nil, fmt.Errorf("%w: %w", ErrNoSnapshot, err)
}

// checkNamesakes is an error if another guest has, or may have, a snapshot of the same name on one of the volumes.
// For a roll-back it is also an error if another guest has the volume itself. A storage takes the whole volume back,
// whichever guest writes to it (pve-storage Plugin.pm volume_snapshot_rollback). freed are to have no other user.
// unseen is why guests may be hidden that have such a snapshot, or volume, of those that carry the VM's own id.
func (s Snapshots) checkNamesakes(ctx context.Context, c SnapshotClaim, volumes, freed []string) (unseen, err error) {
	if volumes = slices.Concat(volumes, freed); len(volumes) == 0 {
		return nil, nil
	}
	scope, err := s.Scope(ctx, nil, c.Node, volumes)
	if err != nil {
		return nil, err
	}
	others, err := s.use.Since(ctx, s.use.Ask(), scope)
	if err == nil {
		others, err = s.use.Confirm(ctx, others, c.VMID, volumes...)
	}
	if err != nil {
		return nil, err
	}
	for _, volume := range volumes {
		for _, user := range others.UsersOf(volume, c.VMID) {
			if user.HasSnapshot(c.Name) || c.back && user.HasVolume() || slices.Contains(freed, volume) {
				used := &InUseError{Volume: volume, Users: []string{user.String()}}
				return nil, fmt.Errorf("snapshot %s of VM %d was not touched: %w", c.Name, c.VMID, used)
			}
		}
		if owner, ok := volid.Owner(volume); others.Unseen != nil && (!ok || owner != c.VMID) {
			return nil, c.untold(volume, others.Unseen)
		}
	}
	return others.Unseen, nil
}

// untold says that a guest which this identity does not see may have the volume.
func (c SnapshotClaim) untold(volume string, unseen error) error {
	return fmt.Errorf("snapshot %s of VM %d was not touched: whether another guest has %s, or a snapshot of that name on "+
		"it, cannot be told: %w", c.Name, c.VMID, volume, unseen)
}

// takesNone refuses a roll-back that takes a disk of another VM's id from its slot, which the VM was given after the
// snapshot. PVE cuts the guest off first, and notes the disk as an unused one of this VM, whichever id it carries
// (qemu-server QemuConfig.pm __snapshot_rollback_get_unused, add_unused_volume).
func (c SnapshotClaim) takesNone(snapshot, config map[string]string) error {
	for _, slot := range vm.Slots(config) {
		volume := guest.VolumeOf(config[slot])
		owner, owned := volid.Owner(volume)
		if !owned || owner == c.VMID || vm.IsOptical(config[slot]) || volid.IsCloudInit(volume) ||
			guest.HasInSlot(snapshot, volume) {
			continue
		}
		return fmt.Errorf("VM %d was not rolled back to snapshot %s: it has %s of VM %d in %s, which came after the "+
			"snapshot. Proxmox VE would cut the guest off, and keep that disk as an unused one of VM %d. Take it out of %s "+
			"first", c.VMID, c.Name, volume, owner, slot, c.VMID, slot)
	}
	return nil
}

// freedBy are the cloud-init drives that a roll-back destroys, whichever VMID they carry: those of the VM that the
// snapshot has not (qemu-server QemuConfig.pm __snapshot_rollback_get_unused, add_unused_volume).
func freedBy(snapshot, config map[string]string) []string {
	freed := map[string]bool{}
	for option, volume := range guest.Volumes(config) {
		if vm.IsSlot(option) && volid.Valid(volume) && volid.IsCloudInit(volume) && !guest.Uses(snapshot, volume) {
			freed[volume] = true
		}
	}
	return slices.Sorted(maps.Keys(freed))
}

// volumesOf are the volumes that a snapshot of the VM is taken of, whichever VMID they carry: its disks, and no
// medium of a drive (qemu-server QemuConfig.pm __snapshot_create_vol_snapshot). With an unusedN a removal is done
// (__snapshot_delete_remove_drive).
func volumesOf(options map[string]string) []string {
	all := map[string]bool{}
	for option, volume := range guest.Volumes(options) {
		if volid.Valid(volume) && !vm.IsOptical(options[option]) && !vm.IsUnused(option) {
			all[volume] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
