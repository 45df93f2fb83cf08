package volid

import (
	"testing"
)

func TestVolumes(t *testing.T) {
	for _, v := range []struct {
		volid, storage string
		owner          int
	}{
		{"local-zfs:vm-100-disk-0", "local-zfs", 100},
		{"local-zfs:base-100-disk-0", "local-zfs", 100},
		{"local-zfs:base-100-disk-0/vm-303-disk-0", "local-zfs", 303},
		{"local-zfs:vm-100-cloudinit", "local-zfs", 100},
		{"local-zfs:vm-100-state-before", "local-zfs", 100},
		{"local2:100/vm-100-disk-0.qcow2", "local2", 100},
		{"local2:100/mine.raw", "local2", 100},
		{"local2:100/base-100-disk-0.qcow2/101/vm-101-disk-0.qcow2", "local2", 101},
		{"local-zfs:subvol-105-disk-1", "local-zfs", 105},
		{"local:iso/vm-100-disk-0.iso", "local", 0},
		{"local:backup/vzdump-qemu-100-2024.vma", "local", 0},
		{"local:import/vm-100-disk-0.qcow2", "local", 0},
		{"local-zfs:vm-abc-disk-0", "local-zfs", 0},
		{"local-zfs:vm-100", "local-zfs", 0},
		{"local-zfs:vm-99999999999999999999-disk-0", "local-zfs", 0},
	} {
		owner, ok := Owner(v.volid)
		if !Valid(v.volid) || Storage(v.volid) != v.storage || owner != v.owner && ok || ok != (v.owner > 0) {
			t.Errorf("%s: storage %q, owner %d, %t", v.volid, Storage(v.volid), owner, ok)
		}
	}
	for name, want := range map[string]bool{
		"local-zfs:vm-100-disk-0": true, "local-zfs:base-100-disk-12": true, "local-zfs:subvol-100-disk-0": true,
		"local-zfs:basevol-100-disk-0": true, "local-zfs:base-9000-disk-0/vm-303-disk-0": true, "local-zfs:vm-100-cloudinit": true,
		"local-zfs:vm-100-state-before": true, "local-zfs:vm-100-state-suspend-2026-01-01": true, "local-zfs:vm-100-fleece-0": true,
		"local:100/vm-100-disk-0.qcow2": true, "local:100/base-100-disk-0.qcow2/101/vm-101-disk-0.qcow2": true,
		"local:100/vm-100-cloudinit.qcow2": true, "local:100/vm-100-state-a.raw": true, "btrfs:100/subvol-100-disk-0.subvol": true,
		"local-lvm:vm-9999-pvc-369fa6e3-1e53-4df6-8c9c-6a4a5d0c3c1e": false, "local:9999/vm-9999-pvc-1.raw": false,
		"local:100/mine.raw": false, "local:100/vm-101-disk-0.raw": false, "local-zfs:vm-100-disk-a": false,
		"local-zfs:vm-100-disk-": false, "local-zfs:vm-100-disk-0-old": false, "local-zfs:base-100-cloudinit": false,
		"local-zfs:subvol-100-state-a": false, "local-zfs:vm-0100-disk-0": false, "local:iso/vm-100-disk-0.iso": false,
	} {
		if got := IsNameOfPVE(name); got != want {
			t.Errorf("%s is a name of PVE: %t", name, got)
		}
	}
	for _, s := range []string{"", "none", "cdrom", "/dev/sdb", "local-zfs:32", "local-zfs:10.5", "local-zfs:cloudinit", "local-zfs:", ":32",
		"-a:vm-1-disk-0", "a:vm-1-disk-0"} {
		if Valid(s) || Storage(s) != "" {
			t.Errorf("%q was taken for a volume", s)
		}
		if _, ok := Owner(s); ok {
			t.Errorf("%q has an owner", s)
		}
	}
}

// TestBase: the base is the first part of the name of a linked clone, and is itself a volume of a guest.
func TestBase(t *testing.T) {
	for clone, want := range map[string]string{
		"local-zfs:base-100-disk-0/vm-303-disk-0":                  "local-zfs:base-100-disk-0",
		"local-zfs:basevol-100-disk-0/subvol-303-disk-0":           "local-zfs:basevol-100-disk-0",
		"local2:100/base-100-disk-0.qcow2/101/vm-101-disk-0.qcow2": "local2:100/base-100-disk-0.qcow2",
		"local2:100/base-100-disk-0.raw/101/base-101-disk-0.qcow2": "local2:100/base-100-disk-0.raw",
		"local2:100/base-100-disk-0.qcow2":                         "",
		"local2:100/vm-100-disk-0.qcow2":                           "",
		"local-zfs:base-100-disk-0":                                "",
		"local-lvm:vm-303-disk-0":                                  "",
		"local:import/web.ova/disk1.vmdk":                          "",
		"local:import/base-1-disk-0.qcow2":                         "",
		"local:iso/base-1-disk-0.iso":                              "",
		"/dev/zvol/rpool/data/base-100-disk-0/vm-303-disk-0":       "",
		"none": "", "": "",
	} {
		if got := Base(clone); got != want {
			t.Errorf("%s: %q, want %q", clone, got, want)
		}
	}
}

func TestBackedUp(t *testing.T) {
	for archive, want := range map[string]int{
		"local:backup/vzdump-qemu-700-2026_01_01-00_00_00.vma.zst": 700, "pbs:backup/vm/100/2026-01-01T00:00:00Z": 100,
		"local:backup/vzdump-lxc-701-2026_01_01-00_00_00.tar.zst": 0, "local:backup/vzdump-qemu-700": 0, "local:iso/debian.iso": 0,
	} {
		if got, ok := BackedUp(archive); got != want || ok != (want != 0) {
			t.Errorf("%s is of VM %d, %t", archive, got, ok)
		}
	}
}
