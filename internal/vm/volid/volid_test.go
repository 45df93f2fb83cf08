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
