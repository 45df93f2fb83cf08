package guest

import (
	"testing"
)

func TestUses(t *testing.T) {
	config := map[string]string{"scsi0": "local-zfs:vm-100-disk-0,size=1G", "unused0": "local-zfs:vm-100-disk-1",
		"ide2": "file=local:100/vm-100-cloudinit.qcow2,media=cdrom"}
	for volume, want := range map[string]bool{"local-zfs:vm-100-disk-0": true, "local-zfs:vm-100-disk-1": true,
		"local:100/vm-100-cloudinit.qcow2": true, "local-zfs:vm-100-disk-10": false, "local-zfs:vm-100-disk": false} {
		if Uses(config, volume) != want {
			t.Errorf("uses(%s) = %t", volume, !want)
		}
	}
}

// TestVolumeOfADriveByHand: the volume is found wherever it stands in an option that was written by hand.
func TestVolumeOfADriveByHand(t *testing.T) {
	for value, want := range map[string]string{
		"local-zfs:vm-1-disk-0,size=1G":        "local-zfs:vm-1-disk-0",
		"file=local-zfs:vm-1-disk-0,size=1G":   "local-zfs:vm-1-disk-0",
		"size=1G,local-zfs:vm-1-disk-0":        "local-zfs:vm-1-disk-0",
		"size=1G,volume=local-zfs:vm-1-disk-0": "local-zfs:vm-1-disk-0",
		"/dev/disk/by-id/a=b,size=1G":          "/dev/disk/by-id/a=b",
		"none,media=cdrom":                     "none",
		"":                                     "",
	} {
		if got := VolumeOf(value); got != want {
			t.Errorf("VolumeOf(%q) = %q, want %q", value, got, want)
		}
	}
}
