package volumeuse

import (
	"slices"
	"testing"
)

// TestNamesOf: the names of volumes and devices in the paths under which a node has them.
func TestNamesOf(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"zfs:base-1-disk-0/vm-2-disk-0": "vm-2-disk-0", "dir:2/vm-2-disk-0.raw": "vm-2-disk-0.raw",
		"/dev/mapper/pve-vm--300--disk--0":                     "vm-300-disk-0",
		"/dev/mapper/my--group-vm--300--disk--0":               "vm-300-disk-0",
		"/dev/disk/by-id/dm-name-pve-vm--300--disk--0":         "vm-300-disk-0",
		"/dev/zvol/rpool/data/vm-300-disk-0":                   "vm-300-disk-0",
		"/dev/zvol/rpool/data/vm-300-disk-0-part2":             "vm-300-disk-0",
		"/dev/rbd-pve/fsid/rbd/vm-300-disk-0":                  "vm-300-disk-0",
		"/dev/pve/vm-300-disk-0":                               "vm-300-disk-0",
		"/var/lib/vz/images/300/vm-300-disk-0.qcow2":           "vm-300-disk-0.qcow2",
		"/mnt/fast/images/300/vm-300-disk-0/disk.raw":          "vm-300-disk-0.raw",
		"/mnt/fast/images/300/vm-300-disk-0@one/disk.raw":      "vm-300-disk-0.raw",
		"/rpool/data/subvol-300-disk-0/":                       "subvol-300-disk-0",
		"/rpool/data/subvol-300-disk-0/srv/www":                "subvol-300-disk-0",
		"/srv/images/300/subvol-300-disk-0.subvol/srv":         "subvol-300-disk-0.subvol",
		"/dev/mapper/pve-vm--300--disk--0-part1":               "vm-300-disk-0",
		"/dev/mapper/pve-vm--300--disk--0p1":                   "vm-300-disk-0",
		"/dev/mapper/pve-vm--300--disk--0-p1":                  "vm-300-disk-0",
		"/dev/pve/vm-300-disk-0-part1/":                        "vm-300-disk-0",
		"/dev/mapper/3600140500000000000000000000000aa-part1":  "600140500000000000000000000000aa",
		"/dev/zvol/rpool/data/vm-300-disk-0@a":                 "vm-300-disk-0",
		"/dev/zvol/rpool/data/vm-300-disk-0@a-part1":           "vm-300-disk-0",
		"/dev/rbd/rbd/vm-300-disk-0@a_b":                       "vm-300-disk-0",
		"/dev/pve/snap_vm-300-disk-0_a":                        "vm-300-disk-0",
		"/dev/pve/snap_vm-300-disk-0_a_b":                      "vm-300-disk-0",
		"/dev/pve/snap_vm-300-my_disk_a":                       "vm-300-my_disk",
		"/dev/pve/snap_vm-300-disk-0_a.qcow2":                  "vm-300-disk-0.qcow2",
		"/dev/mapper/pve-snap_vm--300--disk--0_a-part1":        "vm-300-disk-0",
		"/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi0": "scsi-0QEMU_QEMU_HARDDISK_drive-scsi0",
	} {
		if got := keysOf(file); !slices.Contains(got, want) {
			t.Errorf("%s: %q", file, got)
		}
	}
	for file, want := range map[string]string{"/dev/dm-4": numberedKey, "/dev/zd16": numberedKey, "/dev/zd16p1": numberedKey,
		"/dev/rbd0": numberedKey, "/dev/rbd0p2": numberedKey, "/dev/sda": "", "/dev/disk/by-id/dm-uuid-LVM-x": numberedKey,
		"/dev/disk/by-id/lvm-pv-uuid-Xg1-ab": numberedKey, "/dev/disk/by-id/ata-x": "", "zfs:zd16": "", "/srv/dev/dm-4": "",
		"/dev/disk/by-uuid/3255683f-53a2-4fdf-91cf-b4c1041e2a62": numberedKey, "/dev/disk//by-label/data": numberedKey,
		"/dev/block/252:7": numberedKey, "/dev/disk/by-partuuid/0f-01": numberedKey, "/dev/disk/by-partlabel/x": numberedKey,
		"/dev/disk/by-diskseq/12": numberedKey, "/dev/disk/by-path/pci-1": "", "/dev/loop3": loopKey, "/dev/loop3p1": loopKey,
		"/dev/nbd0": loopKey, "/dev/loop-control": ""} {
		if got := numberKey(file); got != want {
			t.Errorf("%s is a number: %q", file, got)
		}
	}
}

// TestSnapshotsOf: the names of the snapshots of which a path may be the device.
func TestSnapshotsOf(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]string{"/dev/pve/vm-300-disk-0": nil, "/dev/pve/snap_vm-300-disk-0_a": {"a"},
		"/dev/mapper/pve-snap_vm--300--disk--0_a": {"a"}, "/dev/pve/snap_vm-300-disk-0_a.qcow2": {"a"},
		"/dev/pve/snap_vm-300-disk-0_a_b": {"a_b", "b"}, "/dev/zvol/rpool/data/vm-300-disk-0@a": {"a"},
		"/dev/zvol/rpool/data/vm-300-disk-0@a-part1":    {"a-part1", "a"},
		"/mnt/fast/images/300/vm-300-disk-0@a/disk.raw": {"a", "a"},
		"/mnt/nas@home/images/300/vm-300-disk-0.qcow2":  nil,
		"local-lvm:snap_vm-300-disk-0_a":                nil} {
		if got := snapshotsOf(file); !slices.Equal(got, want) {
			t.Errorf("%s: %q", file, got)
		}
	}
}

// TestWorldwide: the names of one LUN on every node, and those that each node gives its own disks.
func TestWorldwide(t *testing.T) {
	t.Parallel()
	const eui = "6c9ce900a1b2c3d4"
	for file, want := range map[string]bool{"/dev/mapper/3" + eui: true, "/dev/mapper/2" + eui + eui: true,
		"/dev/disk/by-id/scsi-2" + eui: true, "/dev/disk/by-id/wwn-0x" + eui: true,
		"/dev/disk/by-id/scsi-8iqn.2003-01.org.linux-iscsi.san:t1,t,0x0001": true, "/dev/mapper/8iqn.2003-01.san:t1": true,
		"/dev/disk/by-id/dm-uuid-mpath-2" + eui: true, "/dev/disk/by-id/dm-uuid-part1-mpath-3" + eui: true,
		"/dev/disk/by-id/nvme-eui." + eui + "-part1":                        true,
		"/dev/disk/by-id/nvme-uuid.3255683f-53a2-4fdf-91cf-b4c1041e2a62":    true,
		"/dev/mapper/uuid.3255683f-53a2-4fdf-91cf-b4c1041e2a62":             true,
		"/dev/disk/by-path/ip-10.0.0.5:3260-iscsi-iqn.2003-01.san:t1-lun-1": true,
		"/dev/disk/by-path/pci-0000:05:00.0-fc-0x5006016047200d48-lun-0":    true,
		"/dev/disk/by-path/pci-0000:00:10.0-scsi-0:0:1:0":                   false,
		"/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi0":              false,
		"/dev/disk/by-id/scsi-SATA_DISK_8iqn":                               false,
		"/dev/disk/by-id/ata-DISK_1":                                        false, "/dev/mapper/mpatha": false, "/dev/mapper/pve-data": false,
		"/dev/disk/by-uuid/3255683f-53a2-4fdf-91cf-b4c1041e2a62": false, "/srv/3" + eui: false} {
		if got := isWorldwide(file); got != want {
			t.Errorf("%s: %t", file, got)
		}
	}
}
