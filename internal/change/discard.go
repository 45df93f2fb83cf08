package change

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

// doom is a volume that is to be destroyed, with the option of its drive and the boot order, to take the removal back.
type doom struct{ volume, drive, boot string }

// leaving are the volumes of drives that the change removes, by slot, which are this VM's own and still the ones in state. A
// volume that another slot gets does not leave.
func (u *update) leaving() map[string]string {
	all, current, attached := map[string]string{}, u.config.Current(), u.attached()
	for _, slot := range u.change.Delete {
		known := u.prior.Disks[slot].Volume
		switch {
		case slot == "efidisk0" && u.prior.EFIDisk != nil:
			known = u.prior.EFIDisk.Volume
		case slot == "tpmstate0" && u.prior.TPMState != nil:
			known = u.prior.TPMState.Volume
		}
		owner, _ := vm.VolumeOwner(known)
		seated := slices.Contains(slices.Collect(maps.Values(attached)), known)
		if known != "" && !seated && owner == u.vmid && guest.VolumeOf(current[slot]) == known {
			all[slot] = known
		}
	}
	return all
}

// condemn refuses, before anything is changed, to destroy volumes that a snapshot needs: PVE would refuse it afterwards
// (qemu-server QemuServer.pm try_deallocate_drive).
func (u *update) condemn(ctx context.Context) error {
	if !u.r.DestroyRemoved {
		return nil
	}
	doomed := u.leaving()
	if len(doomed) == 0 {
		return nil
	}
	names, err := u.s.api.Snapshots(ctx, u.node, u.vmid)
	var configs []map[string]string
	if err == nil {
		configs, err = u.s.guests.SnapshotConfigs(ctx, u.node, u.vmid, names)
	}
	if err != nil {
		return fmt.Errorf("see which volumes the snapshots of VM %d need: %w", u.vmid, err)
	}
	for i, config := range configs {
		for _, slot := range slices.Sorted(maps.Keys(doomed)) {
			if guest.Uses(config, doomed[slot]) {
				return u.spared(slot, doomed[slot], fmt.Sprintf("Snapshot %s needs it. Nothing was changed. Remove the snapshot, or set removed_disks = \"detach\"", names[i]), nil)
			}
		}
	}
	return nil
}

func (u *update) spared(slot, volume, why string, err error) error {
	return &guest.FieldError{Path: "removed_disks", Summary: fmt.Sprintf("Volume %s of VM %d is not destroyed", volume, u.vmid),
		Detail: fmt.Sprintf("It was in %s, which left the configuration. %s", slot, why), Err: err}
}

// doom notes, right before the drives are removed, which volumes are to be destroyed afterwards.
func (u *update) doom() {
	if !u.r.DestroyRemoved {
		return
	}
	u.doomed = map[string]doom{}
	current := u.config.Current()
	for slot, volume := range u.leaving() {
		u.doomed[slot] = doom{volume: volume, drive: current[slot], boot: current["boot"]}
	}
}

// discard destroys the volumes of removed drives, each by its unusedN entry, bound to the digest: only what was seen detached
// goes. Where PVE refuses, the drive is put back, so that the next plan shows it again.
func (u *update) discard(ctx context.Context) error {
	doomed := u.doomed
	u.doomed = nil
	var failed []error
	for _, slot := range slices.Sorted(maps.Keys(doomed)) {
		d := doomed[slot]
		u.stale = true
		if err := u.look(ctx); err != nil {
			return errors.Join(append(failed, u.spared(slot, d.volume, "It may be detached", err))...)
		}
		current := u.config.Current()
		entry := unusedEntry(current, d.volume)
		if entry == "" {
			if slices.Contains(u.config.Waiting(), slot) && guest.VolumeOf(current[slot]) == d.volume {
				u.warn(fmt.Sprintf("Volume %s of VM %d was not destroyed", d.volume, u.vmid),
					fmt.Sprintf("PVE takes it out of %s at the next stop of the VM only. It stays detached then, as unusedN; `qm unlink %d --idlist unusedN` on the node destroys it.", slot, u.vmid))
			}
			continue
		}
		u.stale = true
		if err := u.destroyEntry(ctx, entry); err != nil {
			failed = append(failed, u.restore(ctx, slot, d, u.spared(slot, d.volume, "PVE refused it", err)))
		}
	}
	return errors.Join(failed...)
}

// abandon ends an update whose step has failed. Drives that have left by then are gone from the state, so the plan's word about
// their volumes is kept now, or never: only an interrupted apply leaves them, detached.
func (u *update) abandon(ctx context.Context, cause error) error {
	if len(u.doomed) == 0 {
		return cause
	}
	if ctx.Err() != nil {
		for slot, d := range u.doomed {
			u.warn(fmt.Sprintf("Volume %s of VM %d was not destroyed", d.volume, u.vmid),
				fmt.Sprintf("The apply was interrupted. If %s let go of it, it stays with the VM, detached.", slot))
		}
		return cause
	}
	return errors.Join(cause, u.discard(ctx))
}

// destroyEntry destroys a detached volume: deleting its entry does so at once (qemu-server API2/Qemu.pm update_vm_api). It is a
// task, since a large volume takes its time.
func (u *update) destroyEntry(ctx context.Context, entry string) error {
	params := pve.Params{"delete": entry, "digest": u.config.Digest}
	_, err := u.s.jobs.Perform(ctx, &u.ledger, job.Request{Node: u.node, Type: "qmconfig", ID: u.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return u.s.api.UpdateConfigTask(ctx, u.node, u.vmid, params)
		},
		Done: func(ctx context.Context) (bool, error) {
			config, err := u.s.api.CurrentConfig(ctx, u.node, u.vmid)
			return err == nil && config.Values[entry] != u.config.Current()[entry], err
		}})
	return err
}

// restore attaches a volume that could not be destroyed where it was, if it is still there.
func (u *update) restore(ctx context.Context, slot string, d doom, cause error) error {
	ctx = context.WithoutCancel(ctx)
	if err := u.look(ctx); err != nil {
		return errors.Join(cause, err)
	}
	current := u.config.Current()
	if unusedEntry(current, d.volume) == "" || guest.HoldingsOf(u.config).Slots[slot] != "" {
		return cause
	}
	params := pve.Params{slot: d.drive, "digest": u.config.Digest}
	if boots(map[string]string{"boot": d.boot}, slot) && !boots(u.config.Merged(), slot) {
		params["boot"] = d.boot
	}
	u.stale = true
	if err := u.s.jobs.Set(ctx, u.node, u.vmid, params); err != nil {
		return errors.Join(cause, fmt.Errorf("put it back into %s: %w", slot, err))
	}
	return cause
}

// unusedEntry is the unusedN option that holds a detached volume, "" if none does.
func unusedEntry(config map[string]string, volume string) string {
	for _, option := range slices.Sorted(maps.Keys(config)) {
		if strings.HasPrefix(option, "unused") && guest.VolumeOf(config[option]) == volume {
			return option
		}
	}
	return ""
}
