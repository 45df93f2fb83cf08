package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// held makes VM 300 one with two disks and a snapshot, which its storage does not let go of on a disk.
func held(t *testing.T, disk string) (*rig, Ref) {
	t.Helper()
	r := newRig(t, false)
	r.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-1", VMID: ours, Content: "images",
			Format: "raw", Size: 1 << 30})
		w.Guests[ours].Config["virtio5"] = "local-zfs:vm-300-disk-1,size=1G"
	})
	taken, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before"})
	if err != nil {
		t.Fatal(err)
	}
	r.hold(disk, true)
	return r, Ref{VM: guest.Ref{VMID: ours, Node: "pve1", Identity: taken.VM}, Name: "before", Taken: taken.Taken}
}

func (r *rig) hold(volume string, held bool) {
	r.change(func(w *state.World) { w.Volume("pve1", volume).Held = held })
}

func (r *rig) unlock() {
	r.change(func(w *state.World) { delete(w.Guests[ours].Config, "lock") })
}

// TestHeldSnapshotIsNotForced: a storage does not let go of a snapshot, once and again. It stays in the configuration,
// which alone names it, until it can be removed whole.
func TestHeldSnapshotIsNotForced(t *testing.T) {
	t.Parallel()
	r, ref := held(t, "local-zfs:vm-300-disk-1")
	for range 2 {
		warnings, err := r.s.Delete(t.Context(), ref)
		if err == nil || !strings.Contains(err.Error(), "vm-300-disk-1@before: dataset is busy") {
			t.Errorf("error %v, warnings %v; the cluster has %q", err, warnings, r.what())
		}
		if len(r.config("before")) == 0 {
			t.Fatalf("nothing names the snapshot any more; the cluster has %q", r.what())
		}
		r.unlock()
	}
	r.hold("local-zfs:vm-300-disk-1", false)
	warnings, err := r.s.Delete(t.Context(), ref)
	if err != nil || len(warnings) > 0 || len(r.what()) > 0 {
		t.Errorf("error %v, warnings %v; the cluster has %q", err, warnings, r.what())
	}
}

func (r *rig) config(snapshot string) (options map[string]string) {
	r.change(func(w *state.World) { options = w.Guests[ours].Snaps[snapshot] })
	return options
}

// TestForcedRemovalNamesVolumesThatKeepASnapshot: a half-made snapshot goes by force. A warning names the volume that
// keeps it, and none that had none.
func TestForcedRemovalNamesVolumesThatKeepASnapshot(t *testing.T) {
	t.Parallel()
	r, ref := held(t, "local-zfs:vm-300-disk-0")
	r.change(func(w *state.World) {
		w.Guests[ours].Snaps["before"]["snapstate"] = "prepare"
		w.Volume("pve1", "local-zfs:vm-300-disk-1").DropSnapshot("before")
	})
	warnings, err := r.s.Delete(t.Context(), ref)
	if err != nil || len(warnings) != 1 || len(r.config("before")) > 0 {
		t.Fatalf("error %v, warnings %v; the cluster has %q", err, warnings, r.what())
	}
	for _, part := range []string{"local-zfs:vm-300-disk-0", "dataset is busy", "volume_snapshot_delete",
		"@ARGV)' local-zfs:vm-300-disk-0 before`"} {
		if !strings.Contains(warnings[0].Summary+warnings[0].Detail, part) {
			t.Errorf("%q lacks %q", warnings, part)
		}
	}
}

// TestUndoNamesVolumesThatKeepASnapshot: the task that takes a snapshot is killed, and the undo removes it by force.
func TestUndoNamesVolumesThatKeepASnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t, true)
	r.hold("local-zfs:vm-300-disk-0", true)
	r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST"}, Phase: fault.KillTask}})
	taken, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before"})
	left, _ := leftovers(err)
	if len(left) != 1 || left[0].ID != "local-zfs:vm-300-disk-0@before" || taken.Taken != 0 {
		t.Errorf("%v, taken %d, left %v", err, taken.Taken, left)
	}
	if is := r.what(); !slices.Equal(is, []string{"snapshot of local-zfs:vm-300-disk-0: before"}) {
		t.Errorf("the cluster has %q", is)
	}
}

// TestRemovalThatFailsTellsOfTheLock: the task that removes a snapshot fails, or is killed. The error says that the VM
// is locked by that and which disks are still to be done, with the next command. Without a lock it says nothing of one.
func TestRemovalThatFailsTellsOfTheLock(t *testing.T) {
	t.Parallel()
	tells := []string{"VM 300 on node pve1 is locked (snapshot-delete)", "`qm unlock 300` as root on node pve1",
		"virtio5 (local-zfs:vm-300-disk-1)", "`qm delsnapshot 300 before --force`"}
	for phase, says := range map[fault.Phase][]string{"": tells, fault.KillTask: tells, fault.Before: nil} {
		r, ref := held(t, "local-zfs:vm-300-disk-1")
		r.hold("local-zfs:vm-300-disk-1", phase == "")
		if phase != "" {
			r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "DELETE"}, Phase: phase}})
		}
		_, err := r.s.Delete(t.Context(), ref)
		if err == nil || (says == nil) == strings.Contains(err.Error(), "locked") {
			t.Errorf("%q: %v", phase, err)
			continue
		}
		for _, part := range says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %q lacks %q", phase, err, part)
			}
		}
		if scsi0 := strings.Contains(err.Error(), "scsi0 ("); scsi0 != (phase == fault.KillTask) {
			t.Errorf("%q: scsi0 is still to be done: %t; %v", phase, scsi0, err)
		}
	}
}

// TestRemovalThatFailsNamesADiskThatNothingHas: a disk that was detached and forgotten is in the snapshot alone, and PVE
// has taken it out of that when a later disk fails. The error names it, and no disk that the VM or a snapshot still has.
func TestRemovalThatFailsNamesADiskThatNothingHas(t *testing.T) {
	t.Parallel()
	for _, other := range []bool{false, true} {
		r, ref := held(t, "local-zfs:vm-300-disk-1")
		r.change(func(w *state.World) {
			if other {
				w.Guests[ours].Snaps["later"] = map[string]string{"scsi0": w.Guests[ours].Config["scsi0"], "snaptime": "1"}
			}
			delete(w.Guests[ours].Config, "scsi0")
		})
		_, err := r.s.Delete(t.Context(), ref)
		if err == nil || !strings.Contains(err.Error(), "locked (snapshot-delete)") {
			t.Fatalf("another snapshot has it: %t; %v", other, err)
		}
		const says = "Only this snapshot had local-zfs:vm-300-disk-0, and nothing names that now"
		if strings.Contains(err.Error(), says) == other || strings.Contains(err.Error(), "unused0 (") ||
			strings.Contains(err.Error(), "`qm disk rescan --vmid 300`") == other {
			t.Errorf("another snapshot has it: %t; %v", other, err)
		}
	}
}

// TestRemovalThatEndsWellNamesADiskThatNothingHas: the next removal drops the disk with which the failed one was done,
// without making it an unused disk, and makes those that it does itself unused disks.
func TestRemovalThatEndsWellNamesADiskThatNothingHas(t *testing.T) {
	t.Parallel()
	for gone, warned := range map[string]string{"": "", "scsi0": "local-zfs:vm-300-disk-0", "virtio5": ""} {
		r, ref := held(t, "local-zfs:vm-300-disk-1")
		r.change(func(w *state.World) { delete(w.Guests[ours].Config, gone) })
		if _, err := r.s.Delete(t.Context(), ref); err == nil || strings.Contains(err.Error(), "Only this") != (warned != "") {
			t.Errorf("without %q: %v", gone, err)
		}
		r.unlock()
		r.hold("local-zfs:vm-300-disk-1", false)
		warnings, err := r.s.Delete(t.Context(), ref)
		if err != nil || len(warnings) > 0 != (warned != "") {
			t.Fatalf("without %q: error %v, warnings %v", gone, err, warnings)
		}
		for _, w := range warnings {
			if !strings.Contains(w.Summary, warned) || !strings.Contains(w.Detail, "`qm disk rescan --vmid 300`") {
				t.Errorf("without %q: %v", gone, w)
			}
		}
	}
}

// TestSnapshotWithTheNameOfABackup: one in state goes from the VM alone, but for a disk with backup=1. A warning names each
// disk that keeps it, with the command.
func TestSnapshotWithTheNameOfABackup(t *testing.T) {
	t.Parallel()
	for options, kept := range map[string]bool{"": true, ",backup=1": false, ",backup=0": true} {
		r := newRig(t, false)
		r.change(func(w *state.World) { w.Guests[ours].Config["scsi0"] += options })
		taken, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "vzdump"})
		if err != nil {
			t.Fatal(err)
		}
		warnings, err := r.s.Delete(t.Context(), Ref{VM: guest.Ref{VMID: ours, Node: "pve1", Identity: taken.VM},
			Name: "vzdump", Taken: taken.Taken})
		if err != nil || len(r.what()) > 0 != kept || len(warnings) > 0 != kept {
			t.Fatalf("%q: error %v, warnings %v; the cluster has %q", options, err, warnings, r.what())
		}
		if kept && !strings.Contains(warnings[0].Summary, "local-zfs:vm-300-disk-0") {
			t.Errorf("%q: %v", options, warnings)
		}
	}
}

// TestNameThatAVolumeHasKept: a volume with the data of the VM has a snapshot of the wanted name, which no VM names (pve-storage
// ZFSPoolPlugin.pm volume_snapshot). The error calls no volume a leftover, and that snapshot stays.
func TestNameThatAVolumeHasKept(t *testing.T) {
	r := newRig(t, true)
	r.change(func(w *state.World) {
		for _, v := range w.Volumes {
			if v.VMID == ours {
				v.TakeSnapshot("before")
			}
		}
	})
	_, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before"})
	if text := fmt.Sprint(err); !strings.Contains(text, "one of its volumes has kept a snapshot of that name") ||
		!strings.Contains(text, "is no leftover") {
		t.Errorf("it says: %v", err)
	}
	r.change(func(w *state.World) {
		for _, v := range w.Volumes {
			if v.VMID == ours && !slices.Contains(v.Snaps, "before") {
				t.Errorf("%s has lost a snapshot of another party", v.Volid())
			}
		}
		if has := w.Guests[ours].Snaps; len(has) != 0 || w.Guests[ours].Config["lock"] != "" {
			t.Errorf("the VM has %v, lock %q", has, w.Guests[ours].Config["lock"])
		}
	})
}
