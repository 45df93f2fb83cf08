package guard

import (
	"slices"
	"testing"
)

// TestTextsAreNoDisksOfASnapshot: only what holds a volume counts as a disk of a snapshot. A text in the form of a volume
// id, or a hook script that several guests have, would refuse its roll-back.
func TestTextsAreNoDisksOfASnapshot(t *testing.T) {
	has := volumesOf(map[string]string{
		"scsi0": "local-zfs:vm-100-disk-0,size=1G", "efidisk0": "local-zfs:vm-100-disk-1,efitype=4m",
		"scsi1": "local-zfs:vm-300-disk-0,size=1G", "vmstate": "local-zfs:vm-100-state-a",
		"unused0": "local-zfs:vm-100-disk-2", "ide2": "local:iso/debian.iso,media=cdrom", "description": "local-zfs:vm-200-disk-0",
		"ciuser": "local-zfs:vm-200-disk-1", "hookscript": "local:snippets/hook.pl",
	})
	want := []string{"local-zfs:vm-100-disk-0", "local-zfs:vm-100-disk-1", "local-zfs:vm-100-state-a", "local-zfs:vm-300-disk-0"}
	if !slices.Equal(has, want) {
		t.Errorf("has %q, want %q", has, want)
	}
}
