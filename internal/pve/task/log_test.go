package task

import (
	"maps"
	"slices"
	"strings"
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

// TestIsSafeToStop: the logs of tasks that QEMU copies in, as PVE 8.4 writes them.
func TestIsSafeToStop(t *testing.T) {
	began := []string{"create full clone of drive scsi0 (local-zfs:vm-960-disk-0)", `  Logical volume "vm-960-disk-0" created.`}
	live := append(slices.Clone(began), "drive mirror is starting for drive-scsi0")
	at := func(lines ...string) []string { return append(slices.Clone(live), lines...) }
	early := at("drive-scsi0: transferred 304.0 MiB of 1.0 GiB (29.69%) in 1s")
	late := at("drive-scsi0: transferred 1.0 GiB of 1.0 GiB (100.00%) in 5s, ready", "all 'mirror' jobs are ready")
	second := append(slices.Clone(late), "create full clone of drive scsi1 (local-zfs:vm-960-disk-1)",
		"drive mirror is starting for drive-scsi1", "drive-scsi1: transferred 304.0 MiB of 1.0 GiB (29.69%) in 1s")
	for _, c := range []struct {
		typ  string
		log  []string
		safe bool
	}{
		{"qmclone", nil, true}, {"qmmove", began, true}, {"qmmove", live, false}, {"qmmove", early, false}, {"qmmove", late, false},
		{"qmclone", began, true}, {"qmclone", live, false}, {"qmclone", early, true}, {"qmclone", late, false},
		{"qmclone", second, true}, {"qmclone", append(slices.Clone(late), "suspend vm"), false}, {"qmcreate", early, true},
		{"qmclone", []string{"create full clone of drive scsi0 (local:9000/base-9000-disk-0.qcow2)",
			"transferred 1.0 GiB of 1.0 GiB (100.00%)"}, true},
		{"qmigrate", []string{"2026-11-29 10:00:00 starting migration of VM 100 to node 'pve2' (10.0.0.2)"}, true},
		{"imgcopy", []string{"starting file import from: /var/tmp/pveupload-1"}, true},
		{"imgcopy", []string{"starting file import from: /var/tmp/pveupload-1", "target node: pve1",
			"target file: /var/lib/vz/template/iso/disc.iso"}, false},
		{"qmigrate", []string{"2026-11-29 10:00:00 starting VM 100 on remote node 'pve2'"}, false},
	} {
		if safe := IsSafeToStop(c.typ, c.log); safe != c.safe {
			t.Errorf("%s, %q: safe %t", c.typ, c.log, safe)
		}
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

// TestCopiesOf: what the log of a move says of the volume that it makes, on a storage of each kind.
func TestCopiesOf(t *testing.T) {
	for said, want := range map[string]string{
		`  Logical volume "vm-400-disk-1" created.`:                          "to:vm-400-disk-1",
		"Formatting '/mnt/to/images/400/vm-400-disk-1.qcow2', fmt=qcow2":     "to:400/vm-400-disk-1.qcow2",
		"allocated target volume 'to:vm-400-disk-1'":                         "to:vm-400-disk-1",
		"drive-scsi1: transferred 1.0 GiB of 1.0 GiB (100.00%) in 1s, ready": "",
	} {
		log := []string{"create full clone of drive scsi1 (from:vm-400-disk-0)", said, "TASK OK"}
		got := CopiesOf(log, "scsi1", "to")
		if strings.Join(got, " ") != want || len(CopiesOf(log, "scsi11", "to"))+len(CopiesOf(log, "scsi", "to")) > 0 {
			t.Errorf("%s: %v", said, got)
		}
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
		"unable to cleanup 'local-lvm:vm-400-disk-1' - unable to free volume":                      false,
		"unable to cleanup 'local-zfs:vm-400-disk-1' - unable to free volume":                      true,
		"unable to cleanup 'local-zfs:base-9000-disk-0/vm-400-disk-1' - unable to free volume":     true,
	} {
		if got := TellsNotFreed([]string{"drive mirror is starting", line}, "local-zfs:base-9000-disk-0/vm-400-disk-1"); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

// TestVolumesCopied: a migration says of each volume what it is called on the target, once it is there (qemu-server QemuMigrate.pm
// sync_offline_local_volumes).
func TestVolumesCopied(t *testing.T) {
	log := []string{
		"2026-01-01 00:00:00 copying local disk images",
		"2026-01-01 00:00:01 volume 'local-zfs:vm-100-disk-0' is 'local-zfs:vm-100-disk-1' on the target",
		"2026-01-01 00:00:02 volume 'local:100/vm-100-disk-0.qcow2' is 'local2:100/vm-100-disk-0.qcow2' on the target",
		"2026-01-01 00:00:03 ERROR: storage migration for 'local-lvm:vm-100-disk-2' to storage 'local-lvm' failed",
	}
	want := []string{"local-zfs:vm-100-disk-1", "local2:100/vm-100-disk-0.qcow2"}
	if got := VolumesCopied(log); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	names := NamesOnTarget(log)
	if len(names) != 2 || names["local-zfs:vm-100-disk-0"] != want[0] || names["local:100/vm-100-disk-0.qcow2"] != want[1] {
		t.Errorf("the names are %v", names)
	}
}
