package change

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// removedDisk is a volume that is to be destroyed, with the option of its drive and the boot order, to take the removal back.
type removedDisk struct{ volume, drive, boot string }

// removedVolumes are the volumes of drives that a change removes, by slot, which are this VM's own and still the ones in
// state. A volume that another slot gets does not leave.
func (t todo) removedVolumes(vmid int, current map[string]string) map[string]string {
	all, attached := map[string]string{}, slices.Collect(maps.Values(t.attached()))
	for _, slot := range t.change.Delete {
		known := t.base.Disks[slot].Volume
		switch {
		case slot == "efidisk0" && t.base.EFIDisk != nil:
			known = t.base.EFIDisk.Volume
		case slot == "tpmstate0" && t.base.TPMState != nil:
			known = t.base.TPMState.Volume
		}
		owner, _ := vm.VolumeOwner(known)
		if known != "" && !slices.Contains(attached, known) && owner == vmid && guest.VolumeOf(current[slot]) == known {
			all[slot] = known
		}
	}
	return all
}

// checkSnapshots refuses, before anything is changed, to destroy volumes that a snapshot needs: PVE would refuse it afterwards
// (qemu-server QemuServer.pm try_deallocate_drive).
func (u *update) checkSnapshots(ctx context.Context, t todo) error {
	if !u.r.DestroyRemoved {
		return nil
	}
	config, err := u.view.Fresh(ctx)
	if err != nil {
		return err
	}
	removed := t.removedVolumes(u.vmid, config.Current())
	if len(removed) == 0 {
		return nil
	}
	for _, slot := range slices.Sorted(maps.Keys(removed)) {
		if _, err := u.s.remover.ProveInState(ctx, u.view.inState(), []string{removed[slot]}); err != nil {
			return u.notDestroyed(slot, removed[slot], "Nothing was changed. See to it that nobody else uses it, or set removed_disks "+
				"= \"detach\"", err)
		}
	}
	names, err := u.s.api.Snapshots(ctx, u.view.node, u.vmid)
	var configs []map[string]string
	if err == nil {
		configs, err = u.s.guests.SnapshotConfigs(ctx, u.view.node, u.vmid, names)
	}
	if err != nil {
		return fmt.Errorf("see which volumes the snapshots of VM %d need: %w", u.vmid, err)
	}
	for i, values := range configs {
		for _, slot := range slices.Sorted(maps.Keys(removed)) {
			if guest.Uses(values, removed[slot]) {
				why := fmt.Sprintf("Snapshot %s needs it. Nothing was changed. Remove the snapshot, or set removed_disks = \"detach\"", names[i])
				return u.notDestroyed(slot, removed[slot], why, nil)
			}
		}
	}
	return nil
}

func (u *update) notDestroyed(slot, volume, why string, err error) error {
	return &guest.FieldError{Path: "removed_disks", Summary: fmt.Sprintf("Volume %s of VM %d is not destroyed", volume, u.vmid),
		Detail: fmt.Sprintf("It was in %s, which left the configuration. %s", slot, why), Err: err}
}

// removedDisks tells, right before drives are removed, which volumes are to be destroyed afterwards.
func (u *update) removedDisks(t todo, current map[string]string) map[string]removedDisk {
	if !u.r.DestroyRemoved {
		return nil
	}
	all := map[string]removedDisk{}
	for slot, volume := range t.removedVolumes(u.vmid, current) {
		all[slot] = removedDisk{volume: volume, drive: current[slot], boot: current["boot"]}
	}
	return all
}

// destroyRemoved destroys the volumes of removed drives, each by its unusedN entry, bound to the digest: only what was seen
// detached goes. Where PVE refuses, the drive is put back, so that the next plan shows it again.
func (u *update) destroyRemoved(ctx context.Context, removed map[string]removedDisk) error {
	var failed []error
	for _, slot := range slices.Sorted(maps.Keys(removed)) {
		d := removed[slot]
		config, err := u.view.Fresh(ctx)
		if err != nil {
			return errors.Join(append(failed, u.notDestroyed(slot, d.volume, "It may be detached", err))...)
		}
		entry := unusedEntry(config.Current(), d.volume)
		switch {
		case entry != "":
			if err := u.destroyEntry(ctx, config, entry); err != nil {
				failed = append(failed, u.restore(ctx, slot, d, u.notDestroyed(slot, d.volume, "PVE refused it", err)))
			}
		case slices.Contains(config.Waiting(), slot) && guest.VolumeOf(config.Current()[slot]) == d.volume:
			u.warn(fmt.Sprintf("Volume %s of VM %d was not destroyed", d.volume, u.vmid),
				fmt.Sprintf("PVE takes it out of %s at the next stop of the VM only. It stays detached then, as unusedN; "+
					"`qm unlink %d --idlist unusedN` on the node destroys it.", slot, u.vmid))
		}
	}
	return errors.Join(failed...)
}

// restore attaches a volume that could not be destroyed where it was, if it is still there.
func (u *update) restore(ctx context.Context, slot string, d removedDisk, cause error) error {
	ctx, cancel := u.s.jobs.Grace(ctx)
	defer cancel()
	config, err := u.view.Fresh(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	if unusedEntry(config.Current(), d.volume) == "" || guest.HoldingsOf(config).Slots[slot] != "" {
		return cause
	}
	params := pve.Params{slot: d.drive, "digest": config.Digest}
	boots := slices.Contains(vm.BootOrder(map[string]string{"boot": d.boot}), slot)
	if boots && !slices.Contains(vm.BootOrder(config.Merged()), slot) {
		params["boot"] = d.boot
	}
	if err := u.view.Set(ctx, params); err != nil {
		return errors.Join(cause, fmt.Errorf("put it back into %s: %w", slot, err))
	}
	return cause
}
