package update

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty/ctystrings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// checkSlots refuses a change of a slot that does not have the volume in state any more: a plan may be hours old. PVE
// takes the options of a drive together with its volume, so the change would bring the old volume back. That is the
// copy from before a move, or a disk that another slot or another guest has by now (qemu-server API2/Qemu.pm
// update_vm_api compares nothing but the digest). From a slot that is to be emptied it takes whatever is in it, and
// unplugs it from a running guest (QemuServer.pm vmconfig_hotplug_pending); an empty one is as planned.
func checkSlots(vmid int, config pve.PendingConfig, prior, planned vm.Spec, c vm.Change) error {
	known, has, ours := vm.Encode(prior), config.Merged(), vm.Devices(prior)
	server := vm.Decode(has)
	touched, emptied := map[string]bool{}, map[string]bool{}
	for _, slot := range slices.Concat(c.Delete, c.DeleteFirst) {
		emptied[slot] = has[slot] != "" && ours[slot] != "" // a state without the volume has nothing to compare
		touched[slot] = emptied[slot]
	}
	for slot, value := range c.Set { // checkVolumes judges a slot that gets another volume
		touched[slot] = volid.Same(guest.VolumeOf(value), guest.VolumeOf(known[slot]))
	}
	for _, m := range c.Moves {
		touched[m.Slot] = true
	}
	for _, g := range c.Grow {
		_, written := c.Set[g.Slot]
		touched[g.Slot] = touched[g.Slot] || !written
	}
	for _, slot := range slices.Sorted(maps.Keys(touched)) {
		was, is := guest.VolumeOf(known[slot]), guest.VolumeOf(has[slot])
		_, owned := volid.Owner(was)
		generated := volid.IsCloudInit(was) && !isDisk(has[slot])
		if !touched[slot] || !vm.IsSlot(slot) || !owned && !emptied[slot] || generated {
			continue
		}
		now := hasNow(vmid, is, was, server.Disks[slot], prior.Disks[slot], planned.Disks[slot])
		if now == "" {
			continue
		}
		return &guest.FieldError{Path: slotAttribute(slot, prior),
			Summary: fmt.Sprintf("%s of VM %d does not have the disk of the plan", slot, vmid),
			Detail: fmt.Sprintf("The plan is about %s, and %s: a third party has changed it since, or a task of an earlier "+
				"apply that went on. The slot was not touched. Make a new plan, which shows what is there", was, now)}
	}
	return checkDisplaced(vmid, known, has, prior, c)
}

// hasNow says what a slot has in place of the disk of the state; "": that disk. One of the VM's own must have its size
// or the planned one, too: PVE gives a name that came free to the next disk (pve-storage Plugin.pm
// get_next_vm_diskname).
func hasNow(vmid int, is, was string, disk, prior, planned vm.Disk) string {
	owner, _ := volid.Owner(was)
	asPlanned := planned.Size != nil && vm.FitsSize(disk.Bytes(), planned.Bytes())
	switch {
	case !volid.Same(was, is) && is == "":
		return "it is empty now"
	case !volid.Same(was, is):
		return is + " is in it now"
	case owner == vmid && !vm.FitsSize(disk.Bytes(), prior.Bytes()) && !asPlanned:
		return fmt.Sprintf("a disk of that name with another size, %s, is in it now", property.FormatSize(*disk.Size))
	}
	return ""
}

// checkDisplaced refuses a change that would take a disk out of its slot that was never in state, for another volume,
// or because the drive that was in the slot leaves. PVE unplugs such a disk from a running guest, and makes it an
// unusedN, also that of a protected VM (qemu-server QemuServer.pm vmconfig_update_disk, vmconfig_apply_pending).
func checkDisplaced(vmid int, known, has map[string]string, prior vm.Spec, c vm.Change) error {
	for _, slot := range slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(c.Set)), c.Delete,
		c.DeleteFirst))) {
		is, value := guest.VolumeOf(has[slot]), c.Set[slot]
		stays := volid.Same(is, guest.VolumeOf(known[slot])) || volid.Same(is, guest.VolumeOf(value)) ||
			value == "" && isDisk(known[slot]) // checkSlots judges it
		if !vm.IsBusSlot(slot) || !isDisk(has[slot]) || stays {
			continue
		}
		return &guest.FieldError{Path: slotAttribute(slot, vm.Decode(c.Set), prior),
			Summary: fmt.Sprintf("%s of VM %d has a disk that is not in the state", slot, vmid),
			Detail: fmt.Sprintf("The plan is about another drive, and %s is in the slot now. It was not touched. Choose "+
				"another slot, or take that disk out of it first", is)}
	}
	return nil
}

// isDisk reports whether the value of a slot is that of a disk, and of no optical or cloud-init drive.
func isDisk(drive string) bool {
	return drive != "" && !vm.IsOptical(drive) && !volid.IsCloudInit(guest.VolumeOf(drive))
}

// scalars are the options that checkScalars looks at: those of one plain value that neither PVE nor the provider writes
// by itself. Others are merged with the server's (vm.Rebase), or are read back in another form.
func scalars() []string {
	return []string{"name", "description", "memory", "balloon", "shares", "sockets", "cores", "vcpus", "cpulimit"}
}

// checkScalars refuses a change of options that have neither the value in state nor the planned one: a third party has
// set them since the plan, or during a step that took its time. PVE's digest tells of no change before the last read.
func checkScalars(vmid int, config pve.PendingConfig, prior vm.Spec, c vm.Change) error {
	known, has, path := vm.Encode(prior), config.Merged(), ""
	var changed []string
	for _, option := range scalars() {
		was, is, next := known[option], has[option], c.Set[option]
		switch {
		case !sends(c, option), ownership.IsMark(was), ownership.IsMark(is), isSameScalar(option, was, is),
			isSameScalar(option, is, next):
			continue
		case path == "":
			a, _ := vm.AttributeOf(option)
			path = a.In(option)
		}
		changed = append(changed, fmt.Sprintf("%s: was %s, is %s, planned %s", option, orNone(was), orNone(is),
			orNone(next)))
	}
	if len(changed) == 0 {
		return nil
	}
	return &guest.FieldError{Path: path,
		Summary: fmt.Sprintf("Options of VM %d were changed outside Terraform since the plan", vmid),
		Detail: fmt.Sprintf("The plan changes these, in PVE's names, and has not seen their values:\n  %s\nThey were "+
			"not changed. Make a new plan, which shows them unless it leaves out the refresh",
			strings.Join(changed, "\n  "))}
}

// isSameScalar compares values: no value is PVE's default, Terraform keeps a text in its normal form, and white space
// around it does not count.
func isSameScalar(option, a, b string) bool {
	of, _ := vm.AttributeOf(option)
	text := func(s string) string { return ctystrings.Normalize(strings.TrimSpace(cmp.Or(s, of.Default))) }
	return text(a) == text(b) || option != "description" && vm.MeansSame(option, a, b)
}

func orNone(value string) string {
	if value == "" {
		return "none"
	}
	return strconv.Quote(value)
}

// checkFilled refuses to take for a new device one that a third party has put into its slot since the plan: the VM
// would own it from here on, and destroy a disk where removed_disks says so. One that the plan has known is taken over,
// and one that is as planned.
func checkFilled(r Request, config pve.PendingConfig) error {
	server := vm.Decode(config.Merged())
	known, wanted, has := vm.Devices(r.Prior), vm.Devices(r.Planned), vm.Devices(server)
	for _, slot := range slices.Sorted(maps.Keys(wanted)) {
		is, what := has[slot], "disk"
		_, ours := known[slot]
		asPlanned := wanted[slot] != "" // checkVolumes judges a volume that is named
		if !vm.IsSlot(slot) {
			what, asPlanned = "device", vm.MeansSame(slot, is, wanted[slot])
		}
		if is == "" || ours || asPlanned || r.isOther(slot, is, server.Disks[slot]) {
			continue
		}
		was := "about a new " + what
		switch {
		case r.Others[slot] == is:
			was = "to take over a disk of that name and another size"
		case r.Others[slot] != "":
			was = "to take over " + r.Others[slot]
		}
		return &guest.FieldError{Path: slotAttribute(slot),
			Summary: fmt.Sprintf("%s of VM %d has changed since the plan", slot, r.Ref.VMID),
			Detail: fmt.Sprintf("The plan is %s, and %s is in the slot now. It was not touched. Choose another slot, or make "+
				"a new plan, which takes that %s over", was, is, what)}
	}
	return checkEjected(r, server)
}

// checkEjected refuses to eject a medium that has come since the plan, for a new drive or disk in its slot. The plan
// has told of those that it knew.
func checkEjected(r Request, server vm.Spec) error {
	planned := r.Planned
	if planned.CloudInit.Storage != "" {
		planned.CloudInit.Slot = cmp.Or(planned.CloudInit.Slot, vm.DefaultCloudInitSlot)
	}
	had, gets := drivesOf(r.Prior), drivesOf(planned)
	for _, slot := range slices.Sorted(maps.Keys(gets)) {
		medium := server.CDROMs[slot].File
		if medium == "" || medium == emptyDrive || gets[slot] == had[slot] || r.Media[slot] == medium ||
			planned.CDROMs[slot].File == medium {
			continue
		}
		return &guest.FieldError{Path: slotAttribute(slot, planned),
			Summary: fmt.Sprintf("%s of VM %d has changed since the plan", slot, r.Ref.VMID),
			Detail: fmt.Sprintf("The plan is about a new drive, and the medium %s is in the slot now. It was not "+
				"ejected. Choose another slot, or make a new plan, which says what is ejected", medium)}
	}
	return nil
}

// emptyDrive is the medium of an optical drive without one.
const emptyDrive = "none"

// drivesOf are the kinds of the drives on the buses of a VM, by slot.
func drivesOf(s vm.Spec) map[string]string {
	all := map[string]string{}
	for slot := range s.Disks {
		all[slot] = "disk"
	}
	for slot := range s.CDROMs {
		all[slot] = "cdrom"
	}
	if s.CloudInit.Slot != "" {
		all[s.CloudInit.Slot] = "cloud-init"
	}
	return all
}

// isOther reports whether a slot has the device that the plan has known there, and that is not in state. PVE gives a
// name that comes free to the next disk.
func (n Notes) isOther(slot, is string, disk vm.Disk) bool {
	return n.Others[slot] == is && n.hasSize(disk)
}

// hasSize reports whether a disk has the size that the plan has known, as far as both are known.
func (n Notes) hasSize(disk vm.Disk) bool {
	return vm.FitsSize(disk.Bytes(), n.Sizes[disk.Volume])
}

// noteOthers notes what this update has made of disks that the plan takes over, or has left in their slots: their names
// and sizes are others by now.
func noteOthers(u *update, config pve.PendingConfig, changed func(slot string) bool) {
	server, known := vm.Decode(config.Merged()), vm.Devices(u.r.Prior)
	has, others, sizes := vm.Devices(server), join(u.r.Others, nil), map[string]int64{}
	maps.Copy(sizes, u.r.Sizes)
	for slot := range vm.Devices(u.r.Planned) {
		if _, ours := known[slot]; ours || !vm.IsSlot(slot) || has[slot] == "" || !changed(slot) {
			continue
		}
		others[slot] = has[slot]
		if size := server.Disks[slot].Size; size != nil {
			sizes[has[slot]] = *size
		}
	}
	u.r.Others, u.r.Sizes = others, sizes
}

// slotAttribute is the attribute of a slot: that of the optical drive that one of the VMs has in it, else that of its
// kind of device, which is a disk on a bus.
func slotAttribute(slot string, vms ...vm.Spec) string {
	for _, s := range vms {
		if _, isCDROM := s.CDROMs[slot]; isCDROM {
			return "cdroms." + slot
		}
		if s.CloudInit.Slot == slot {
			return "cloud_init"
		}
	}
	a, _ := vm.AttributeOf(slot)
	return a.In(slot)
}

// withDoneMoves is the known VM and the plan, where disks are on their planned storages already: an earlier apply that
// was killed has begun such a move and PVE has ended it since, or a third party has moved the disk.
func (d disks) withDoneMoves(ctx context.Context) (known, wanted vm.Spec, err error) {
	prior, planned, server := d.r.Prior, d.r.Planned, vm.Decode(d.before.Merged())
	done := map[string]bool{}
	for _, slot := range slices.Sorted(maps.Keys(planned.Disks)) {
		was, is, goal := prior.Disks[slot], server.Disks[slot], planned.Disks[slot]
		if was.Volume == "" || is.Volume == was.Volume || goal.Volume != was.Volume || goal.Storage != is.Storage ||
			was.Storage == is.Storage || !isAsLarge(is, was) && !isAsLarge(is, goal) {
			continue
		}
		if done[slot], err = d.hasMovedFrom(ctx, was.Volume); err != nil {
			return prior, planned, fmt.Errorf("see whether %s of VM %d has moved, or is another disk: %w", slot, d.vmid, err)
		}
	}
	known, wanted = withMoved(prior, server, func(slot string) bool { return done[slot] }), planned
	wanted.Disks = maps.Clone(planned.Disks)
	for slot, disk := range wanted.Disks {
		if done[slot] {
			disk.Volume = ""
			wanted.Disks[slot] = disk
		}
	}
	return known, wanted, nil
}

// isAsLarge reports whether a disk has the size of another one. A move takes all of a disk, and its growth comes after
// that.
func isAsLarge(is, was vm.Disk) bool {
	return is.Size != nil && was.Size != nil && vm.FitsSize(is.Bytes(), was.Bytes())
}

// hasMovedFrom reports whether a volume that the slot had is gone. Where it is there still, the slot has another disk,
// and no moved one.
func (d disks) hasMovedFrom(ctx context.Context, volume string) (bool, error) {
	held := guest.HoldingsOf(d.before)
	if _, unused := held.Unused[volume]; unused || held.SlotOf(volume) != "" {
		return false, nil
	}
	resources, _, err := d.changer.api.Listing().Recent(ctx)
	if err != nil {
		return false, err
	}
	return guest.IsFreed(ctx, d.changer.api.Reader(), resources, d.view.Node(), volume)
}
