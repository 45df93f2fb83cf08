package guest

import (
	"testing"
	"time"
)

// TestIsPlaceholder: a VM with disks or network devices is one, whatever its description says.
func TestIsPlaceholder(t *testing.T) {
	mark := NewStamp("pve1", 100, time.Unix(0, 0)).String()
	for name, c := range map[string]struct {
		config map[string]string
		want   bool
	}{
		"empty":             {map[string]string{"description": mark, "smbios1": "uuid=a", "meta": "ctime=1"}, true},
		"with what is left": {map[string]string{"description": mark, "unused0": "local-zfs:vm-100-disk-0"}, true},
		"with a disk":       {map[string]string{"description": mark, "scsi0": "local-zfs:vm-100-disk-0,size=1G"}, false},
		"with a network":    {map[string]string{"description": mark, "net0": "virtio=BC:24:11:00:00:01"}, false},
		"of another id":     {map[string]string{"description": NewStamp("pve1", 101, time.Unix(0, 0)).String()}, false},
		"of its user":       {map[string]string{"description": "web"}, false},
	} {
		if got := IsPlaceholder(100, c.config); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
