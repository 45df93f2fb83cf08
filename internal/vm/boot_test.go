package vm

import (
	"slices"
	"testing"
)

// TestBootOrderWith: the first disk in PVE's order comes first, in the place of the former one, and other devices stay behind it.
func TestBootOrderWith(t *testing.T) {
	disks := func(slots ...string) map[string]Disk {
		all := map[string]Disk{}
		for _, slot := range slots {
			all[slot] = Disk{}
		}
		return all
	}
	for _, c := range []struct {
		order []string
		disks map[string]Disk
		want  []string
	}{
		{[]string{"ide2", "net0"}, disks("scsi0"), []string{"scsi0", "ide2", "net0"}},
		{[]string{"scsi1", "ide2"}, disks("scsi1", "scsi0"), []string{"scsi0", "ide2"}},
		{[]string{"scsi0", "net0"}, disks("scsi0", "virtio3", "sata1"), []string{"scsi0", "net0"}},
		{nil, disks("sata1", "virtio2"), []string{"virtio2"}},
		{[]string{"net0"}, nil, []string{"net0"}},
	} {
		if got := BootOrderWith(c.order, c.disks); !slices.Equal(got, c.want) {
			t.Errorf("%v with %v: %v, want %v", c.order, c.disks, got, c.want)
		}
	}
}
