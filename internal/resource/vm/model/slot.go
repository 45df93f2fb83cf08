package model

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/vmschema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
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
