package storage_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const snapshotOfHolder = "resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_disk.data.vmid\n  name = \"before\"\n}\n"

// writesLater changes what is on the disk of VM 300.
func writesLater(world *state.World) {
	for _, v := range world.Volumes {
		if v.Name == "vm-300-disk-0" {
			v.Data = "later"
		}
	}
}

// TestVolumesHiddenGuestKeepsItsDiskInARollBack: the disk of a proxmox_disk is there for other guests. While the identity may not see one
// that has it, it is neither rolled back nor is a snapshot of it removed; else it is both.
func TestVolumesHiddenGuestKeepsItsDiskInARollBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		crowned, veiled  bool
		rollBack, remove string // the refusals, "" for none
	}{
		{"no other guest", false, false, "", ""},
		{"one that it sees", true, false, "VM 666", ""},
		{"one that it does not see", true, true, "role NoAccess of", "role NoAccess of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDataDisk(t, rig.DiskBlock(rig.SmallDisk)+snapshotOfHolder)
			d.World.Change(func(world *state.World) {
				writesLater(world)
				if c.crowned {
					crown(world, "local-zfs:vm-300-disk-0")
				}
				if c.veiled {
					veils()[0].draw(world, "terraform@pve!prov")
				}
			})
			_, err := rig.Invoke(t, d.Session, "proxmox_vm_snapshot_rollback", "vmid = 300\nname = \"before\"", nil)
			if is := d.Volume().Data; (err != nil) != (c.rollBack != "") || (is == "later") != (c.rollBack != "") {
				t.Errorf("error %v; the disk holds %q", err, is)
			}
			if err != nil {
				rig.MustSay(t, err, c.rollBack, "was not touched")
			}
			d.Configure(rig.DiskBlock(rig.SmallDisk))
			err = d.Session.Run(t.Context())
			if _, has := rig.GuestOf(d.World, 300).Snaps["before"]; has != (c.remove != "") || (err != nil) != has {
				t.Errorf("it has the snapshot: %t; %v", has, err)
			}
			if err != nil {
				rig.MustSay(t, err, c.remove, "was not touched")
			}
		})
	}
}

// TestRollBackUnderAHiddenGuest: an identity that may not see all guests rolls a VM with disks of its own back, as it may destroy it. One
// that has the disk of a proxmox_disk is refused by every identity, since its holder has the disk, too.
func TestRollBackUnderAHiddenGuest(t *testing.T) {
	t.Parallel()
	const snapshot = "resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.%.vmid\n  name = \"before\"\n}\n"
	own := "resource \"proxmox_vm\" \"o\" {\n  vmid = 500\n  node = \"pve1\"\n  disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n}\n"
	d := newDataDisk(t, rig.DiskBlock(rig.SmallDisk)+rig.DiskAttached("a", 400, rig.DiskVolume)+strings.Replace(snapshot, "%", "a", 1)+
		own+strings.NewReplacer("%", "o", `"s"`, `"o"`).Replace(snapshot))
	d.World.Change(func(world *state.World) {
		writesLater(world)
		world.Guests[500].Config["cores"] = "7"
		crown(world, "local-zfs:vm-666-disk-0")
	})
	d.World.ExpectPowerOffs(state.PowerRollback)
	for _, veiled := range []bool{false, true} {
		if veiled {
			d.World.Change(func(world *state.World) { veils()[0].draw(world, "terraform@pve!prov") })
		}
		_, err := rig.Invoke(t, d.Session, "proxmox_vm_snapshot_rollback", "vmid = 400\nname = \"before\"", nil)
		rig.MustSay(t, err, "vm-300-disk-0", "was not touched")
		if _, err := rig.Invoke(t, d.Session, "proxmox_vm_snapshot_rollback", "vmid = 500\nname = \"before\"", nil); err != nil {
			t.Errorf("veiled %t: %v", veiled, err)
		}
	}
	if is, cores := d.Volume().Data, rig.GuestOf(d.World, 500).Config["cores"]; is != "later" || cores == "7" {
		t.Errorf("the data disk holds %q; VM 500 has %s cores", is, cores)
	}
}
