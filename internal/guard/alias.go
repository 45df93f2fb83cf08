package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// This file knows a VM's own volumes under their other names: two storages can be one place. PVE compares paths, which
// two mounts of one export do not share (qemu-server 9.2.6 QemuServer/Drive.pm is_volume_in_use).

// AliasError says that a volume which a VM is to get is one that it has under another name, or may be.
type AliasError struct {
	VMID        int
	Volume, Has string
	slot        string // of Has
	detached    bool   // Has is
	both        bool   // Volume is, too
	unclear     bool
}

// Error names both.
func (a *AliasError) Error() string {
	is, why, where := "is", "the two storages are one place", "for another slot"
	switch {
	case a.slot != "":
		where = "in " + a.slot
	case a.detached:
		where = "detached"
	}
	switch {
	case !volid.Valid(a.Has):
		is, why = "may be", "the two have one name"
	case a.unclear:
		is, why = "may be", "whether the two storages are one place is not known, and both list that name with one size "+
			"and time of change"
	}
	return fmt.Sprintf("%s %s %s, which VM %d has %s: %s", a.Volume, is, a.Has, a.VMID, where, why)
}

// Next tells what to do instead.
func (a *AliasError) Next() string {
	file := fmt.Sprintf("/etc/pve/qemu-server/%d.conf", a.VMID)
	switch {
	case a.unclear:
		return fmt.Sprintf("Compare the two on the node (`pvesm path` tells where each is). If they are one, name it %s. If "+
			"they are two, make this one a detached disk of the VM first (%s), and apply again", a.Has,
			shell.Or(shell.VM("qm disk rescan --vmid {vmid}", a.VMID), "qm disk rescan"))
	case a.slot != "":
		return fmt.Sprintf("Name it %s. To have it under the new name, stop the VM and put that name into the line %s of %s",
			a.Has, a.slot, file)
	case a.both:
		return fmt.Sprintf("The VM has it detached under both names. Take the line with %s out of %s, and apply again. Do "+
			"not let PVE remove it: that would free the volume", a.Has, file)
	case a.detached:
		return "Name it " + a.Has
	}
	return "Give it to one slot only"
}

// CheckAlias returns an *AliasError if a volume that a VM on a node is to get is one that it has, or is to get, under
// another name. Two slots would destroy its content, and PVE would free it with either name. Where the places are not
// clear, the size and the time of the last change tell. A server of files whose address has changed has two such ids
// (pve-storage NFSPlugin.pm options, server is fixed), and two servers may each have a "vm-100-disk-0". A detached disk
// was in a slot before, beside the other.
func CheckAlias(ctx context.Context, g *Guard, node string, vmid int, volume string, held guest.Holdings) error {
	others := slices.DeleteFunc(held.All(), func(has string) bool { return has == volume })
	if !volid.Valid(volume) || held.SlotOf(volume) != "" || !(volumeuse.Places{}).MayBe(volume, others) {
		return nil
	}
	places, err := g.Places(ctx)
	if err != nil {
		return fmt.Errorf("see whether VM %d has %s under another name: %w", vmid, volume, err)
	}
	_, detached := held.Unused[volume]
	for _, has := range others {
		how := places.CompareVolumes(volume, has)
		unclear := how == volumeuse.Unclear
		if how != volumeuse.Apart && !(unclear && (detached || differ(ctx, g, node, volume, has))) {
			_, hasDetached := held.Unused[has]
			return &AliasError{VMID: vmid, Volume: volume, Has: has, slot: held.SlotOf(has), detached: hasDetached,
				both: detached && hasDetached, unclear: unclear}
		}
	}
	return nil
}

// changedTogether is how far apart two listings may tell the last change of one file: a guest writes, and a node
// remembers the times of a network file system for a minute (nfs(5), acdirmax).
const changedTogether = 5 * time.Minute

// differ reports whether the storages show that two volumes are two.
func differ(ctx context.Context, g *Guard, node, a, b string) bool {
	var seen []pve.Volume
	for _, volume := range []string{a, b} {
		owner, _ := volid.Owner(volume)
		listed, err := g.api.Storage(node, volid.Storage(volume)).Content(ctx, "images", owner)
		at := slices.IndexFunc(listed, func(v pve.Volume) bool { return v.ID == volume })
		if err != nil || at < 0 {
			return false
		}
		seen = append(seen, listed[at])
	}
	was, is := seen[0].CreatedAt, seen[1].CreatedAt
	return seen[0].Size != seen[1].Size ||
		!was.IsZero() && !is.IsZero() && is.Sub(was).Abs() > changedTogether
}

// OwnUseError says that a VM has a volume that was to be freed in another option, too.
type OwnUseError struct {
	VMID           int
	Volume, Option string
	Other, As      string
}

// Error names the other option and its name of the volume.
func (o *OwnUseError) Error() string {
	return fmt.Sprintf("VM %d itself has volume %s in %s, as %s", o.VMID, o.Volume, o.Other, o.As)
}

// Next tells how the VM lets go of one name: that of a detached volume or, without one, that which was to be freed.
func (o *OwnUseError) Next() string {
	goes, stays := o.Option, o.Other
	if vm.IsUnused(stays) && !vm.IsUnused(goes) {
		goes, stays = stays, goes
	}
	return fmt.Sprintf("To let go of one name, stop the VM and take the line %s out of /etc/pve/qemu-server/%d.conf. Do "+
		"not let PVE remove it: that would free the volume in %s", goes, o.VMID, stays)
}

// CheckOwnUse returns an *OwnUseError if a VM has a volume in one of its configurations, beside the option that is to
// lose it. A likeness of names alone is no such use: each of two servers may have a "vm-100-disk-0".
func CheckOwnUse(ctx context.Context, g *Guard, vmid int, volume, option string, configs ...map[string]string) error {
	others := map[string]string{}
	for _, config := range configs {
		for other, as := range volumeuse.Named(config) {
			if other != option {
				others[as] = other
			}
		}
	}
	places, err := g.Places(ctx)
	if err != nil {
		return fmt.Errorf("see whether VM %d itself uses %s: %w", vmid, volume, err)
	}
	as, how := places.Likest(volume, slices.Values(slices.Sorted(maps.Keys(others))))
	if how != volumeuse.Same {
		return nil
	}
	return &OwnUseError{VMID: vmid, Volume: volume, Option: option, Other: others[as], As: as}
}

// CheckOwnSlots is CheckOwnUse without the detached volumes, which no guest reads or writes.
func CheckOwnSlots(ctx context.Context, g *Guard, vmid int, volume, option string, configs ...map[string]string) error {
	attached := make([]map[string]string, len(configs))
	for i, config := range configs {
		attached[i] = maps.Clone(config)
		maps.DeleteFunc(attached[i], func(option, _ string) bool { return vm.IsUnused(option) })
	}
	return CheckOwnUse(ctx, g, vmid, volume, option, attached...)
}

// checkTwins makes sure that the VM of some evidence needs a volume, which is to lose its place, under no other name:
// neither in another slot, in force or pending, nor for a snapshot. PVE itself looks for the same name only, since two
// mounts have two paths (qemu-server QemuServer/Drive.pm is_volume_in_use). The VM is read again only where the look at
// the guests has shown another name.
func checkTwins(ctx context.Context, g *Guard, e Evidence, volume, slot string) error {
	hasTwin := slices.ContainsFunc(e.use.UsersOf(volume, 0), func(u volumeuse.User) bool {
		return u.Guest.VMID == e.vmid && u.As != volume && !u.Unclear
	})
	if !hasTwin { // since that look, perhaps
		return CheckOwnSlots(ctx, g, e.vmid, volume, slot, e.config.Values)
	}
	it := g.api.QEMU(e.node, e.vmid)
	config, err := it.Pending(ctx)
	if err == nil {
		err = CheckOwnSlots(ctx, g, e.vmid, volume, slot, e.config.Values, config.Current(), config.Merged())
	}
	var own *OwnUseError
	if errors.As(err, &own) {
		return err
	}
	var names []string
	if err == nil {
		names, err = it.SnapshotNames(ctx)
	}
	var snapshots []map[string]string
	if err == nil {
		snapshots, err = g.guests.SnapshotConfigs(ctx, e.node, e.vmid, names)
	}
	var places volumeuse.Places
	if err == nil {
		places, err = g.Places(ctx)
	}
	if err != nil {
		return fmt.Errorf("see whether VM %d needs %s under another name: %w", e.vmid, volume, err)
	}
	for i, options := range snapshots {
		for _, as := range volumeuse.Named(options) {
			if as != volume && places.CompareVolumes(as, volume) == volumeuse.Same {
				return fmt.Errorf("snapshot %s of VM %d needs its volume, as %s. Remove the snapshot, and apply again", names[i],
					e.vmid, as)
			}
		}
	}
	return nil
}
