package vm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		config map[string]string
		want   []Problem
	}{
		"nothing": {},
		"all is well": {config: map[string]string{
			"audio0": "device=AC97,driver=none", "rng0": "/dev/urandom", "hostpci0": "mapping=gpu", "usb0": "spice", "numa0": "cpus=0", "agent": "1,type=isa",
			"virtiofs0": "share", "scsi0": "a1:vm-1-disk-0,iops_rd=5,iops_rd_max=6,mbps=1,ssd=1", "virtio0": "a1:vm-1-disk-1,iothread=1,later=1",
		}},
		"something is missing": {
			map[string]string{"audio0": "driver=none", "rng0": "period=5", "hostpci0": "pcie=1", "usb0": "usb3=1", "numa0": "memory=5",
				"virtiofs0": "cache=auto", "ivshmem": "name=x", "amd-sev": "no-debug=1", "intel-tdx": "attestation=1", "agent": "type=isa"},
			[]Problem{
				{"agent", "enabled is needed"}, {"amd-sev", "type is needed"}, {"audio0", "device is needed"}, {"hostpci0", "mapping or host is needed"},
				{"intel-tdx", "type is needed"}, {"ivshmem", "size is needed"}, {"numa0", "cpus is needed"}, {"rng0", "source is needed"},
				{"usb0", "mapping or host is needed"}, {"virtiofs0", "dirid is needed"},
			},
		},
		"what excludes each other": {
			map[string]string{"hostpci0": "01:00.0,mapping=gpu", "scsi0": "a1:vm-1-disk-0,iops=1,iops_rd=1,mbps_max=2", "virtio0": "a1:vm-1-disk-1,ssd=1,queues=4"},
			[]Problem{
				{"hostpci0", "mapping and host exclude each other"}, {"scsi0", "iops excludes iops_rd and iops_wr"}, {"scsi0", "mbps_max needs mbps"},
				{"virtio0", "queues is an option of scsi disks only"}, {"virtio0", "ssd is an option of ide, sata, scsi disks only"},
			},
		},
	} {
		if d := cmp.Diff(c.want, Check(Decode(c.config))); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
