package destroy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// This file keeps a destroy of a VM in state from volumes that a rescan has made unused disks of it, and from disks
// that a third party has put into its slots.

// Disks are what state knows of the disks of a VM.
type Disks struct {
	// Known are the volumes that are known to be the VM's, also if they are detached by now. Other detached ones were put
	// there by a rescan, and stay.
	Known []string
	// Slots are the disks that slots had when the destroy was planned, "" for one without a known name; nil: not known.
	Slots map[string]string
	// Sizes are those of volumes then, in bytes; none: not known.
	Sizes map[string]int64
}

// knows reports whether a volume is known to be the VM's.
func (d Disks) knows(volume string) bool { return slices.Contains(d.Known, volume) }

// adoptedInState are the detached volumes of a VM in state that are not known to be its own, and that nothing else in
// its configurations names. That a snapshot names one proves nothing (volumesToGo), and `qm rescan` makes every volume
// that carries the id an unused disk (qemu-server QemuServer.pm update_disk_config).
func adoptedInState(vmid int, known func(string) bool, configs ...map[string]string) []string {
	var rest []map[string]string
	for _, config := range configs {
		attached := maps.Clone(config)
		maps.DeleteFunc(attached, func(option, _ string) bool { return vm.IsUnused(option) })
		rest = append(rest, attached)
	}
	own := guest.OwnVolumes(vmid, rest...)
	var all []string
	for _, config := range configs {
		all = append(all, Adopted(vmid, config)...)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(volume string) bool {
		return known(volume) || slices.Contains(own, volume)
	})
}

// volumesToGo are the volumes in the configurations and the snapshots of a VM in state that go with it. snapshotOnly
// are those that only snapshots name and that are not known to be the VM's: a third party may have given it a disk,
// taken a snapshot and taken the disk out again. PVE leaves them, but not the memory that snapshots have saved
// (qemu-server QemuServer.pm destroy_vm). A cloud-init drive is generated from the VM's own options.
func volumesToGo(vmid int, known func(string) bool, snapshots map[string]map[string]string,
	configs ...map[string]string) (goes, snapshotOnly []string) {
	adopted := adoptedInState(vmid, known, configs...)
	named, media := guest.OwnVolumes(vmid, configs...), guest.OwnMedia(vmid, configs...)
	goes = slices.DeleteFunc(slices.Clone(named), func(volume string) bool { return slices.Contains(adopted, volume) })
	for _, snapshot := range snapshots {
		for _, volume := range guest.OwnVolumes(vmid, snapshot) {
			switch {
			case slices.Contains(named, volume), slices.Contains(media, volume):
			case known(volume) || volume == guest.VolumeOf(snapshot["vmstate"]) || volid.IsCloudInit(volume):
				goes = append(goes, volume)
			default:
				snapshotOnly = append(snapshotOnly, volume)
			}
		}
	}
	slices.Sort(goes)
	slices.Sort(snapshotOnly)
	return slices.Compact(goes), slices.Compact(snapshotOnly)
}

// detached are the detached volumes that have the name of a known one whose size is known, too.
func (d Disks) detached(vmid int, configs ...map[string]string) []string {
	unused := adoptedInState(vmid, func(string) bool { return false }, configs...)
	return slices.DeleteFunc(unused, func(volume string) bool { return !d.knows(volume) || d.Sizes[volume] == 0 })
}

// reused are those of them that have another size: PVE gives the first free name to a new disk (pve-storage Plugin.pm
// get_next_vm_diskname). The entry of an unused disk shows no size, so the storage is asked. One that it does not show
// is taken for the known one, and one of which it tells no size is not.
func (d Disks) reused(ctx context.Context, by *Destroyer, node string, vmid int, detached []string) ([]string, error) {
	asked, all := map[string][]string{}, []string{}
	for _, volume := range detached {
		asked[volid.Storage(volume)] = append(asked[volid.Storage(volume)], volume)
	}
	for _, storage := range slices.Sorted(maps.Keys(asked)) {
		on, err := by.guests.Volumes(ctx, node, storage, vmid)
		if err != nil {
			return nil, fmt.Errorf("see whether the unused disks %s of VM %d are those of the plan; it was not removed: %w",
				strings.Join(asked[storage], ", "), vmid, err)
		}
		for _, v := range on {
			if slices.Contains(asked[storage], v.ID) && !hasSize(v, d.Sizes[v.ID]) {
				all = append(all, v.ID)
			}
		}
	}
	return all, nil
}

// forgetReused has a destroy let go of the detached disks that are not the known ones.
func forgetReused(ctx context.Context, d *destruction) error {
	d.sizedAt = time.Time{}
	reused, err := reusedSince(ctx, d, d.node, d.config.Current(), d.config.Merged())
	if err != nil || len(reused) == 0 {
		return err
	}
	d.r.Known = slices.DeleteFunc(slices.Clone(d.r.Known), func(volume string) bool {
		return slices.Contains(reused, volume)
	})
	return unadopted(d)
}

// unadopted refuses to destroy a VM with adopted volumes if PVE cannot be made to let go of them.
func unadopted(d *destruction) error {
	config := d.config.Current()
	adopted := adoptedInState(d.r.Ref.VMID, d.r.knows, config, d.config.Merged())
	if len(adopted) == 0 || slotted(d.r.Ref.VMID, config) != "" {
		return nil
	}
	return fmt.Errorf("VM %d was not touched: it %s", d.r.Ref.VMID, adoptedText(adopted))
}

// unforeseen refuses to destroy a VM that a third party has given a disk since the plan, which says nothing of it: PVE
// would destroy it with the VM. One that has only changed its storage is in state. One that has changed its slot may be
// another that PVE has given the name of a removed one. So it is with a snapshot (snapped). touched says what was done
// already.
func unforeseen(ctx context.Context, d *destruction, node string, now pve.PendingConfig, touched string) error {
	err := errors.Join(guest.CheckGeneration(d.r.Ref, now, touched), snapped(ctx, d, node, now, touched),
		unastray(ctx, d, node, now, touched))
	if err != nil || d.r.Slots == nil {
		return err
	}
	look := slotLook{Disks: d.r.Disks, d: d.d, vmid: d.r.Ref.VMID, node: node, resources: d.resources,
		holder: d.r.Holder, configs: []map[string]string{now.Current(), now.Merged()}, touched: touched}
	judged := map[string]bool{}
	for _, config := range look.configs {
		for _, slot := range vm.Slots(config) {
			if !isDiskOf(look.vmid, config, slot) || judged[slot+" "+config[slot]] {
				continue
			}
			judged[slot+" "+config[slot]] = true // most slots are the same in both, and the answer may take a request
			if err := look.refuse(ctx, slot, config[slot]); err != nil {
				return err
			}
		}
	}
	return nil
}

// isDiskOf reports whether the disk in a slot carries the id of its VM, so that it goes with it.
func isDiskOf(vmid int, config map[string]string, slot string) bool {
	volume := guest.VolumeOf(config[slot])
	owner, _ := volid.Owner(volume)
	return owner == vmid && guest.GoesWith(config, volume) && !volid.IsCloudInit(volume) && vm.IsSlot(slot)
}

// slotLook judges the disks in the slots of a VM by what state knows of them.
type slotLook struct {
	Disks
	d         *Destroyer
	vmid      int
	node      string
	resources pve.Resources
	holder    bool                // Request.Holder
	configs   []map[string]string // in which the VM may have a disk of state that is not in its slot
	touched   string              // what was done already
}

// refuse refuses the disk in a slot if the plan does not know it.
func (l slotLook) refuse(ctx context.Context, slot, value string) error {
	volume, was := guest.VolumeOf(value), l.Slots[slot]
	if !l.knows(volume) && volumeuse.IsTaken(l.vmid, was, volume) {
		return l.taken(slot, was, volume)
	}
	why, then, err := l.whyUnforeseen(ctx, slot, value)
	if err != nil {
		return fmt.Errorf("see whether the disk in %s of VM %d is the one of the plan (%s): %w", slot, l.vmid, l.touched,
			err)
	}
	if why == "" {
		return nil
	}
	return &guest.FieldError{Path: "disks", Summary: fmt.Sprintf("VM %d has got another disk", l.vmid),
		Detail: fmt.Sprintf("%s is in %s%s. A destroy of the VM would destroy it with its data. %s. Give the disk to "+
			"another VM (in PVE's interface: Hardware, Disk Action, Reassign Owner)%s", volume, slot,
			why, l.touched, then)}
}

// taken refuses the volume in a slot that had a disk of another VM: it is never that one under another name.
func (l slotLook) taken(slot, held, own string) error {
	t := volumeuse.Taken{VMID: l.vmid, Node: l.node, Slot: slot, Held: held, Own: own}
	for _, config := range l.configs {
		for option, value := range config {
			if vm.IsUnused(option) && guest.VolumeOf(value) == held {
				t.Entry = option
			}
		}
	}
	return &guest.FieldError{Path: "disks." + slot + ".imported_disk", Summary: t.Summary(), Detail: t.Detail(l.touched)}
}

// whyUnforeseen says why the disk in a slot is not one that the plan knows, and what else to do about it; "": it is
// known.
func (l slotLook) whyUnforeseen(ctx context.Context, slot, value string) (why, then string, err error) {
	volume, then := guest.VolumeOf(value), "; a new plan, with a refresh, destroys it with the VM"
	if l.knows(volume) {
		if former := l.formerSlot(slot, volume); former != "" {
			return fmt.Sprintf(", and the plan knows it in %s: a third party has put it there since, or its name came free, "+
				"and PVE has given it to another disk", former), then, nil
		}
		another, err := l.hasAnotherSize(ctx, slot, value)
		if err != nil || !another {
			return "", "", err
		}
		return fmt.Sprintf(" with %s, and the plan knows it with %s: a third party has grown it since, or its name "+
			"came free, and PVE has given it to another disk", property.FormatSize(sizeIn(slot, value)),
			property.FormatSize(l.Sizes[volume])), then, nil
	}
	if l.Slots == nil { // disksOf
		return ", which it has got since it was looked at: a third party has put it there", "", nil
	}
	if known, err := l.hasMoved(ctx, slot, value); err != nil || known {
		return "", "", err
	}
	if l.holder {
		why = ", which the plan does not know: the resource has one disk, and a third party has put this one there"
		return why, "", nil
	}
	return ", which the plan does not know: a third party has put it there since, or no refresh has seen it", then, nil
}

// formerSlot is the slot in which the plan knows a volume that is in another slot now; "": none.
func (l slotLook) formerSlot(slot, volume string) string {
	for _, former := range slices.Sorted(maps.Keys(l.Slots)) {
		if l.Slots[former] == volume && l.Slots[slot] != volume {
			return former
		}
	}
	return ""
}

// hasAnotherSize reports whether a volume that the plan knows has another size than it had then: PVE gives the first
// free name to a new disk (pve-storage Plugin.pm get_next_vm_diskname), and "Reassign Owner" frees one, so a name does
// not tell which disk it is. The size of a proxmox_disk in state is that of its storage, since a VM that has it
// attached may have grown it.
func (l slotLook) hasAnotherSize(ctx context.Context, slot, value string) (bool, error) {
	volume := guest.VolumeOf(value)
	was := l.Sizes[volume]
	if !l.holder || vm.FitsSize(sizeIn(slot, value), was) {
		return !vm.FitsSize(sizeIn(slot, value), was), nil
	}
	on, err := l.d.guests.Volumes(ctx, l.node, volid.Storage(volume), l.vmid)
	hasIt := func(v pve.Volume) bool { return v.ID == volume && hasSize(v, was) }
	return err == nil && !slices.ContainsFunc(on, hasIt), err
}

// sizeIn is the size that a slot shows, in bytes; 0: none.
func sizeIn(slot, value string) int64 {
	return vm.Decode(map[string]string{slot: value}).Disks[slot].Bytes()
}

// hasMoved reports whether the volume in a slot is the one that the plan knows there: by its name, or since it has the
// size of the known one, which is nowhere any more. Where the known one is still there, the slot has another disk.
func (l slotLook) hasMoved(ctx context.Context, slot, value string) (bool, error) {
	known, inPlan := l.Slots[slot]
	if !inPlan || known == "" {
		return inPlan, nil
	}
	if !vm.FitsSize(sizeIn(slot, value), l.Sizes[known]) {
		return false, nil
	}
	if volid.Same(known, guest.VolumeOf(value)) {
		return true, nil
	}
	if slices.ContainsFunc(l.configs, func(config map[string]string) bool { return guest.Uses(config, known) }) {
		return false, nil
	}
	return guest.IsFreed(ctx, l.d.api.Reader(), l.resources, l.node, known)
}

func errAdopted(vmid int, volumes []string) error {
	return fmt.Errorf("PVE attached volumes %s to VM %d as unused disks (rescan). Nothing shows that this create "+
		"made them, and a destroy of the VM would destroy them, so the VM was not removed. Give them to another VM first "+
		"(in PVE's interface: Hardware, Disk Action, Reassign Owner), then destroy again", strings.Join(volumes, ", "), vmid)
}

func adoptedText(volumes []string) string {
	return fmt.Sprintf("has unused disks that nothing shows to be its own (%s), and a destroy of the VM would destroy "+
		"them: a rescan may have put them there, or they have the names of former disks. Give them to another VM first (in "+
		"PVE's interface: Hardware, Disk Action, Reassign Owner), or destroy them there, then destroy again",
		strings.Join(volumes, ", "))
}

// slotted is a volume in a slot of a VM: one that goes with it, if there is one, and no other that carries its id.
func slotted(vmid int, config map[string]string) string {
	found := ""
	for _, slot := range vm.Slots(config) {
		volume := guest.VolumeOf(config[slot])
		owner, ok := volid.Owner(volume)
		isOwn := ok && owner == vmid
		if isOwn && guest.GoesWith(config, volume) {
			return volume
		}
		if found == "" && volid.Valid(volume) && !isOwn {
			found = volume
		}
	}
	return found
}

// letGo takes adopted volumes out of the configuration. PVE would destroy them with the VM (destroy_vm,
// include_unused), and `delete=unusedN` destroys them at once (qemu-server API2/Qemu.pm update_vm_api). So their
// entries are given a volume that is in a slot: such an entry goes when PVE writes the file (QemuServer.pm
// write_vm_config, "remove 'unusedX' settings if we re-add a volume"). Where it does not go, it names only what the VM
// has anyway.
func (r *removal) letGo(ctx context.Context, f *facts) (outcome, error) {
	config := f.config.Values
	instead, params := slotted(r.VMID, config), pve.Params{}
	for option, value := range config {
		if vm.IsUnused(option) && slices.Contains(f.adopted, guest.VolumeOf(value)) {
			params[option] = instead
		}
	}
	if r.tries.letGo++; instead == "" || r.tries.letGo > maxLetGo {
		return nextPass, final{fmt.Errorf("VM %d was not removed: it %s", r.VMID, adoptedText(f.adopted))}
	}
	for _, volume := range f.adopted { // also if the answer is lost
		r.of(volume).letGo = true
	}
	if err := r.change(ctx, f, params); err != nil {
		return nextPass, fmt.Errorf("take unused disks out of VM %d, which %s. The request failed: %w", r.VMID,
			adoptedText(f.adopted), err)
	}
	return nextPass, nil
}

// maxLetGo bounds how often: a rescan may come again.
const maxLetGo = 3
