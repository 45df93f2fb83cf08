package storage_test

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestCloneWithAnotherDiskInTheSlot: the disk that a clone has from its template gives way to a proxmox_disk, and the plan does not say
// that no volume is unused. The data of the proxmox_disk outlive a replacement and the destroy. To no other drive the disk gives way.
func TestCloneWithAnotherDiskInTheSlot(t *testing.T) {
	t.Parallel()
	disk := rig.DiskBlock(rig.SmallDisk)
	for _, full := range []string{"", ", full = true"} {
		t.Run("a clone"+full, func(t *testing.T) {
			t.Parallel()
			d := newDataDisk(t, disk)
			d.World.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
			d.Configure(disk + "resource \"proxmox_vm\" \"a\" {\n  node = \"pve1\"\n  vmid = 400\n  protection = false\n  clone = { vmid = 9000" + full + " }\n" +
				"  disks = { scsi0 = { imported_disk = { volume = proxmox_disk.data.volume } } }\n}\n")
			d.Must(d.Session.Converge(t.Context()))
			if rig.GuestOf(d.World, 400).Config["unused0"] == "" {
				t.Error("the copied disk is no unused one")
			}
			d.Session.Taint("proxmox_vm.a", true)
			d.Must(d.Session.Converge(t.Context()))
			d.Configure(disk)
			d.Must(d.Session.Converge(t.Context()))
			d.Survives()
		})
	}
}
