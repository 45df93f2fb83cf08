package storage_test

import (
	"strings"
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

// TestDiskWithWhichAGuestRunsIsNotCopied: PVE asks whether the VM runs whose id the source of a copy carries. That is the one which holds the disk, so
// it would copy under the writes of the guest that has it attached. The plan refuses, and a replacement destroys nothing. A guest that the same apply
// starts is found right before the copy is made. The copy is made once that guest is off.
func TestDiskWithWhichAGuestRunsIsNotCopied(t *testing.T) {
	t.Parallel()
	d := newDataDisk(t, rig.DiskBlock(rig.SmallDisk))
	const copied = "scsi3 = { storage = \"local-lvm\", size = \"1G\", import_from = " + rig.DiskVolume + " }"
	all := func(power, more string) string {
		return rig.DiskBlock(rig.SmallDisk) + rig.DiskAttached("a", 400, rig.DiskVolume, power) + `resource "proxmox_vm" "b" {
  vmid       = 401
  node       = "pve1"
  protection = false
  disks      = { scsi0 = { storage = "local-zfs", size = "1G" }, ` + more + ` }
  depends_on = [proxmox_vm.a]
}
`
	}
	runs := []string{"cannot be copied while a guest runs with it", "VM 400 (a) on node pve1 (scsi1)", "depends_on"}
	d.Configure(all("", copied))
	rig.MustRefuse(t, d.Session.Run(t.Context()), runs)
	d.World.Change(func(world *state.World) {
		if world.Guests[400] == nil || world.Guests[401] != nil {
			t.Errorf("the guests are %v", world.Guests)
		}
	})
	d.To(all("", ""))
	uuid := rig.GuestOf(d.World, 401).Config["smbios1"]
	d.Configure(all("", copied))
	planned := func() error { _, err := d.Session.Plan(t.Context()); return err }
	rig.MustRefuse(t, planned(), runs)
	d.Configure(strings.Replace(all("", copied), "vmid       = 401", "vmid       = 402", 1))
	rig.MustRefuse(t, planned(), runs)
	if now := rig.GuestOf(d.World, 401).Config["smbios1"]; now != uuid {
		t.Errorf("VM 401 was %s and is %s", uuid, now)
	}
	d.World.ExpectPowerOffs(state.PowerShutdown)
	d.To(all("power_state = \"stopped\"", copied))
	d.World.Change(func(world *state.World) {
		if config := world.Guests[401].Config; !strings.HasPrefix(config["scsi3"], "local-lvm:vm-401-") {
			t.Errorf("VM 401 is %v", config)
		}
	})
	d.Survives()
}

// TestHolderIsNotClonedWhileAGuestRunsWithItsDisk: PVE asks whether the VM runs that is cloned. That is the holder, which is off. The plan of a clone, and
// that of its replacement, refuse; a guest that the same apply starts is found right before the copy is made. The clone of a disk that is free is no
// holder: nothing takes it for one.
func TestHolderIsNotClonedWhileAGuestRunsWithItsDisk(t *testing.T) {
	t.Parallel()
	d := newDataDisk(t, rig.DiskBlock(rig.SmallDisk, `description = "shop"`))
	all := func(power, more string) string {
		return rig.DiskBlock(rig.SmallDisk, `description = "shop"`) + rig.DiskAttached("a", 400, rig.DiskVolume, power) + `resource "proxmox_vm" "b" {
  vmid       = 401
  node       = "pve1"
  protection = false
  clone      = { vmid = proxmox_disk.data.vmid }
  depends_on = [proxmox_vm.a]
  ` + more + `
}
`
	}
	runs := []string{"cannot be copied while a guest runs with it", "VM 400 (a) on node pve1 (scsi1)", "depends_on"}
	planned := func() error { _, err := d.Session.Plan(t.Context()); return err }
	d.Configure(all("", ""))
	rig.MustRefuse(t, d.Session.Run(t.Context()), runs)
	rig.MustRefuse(t, planned(), runs)
	if rig.GuestOf(d.World, 401).Config != nil {
		t.Error("VM 401 was made")
	}
	d.World.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
	d.To(all("power_state = \"stopped\"", ""))
	clone := rig.GuestOf(d.World, 401).Config
	if strings.TrimSpace(clone["description"]) != "shop" {
		t.Errorf("the clone says %q", clone["description"])
	}
	d.To(all("power_state = \"running\"", ""))
	d.Session.Taint("proxmox_vm.b", true)
	rig.MustRefuse(t, planned(), runs)
	d.Session.Taint("proxmox_vm.b", false)
	d.Survives()
}
