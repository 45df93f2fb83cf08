package model

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/vmschema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// IsDisk says whether disks attach to a bus of this name.
func IsDisk(bus string) bool { return slices.Contains(vmschema.DiskBuses(), bus) }

// SplitSlot takes "scsi10" apart into "scsi" and 10; -1: no number.
func SplitSlot(slot string) (string, int) {
	bus := strings.TrimRight(slot, "0123456789")
	n, err := strconv.Atoi(slot[len(bus):])
	if err != nil {
		return bus, -1
	}
	return bus, n
}

// BySlot orders net2 before net10.
func BySlot(a, b string) int {
	busA, numberA := SplitSlot(a)
	busB, numberB := SplitSlot(b)
	return cmp.Or(cmp.Compare(busA, busB), cmp.Compare(numberA, numberB))
}

// SortedSlots are the keys of a map by slot in that order.
func SortedSlots[V any](m map[string]V) []string { return slices.SortedFunc(maps.Keys(m), BySlot) }

// NoMedium is in an optical drive that is empty.
const NoMedium = "none"

// DrivesOf are the optical drives of a VM that a state does not know, by slot, with the medium of each.
func DrivesOf(state *Model, now guest.Guest) map[string]string {
	drives := map[string]string{}
	for slot, drive := range now.Spec.CDROMs {
		if _, known := state.CDROMs[slot]; !known {
			drives[slot] = drive.File
		}
	}
	return drives
}

// NoteDrives writes which optical drives a VM has that the state does not know, where that is news. They are apart from
// what is in other slots: a drive has no content to take over or to lose.
func (p PrivateState) NoteDrives(ctx context.Context, out kit.PrivateWriter, prior *Model,
	now guest.Guest) diag.Diagnostics {
	drives := DrivesOf(prior, now)
	if maps.Equal(drives, p.Drives) {
		return nil
	}
	return kit.Note[map[string]string](KeyDrives).Write(ctx, out, drives)
}

// media are those in the optical drives of a VM that the plan knows, by slot.
func (p PrivateState) media(state Model) map[string]string {
	all := map[string]string{}
	maps.Copy(all, p.Drives)
	for slot, drive := range state.CDROMs {
		all[slot] = Value(drive.File)
	}
	return all
}

// WithDrives gives a VM in state the drives that only the last refresh knows, in the slots where a plan has drives. One
// that waits for a restart is not there yet.
func (p PrivateState) WithDrives(state *Model, before, planned vm.Spec) vm.Spec {
	before.CDROMs = maps.Clone(before.CDROMs)
	for slot, medium := range p.Drives {
		_, known := before.CDROMs[slot]
		_, stays := planned.CDROMs[slot]
		if known || !stays || slices.Contains(state.PendingChanges, slot) {
			continue
		}
		if before.CDROMs == nil {
			before.CDROMs = map[string]vm.CDROM{}
		}
		before.CDROMs[slot] = vm.CDROM{File: medium}
	}
	return before
}

// NoteDetached writes which unused disks of a VM are known to be its own, where that is news: those that were in a slot
// of it in state, and their sizes, which an unused disk does not show. So are those that become unused at the next
// stop. A rescan makes other volumes unused disks. A migration gives them other names.
func (p PrivateState) NoteDetached(ctx context.Context, out kit.PrivateWriter, prior *Model,
	now guest.Guest) (PrivateState, diag.Diagnostics) {
	known := append(prior.own(), p.Detached...)
	for i, volume := range known {
		known[i] = now.NameOf(volume)
	}
	var detached []string
	unused := slices.Collect(maps.Values(FromGuest(now).UnusedVolumes))
	for _, volume := range slices.AppendSeq(unused, maps.Values(now.Leaving)) {
		if slices.Contains(known, volume) {
			detached = append(detached, volume)
		}
	}
	slices.Sort(detached)
	var diags diag.Diagnostics
	if !slices.Equal(detached, p.Detached) {
		diags.Append(kit.Note[[]string](KeyDetached).Write(ctx, out, detached)...)
	}
	p.Detached = detached
	sizes := map[string]int64{}
	maps.Copy(sizes, p.Sizes)
	maps.Copy(sizes, p.detachedSizes(prior, now))
	diags.Append(p.noteSizes(ctx, out, sizes)...)
	p.Sizes = sizes
	return p, diags
}

// detachedSizes are the sizes that detached disks had when they were last seen in slots, perhaps under other names.
func (p PrivateState) detachedSizes(prior *Model, now guest.Guest) map[string]int64 {
	all := map[string]int64{}
	for volume, size := range prior.sizes(p) {
		if is := now.NameOf(volume); slices.Contains(p.Detached, is) {
			all[is] = size
		}
	}
	return all
}

// noteSizes writes sizes of volumes where they are news.
func (p PrivateState) noteSizes(ctx context.Context, out kit.PrivateWriter, sizes map[string]int64) diag.Diagnostics {
	if maps.Equal(sizes, p.Sizes) {
		return nil
	}
	return kit.Note[map[string]int64](KeySizes).Write(ctx, out, sizes)
}

// OthersOf is what a VM has in slots that a state does not know, by slot. A refresh brings an EFI disk and the state of
// a TPM into the state.
func OthersOf(state *Model, now guest.Guest) map[string]string {
	others, known := vm.Devices(now.Spec), vm.Devices(state.Spec(false))
	maps.DeleteFunc(others, func(slot, _ string) bool {
		_, ours := known[slot]
		return ours || vm.IsSlot(slot) && !vm.IsBusSlot(slot)
	})
	return others
}

// Beside is what the last refresh saw in slots that the state does not know.
func (p PrivateState) Beside() vm.Spec {
	options := maps.Clone(p.Others)
	for slot, medium := range p.Drives {
		Put(&options, slot, medium+",media=cdrom")
	}
	return vm.Decode(options)
}

// SizesOf are the sizes of the disks in some slots of a VM, in bytes, by volume.
func SizesOf(slots map[string]string, now guest.Guest) map[string]int64 {
	sizes := map[string]int64{}
	for slot := range slots {
		if disk := now.Spec.Disks[slot]; disk.Size != nil {
			sizes[disk.Volume] = *disk.Size
		}
	}
	return sizes
}

// MayHave reports whether the VM may have a device in a slot that its state does not know, such as "disks.scsi1": the
// last refresh has seen one, or none has looked for it. A device that comes later is refused by the update.
func (p PrivateState) MayHave(at string) bool {
	attribute, slot, _ := strings.Cut(at, ".")
	if p.Lost || p.Moved != nil || p.Proof != nil || attribute == "cdroms" || attribute == "cloud_init" {
		return true
	}
	_, there := p.Others[slot]
	_, waits := p.Added[slot] // to leave, or is a third party's
	return there || waits
}

// AddedOf are the disks among what a new VM has in slots that its state does not know, by slot, but for those that a
// copy has inherited: a third party has put them there while the create was at work, mostly while it waited.
func AddedOf(others map[string]string, inherited []string) map[string]string {
	added := maps.Clone(others)
	maps.DeleteFunc(added, func(slot, _ string) bool { return !vm.IsSlot(slot) || slices.Contains(inherited, slot) })
	return added
}

// NoteOthers writes what a VM has in slots that the state does not know, where that is news. A device that comes after
// the plan is a third party's. A disk that was not there at the last refresh has not come by the create, and one that
// another provider did not have in its state is in none now. Those of a copy that failed before it was read are among
// them: its state tells no disk of its source from one that a third party has added, unless its roll-back has named it
// as left. A disk that comes into another
// slot is news, whatever its name: PVE gives the first free name to a new disk (pve-storage Plugin.pm
// get_next_vm_diskname), and the state does not have the slot. So is one of another size. A disk that waits to leave
// its slot at the guest's stop is in no slot of the state, and PVE frees it with the VM (qemu-server QemuServer.pm
// destroy_vm). So it is news to each plan of a destroy, also where an update has removed or exchanged it. It is noted,
// too, that the slots of a VM that a failed create has left were seen.
func (p PrivateState) NoteOthers(ctx context.Context, out kit.PrivateWriter, prior *Model,
	now guest.Guest) (PrivateState, diag.Diagnostics) {
	others, added, was := OthersOf(prior, now), map[string]string{}, prior.sizes(p)
	maps.Copy(added, now.Leaving)
	if prior.IsUnseen(p) { // all comes into the state now, but for what another provider did not know
		maps.DeleteFunc(others, func(slot, _ string) bool { return !p.Moved.leaves(slot) })
	}
	sizes := SizesOf(others, now)
	for slot, volume := range others {
		isNew := (p.Others[slot] != volume || !vm.FitsSize(sizes[volume], was[volume]) || p.Moved.leaves(slot)) &&
			!p.isLeft(volume, sizes[volume])
		if vm.IsSlot(slot) && (isNew || p.Added[slot] == volume) {
			added[slot] = volume
		}
	}
	var diags diag.Diagnostics
	if p.Proof != nil && len(others) == 0 && (now.Identity.IsZero() || guest.IsOwnLock(now.Lock)) {
		others = nil // a half-made VM, whose disks may still come
	}
	if !maps.Equal(others, p.Others) || p.Proof != nil && (others == nil) != (p.Others == nil) {
		diags.Append(kit.Note[map[string]string](KeyOthers).Write(ctx, out, others)...)
	}
	maps.Copy(sizes, p.detachedSizes(prior, now))
	diags.Append(p.noteSizes(ctx, out, sizes)...)
	if !maps.Equal(added, p.Added) {
		diags.Append(kit.Note[map[string]string](KeyAdded).Write(ctx, out, added)...)
	}
	p.Others, p.Sizes, p.Added = others, sizes, added
	return p, diags
}

// isLeft reports whether a disk is one that the roll-back of the VM's create has named as left.
func (p PrivateState) isLeft(volume string, size int64) bool {
	return p.Proof != nil && slices.ContainsFunc(p.Residues, func(r saga.Residue) bool {
		return r.Kind == "volume" && r.ID == volume && vm.FitsSize(size, r.Size)
	})
}

// NoteLeaving writes which disks wait to leave their slots after an update, whether it failed or not. The state has
// none of them.
func (p PrivateState) NoteLeaving(ctx context.Context, out kit.PrivateWriter, now guest.Guest) diag.Diagnostics {
	added := maps.Clone(p.Added)
	maps.DeleteFunc(added, func(slot, volume string) bool { return p.Others[slot] != volume }) // they have waited before
	if added == nil {
		added = map[string]string{}
	}
	maps.Copy(added, now.Leaving)
	if maps.Equal(added, p.Added) {
		return nil
	}
	return kit.Note[map[string]string](KeyAdded).Write(ctx, out, added)
}

// leaving are the disks that were the VM's in state and waited to leave their slots when they were looked at last.
func (p PrivateState) leaving() map[string]string {
	leaving := maps.Clone(p.Added)
	maps.DeleteFunc(leaving, func(slot, volume string) bool {
		return p.Others[slot] == volume || !slices.Contains(p.Detached, volume)
	})
	return leaving
}

// FormerNames are the names by which disks in state were attached, and that they do not have any more. volumeIn tells
// the volume in a slot now, "" for none.
func (m *Model) FormerNames(volumeIn func(slot string) string) []string {
	var all []string
	for slot, disk := range m.Disks {
		if disk.Imported == nil {
			continue
		}
		if was, is := Value(disk.Imported.Volume), volumeIn(slot); is != "" && was != is {
			all = append(all, was)
		}
	}
	return all
}

// Taken are the disks that the configuration has attached from VMs which hold them, and whose data are in volumes of
// this VM's own id by now. The state has what was attached, and the volume that a refresh has found in its slot. A
// volume that was attached and is in another slot of the VM was not taken: a killed apply has exchanged two disks.
func (m *Model) Taken() []volumeuse.Taken {
	var all []volumeuse.Taken
	for _, slot := range SortedSlots(m.Disks) {
		disk := m.Disks[slot]
		if disk.Imported == nil {
			continue
		}
		held, own := Value(disk.Imported.Volume), Value(disk.Volume)
		if !volumeuse.IsTaken(int(Value(m.VMID)), held, own) || slices.Contains(m.slotted(), held) {
			continue
		}
		taken := volumeuse.Taken{VMID: int(Value(m.VMID)), Node: Value(m.Node), Slot: slot, Held: held, Own: own}
		for option, volume := range m.UnusedVolumes {
			if volume == held {
				taken.Entry = option
			}
		}
		all = append(all, taken)
	}
	return all
}

// own are the volumes in the slots of a VM in state without those that it has taken.
func (m *Model) own() []string {
	taken := m.Taken()
	return slices.DeleteFunc(m.slotted(), func(volume string) bool {
		return slices.ContainsFunc(taken, func(t volumeuse.Taken) bool { return t.Own == volume })
	})
}

// WithImported is the state after a failed update, in which the disks that have their planned volumes say where these
// come from, and the others where they came from before: a disk that was not exchanged is not the planned one.
func WithImported(state, prior, target tftypes.Value) tftypes.Value {
	return EachDisk(state, func(slot string, disk map[string]tftypes.Value) {
		from := prior
		wanted := plan.At(target, "disks", slot, "volume")
		if wanted.IsKnown() && !wanted.IsNull() && disk["volume"].Equal(wanted) {
			from = target
		}
		imported := plan.At(from, "disks", slot, "imported_disk")
		if imported.IsNull() {
			imported = tftypes.NewValue(disk["imported_disk"].Type(), nil)
		}
		disk["imported_disk"] = plan.Known(imported)
	})
}

// WithoutBorrowed is the state of a VM whose create has left something, in which no disk is said to be another VM's: a
// copy has disks of its own in the slots until the create attaches others.
func (m *Model) WithoutBorrowed(state tftypes.Value) tftypes.Value {
	return EachDisk(state, func(slot string, disk map[string]tftypes.Value) {
		if is := m.Disks[slot].Imported; is != nil && m.Borrows(Value(is.Volume)) {
			disk["imported_disk"] = tftypes.NewValue(disk["imported_disk"].Type(), nil)
		}
	})
}
