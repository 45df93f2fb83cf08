package update

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// removedDisk is a volume that is to be destroyed, with its drive option and the boot order, so that the removal can be
// undone. One that is kept stays detached.
type removedDisk struct {
	volume, drive, boot string
	kept                bool
}

// keepsUntilStop reports whether the plan has said of a disk in force that it is not destroyed, since the guest that it
// saw running keeps it until its next stop. That may have come since.
func (r Request) keepsUntilStop(slot string) bool {
	return r.Ref.Status == string(guest.Running) && r.Restart == RestartNever && r.PowerState != guest.Stopped &&
		!r.HA.Stops() && !vm.TakesDisk(slot, r.Prior.Hotplug)
}

// held are the options that the state has: those that wait, and those in force where none waits or a removal does. An
// earlier update may have put a disk into a slot that gets it at the next start.
func held(config pve.PendingConfig) map[string]string {
	values := config.Current()
	maps.Copy(values, config.Merged())
	return values
}

// removedVolumes are the volumes of drives that a change removes, by slot, which are this VM's own and still those in
// state. A volume that moves to another slot is none of them.
func (t todo) removedVolumes(vmid int, held map[string]string) map[string]string {
	all, attached, base := map[string]string{}, slices.Collect(maps.Values(t.attached())), t.base.EveryDisk()
	for _, slot := range t.change.Delete {
		known := base[slot].Volume
		owner, _ := volid.Owner(known)
		if known != "" && !slices.Contains(attached, known) && owner == vmid && guest.VolumeOf(held[slot]) == known {
			all[slot] = known
		}
	}
	return all
}

// dropWaiting takes back, before slots are emptied, the exchanges that wait in them: the disk of the state waits there
// for the place of another one. PVE would forget its volume with the removal, since it notes only the one in force as
// unused, and destroy neither with the VM (qemu-server API2/Qemu.pm update_vm_api). A value that is replaced is noted.
func (v volumes) dropWaiting(ctx context.Context, t todo, config pve.PendingConfig) (todo, error) {
	values, dropped := held(config), map[string]removedDisk{}
	for slot, volume := range t.removedVolumes(v.vmid, values) {
		if is := config.Current()[slot]; isDisk(is) && guest.VolumeOf(is) != volume {
			dropped[slot] = removedDisk{volume: volume, drive: values[slot]}
		}
	}
	if len(dropped) == 0 {
		return t, nil
	}
	if err := v.revert(ctx, slices.Sorted(maps.Keys(dropped)), config); err != nil {
		return t, fmt.Errorf("take back exchanges of disks that wait in slots of VM %d: %w", v.vmid, err)
	}
	t, err := recompare(ctx, v.update, t, func(slot string) bool { return dropped[slot].volume != "" })
	t.dropped = dropped
	return t, err
}

// checkCopies refuses to copy a disk that the change moves or destroys, as the plan does where it knows all of that.
func (t todo) checkCopies(u *update) error {
	for _, refused := range guest.CheckCopies(u.vmid, t.change, held(t.read), u.r.DestroyRemoved) {
		refused.Detail = "Nothing was changed. " + refused.Detail
		return refused
	}
	return nil
}

// checkSizes refuses to destroy a volume that has another size than the plan knows: PVE gives a new disk the first free
// name (pve-storage Plugin.pm get_next_vm_diskname).
func (v volumes) checkSizes(t todo, removed map[string]string, config pve.PendingConfig) error {
	server := vm.Decode(held(config))
	for _, slot := range slices.Sorted(maps.Keys(removed)) {
		if was, is := t.base.Disks[slot].Bytes(), server.Disks[slot].Bytes(); is != was && is != 0 && was != 0 {
			return v.notDestroyed(slot, removed[slot], fmt.Sprintf("It has %s by now, and the plan knows one of %s: PVE gives "+
				"a name that became free to the next disk. It was not touched. Make a new plan, which shows what is there",
				property.FormatSize(is), property.FormatSize(was)), nil)
		}
	}
	return nil
}

// checkSnapshots refuses, before anything is changed, to destroy volumes that a snapshot needs. PVE would refuse it
// afterwards (qemu-server QemuServer.pm try_deallocate_drive).
func (v volumes) checkSnapshots(ctx context.Context, t todo) error {
	if !v.r.DestroyRemoved {
		return nil
	}
	config, err := v.view.Fresh(ctx)
	if err != nil {
		return err
	}
	removed := t.removedVolumes(v.vmid, held(config))
	if len(removed) == 0 {
		return nil
	}
	err = errors.Join(guest.CheckGeneration(v.r.Ref, config, "Nothing was changed"), v.checkSizes(t, removed, config))
	if err != nil {
		return err
	}
	for _, slot := range slices.Sorted(maps.Keys(removed)) {
		if _, err := v.changer.destroyer.ProveInState(ctx, v.inState(), []string{removed[slot]}); err != nil {
			return v.notDestroyed(slot, removed[slot], "Nothing was changed. Make sure that no other guest uses it, or set "+
				"removed_disks = \"detach\"", err)
		}
		var own *guard.OwnUseError
		err := guard.CheckOwnUse(ctx, v.changer.destroyer.Guard, v.vmid, removed[slot], slot, config.Current(),
			config.Merged())
		if errors.As(err, &own) {
			err = v.notDestroyed(slot, removed[slot], "Nothing was changed. "+own.Next(), own)
		}
		if err != nil {
			return err
		}
	}
	places, err := v.changer.destroyer.Places(ctx)
	if err != nil {
		return err
	}
	names, err := v.changer.api.QEMU(v.view.Node(), v.vmid).SnapshotNames(ctx)
	var configs []map[string]string
	if err == nil {
		configs, err = v.changer.guests.SnapshotConfigs(ctx, v.view.Node(), v.vmid, names)
	}
	if err != nil {
		return fmt.Errorf("see which volumes the snapshots of VM %d need: %w", v.vmid, err)
	}
	for i, values := range configs {
		for _, slot := range slices.Sorted(maps.Keys(removed)) {
			if _, how := places.Likest(removed[slot], maps.Values(maps.Collect(guest.Volumes(values)))); how == volumeuse.Same {
				why := fmt.Sprintf("Snapshot %s needs it. Nothing was changed. Remove the snapshot, or set removed_disks = "+
					"\"detach\"", names[i])
				return v.notDestroyed(slot, removed[slot], why, nil)
			}
		}
	}
	return nil
}

func (v volumes) notDestroyed(slot, volume, why string, err error) error {
	return &guest.FieldError{Path: "removed_disks", Summary: fmt.Sprintf("Volume %s of VM %d is not destroyed", volume,
		v.vmid),
		Detail: fmt.Sprintf("It was in %s, which left the configuration. %s", slot, why), Err: err}
}

// removedDisks returns, right before drives are removed, the volumes that are to be destroyed afterwards.
func (v volumes) removedDisks(t todo, config pve.PendingConfig) (map[string]removedDisk, error) {
	if !v.r.DestroyRemoved {
		return nil, nil
	}
	values, all := held(config), map[string]removedDisk{}
	removed := t.removedVolumes(v.vmid, values)
	for slot, volume := range removed {
		all[slot] = removedDisk{volume: volume, drive: values[slot], boot: config.Current()["boot"],
			kept: v.r.keepsUntilStop(slot) && guest.VolumeOf(config.Current()[slot]) == volume}
	}
	maps.Copy(all, t.dropped) // not the disks in force there, which the state does not have
	return all, v.checkSizes(t, removed, config)
}

// destroyRemoved destroys the volumes of removed drives, each by its unusedN entry and bound to the digest, so that it
// destroys only a volume that was seen detached. One that is not destroyed is put back, and the next plan shows the
// removal again. If another guest has got it meanwhile, or may have, it stays detached.
func (v volumes) destroyRemoved(ctx context.Context, removed map[string]removedDisk) error {
	var failed []error
	for _, slot := range slices.Sorted(maps.Keys(removed)) {
		d := removed[slot]
		config, err := v.view.Fresh(ctx)
		if err != nil {
			return errors.Join(append(failed, v.notDestroyed(slot, d.volume, "It may be detached", err))...)
		}
		entry := unusedEntry(config.Current(), d.volume)
		switch {
		case d.kept && entry != "":
			v.warn(fmt.Sprintf("Volume %s of VM %d was not destroyed", d.volume, v.vmid),
				fmt.Sprintf("The plan saw the guest run, which keeps %s until its next stop, and may have said so. It stays "+
					"with the VM, detached, as %s; %s on node %s destroys it.", slot, entry,
					shell.Or(shell.VM("qm unlink {vmid} --idlist {}", v.vmid, entry), "its removal"), v.view.Node()))
		case entry != "":
			if err := v.destroyEntry(ctx, config, entry); err != nil {
				failed = append(failed, v.restore(ctx, slot, d, err))
			}
		case slices.Contains(config.Waiting(), slot) && guest.VolumeOf(config.Current()[slot]) == d.volume:
			v.warn(fmt.Sprintf("Volume %s of VM %d was not destroyed", d.volume, v.vmid),
				fmt.Sprintf("PVE takes it out of %s at the next stop of the VM only. It stays detached then, as unusedN; "+
					"`qm unlink %d --idlist unusedN` on the node destroys it.", slot, v.vmid))
		}
	}
	return errors.Join(failed...)
}

// restore attaches a volume that could not be destroyed to its old slot, if it still exists. It takes the proof that
// its destruction takes.
func (v volumes) restore(ctx context.Context, slot string, d removedDisk, cause error) error {
	ctx, cancel := v.changer.jobs.Grace(ctx)
	defer cancel()
	entry, err := slots(v).reattach(ctx, slot, d, func(ctx context.Context, ownUse error) error {
		if ownUse != nil {
			return ownUse
		}
		_, err := v.changer.destroyer.ProveInState(ctx, v.inState(), []string{d.volume})
		return err
	})
	var own *guard.OwnUseError
	switch {
	case err == nil:
		return v.notDestroyed(slot, d.volume, "It could not be destroyed", cause)
	case entry == "":
		return v.notDestroyed(slot, d.volume, "It could not be destroyed, and may be detached", errors.Join(cause, err))
	case errors.Is(err, errFilled):
		return v.notDestroyed(slot, d.volume, "It stays detached, as "+entry, errors.Join(cause, err))
	case errors.As(err, &own):
		if !errors.As(cause, &own) {
			cause = errors.Join(cause, err)
		}
		return v.notDestroyed(slot, d.volume, fmt.Sprintf("It stays detached, as %s. %s", entry, own.Next()), cause)
	}
	return v.notDestroyed(slot, d.volume, fmt.Sprintf("It stays detached, as %s: a volume that another guest has, or may "+
		"have, does not return to its slot, since two guests on one disk destroy what is on it. When no other guest has "+
		"it, %s on node %s destroys it", entry, shell.Or(shell.VM("qm unlink {vmid} --idlist {}", v.vmid, entry),
		"its removal"), v.view.Node()), errors.Join(cause, err))
}

// errFilled is why a disk does not return to its slot that has another one by now.
var errFilled = errors.New("the slot was filled meanwhile")

// reattach puts a drive back into the slot that it has left, if neither has been used since. It returns the entry that
// has the volume meanwhile, if one does. Before each try isFree shows that neither another guest nor another slot has
// got the volume: PVE attaches it without asking (qemu-server API2/Qemu.pm create_disks).
func (s slots) reattach(ctx context.Context, slot string, d removedDisk,
	isFree func(ctx context.Context, ownUse error) error) (entry string, err error) {
	var params pve.Params
	look := func(ctx context.Context) error {
		params = nil
		config, err := s.view.Fresh(ctx)
		if err != nil {
			return err
		}
		entry = unusedEntry(config.Current(), d.volume)
		held := guest.HoldingsOf(config)
		owner, _ := volid.Owner(d.volume) // PVE notes no volume of another id as unused
		if held.SlotOf(d.volume) != "" || entry == "" && owner == s.vmid {
			return nil
		}
		if has := held.Slots[slot]; has != "" {
			return fmt.Errorf("%w: %s of VM %d has %s", errFilled, slot, s.vmid, has)
		}
		own := guard.CheckOwnSlots(ctx, s.changer.destroyer.Guard, s.vmid, d.volume, entry, config.Current(),
			config.Merged())
		if err := isFree(ctx, own); err != nil {
			return err
		}
		params = pve.Params{slot: d.drive}
		boots := slices.Contains(vm.BootOrder(map[string]string{"boot": d.boot}), slot)
		if boots && !slices.Contains(vm.BootOrder(config.Merged()), slot) {
			params["boot"] = d.boot
		}
		params["digest"] = config.Digest
		return nil
	}
	send := func(ctx context.Context) error {
		if params == nil {
			return nil
		}
		return s.view.Send(ctx, func(ctx context.Context) error {
			return s.changer.jobs.SetNow(ctx, s.view.Node(), s.vmid, params, request.Bound{Digest: params["digest"]})
		})
	}
	err = s.changer.jobs.Retry(ctx, request.Conflict(), func(ctx context.Context) error { // a lock came meanwhile
		return s.changer.jobs.Contend(ctx, s.view.Node(), s.vmid, guest.SoonAfter(s.changer.jobs.Clock, look, send))
	})
	return entry, err
}
