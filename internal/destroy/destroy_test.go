package destroy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
)

// TestNotRemoved: the lines are those of qemu-server's destroy_vm, with and without the mark that a counted warning
// gets.
func TestNotRemoved(t *testing.T) {
	got := notRemoved([]string{
		"zfs error: cannot destroy 'rpool/data/vm-100-disk-0': dataset is busy",
		"Could not remove disk 'local-zfs:vm-100-disk-0', check manually: zfs error: cannot destroy 'rpool/data/vm-100-disk-0': dataset is busy",
		"WARN: Could not remove disk 'nfs:100/vm-100-disk-1.qcow2', check manually: unlink failed",
		"WARN: failed to get path and owner of volume 'iscsi:vm-100-disk-2': storage 'iscsi' does not exist",
		"purging VM 100 from related configurations..",
		"TASK WARNINGS: 2",
	})
	if len(got) != 3 || !strings.HasSuffix(got["iscsi:vm-100-disk-2"], "owner of volume: storage 'iscsi' does not exist") ||
		!strings.HasSuffix(got["local-zfs:vm-100-disk-0"], "dataset is busy") || !strings.HasSuffix(got["nfs:100/vm-100-disk-1.qcow2"], "unlink failed") {
		t.Errorf("got %q", got)
	}
	r := (&Destroyer{}).newRemoval(Target{}, policy{})
	r.remember(got)
	for volume, why := range got {
		if r.of(volume).why != why {
			t.Errorf("%s: remembered %q", volume, r.of(volume).why)
		}
	}
}

// TestOwnVolumes: those of the current, pending and snapshot sections that carry the id, and no others.
func TestOwnVolumes(t *testing.T) {
	got := guest.OwnVolumes(100,
		map[string]string{"scsi0": "zfs:vm-100-disk-0,size=1G", "scsi1": "zfs:vm-101-disk-0,size=1G", "ide2": "dir:iso/a.iso,media=cdrom", "unused0": "zfs:vm-100-disk-3"},
		map[string]string{"vmstate": "zfs:vm-100-state-one", "scsi0": "zfs:base-900-disk-0/vm-100-disk-0,size=1G", "name": "zfs"})
	want := []string{"zfs:base-900-disk-0/vm-100-disk-0", "zfs:vm-100-disk-0", "zfs:vm-100-disk-3", "zfs:vm-100-state-one"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
