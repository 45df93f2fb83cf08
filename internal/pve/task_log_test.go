package pve

import (
	"slices"
	"testing"
)

// TestRestoredVolumes: what a restore that failed has removed again it has not made.
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
