package task

import (
	"maps"
	"slices"
	"testing"
)

// TestRestoredVolumes: volumes that a failed restore has removed again do not count as made.
func TestRestoredVolumes(t *testing.T) {
	log := []string{
		"Formatting '/var/lib/vz/images/100/vm-100-disk-0.qcow2', fmt=qcow2 size=2147483648",
		"new volume ID is 'local:100/vm-100-disk-0.qcow2'",
		`  Logical volume "vm-100-disk-0" created.`,
		"new volume ID is 'local-lvm:vm-100-disk-0'",
		"new volume ID is 'local-zfs:vm-100-disk-0'",
		"temporary volume 'local:100/vm-100-disk-0.qcow2' successfully removed",
		"unable to cleanup 'local-zfs:vm-100-disk-0' - zfs error: cannot destroy 'rpool/data/vm-100-disk-0': dataset is busy",
	}
	ids, names := VolumesMade(log)
	if !slices.Equal(ids, []string{"local-lvm:vm-100-disk-0", "local-zfs:vm-100-disk-0"}) || !slices.Equal(names, []string{"vm-100-disk-0"}) {
		t.Errorf("made are %v, by name %v", ids, names)
	}
}

// TestSlotsFilled: the lines of a clone about its drives.
func TestSlotsFilled(t *testing.T) {
	log := []string{"create full clone of drive scsi0 (local-zfs:vm-9000-disk-0)", "allocated target volume 'local-zfs:vm-150-disk-0'",
		"create linked clone of drive efidisk0 (local-zfs:base-9000-disk-1)", "transferred 0.0 B of 1.0 GiB (0.00%)"}
	if slots := SlotsFilled(log); !slices.Equal(slots, []string{"scsi0", "efidisk0"}) {
		t.Errorf("filled are %v", slots)
	}
}

// TestDisksMade: the lines of a create about its drives, with their options.
func TestDisksMade(t *testing.T) {
	log := []string{"scsi0: successfully created disk 'local-zfs:vm-150-disk-0,size=1G'", "Formatting '/x/vm-150-disk-1.qcow2'",
		"efidisk0: successfully created disk 'local:150/vm-150-disk-1.qcow2'", "TASK OK"}
	want := map[string]string{"scsi0": "local-zfs:vm-150-disk-0", "efidisk0": "local:150/vm-150-disk-1.qcow2"}
	if made := DisksMade(log); !maps.Equal(made, want) {
		t.Errorf("made are %v", made)
	}
}

// TestTellsNotFreed: the lines of storages about a volume that is in use, and the lines that a move adds.
func TestTellsNotFreed(t *testing.T) {
	for line, want := range map[string]bool{
		"zfs error: cannot destroy 'rpool/data/vm-400-disk-1': dataset is busy":                    true,
		"lvremove 'pve/vm-400-disk-1' error:   Logical volume pve/vm-400-disk-1 in use.":           true,
		"can't deactivate LV '/dev/pve/vm-400-disk-1':   Logical volume pve/vm-400-disk-1 in use.": true,
		"can't lock file '/var/lock/pve-manager/pve-storage-local-zfs' - got timeout":              true,
		"create full clone of drive scsi0 (local-zfs:vm-400-disk-1)":                               false,
		"zfs error: cannot destroy 'rpool/data/vm-400-disk-10': dataset is busy":                   false,
		"zfs error: cannot destroy 'rpool/data/vm-400-disk-2': dataset is busy":                    false,
		"can't lock file '/var/lock/pve-manager/pve-storage-local' - got timeout":                  false,
		"  Logical volume \"vm-400-disk-1\" successfully removed.":                                 false,
	} {
		if got := TellsNotFreed([]string{"drive mirror is starting", line}, "local-zfs:base-9000-disk-0/vm-400-disk-1"); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
