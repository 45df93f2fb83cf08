package storage_test

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestCloneWithAnotherDriveInTheSlot: the disk that a clone has from its template gives way to the configured drive, and the plan does not say
// that no volume is unused. The data of the proxmox_disk outlive a replacement and the destroy.
func TestCloneWithAnotherDriveInTheSlot(t *testing.T) {
	t.Parallel()
	disk := rig.DiskBlock(rig.SmallDisk)
	for name, drive := range map[string]string{
		"a proxmox_disk":                             "disks = { scsi0 = { imported_disk = { volume = proxmox_disk.data.volume } } }",
		"a CD-ROM drive":                             `cdroms = { scsi0 = { file = "none" } }`,
		"the cloud-init drive":                       `cloud_init = { storage = "local-zfs", slot = "scsi0" }`,
		"a cloud-init drive whose slot is not known": `cloud_init = { storage = "local-zfs", slot = proxmox_vm.b.vmid == 1 ? "ide0" : "scsi0" }`,
	} {
		for _, full := range []string{"", ", full = true"} {
			t.Run(name+full, func(t *testing.T) {
				t.Parallel()
				d := newDataDisk(t, disk)
				d.World.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
				d.Configure(disk + "resource \"proxmox_vm\" \"b\" {\n  node = \"pve1\"\n}\n" + "resource \"proxmox_vm\" \"a\" {\n  node = \"pve1\"\n  vmid = 400\n  protection = false\n" +
					"  clone = { vmid = 9000" + full + " }\n  " + drive + "\n}\n")
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
}
