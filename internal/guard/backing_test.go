package guard

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// TestIsBasedOn: volume ids and parents as the plugins of pve-storage print them.
func TestIsBasedOn(t *testing.T) {
	for _, c := range []struct {
		base string
		v    pve.Volume
		want bool
	}{
		{"zfs:base-900-disk-0", pve.Volume{ID: "zfs:base-900-disk-0/vm-101-disk-0", Parent: "base-900-disk-0@__base__"}, true},
		{"zfs:base-900-disk-0", pve.Volume{ID: "zfs:vm-101-disk-0", Parent: "base-900-disk-0@__base__"}, true},
		{"dir:900/base-900-disk-0.qcow2", pve.Volume{ID: "dir:900/base-900-disk-0.qcow2/101/vm-101-disk-0.qcow2", Parent: "../900/base-900-disk-0.qcow2"}, true},
		{"dir:300/vm-300-disk-0.raw", pve.Volume{ID: "dir:600/vm-600-disk-0.qcow2", Parent: "/mnt/dir/images/300/vm-300-disk-0.raw"}, true},
		{"dir:300/vm-300-disk-0.raw", pve.Volume{ID: "other:600/vm-600-disk-0.qcow2", Parent: "/mnt/dir/images/300/vm-300-disk-0.raw"}, true},
		{"dir:300/vm-300-disk-0.raw", pve.Volume{ID: "other:300/vm-300-disk-0.raw/600/vm-600-disk-0.qcow2", Parent: "../300/vm-300-disk-0.raw"}, false},
		{"dir:300/vm-300-disk-0.raw", pve.Volume{ID: "other:600/vm-600-disk-0.qcow2", Parent: "../../../dir/images/300/vm-300-disk-0.raw"}, true},
		{"dir:300/vm-300-disk-0.qcow2", pve.Volume{ID: "dir:300/vm-300-disk-0.qcow2", Parent: "snap_a_vm-300-disk-0.qcow2"}, false},
		{"dir:300/vm-300-disk-0.raw", pve.Volume{ID: "dir:600/vm-600-disk-0.qcow2", Parent: "/mnt/nas@home/images/300/vm-300-disk-0.raw"}, true},
		{"fast:300/vm-300-disk-0.raw", pve.Volume{ID: "other:600/vm-600-disk-0.qcow2", Parent: "/mnt/fast/images/300/vm-300-disk-0/disk.raw"}, true},
		{"fast:300/vm-300-disk-0.raw", pve.Volume{ID: "fast:600/vm-600-disk-0.qcow2", Parent: "../300/vm-300-disk-0/disk.raw"}, true},
		{"fast:300/mine.raw", pve.Volume{ID: "fast:600/vm-600-disk-0.qcow2", Parent: "../300/mine/disk.raw"}, true},
		{"lvm:vm-300-disk-0", pve.Volume{ID: "dir:600/vm-600-disk-0.qcow2", Parent: "/dev/mapper/pve-vm--300--disk--0"}, true},
		{"lvm:vm-300-disk-0", pve.Volume{ID: "dir:600/vm-600-disk-0.qcow2", Parent: "/dev/pve/vm-300-disk-0-part1"}, true},
		{"lvm:vm-300-disk-0", pve.Volume{ID: "dir:600/vm-600-disk-0.qcow2", Parent: "/dev/pve/vm-300-disk-01"}, false},
		{"zfs:base-900-disk-0", pve.Volume{ID: "zfs:base-900-disk-0"}, false},
		{"zfs:base-900-disk-0", pve.Volume{ID: "zfs:base-900-disk-01/vm-101-disk-0", Parent: "base-900-disk-01@__base__"}, false},
		{"zfs:base-900-disk-0", pve.Volume{ID: "zfs:vm-101-disk-0"}, false},
		{"zfs:base-900-disk-0", pve.Volume{ID: "other:vm-101-disk-0", Parent: "base-900-disk-0@__base__"}, false},
	} {
		near := volid.Storage(c.v.ID) == volid.Storage(c.base)
		if got := IsBasedOn(c.v, c.base, near); got != c.want {
			t.Errorf("%s on %s: got %t", c.v.ID, c.base, got)
		}
	}
}

// TestImagesThatCanBeABackingFile: only for those a whole storage of files is listed.
func TestImagesThatCanBeABackingFile(t *testing.T) {
	for volume, want := range map[string]bool{"dir:300/vm-300-disk-0.qcow2": true, "dir:300/vm-300-disk-0.raw": true,
		"dir:100/base-100-disk-0.qcow2/300/vm-300-disk-0.qcow2": true, "dir:300/subvol-300-disk-0.subvol": false,
		"lvm:vm-300-disk-0.qcow2": false, "zfs:base-100-disk-0/vm-300-disk-0": false, "dir:import/disk.qcow2": true, "dir:import/web.ova/disk.vmdk": false,
		"dir:iso/debian.img": true, "dir:iso/debian.iso": false, "dir:import/web.ova": false,
		"dir:iso/300/debian.raw": false} {
		if got := image.MatchString(volume); got != want {
			t.Errorf("%s: %t", volume, got)
		}
	}
}
